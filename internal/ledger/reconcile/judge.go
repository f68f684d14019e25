package reconcile

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// classOf is what counts that differ mean.
var classOf = map[relation]Class{more: MissingHere, fewer: MissingThere, mixed: TokensDiffer, several: Duplicate, severally: Duplicate}

// one judges one group.
func (p *pass) one(key group, pr *pair) {
	switch {
	case pr.theirs == nil:
		if !p.lent && pr.ours.calls > 0 {
			p.Findings = append(p.Findings, p.finding(MissingThere, key, pr))
		}
		return
	case pr.ours == nil:
		if !p.lent && (pr.theirs.cost != 0 || pr.theirs.counted > 0) {
			p.Findings = append(p.Findings, p.finding(MissingHere, key, pr))
		}
		return
	}
	p.last[pr.ours.id] = max(p.last[pr.ours.id], key.day)
	switch {
	case pr.theirs.counted > 0:
		rel := pr.relation()
		if rel == equal {
			p.prices(key, pr)
			return
		}
		f := p.finding(classOf[rel], key, pr)
		if rel == several {
			f.Note = "The vendor's counts are a multiple of those here: calls are charged, or exported, more than once."
		} else if rel == severally {
			f.Note = "The counts here are a multiple of the vendor's: calls are settled more than once, or the export is not complete."
		}
		p.Findings = append(p.Findings, f)
		p.rates(key, pr)
	case p.lent:
		p.prices(key, pr)
	default:
		p.amounts(key, pr)
	}
}

// tolerance is how far amounts may be apart because they are rounded: each row of the export, and each call here if its cost is
// what is compared.
func (p *pass) tolerance(rows int, calls int64) *big.Rat {
	half := max(1, (int64(p.e.Unit)+1)/2)
	return new(big.Rat).SetInt64(int64(rows)*half + (calls+1)/2)
}

// prices compares the amounts of a group whose counts agree.
func (p *pass) prices(key group, pr *pair) {
	if !p.costs {
		return
	}
	h := pr.ours
	if h.unpriced > 0 {
		if pr.theirs.cost != 0 || h.untiered == h.unpriced {
			p.unpriced(key, pr)
		}
		return
	}
	stale, rounded := p.amountsOf(key, pr)
	switch {
	case len(stale) > 0:
		f := p.finding(StalePrice, key, pr)
		f.Figures = slices.DeleteFunc(f.Figures, func(f Figure) bool { return f.Bucket != "" && !slices.Contains(stale, f.Bucket) })
		p.Findings = append(p.Findings, f)
	case rounded:
		p.Findings = append(p.Findings, p.finding(Rounding, key, pr))
	}
	// Small amounts agree with many prices.
	telling := new(big.Rat).Mul(p.tolerance(pr.theirs.charged, 0), big.NewRat(50, 1)).Cmp(new(big.Rat).SetInt64(int64(pr.theirs.cost))) < 0
	if len(stale) == 0 && telling && key.tier == "" && key.region == "" && key.model != "" {
		p.fine[[2]string{key.day, h.id}] = true
	}
}

// amountsOf returns the buckets whose amounts differ by more than what rounding explains, and whether others differ at all. The
// name of the whole is empty.
func (p *pass) amountsOf(key group, pr *pair) (stale []string, rounded bool) {
	whole := new(big.Rat).SetInt64(int64(pr.ours.cost))
	if pr.theirs.whole != nil || pr.ours.loose > 0 {
		diff := new(big.Rat).Sub(new(big.Rat).SetInt64(int64(pr.theirs.cost)), whole)
		if exceeds(diff, p.tolerance(pr.theirs.charged, pr.ours.calls)) {
			p.hint(key, pr, "")
			return []string{""}, false
		}
		return nil, diff.Sign() != 0
	}
	for _, name := range pr.names() {
		l, t := pr.theirs.buckets[name], pr.ours.buckets[name]
		if t == nil || l == nil || l.Charged == 0 {
			continue
		}
		diff := new(big.Rat).Sub(new(big.Rat).SetInt64(int64(l.Cost)), t.exact)
		if exceeds(diff, p.tolerance(l.Charged, 0)) {
			p.hint(key, pr, name)
			stale = append(stale, name)
			continue
		}
		rounded = rounded || diff.Cmp(new(big.Rat)) != 0 && Money(nearest(t.exact).Int64()) != l.Cost
	}
	return stale, rounded
}

func exceeds(diff, most *big.Rat) bool { return new(big.Rat).Abs(diff).Cmp(most) > 0 }

// unpriced reports a group that has no cost here, or only a part of one, and that the vendor charges for.
func (p *pass) unpriced(key group, pr *pair) {
	class, note := StalePrice, "There is no price here for some of these calls."
	if pr.ours.untiered == pr.ours.unpriced {
		class, note = UnknownTier, "The price of this tier or region is not known here."
	}
	f := p.finding(class, key, pr)
	f.Note = note
	p.Findings = append(p.Findings, f)
	if pr.ours.unpriced < pr.ours.calls || pr.theirs.charged == 0 {
		return // a part has a price, and nothing says which part of the amount is its
	}
	if class == UnknownTier {
		p.factorHint(key, pr)
		return
	}
	for _, name := range pr.names() {
		if l := pr.theirs.buckets[name]; l != nil && l.Charged > 0 {
			p.hint(key, pr, name)
		}
	}
}

