package price

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// written is an entry as it is written: in the embedded list, in files that are imported and exported, and, with the same
// names, in the configuration. Prices are dollars per million tokens; json.Number keeps their digits.
type written struct {
	Vendor string `json:"vendor,omitempty"`
	Model  string `json:"model"`
	From   string `json:"from,omitempty"`
	Until  string `json:"until,omitempty"`
	writtenRates
	Above   []writtenBand          `json:"above,omitempty"`
	Tiers   map[string]json.Number `json:"tiers,omitempty"`
	Regions map[string]json.Number `json:"regions,omitempty"`
	Hours   []writtenHours         `json:"hours,omitempty"`
	Calls   map[string]json.Number `json:"calls,omitempty"`
	Seconds map[string]json.Number `json:"seconds,omitempty"`
	Source  string                 `json:"source,omitempty"`
	Read    string                 `json:"read,omitempty"`
}

type writtenRates struct {
	Input        json.Number `json:"input,omitempty"`
	CacheRead    json.Number `json:"cache_read,omitempty"`
	CacheWrite5m json.Number `json:"cache_write_5m,omitempty"`
	CacheWrite1h json.Number `json:"cache_write_1h,omitempty"`
	CacheWrite   json.Number `json:"cache_write,omitempty"`
	Output       json.Number `json:"output,omitempty"`
	Reasoning    json.Number `json:"reasoning,omitempty"`
	AudioIn      json.Number `json:"audio_input,omitempty"`
	AudioOut     json.Number `json:"audio_output,omitempty"`
	ImageIn      json.Number `json:"image_input,omitempty"`
	ImageOut     json.Number `json:"image_output,omitempty"`
}

type writtenBand struct {
	Tokens int64 `json:"tokens"`
	writtenRates
}

type writtenHours struct {
	Days  string      `json:"days"` // such as mon-fri
	From  string      `json:"from"` // such as 09:00
	To    string      `json:"to"`
	Zone  string      `json:"zone"` // such as +08:00
	Times json.Number `json:"times"`
}

// video is the prefix of the names of seconds of video among the fees.
const video = "video_"

// VideoSecond returns the name of the fee for a second of video of a size.
func VideoSecond(size string) string { return video + size }

// fields returns the numbers in the order of the buckets.
func (w *writtenRates) fields() [Buckets]*json.Number {
	return [Buckets]*json.Number{
		&w.Input, &w.CacheRead, &w.CacheWrite5m, &w.CacheWrite1h, &w.CacheWrite, &w.Output, &w.Reasoning,
		&w.AudioIn, &w.AudioOut, &w.ImageIn, &w.ImageOut,
	}
}

func (w *writtenRates) rates() (Rates, error) {
	var r Rates
	for b, field := range w.fields() {
		r[b] = Unknown
		if *field == "" {
			continue
		}
		n, err := decimal(string(*field), 9)
		if err != nil || Rate(n) > maxRate {
			return r, fmt.Errorf("%s must be a number of dollars per million tokens from 0 to 1000000 with at most nine decimals, not %q", Bucket(b), *field)
		}
		r[b] = Rate(n)
	}
	return r, nil
}

func (r *Rates) written() writtenRates {
	var w writtenRates
	fields := w.fields()
	for b, rate := range r {
		if rate != Unknown && !r.Follows(Bucket(b)) {
			*fields[b] = json.Number(Nano(rate).AppendJSON(nil))
		}
	}
	return w
}

// MarshalJSON writes the entry as operators write it.
func (e *Entry) MarshalJSON() ([]byte, error) {
	w := written{
		Vendor: e.Vendor, Model: e.Model, From: day(e.From), Until: day(e.Until), writtenRates: e.Rates.written(),
		Tiers: factors(e.Tiers), Regions: factors(e.Regions), Source: e.Source, Read: e.Read,
	}
	for _, b := range e.Bands {
		w.Above = append(w.Above, writtenBand{b.Above, b.Rates.written()})
	}
	for i := range e.Hours {
		w.Hours = append(w.Hours, e.Hours[i].written())
	}
	w.Calls, w.Seconds = e.Written()
	return json.Marshal(w)
}

