package reconcile

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"sluice/internal/ledger/price"
)

// Options are the choices of Compare.
type Options struct {
	// From and To are the first and the last day; empty: those of the export.
	From, To string
	// Kept is the first day whose settlements are all kept; empty: all are.
	Kept string
	// Models are the vendor's names of models whose names here are not like them.
	Models map[string]string
}

// Compare compares settlements with exports of a vendor.
func Compare(o *Ours, exports []Export, opts Options) *Report {
	r := &Report{Vendor: o.vendor, Sums: []Sum{}, Findings: []Finding{}, Proposals: []Proposal{}, Others: []Other{}, Notes: []string{}}
	r.span(exports, &opts)
	c := &comparison{Report: r, ours: o, opts: opts, differ: map[[2]string][]int{}, fine: map[[2]string]bool{}, last: map[string]string{}}
	exports = slices.Clone(exports)
	slices.SortStableFunc(exports, func(a, b Export) int { return cmp.Compare(a.rank(), b.rank()) })
	for i := range exports {
		e := &exports[i]
		p := pass{comparison: c, e: e, costs: e.costs(), first: i == 0, lent: i > 0 && !e.counts()}
		p.repeated()
		p.collect()
		p.judge()
		r.Files = append(r.Files, e.Files...)
		r.Others = append(r.Others, e.Others...)
	}
	r.Proposals = c.propose()
	sortFindings(r.Findings)
	for _, class := range Classes() {
		s := Sum{Class: class}
		for i := range r.Findings {
			if f := &r.Findings[i]; f.Class == class {
				s.Findings, s.Amount = s.Findings+1, s.Amount+f.Amount
			}
		}
		if s.Findings > 0 {
			r.Sums = append(r.Sums, s)
		}
	}
	return r
}

// rank is the order in which exports are compared. Those with counts alone come first, because they divide by more: what they
// say about the counts of a day decides whether its amounts can be compared.
func (e *Export) rank() int {
	switch {
	case !e.costs():
		return 0
	case e.counts():
		return 1
	}
	return 2
}

func (e *Export) counts() bool {
	return slices.ContainsFunc(e.Lines, func(l Line) bool { return l.Counted > 0 })
}

func (e *Export) costs() bool {
	return slices.ContainsFunc(e.Lines, func(l Line) bool { return l.Charged > 0 })
}

// Span returns the first and the last day of exports.
func Span(exports []Export) (first, last string) {
	for i := range exports {
		for _, l := range exports[i].Lines {
			if first == "" || l.Day < first {
				first = l.Day
			}
			last = max(last, l.Day)
		}
	}
	return first, last
}

// span decides which days are compared.
func (r *Report) span(exports []Export, opts *Options) {
	first, last := Span(exports)
	r.From, r.To = cmp.Or(opts.From, first), cmp.Or(opts.To, last)
	if opts.Kept > r.From {
		r.Notes = append(r.Notes, fmt.Sprintf("The calls of days before %s are not kept any more (usage.keep_days); those days are not compared.", opts.Kept))
		r.From = opts.Kept
	}
}

func (r *Report) within(day string) bool { return day >= r.From && day <= r.To }

// comparison is what the passes over several exports share.
type comparison struct {
	*Report
	ours   *Ours
	opts   Options
	differ map[[2]string][]int // findings of the days and models whose counts differ
	fine   map[[2]string]bool  // days and models whose list prices agree
	last   map[string]string   // the last day of each model on both sides
	hints  []hint
}

// pass compares one export.
type pass struct {
	*comparison
	e     *Export
	costs bool // the export has amounts
	first bool // no other export was compared before
	lent  bool // the export has amounts alone, and another one has the counts
	pairs map[group]*pair
}

// pair is the two sides of a group. Either may be nil.
type pair struct {
	ours   *heap
	theirs *bill
}

// bill is what the vendor says about a group.
type bill struct {
	name    string
	row     int
	buckets map[string]*Line
	whole   *Line // an amount that is not divided
	cost    price.Nano
	charged int
	counted int
}