// rates compares the prices of a group whose counts differ: of buckets that have one price here.
func (p *pass) rates(key group, pr *pair) {
	if pr.theirs.charged == 0 || pr.ours.unpriced > 0 || pr.ours.loose > 0 || pr.theirs.whole != nil {
		return
	}
	var stale []string
	for _, name := range pr.names() {
		l, t := pr.theirs.buckets[name], pr.ours.buckets[name]
		if t == nil || l == nil || l.Charged == 0 || l.Counted == 0 || len(t.rates) != 1 || t.count == 0 {
			continue
		}
		want := new(big.Rat).Mul(t.exact, big.NewRat(l.Count, t.count))
		if exceeds(want.Sub(new(big.Rat).SetInt64(int64(l.Cost)), want), p.tolerance(l.Charged, 0)) {
			p.hint(key, pr, name)
			stale = append(stale, name)
		}
	}
	if len(stale) > 0 {
		f := p.finding(StalePrice, key, pr)
		f.Amount, f.Note = 0, "The counts differ as well; the amount is in that difference."
		f.Figures = slices.DeleteFunc(f.Figures, func(f Figure) bool { return !slices.Contains(stale, f.Bucket) })
		p.Findings = append(p.Findings, f)
	}
}

// amounts judges a group of an export without any counts. A price that a vendor may have set is a stale price; an amount that no
// such price explains is that of other calls.
func (p *pass) amounts(key group, pr *pair) {
	if pr.ours.unpriced > 0 {
		p.prices(key, pr)
		return
	}
	before := len(p.hints)
	stale, rounded := p.amountsOf(key, pr)
	if len(stale) == 0 {
		if rounded {
			p.Findings = append(p.Findings, p.finding(Rounding, key, pr))
		}
		return
	}
	class, note := StalePrice, "The export has no counts. The amounts fit another price."
	for _, h := range p.hints[before:] {
		if !h.plain() {
			class = MissingHere
			if pr.theirs.cost < pr.ours.cost {
				class = MissingThere
			}
			note = "The export has no counts, and no round price explains the amounts. Compare with the usage export, too."
		}
	}
	if class != StalePrice || len(p.hints) == before {
		p.hints = p.hints[:before]
	}
	f := p.finding(class, key, pr)
	f.Note = note
	p.Findings = append(p.Findings, f)
}

// figures returns both sides of a pair, bucket by bucket.
func (p *pair) figures() []Figure {
	var out []Figure
	for _, name := range p.names() {
		f := Figure{Bucket: name}
		if p.ours == nil {
			f.Ours = new(int64)
		} else {
			p.ours.figure(&f)
		}
		if p.theirs == nil {
			f.Theirs = new(int64)
		} else {
			p.theirs.figure(&f)
		}
		if f.Theirs == nil && f.TheirCost != nil && p.theirs.counted == 0 {
			f.TheirRate = perMillion(name, new(big.Rat).SetInt64(int64(*f.TheirCost)), f.Ours)
		}
		out = append(out, f)
	}
	if p.theirs != nil && p.theirs.whole != nil {
		f := Figure{TheirCost: &p.theirs.whole.Cost}
		if p.ours != nil {
			cost := Money(p.ours.cost)
			f.OurCost = &cost
		}
		out = append(out, f)
	}
	return out
}

func (h *heap) figure(f *Figure) {
	t := h.buckets[f.Bucket]
	if t == nil {
		t = &tally{exact: new(big.Rat)}
	}
	f.Ours = &t.count
	if h.unpriced == 0 && h.loose == 0 {
		cost := Money(nearest(t.exact).Int64())
		f.OurCost, f.OurRate, f.OtherRates = &cost, perMillion(f.Bucket, t.exact, &t.count), len(t.rates) > 1
	}
}

func (b *bill) figure(f *Figure) {
	l := b.buckets[f.Bucket]
	if l == nil {
		l = &Line{}
		l.Counted = b.counted
	}
	if l.Counted > 0 {
		f.Theirs = &l.Count
	}
	if l.Charged > 0 {
		f.TheirCost = &l.Cost
		if l.Counted > 0 {
			f.TheirRate = perMillion(f.Bucket, new(big.Rat).SetInt64(int64(l.Cost)), &l.Count)
		}
	}
}

// perMillion returns the price of a million tokens, or of one call of a tool.
func perMillion(bucket string, cost *big.Rat, count *int64) *Money {
	if count == nil || *count == 0 {
		return nil
	}
	per := int64(1)
	if _, ok := bucketOf(bucket); ok {
		per = 1_000_000
	}
	m := Money(nearest(new(big.Rat).Mul(cost, big.NewRat(per, *count))).Int64())
	return &m
}

// String returns what a figure says about the counts, for people.
func (f *Figure) String() string {
	var text []string
	if f.Ours != nil {
		text = append(text, fmt.Sprintf("%d here", *f.Ours))
	}
	if f.Theirs != nil {
		text = append(text, fmt.Sprintf("%d there", *f.Theirs))
	}
	return f.Bucket + ": " + strings.Join(text, ", ")
}