// Written returns the prices of one call of each tool, and of one second of video by its size, as they are written.
func (e *Entry) Written() (calls, seconds map[string]json.Number) {
	for name, fee := range e.Fees {
		table, key := &calls, name
		if size, ok := strings.CutPrefix(name, video); ok {
			table, key = &seconds, size
		}
		if *table == nil {
			*table = map[string]json.Number{}
		}
		(*table)[key] = json.Number(fee.AppendJSON(nil))
	}
	return calls, seconds
}

// UnmarshalJSON reads an entry as operators write it, and checks it.
func (e *Entry) UnmarshalJSON(raw []byte) error {
	var w written
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&w); err != nil {
		return err
	}
	return e.fill(&w)
}

func (e *Entry) fill(w *written) (err error) {
	*e = Entry{Vendor: w.Vendor, Model: w.Model, Source: w.Source, Read: w.Read}
	if e.From, err = ParseDay(w.From); err == nil {
		e.Until, err = ParseDay(w.Until)
	}
	if err != nil {
		return err
	}
	if e.Rates, err = w.rates(); err != nil {
		return err
	}
	for _, b := range w.Above {
		rates, err := b.rates()
		if err != nil {
			return fmt.Errorf("above %d: %w", b.Tokens, err)
		}
		e.Bands = append(e.Bands, Band{b.Tokens, rates})
	}
	if e.Tiers, err = parseFactors(w.Tiers); err != nil {
		return err
	}
	if e.Regions, err = parseFactors(w.Regions); err != nil {
		return err
	}
	for _, h := range w.Hours {
		hours, err := h.parse()
		if err != nil {
			return err
		}
		e.Hours = append(e.Hours, hours)
	}
	if err = e.fees(w); err != nil {
		return err
	}
	return e.seal()
}

// fees reads the prices of calls and of seconds.
func (e *Entry) fees(w *written) error {
	for prefix, table := range map[string]map[string]json.Number{"": w.Calls, video: w.Seconds} {
		for name, number := range table {
			fee, err := Parse(string(number))
			if err != nil || name == "" || len(name) > maxName {
				return fmt.Errorf("the price of %q %w", name, errAmount)
			}
			if e.Fees == nil {
				e.Fees = map[string]Nano{}
			}
			e.Fees[prefix+name] = fee
		}
	}
	return nil
}

// day writes a date, or a moment if it is not the beginning of a day in UTC.
func day(t time.Time) string {
	switch t = t.UTC(); {
	case t.IsZero():
		return ""
	case t.Equal(t.Truncate(24 * time.Hour)):
		return t.Format(time.DateOnly)
	default:
		return t.Format(time.RFC3339)
	}
}

// ParseDay reads a day, which begins in UTC, or a moment. An empty text is the zero time.
func ParseDay(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		t, err = time.Parse(time.RFC3339, text)
	}
	if err != nil {
		return t, fmt.Errorf("%q is no day such as 2026-11-18, and no moment such as 2026-11-18T09:00:00Z", text)
	}
	return t.UTC().Truncate(time.Second), nil
}

func factors(table map[string]Factor) map[string]json.Number {
	var w map[string]json.Number
	for name, f := range table {
		if w == nil {
			w = make(map[string]json.Number, len(table))
		}
		w[name] = f.number()
	}
	return w
}

