package reconcile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"sluice/internal/ledger/price"
)

// hint is an amount that says what a price is: amount = price × weight, up to what rounding explains.
type hint struct {
	heap   *heap
	day    string
	tier   string
	region string
	what   string // the bucket or use; empty for a factor, and for the whole
	factor bool   // the price is a factor of tier or region, not a rate
	amount *big.Rat
	spread *big.Rat // how far the amount may be off
	weight *big.Rat
	listed *big.Rat // what the tokens cost at the list price
	change Money    // what the vendor charges beyond the price here
}

// hint notes what an amount says about the price of a bucket, or of all of them if name is empty.
func (p *pass) hint(key group, pr *pair, name string) {
	h := hint{heap: pr.ours, day: key.day, tier: key.tier, region: key.region, what: name, weight: new(big.Rat), listed: new(big.Rat)}
	if name == "" {
		sum := new(big.Rat)
		for _, t := range pr.ours.buckets {
			sum.Add(sum, t.exact)
		}
		// All rates times the same number: the whole says nothing about one of them.
		h.factor, h.weight = true, sum
		h.amount, h.spread = new(big.Rat).SetInt64(int64(pr.theirs.cost)), p.tolerance(pr.theirs.charged, pr.ours.calls)
		h.change = Money(pr.theirs.cost - pr.ours.cost)
		p.hints = append(p.hints, h)
		return
	}
	l, t := pr.theirs.buckets[name], pr.ours.buckets[name]
	per := int64(1)
	if _, ok := bucketOf(name); ok {
		per = 1_000_000
	}
	h.amount, h.spread = new(big.Rat).SetInt64(int64(l.Cost)), p.tolerance(l.Charged, 0)
	if t == nil || t.mixed {
		return // tokens of several prices are counted together
	}
	h.weight = big.NewRat(t.count, per)
	if t.exact.Sign() > 0 && t.base > 0 {
		h.weight = new(big.Rat).Quo(t.exact, new(big.Rat).SetInt64(int64(t.base)))
		h.listed = t.listed
	}
	if l.Counted > 0 && t.count > 0 && l.Count != t.count {
		share := big.NewRat(l.Count, t.count)
		h.weight, h.listed = new(big.Rat).Mul(h.weight, share), new(big.Rat).Mul(h.listed, share)
	}
	h.change = l.Cost - Money(nearest(t.exact).Int64())
	p.hints = append(p.hints, h)
}

// factorHint notes what the amounts of a group say about the factor of its tier or region.
func (p *pass) factorHint(key group, pr *pair) {
	listed := new(big.Rat)
	for _, t := range pr.ours.buckets {
		listed.Add(listed, t.listed)
	}
	tier, region, known := missing(pr.ours.entry, key.tier, key.region)
	if tier != "" && region != "" {
		return // nothing says which of them is what
	}
	listed.Mul(listed, big.NewRat(int64(known), 1_000_000))
	p.hints = append(p.hints, hint{
		heap: pr.ours, day: key.day, tier: tier, region: region, factor: true, weight: listed, listed: listed,
		amount: new(big.Rat).SetInt64(int64(pr.theirs.cost)), spread: p.tolerance(pr.theirs.charged, 0), change: Money(pr.theirs.cost - pr.ours.cost),
	})
}

// missing returns which of a tier and a region have no price in an entry, and the factor of the other one.
func missing(e *price.Entry, tier, region string) (noTier, noRegion string, known price.Factor) {
	known = 1_000_000
	if f, ok := e.Tiers[tier]; ok {
		known = f
	} else {
		noTier = tier
	}
	if f, ok := e.Regions[region]; ok {
		known = known * f / 1_000_000
	} else {
		noRegion = region
	}
	return noTier, noRegion, known
}

// bounds returns the lowest and the highest price that explain the amount.
func (h *hint) bounds() (lo, hi *big.Rat) {
	lo, hi = new(big.Rat).Sub(h.amount, h.spread), new(big.Rat).Add(h.amount, h.spread)
	return lo.Quo(lo, h.weight), hi.Quo(hi, h.weight)
}

// plain reports whether a price with at most three decimals explains the amount, and would not explain most others.
func (h *hint) plain() bool {
	if h.weight.Sign() <= 0 {
		return false
	}
	lo, hi := h.bounds()
	unit := int64(1_000_000) // a thousandth of a dollar, in nano-dollars
	if h.factor {
		unit = 1
		lo, hi = lo.Mul(lo, big.NewRat(1000, 1)), hi.Mul(hi, big.NewRat(1000, 1))
	}
	lo, hi = lo.Quo(lo, big.NewRat(unit, 1)), hi.Quo(hi, big.NewRat(unit, 1))
	if new(big.Rat).Sub(hi, lo).Cmp(big.NewRat(1, 4)) > 0 {
		return false
	}
	return new(big.Rat).SetInt(ceiling(lo)).Cmp(hi) <= 0
}

func ceiling(v *big.Rat) *big.Int {
	up := new(big.Int).Add(v.Num(), v.Denom())
	return up.Sub(up, big.NewInt(1)).Div(up, v.Denom())
}