// repeated reports the rows that are in the export several times.
func (p *pass) repeated() {
	found := map[group]*Finding{}
	for i := range p.e.Duplicates {
		l := &p.e.Duplicates[i]
		if !p.within(l.Day) {
			continue
		}
		key := group{l.Day, l.Model, l.Tier, l.Region}
		f := found[key]
		if f == nil {
			f = &Finding{Class: Duplicate, Day: l.Day, Model: l.Model, Tier: l.Tier, Region: l.Region, Row: l.Row, Note: "The export has rows several times. They are compared once."}
			found[key] = f
		}
		f.Amount += l.Cost
		figure := Figure{Bucket: l.Bucket}
		if l.Counted > 0 {
			figure.Theirs = &l.Count
		}
		if l.Charged > 0 {
			figure.TheirCost = &l.Cost
		}
		f.Figures = append(f.Figures, figure)
	}
	for _, key := range slices.SortedFunc(maps.Keys(found), compareGroups) {
		p.Findings = append(p.Findings, *found[key])
	}
}

// collect pairs what is on both sides.
func (p *pass) collect() {
	p.pairs = map[group]*pair{}
	apart := map[string]bool{} // buckets that the vendor does not divide by model
	for i := range p.e.Lines {
		if l := &p.e.Lines[i]; l.Model == "" {
			apart[l.Bucket] = true
		}
	}
	for i := range p.e.Lines {
		l := &p.e.Lines[i]
		if !p.within(l.Day) {
			continue
		}
		key := group{l.Day, p.named(l.Model), l.Tier, l.Region}
		if apart[l.Bucket] {
			key = group{day: l.Day}
		}
		p.at(key).charge(l)
		p.Theirs += l.Cost
	}
	for key, h := range p.ours.groups {
		if p.within(key.day) {
			p.divide(key, h, apart)
		}
	}
	maps.DeleteFunc(p.pairs, func(_ group, pr *pair) bool { return pr.ours == nil && pr.theirs == nil })
}

// divide adds settlements to the pairs that the export has for them.
func (p *pass) divide(key group, h *heap, apart map[string]bool) {
	if !p.e.Tiers {
		key.tier = ""
	}
	if !p.e.Regions {
		key.region = ""
	}
	p.at(key).settle(h, func(bucket string) string {
		if bucket = p.fold(bucket); apart[bucket] {
			return ""
		}
		return bucket
	})
	if len(apart) == 0 {
		return
	}
	p.at(group{day: key.day}).settle(h, func(bucket string) string {
		if apart[bucket] {
			return bucket
		}
		return ""
	})
}

// named returns the name of a model of the export as ours are known by.
func (p *pass) named(model string) string {
	if model == "" {
		return ""
	}
	return p.ours.canonical(cmp.Or(p.opts.Models[model], model))
}

// fold returns the bucket of the export that counts a bucket of ours; empty: none does.
func (p *pass) fold(bucket string) string {
	for bucket != "" && !slices.Contains(p.e.Buckets, bucket) {
		bucket = parents[bucket]
	}
	return bucket
}

func (p *pass) at(key group) *pair {
	if p.pairs[key] == nil {
		p.pairs[key] = &pair{}
	}
	return p.pairs[key]
}

// charge adds a line of the export.
func (p *pair) charge(l *Line) {
	if p.theirs == nil {
		p.theirs = &bill{name: l.Model, row: l.Row, buckets: map[string]*Line{}}
	}
	b := p.theirs
	b.cost, b.charged, b.counted = b.cost+price.Nano(l.Cost), b.charged+l.Charged, b.counted+l.Counted
	to := b.whole
	if l.Bucket != "" {
		to = b.buckets[l.Bucket]
	}
	if to == nil {
		to = &Line{Bucket: l.Bucket, Row: l.Row}
		if l.Bucket == "" {
			b.whole = to
		} else {
			b.buckets[l.Bucket] = to
		}
	}
	to.Count, to.Counted, to.Cost, to.Charged = to.Count+l.Count, to.Counted+l.Counted, to.Cost+l.Cost, to.Charged+l.Charged
}

