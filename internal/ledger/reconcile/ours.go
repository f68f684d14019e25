package reconcile

import (
	"math/big"

	"sluice/internal/ledger/price"
)

// Call is what one settlement says.
type Call struct {
	Day       string // in UTC
	ID        string // of the model in the catalog
	Model     string // what the vendor calls it
	Tier      string
	Region    string
	Counts    price.Counts
	Cost      *price.Nano  // nil: without a price
	Entry     *price.Entry // the prices that it was settled with, or those of its time if it has no cost; nil: not known
	Terms     price.Terms
	Estimated bool // counts are not the vendor's
}

// Ours adds up settlements.
type Ours struct {
	vendor Vendor
	groups map[group]*heap
	names  map[string]string // canonical ones
}

// group is what figures are added up by.
type group struct{ day, model, tier, region string }

// heap is what the calls of a group add up to.
type heap struct {
	id, name  string
	calls     int64
	estimated int64
	unpriced  int64 // calls that used something that has no price
	untiered  int64 // those of them whose model has prices, but not for the tier or region
	cost      price.Nano
	loose     int64 // calls with a cost whose prices are not known any more
	buckets   map[string]*tally
	entry     *price.Entry
	at        int64 // a moment of the group
}

// tally is one bucket of a heap.
type tally struct {
	count int64
	exact *big.Rat // what the priced part costs, in nano-dollars; not rounded
	// listed is what the count would cost at the list price of short prompts, and base that price for one million.
	listed *big.Rat
	base   price.Rate
	mixed  bool           // there is no single base: the prices changed during the day
	rates  map[rate]int64 // counts by what they were priced with
}

// rate is a price per million, or of one call, and the factor of tier, region and hour.
type rate struct {
	rate   price.Nano
	factor price.Factor
}

// NewOurs returns an empty sum for a comparison with a vendor.
func NewOurs(v Vendor) *Ours {
	return &Ours{vendor: v, groups: map[group]*heap{}, names: map[string]string{}}
}

// canonical returns the name of a model in the form that is compared.
func (o *Ours) canonical(name string) string {
	known, ok := o.names[name]
	if !ok {
		known = canonical(o.vendor, name)
		o.names[name] = known
	}
	return known
}

// Add adds one settlement.
func (o *Ours) Add(c *Call) {
	if c.Counts.Empty() {
		return
	}
	key := group{c.Day, o.canonical(c.Model), tierOf(c.Tier), regionOf(c.Region)}
	h := o.groups[key]
	if h == nil {
		h = &heap{buckets: map[string]*tally{}, name: c.Model}
		o.groups[key] = h
	}
	h.id, h.at = c.ID, c.Terms.At
	h.calls++
	if c.Estimated {
		h.estimated++
	}
	if c.Entry != nil {
		h.entry = c.Entry
	}
	h.price(c)
	for b, n := range c.Counts.Tokens {
		if n > 0 {
			h.tally(price.Bucket(b).String()).count += n
		}
	}
	for _, u := range c.Counts.Used {
		h.tally(u.Name).count += u.Milli / 1000
	}
}

// price adds what a call costs.
func (h *heap) price(c *Call) {
	if c.Cost == nil {
		h.unpriced++
		if plain := (price.Terms{At: c.Terms.At}); c.Entry != nil && c.Terms != plain {
			if _, ok := c.Entry.Cost(&c.Counts, plain); ok {
				h.untiered++
				h.list(c)
			}
		}
		return
	}
	h.cost += *c.Cost
	lines := c.Entry.Lines(&c.Counts, c.Terms)
	if len(lines) == 0 {
		h.loose++
		return
	}
	for _, l := range lines {
		t := h.tally(l.Name)
		t.rates[rate{l.Rate, l.Factor}] += l.Count
		t.exact.Add(t.exact, cost(l))
	}
	h.list(c)
}

// list adds what a call costs at the list price.
func (h *heap) list(c *Call) {
	for _, l := range c.Entry.Lines(&c.Counts, price.Terms{}) {
		t := h.tally(l.Name)
		base := price.Rate(l.Rate)
		if b, ok := bucketOf(l.Name); ok {
			base = c.Entry.Rates[b]
		}
		t.mixed = t.mixed || t.listed.Sign() != 0 && t.base != base
		t.base = base
		t.listed.Add(t.listed, cost(l))
	}
}

func (h *heap) tally(name string) *tally {
	t := h.buckets[name]
	if t == nil {
		t = &tally{exact: new(big.Rat), listed: new(big.Rat), rates: map[rate]int64{}}
		h.buckets[name] = t
	}
	return t
}

// cost returns one product of a formula in nano-dollars, not rounded.
func cost(l price.Line) *big.Rat {
	per := int64(1000) // thousandths of a call
	if _, ok := bucketOf(l.Name); ok {
		per = 1_000_000
	}
	product := new(big.Int).Mul(big.NewInt(l.Count), big.NewInt(int64(l.Rate)))
	product.Mul(product, big.NewInt(int64(l.Factor)))
	return new(big.Rat).SetFrac(product, new(big.Int).Mul(big.NewInt(per), big.NewInt(1_000_000)))
}

// bucketOf returns the bucket of tokens with a name.
func bucketOf(name string) (price.Bucket, bool) {
	for b := range price.Buckets {
		if price.Bucket(b).String() == name {
			return price.Bucket(b), true
		}
	}
	return 0, false
}

// parents says where the tokens of a bucket are counted by vendors that do not tell it apart.
var parents = map[string]string{
	"reasoning": "output", "audio_input": "input", "image_input": "input", "audio_output": "output", "image_output": "output",
	"cache_write_5m": "cache_write", "cache_write_1h": "cache_write", "cache_write": "input", "cache_read": "input",
}

// merge adds another heap, its buckets as an export has them.
func (h *heap) merge(from *heap, fold func(bucket string) string) {
	if h.calls == 0 || h.name == "" {
		h.name, h.id = from.name, from.id
	}
	h.calls, h.estimated, h.unpriced, h.untiered, h.loose = h.calls+from.calls, h.estimated+from.estimated, h.unpriced+from.unpriced, h.untiered+from.untiered, h.loose+from.loose
	h.cost += from.cost
	if from.entry != nil {
		h.entry, h.at = from.entry, from.at
	}
	for name, t := range from.buckets {
		to := h.tally(fold(name))
		to.mixed = to.mixed || t.mixed || to.listed.Sign() != 0 && t.listed.Sign() != 0 && to.base != t.base
		to.count += t.count
		to.exact.Add(to.exact, t.exact)
		to.listed.Add(to.listed, t.listed)
		if t.listed.Sign() != 0 {
			to.base = t.base
		}
		for r, n := range t.rates {
			to.rates[r] += n
		}
	}
}
