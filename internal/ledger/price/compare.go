package price

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Valid says whether the entry has the price of a moment.
func (e *Entry) Valid(at time.Time) bool { return e.valid(at.Unix()) }

// Latest returns the entry that the book has for the model of e when e begins, or now if it has begun, and whether the book has
// any for the model.
func (b *Book) Latest(e *Entry, now time.Time) (old *Entry, known bool) {
	s := b.series[model{e.Vendor, e.Model}]
	at := now.Unix()
	if e.From.After(now) {
		at = e.From.Unix()
	}
	return s.At(at), s != nil
}

// Same says whether two entries have the same prices, whenever they are valid.
func (e *Entry) Same(o *Entry) bool { return e.same(o) }

// Since returns the entry as one that begins now, unless it says when it begins.
func (e *Entry) Since(now time.Time) (*Entry, error) {
	dated := *e
	if dated.From.IsZero() {
		dated.From = now
	}
	return Sealed(dated)
}

// Names returns the names under which a book may have what a vendor calls a model.
func Names(upstream string) []string {
	upstream = strings.TrimPrefix(upstream, "models/")
	names := []string{upstream}
	if at := dated.FindStringIndex(upstream); at != nil {
		names = append(names, upstream[:at[0]])
	}
	return names
}

// Lacks returns the buckets that another entry has prices for and this one has not.
func (e *Entry) Lacks(o *Entry) []Bucket {
	var buckets []Bucket
	for b := range e.Rates {
		if e.Rates[b] == Unknown && o.Rates[b] != Unknown {
			buckets = append(buckets, Bucket(b))
		}
	}
	return buckets
}

// LacksTiers returns the tiers that another entry has and this one has not.
func (e *Entry) LacksTiers(o *Entry) []string {
	var tiers []string
	for _, name := range slices.Sorted(maps.Keys(o.Tiers)) {
		if _, ok := e.Tiers[name]; !ok {
			tiers = append(tiers, name)
		}
	}
	return tiers
}

// Against says what differs from an older entry, such as "input 3 → 2, bands". Without one, or if nothing differs, it is what Text
// says, or empty.
func (e *Entry) Against(old *Entry) string {
	if old == nil {
		return "new: " + e.Text()
	}
	var parts []string
	for b, rate := range e.Rates {
		if was := old.Rates[b]; was != rate && !(e.Rates.Follows(Bucket(b)) && old.Rates.Follows(Bucket(b))) {
			parts = append(parts, fmt.Sprintf("%s %s → %s", Bucket(b), was, rate))
		}
	}
	for _, part := range []struct {
		name string
		same bool
	}{
		{"long prompts", slices.Equal(e.Bands, old.Bands)},
		{"tiers", maps.Equal(e.Tiers, old.Tiers)},
		{"regions", maps.Equal(e.Regions, old.Regions)},
		{"hours", slices.Equal(e.Hours, old.Hours)},
		{"fees", maps.Equal(e.Fees, old.Fees)},
	} {
		if !part.same {
			parts = append(parts, part.name)
		}
	}
	return strings.Join(parts, ", ")
}

// String writes the rate as people read it.
func (r Rate) String() string {
	if r == Unknown {
		return "unknown"
	}
	return string(Nano(r).AppendJSON(nil))
}

// Text writes the prices in one line, without those that cost what another bucket costs.
func (e *Entry) Text() string {
	var parts []string
	for b, rate := range e.Rates {
		if rate != Unknown && !e.Rates.Follows(Bucket(b)) {
			parts = append(parts, Bucket(b).String()+" "+rate.String())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Fees)) {
		parts = append(parts, name+" "+e.Fees[name].String())
	}
	return strings.Join(parts, ", ")
}

// Conditions writes what else the prices depend on, in one line.
func (e *Entry) Conditions() string {
	var parts []string
	for i := range e.Bands {
		parts = append(parts, fmt.Sprintf("above %d: input %s, output %s", e.Bands[i].Above, e.Bands[i].Rates[Input], e.Bands[i].Rates[Output]))
	}
	for _, table := range []map[string]Factor{e.Tiers, e.Regions} {
		for _, name := range slices.Sorted(maps.Keys(table)) {
			parts = append(parts, name+" ×"+table[name].String())
		}
	}
	for i := range e.Hours {
		parts = append(parts, e.Hours[i].String())
	}
	return strings.Join(parts, ", ")
}

// String writes the hours and their factor: mon-fri 09:00-12:00 +08:00 ×2.
func (h *Hours) String() string {
	w := h.written()
	return fmt.Sprintf("%s %s-%s %s ×%s", w.Days, w.From, w.To, w.Zone, w.Times)
}

// soon is how long before its end an operator is told that a price ends, and old the age at which a list is.
const (
	soon = 30 * 24 * time.Hour
	old  = 90 * 24 * time.Hour
)

// Aged is an entry of an operator that has ended or ends soon, without another one to follow it.
type Aged struct{ Entry *Entry }

// Aging returns the entries of operators that have ended or end soon, without another one of theirs to follow.
func (b *Book) Aging(now time.Time) []Aged {
	var aged []Aged
	for _, e := range b.Entries() {
		if e.Origin == FromList || e.Until.IsZero() || e.Until.After(now.Add(soon)) {
			continue
		}
		at := max(e.Until.Unix(), now.Unix())
		follows := func(o *Entry) bool { return o.Origin != FromList && o.valid(at) }
		if !slices.ContainsFunc(b.series[model{e.Vendor, e.Model}].entries, follows) {
			aged = append(aged, Aged{e})
		}
	}
	return aged
}

// Ended says whether the entry has ended.
func (a Aged) Ended(now time.Time) bool { return !a.Entry.Until.After(now) }

// Kind is "ended" or "ends".
func (a Aged) Kind(now time.Time) string {
	if a.Ended(now) {
		return "ended"
	}
	return "ends"
}

// Text says when the prices have ended or will end.
func (a Aged) Text(now time.Time) string {
	return fmt.Sprintf("the prices in %s %s on %s, and none of yours follow; then the vendor's list counts, if it has the model", a.Entry.Origin, a.Kind(now), day(a.Entry.Until))
}

// Outdated says that a list that was reviewed on a day is old, or nothing.
func Outdated(reviewed string, now time.Time) string {
	t, err := time.Parse(time.DateOnly, reviewed)
	if err != nil || now.Sub(t) < old {
		return ""
	}
	return fmt.Sprintf("the list of prices that comes with this version was reviewed on %s; update, or import a newer list", reviewed)
}