func parseFactors(w map[string]json.Number) (map[string]Factor, error) {
	var table map[string]Factor
	for _, name := range slices.Sorted(maps.Keys(w)) {
		f, err := parseFactor(w[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if table == nil {
			table = make(map[string]Factor, len(w))
		}
		table[name] = f
	}
	return table, nil
}

// number writes the factor: 0.5, 2.
func (f Factor) number() json.Number { return json.Number(Nano(f * 1000).AppendJSON(nil)) }

// String writes the factor: 0.5, 2.
func (f Factor) String() string { return string(f.number()) }

func parseFactor(n json.Number) (Factor, error) {
	f, err := decimal(string(n), 6)
	if err != nil || f > int64(maxFactor) {
		return 0, fmt.Errorf("%q is no factor such as 0.5, with at most six decimals and at most 100", n)
	}
	return Factor(f), nil
}

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// ParseHours reads hours as people write them, such as mon-fri, 09:00, 12:00 and +08:00.
func ParseHours(days, from, to, zone string, times Factor) (Hours, error) {
	return (&writtenHours{days, from, to, zone, times.number()}).parse()
}

func (h *writtenHours) parse() (Hours, error) {
	out, bad := Hours{}, errors.New("hours are written as {days: mon-fri, from: \"09:00\", to: \"12:00\", zone: \"+08:00\", times: 2}")
	first, last, ranged := strings.Cut(strings.ToLower(h.Days), "-")
	from, to := slices.Index(weekdays, first), slices.Index(weekdays, last)
	if !ranged {
		to = from
	}
	if from < 0 || to < 0 {
		return out, bad
	}
	for d := from; ; d = (d + 1) % 7 {
		if out.Days[d] = true; d == to {
			break
		}
	}
	var err error
	begins, e1 := clock(h.From)
	ends, e2 := clock(h.To)
	if len(h.Zone) != 6 || e1 != nil || e2 != nil {
		return out, bad
	}
	if out.Zone, err = clock(h.Zone[1:]); err != nil || h.Zone[0] != '+' && h.Zone[0] != '-' {
		return out, bad
	}
	if h.Zone[0] == '-' {
		out.Zone = -out.Zone
	}
	out.From, out.To = begins, ends
	if out.Factor, err = parseFactor(h.Times); err != nil {
		return out, fmt.Errorf("times: %w", err)
	}
	return out, nil
}

func clock(text string) (time.Duration, error) {
	hour, minute, ok := strings.Cut(text, ":")
	h, err := strconv.Atoi(hour)
	m, err2 := strconv.Atoi(minute)
	if !ok || err != nil || err2 != nil || h < 0 || h > 24 || m < 0 || m > 59 || h == 24 && m > 0 {
		return 0, errors.New("no time of the day")
	}
	return time.Duration(h)*time.Hour + time.Duration(m)*time.Minute, nil
}

func (h *Hours) written() writtenHours {
	from, to := slices.Index(h.Days[:], true), 0
	if h.Days[0] && h.Days[6] { // the range goes over the end of the week, or has all days
		for from = 6; from > 0 && h.Days[from-1]; from-- {
		}
	}
	for to = from; h.Days[(to+1)%7] && (to+1)%7 != from; to = (to + 1) % 7 {
	}
	zone := "+"
	if h.Zone < 0 {
		zone = "-"
	}
	return writtenHours{weekdays[from] + "-" + weekdays[to], hhmm(h.From), hhmm(h.To), zone + hhmm(h.Zone.Abs()), h.Factor.number()}
}

func hhmm(d time.Duration) string {
	return fmt.Sprintf("%02d:%02d", int(d.Hours()), int(d.Minutes())%60)
}

// file is a list of entries as a file.
type file struct {
	Prices []*Entry `json:"prices"`
}

// maxFile bounds what is read of a list.
const maxFile = 64 << 20

// Read reads a list of entries in the form that Write writes.
func Read(r io.Reader) ([]*Entry, error) {
	var f file
	dec := json.NewDecoder(io.LimitReader(r, maxFile))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return nil, err
	}
	return f.Prices, nil
}

// Write writes a list of entries, one a line.
func Write(w io.Writer, entries []*Entry) error {
	var b bytes.Buffer
	b.WriteString("{\"prices\":[\n")
	for i, e := range entries {
		raw, err := json.Marshal(e)
		if err != nil {
			return err
		}
		b.WriteByte(' ')
		b.Write(raw)
		if i < len(entries)-1 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteString("]}\n")
	_, err := w.Write(b.Bytes())
	return err
}