// simplest returns the number with the fewest decimals between two, in units of 10^-places.
func simplest(lo, hi *big.Rat, places int) (int64, bool) {
	for digits := 0; digits <= places; digits++ {
		scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(digits)), nil)
		at := ceiling(new(big.Rat).Mul(lo, new(big.Rat).SetInt(scale)))
		if new(big.Rat).SetFrac(at, scale).Cmp(hi) > 0 {
			continue
		}
		at.Mul(at, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places-digits)), nil))
		return at.Int64(), at.IsInt64()
	}
	return nearest(new(big.Rat).Mul(lo, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places)), nil)))).Int64(), true
}

// stretch is a price that explains the amounts of some days in a row.
type stretch struct {
	subject
	from, last string
	lo, hi     *big.Rat
	days       int
	change     Money
	heap       *heap
}

// subject is what a price is about.
type subject struct{ id, what, tier, region string }

// propose returns the prices that the hints add up to, model by model.
func (c *comparison) propose() []Proposal {
	all := map[string][]*stretch{}
	for _, h := range c.sorted() {
		if h.weight.Sign() <= 0 || h.heap.id == "" {
			continue
		}
		s := subject{h.heap.id, h.what, "", ""}
		if h.factor {
			s.tier, s.region = h.tier, h.region
		}
		lo, hi := h.bounds()
		list := all[s.id]
		var open *stretch
		for _, x := range list {
			if x.subject == s {
				open = x // the last one
			}
		}
		if open == nil || lo.Cmp(open.hi) > 0 || hi.Cmp(open.lo) < 0 {
			open = &stretch{subject: s, from: h.day, lo: lo, hi: hi, heap: h.heap}
			all[s.id] = append(list, open)
		}
		open.take(h, lo, hi)
	}
	out := []Proposal{}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		out = append(out, c.entries(id, all[id])...)
	}
	return out
}

// sorted returns the hints by day. One about a tier is about its factor if the list price agrees on the same day.
func (c *comparison) sorted() []*hint {
	out := make([]*hint, 0, len(c.hints))
	for i := range c.hints {
		h := &c.hints[i]
		if !h.factor && (h.tier != "" || h.region != "") && h.listed.Sign() > 0 && c.fine[[2]string{h.day, h.heap.id}] {
			h.about(h.tier, h.region)
		}
		out = append(out, h)
	}
	slices.SortStableFunc(out, func(a, b *hint) int { return strings.Compare(a.day, b.day) })
	return out
}

// about makes a hint about a rate one about the factor of a tier, or else of a region.
func (h *hint) about(tier, region string) {
	h.factor, h.what, h.weight = true, "", h.listed
	if tier == "" {
		return
	}
	if f, ok := h.heap.entry.Regions[region]; ok {
		h.weight = new(big.Rat).Mul(h.listed, big.NewRat(int64(f), 1_000_000))
	}
	h.region = ""
}

// take adds a day to a stretch.
func (s *stretch) take(h *hint, lo, hi *big.Rat) {
	if lo.Cmp(s.lo) > 0 {
		s.lo = lo
	}
	if hi.Cmp(s.hi) < 0 {
		s.hi = hi
	}
	if h.day != s.last {
		s.days++
	}
	s.last, s.change, s.heap = h.day, s.change+h.change, h.heap
}

// entries returns the prices of a model: one entry from each day on which something changes.
func (c *comparison) entries(id string, list []*stretch) (out []Proposal) {
	edges := map[string]bool{}
	for _, s := range list {
		edges[s.from] = true
		if s.last < c.last[id] {
			edges[next(s.last)] = true
		}
	}
	days := slices.Sorted(maps.Keys(edges))
	for i, day := range days {
		valid := slices.DeleteFunc(slices.Clone(list), func(s *stretch) bool { return s.from > day || s.last < day })
		if len(valid) == 0 {
			continue
		}
		e, why := entryOf(id, valid)
		e.From = moment(day)
		if i+1 < len(days) {
			e.Until = moment(days[i+1])
		}
		p := Proposal{Model: id, Upstream: valid[0].heap.name, Why: why}
		for _, s := range valid {
			p.Days, p.Amount = max(p.Days, s.days), p.Amount+s.change
		}
		e.Source = fmt.Sprintf("charged by %s from %s to %s", c.Vendor, day, valid[0].last)
		sealed, err := price.Sealed(e)
		if err != nil {
			c.Notes = append(c.Notes, fmt.Sprintf("No price is proposed for %s from %s: %v.", id, day, err))
			continue
		}
		p.Entry, p.YAML = Entry{sealed}, written(sealed)
		out = append(out, p)
	}
	return out
}