// settle adds settlements whose buckets the export has; fold returns an empty name for those that do not belong here.
func (p *pair) settle(h *heap, fold func(string) string) {
	part := *h
	part.buckets = map[string]*tally{}
	for name, t := range h.buckets {
		if fold(name) != "" {
			part.buckets[name] = t
		}
	}
	if len(part.buckets) == 0 {
		return
	}
	if p.ours == nil {
		p.ours = &heap{buckets: map[string]*tally{}}
	}
	p.ours.merge(&part, fold)
}

func compareGroups(a, b group) int {
	return cmp.Or(strings.Compare(a.day, b.day), strings.Compare(a.model, b.model), strings.Compare(a.tier, b.tier), strings.Compare(a.region, b.region))
}

// judge finds the differences, model by model and day by day.
func (p *pass) judge() {
	keys := slices.SortedFunc(maps.Keys(p.pairs), compareGroups)
	for len(keys) > 0 {
		n := 1
		for n < len(keys) && keys[n].day == keys[0].day && keys[n].model == keys[0].model {
			n++
		}
		p.family(keys[:n])
		keys = keys[n:]
	}
	if !p.first {
		return
	}
	for _, pr := range p.pairs {
		if pr.ours != nil {
			p.Ours += Money(pr.ours.total(pr.theirs))
			p.Unpriced += pr.ours.unpriced
		}
	}
}

// family judges a day of a model, in all tiers and regions.
func (p *pass) family(keys []group) {
	at := [2]string{keys[0].day, keys[0].model}
	if known := p.differ[at]; len(known) > 0 {
		p.appraise(keys, known)
		return
	}
	before := len(p.Findings)
	if len(keys) == 1 || !p.moved(keys) {
		for _, key := range keys {
			had := len(p.Findings)
			p.one(key, p.pairs[key])
			if p.first && len(p.Findings) == had {
				p.Matched++
			}
		}
	}
	if p.first {
		p.Compared += len(keys)
	}
	if !p.costs {
		for i := before; i < len(p.Findings); i++ {
			p.differ[at] = append(p.differ[at], i)
		}
	}
}

// appraise gives findings of an export without amounts the amounts that this one has.
func (p *pass) appraise(keys []group, findings []int) {
	var amount price.Nano
	for _, key := range keys {
		pr := p.pairs[key]
		if pr.theirs != nil {
			amount += pr.theirs.cost
		}
		if pr.ours != nil {
			amount -= pr.ours.total(pr.theirs)
		}
	}
	for i, at := range findings {
		if p.Findings[at].Amount = 0; i == 0 {
			p.Findings[at].Amount = Money(amount)
		}
	}
}

// moved reports a day of a model whose counts agree over all tiers and regions, but not in each: the vendor served some calls in
// another tier than the one that it was understood to have.
func (p *pass) moved(family []group) bool {
	all, same := &pair{}, true
	var figures []Figure
	for _, key := range family {
		pr := p.pairs[key]
		if pr.theirs != nil {
			if pr.theirs.counted == 0 {
				return false
			}
			for _, l := range pr.theirs.buckets {
				all.charge(l)
			}
		}
		if pr.ours != nil {
			all.settle(pr.ours, func(name string) string { return name })
		}
		same = same && pr.relation() == equal
		for _, f := range pr.figures() {
			if f.Tier = cmp.Or(key.tier, "default"); key.region != "" {
				f.Tier += " " + key.region
			}
			figures = append(figures, f)
		}
	}
	if same || all.ours == nil || all.theirs == nil || all.relation() != equal {
		return false
	}
	f := p.finding(UnknownTier, group{day: family[0].day, model: family[0].model}, all)
	f.Figures, f.Note = figures, "The counts agree over all tiers, but the vendor served some calls in another tier or region than was recorded here."
	p.Findings = append(p.Findings, f)
	return true
}