// entryOf returns the prices here with those changes that follow from the vendor's amounts.
func entryOf(id string, changes []*stretch) (e price.Entry, why string) {
	for b := range e.Rates {
		e.Rates[b] = price.Unknown
	}
	if known := changes[0].heap.entry; known != nil {
		e = *known
		e.Bands, e.Tiers, e.Regions, e.Fees = slices.Clone(e.Bands), maps.Clone(e.Tiers), maps.Clone(e.Regions), maps.Clone(e.Fees)
	}
	e.Vendor, e.Model, e.Read = "", id, ""
	var what []string
	for _, s := range changes {
		what = append(what, s.apply(&e))
	}
	return e, strings.Join(what, ", ")
}

// apply changes an entry, and returns what it changes in words.
func (s *stretch) apply(e *price.Entry) string {
	if bucket, ok := bucketOf(s.what); ok {
		old, rate := e.Rates[bucket], s.rate()
		setRate(e, bucket, rate)
		return fmt.Sprintf("%s %s instead of %s", s.what, price.Nano(rate), rateText(old))
	}
	if s.what != "" {
		fee, _ := simplest(new(big.Rat).Quo(s.lo, big.NewRat(1_000_000_000, 1)), new(big.Rat).Quo(s.hi, big.NewRat(1_000_000_000, 1)), 9)
		if e.Fees == nil {
			e.Fees = map[string]price.Nano{}
		}
		e.Fees[s.what] = price.Nano(fee)
		return fmt.Sprintf("%s %s a call", s.what, price.Nano(fee))
	}
	n, _ := simplest(s.lo, s.hi, 6)
	factor := price.Factor(n)
	switch {
	case s.tier != "":
		e.Tiers = with(e.Tiers, s.tier, factor)
		return fmt.Sprintf("tier %s times %s", s.tier, factor)
	case s.region != "":
		e.Regions = with(e.Regions, s.region, factor)
		return fmt.Sprintf("region %s times %s", s.region, factor)
	}
	for b := range price.Buckets {
		if rate := e.Rates[b]; rate > 0 && !e.Rates.Follows(price.Bucket(b)) {
			setRate(e, price.Bucket(b), price.Rate(nearest(big.NewRat(int64(rate)*int64(factor), 1_000_000)).Int64()))
		}
	}
	return fmt.Sprintf("all rates times %s", factor)
}

// rate returns the rate of the stretch, in nano-dollars per million tokens.
func (s *stretch) rate() price.Rate {
	dollar := big.NewRat(1_000_000_000, 1)
	n, _ := simplest(new(big.Rat).Quo(s.lo, dollar), new(big.Rat).Quo(s.hi, dollar), 9)
	return price.Rate(n)
}

func with(table map[string]price.Factor, name string, f price.Factor) map[string]price.Factor {
	if table == nil {
		table = map[string]price.Factor{}
	}
	table[name] = f
	return table
}

// setRate changes the rate of a bucket, and of those that cost as much, also in the bands, which keep their proportion.
func setRate(e *price.Entry, b price.Bucket, rate price.Rate) {
	old := e.Rates[b]
	for i := range e.Bands {
		if r := &e.Bands[i].Rates; old > 0 && r[b] > 0 {
			follow(r, b, price.Rate(nearest(new(big.Rat).SetFrac(new(big.Int).Mul(big.NewInt(int64(r[b])), big.NewInt(int64(rate))), big.NewInt(int64(old)))).Int64()))
		}
	}
	follow(&e.Rates, b, rate)
}

// follow sets a rate, and lets those follow it that did so before.
func follow(r *price.Rates, b price.Bucket, rate price.Rate) {
	for other := range price.Buckets {
		if o := price.Bucket(other); o != b && parents[o.String()] == b.String() && (r.Follows(o) || o == price.CacheWrite5m && r[o] == r[b]) {
			r[o] = price.Unknown
			if o == price.CacheWrite5m {
				r[o] = rate
			}
		}
	}
	r[b] = rate
}

func rateText(r price.Rate) string {
	if r == price.Unknown {
		return "no price"
	}
	return price.Nano(r).String()
}

func moment(day string) time.Time {
	t, _ := time.Parse(time.DateOnly, day) // days are checked when they are read
	return t
}

func next(day string) string { return moment(day).AddDate(0, 0, 1).Format(time.DateOnly) }

// order is that of the fields of an entry in a configuration.
var order = []string{"model", "from", "until"}

// written returns an entry as a part of a configuration.
func written(e *price.Entry) string {
	raw, err := json.Marshal(e)
	if err != nil {
		return ""
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return ""
	}
	delete(fields, "source")
	names := slices.SortedFunc(maps.Keys(fields), func(a, b string) int {
		rank := func(name string) int {
			if at := slices.Index(order, name); at >= 0 {
				return at
			}
			return len(order)
		}
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a, b))
	})
	var b strings.Builder
	b.WriteString("prices:\n")
	for i, name := range names {
		lead := "    "
		if i == 0 {
			lead = "  - "
		}
		fmt.Fprintf(&b, "%s%s: %s\n", lead, name, bytes.ReplaceAll(bytes.ReplaceAll(fields[name], []byte(`":`), []byte(`": `)), []byte(`,"`), []byte(`, "`)))
	}
	return b.String()
}