// finding returns a difference of a pair.
func (p *pass) finding(class Class, key group, pr *pair) Finding {
	f := Finding{Class: class, Day: key.day, Model: key.model, Tier: key.tier, Region: key.region, Figures: pr.figures()}
	var theirs, ours price.Nano
	if pr.ours != nil {
		f.Model, f.ID, ours = pr.ours.name, pr.ours.id, pr.ours.total(pr.theirs)
		if pr.ours.estimated > 0 && slices.Contains([]Class{MissingHere, MissingThere, TokensDiffer}, class) {
			f.Note = fmt.Sprintf("The counts of %d of %d calls here are not the vendor's: it reported none, or the reply was cut.", pr.ours.estimated, pr.ours.calls)
		}
	}
	if pr.theirs != nil {
		f.Model, f.Row, theirs = cmp.Or(pr.theirs.name, f.Model), pr.theirs.row, pr.theirs.cost
	}
	if key.model == "" {
		f.Model, f.ID = "", "" // what the vendor does not divide by model
	}
	if !p.costs {
		theirs = pr.worth()
	}
	f.Amount = Money(theirs - ours)
	return f
}

// total returns what was settled: of the buckets that a bill divides, or of all.
func (h *heap) total(b *bill) price.Nano {
	if b != nil && b.whole != nil || h.loose > 0 {
		return h.cost
	}
	sum := new(big.Rat)
	for _, t := range h.buckets {
		sum.Add(sum, t.exact)
	}
	return price.Nano(nearest(sum).Int64())
}

// worth returns what the vendor's counts cost at the prices here, for exports without amounts.
func (p *pair) worth() price.Nano {
	sum := new(big.Rat)
	if p.ours == nil || p.theirs == nil {
		return 0
	}
	for name, l := range p.theirs.buckets {
		if t := p.ours.buckets[name]; t != nil && t.count > 0 {
			sum.Add(sum, new(big.Rat).Mul(t.exact, big.NewRat(l.Count, t.count)))
		}
	}
	return price.Nano(nearest(sum).Int64())
}

// relation is how the counts of two sides relate.
type relation int

const (
	equal relation = iota
	more           // at the vendor
	fewer          // at the vendor
	mixed
	several   // the vendor's are a multiple of ours
	severally // ours are a multiple of the vendor's
)

// relation compares the counts.
func (p *pair) relation() relation {
	up, down, there, here := false, false, int64(0), int64(0)
	for _, name := range p.names() {
		ours, theirs := p.counts(name)
		up, down = up || theirs > ours, down || theirs < ours
		if _, ok := bucketOf(name); !ok { // a few calls of a tool are easily twice as many as others
			there, here = -1, -1
		}
		there, here = multiple(there, theirs, ours), multiple(here, ours, theirs)
	}
	switch {
	case !up && !down:
		return equal
	case there > 1:
		return several
	case here > 1:
		return severally
	case up && down:
		return mixed
	case up:
		return more
	}
	return fewer
}

// multiple returns how often a holds b, if that is so often for all pairs of counts so far; -1 if not.
func multiple(so, a, b int64) int64 {
	switch {
	case a == 0 && b == 0:
		return so
	case so < 0 || b == 0 || a%b != 0 || so > 0 && a/b != so:
		return -1
	}
	return a / b
}

// names returns the buckets of both sides.
func (p *pair) names() []string {
	all := map[string]bool{}
	if p.ours != nil {
		for name, t := range p.ours.buckets {
			all[name] = all[name] || t.count > 0
		}
	}
	if p.theirs != nil {
		for name := range p.theirs.buckets {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func (p *pair) counts(name string) (ours, theirs int64) {
	if p.ours != nil && p.ours.buckets[name] != nil {
		ours = p.ours.buckets[name].count
	}
	if p.theirs != nil && p.theirs.buckets[name] != nil {
		theirs = p.theirs.buckets[name].Count
	}
	return ours, theirs
}
