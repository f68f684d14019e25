// Package catalog holds the models that callers may name, and what is told of each.
//
// A Catalog never changes: a reload makes a new one. Its replies are encoded once, when it is made,
// so that listing models costs a copy. Which upstream serves a model is written on the Model; asking
// that upstream is package provider's work.
package catalog

import (
	"fmt"
	"math"
	"math/bits"

	"sluice/internal/account"
	"sluice/internal/chat"
)

// Model is one entry of the catalog (docs/api.md#model-object).
type Model struct {
	ID          string
	OwnedBy     string
	Created     int64 // Unix seconds: the configured date, or when it joined the catalog; 0: not known yet
	Description string

	Plan         account.Plan // the least plan that may call it: Free, Basic or Premium
	RequestMilli int64        // thousandths of a request that one call consumes
	UnitMilli    int64        // thousandths of a unit that one call adds to the abuse score's count

	ContextLength int
	MaxOutput     int
	ToolCalling   bool
	Thinks        bool // can reason; reasoning_effort means something
	Images        bool // takes image parts
	NoImageURLs   bool // only as data: URLs: its upstream would fetch an address from inside the operator's network
	NoJSON        bool // cannot be held to JSON
	Quality       Quality
	Pricing       *Pricing

	Provider  string   // name of the provider that serves it; empty for the router
	Upstream  string   // its name over there
	Targets   []Target // where it is served, if at several places; Provider is then the first
	Fallbacks []string // ids of the models that answer while it cannot
	Router    bool
	Sandbox   bool
	StaffOnly bool // it has no tier yet: only staff may call it
	Origin    Origin
	Vanished  bool // its provider no longer lists it

	joins   bool // Created is when it joined, not a configured date
	encoded []byte
}

// Origin is where a model's entry comes from.
type Origin string

const (
	Configured  Origin = "configuration"
	BuiltIn     Origin = "built in"
	Environment Origin = "environment"  // a vendor's key was found there
	ThisMachine Origin = "this machine" // a model server was found on it
	ByProvider  Origin = "provider"     // its provider lists it
)

// Target is one place where a model is served.
type Target struct {
	Provider string
	Upstream string
	Weight   int // its share of the calls
}

// Places is every place where the model is served.
func (m *Model) Places() []Target {
	if len(m.Targets) == 0 && m.Provider != "" {
		return []Target{{Provider: m.Provider, Upstream: m.Upstream, Weight: 1}}
	}
	return m.Targets
}

// Pricing is what tokens cost, in micro-dollars per million; nil where unknown.
type Pricing struct {
	Input     *int64
	Output    *int64
	Cached    *int64
	Reasoning *int64
}

// Cost is what a call's tokens cost, in micro-dollars, rounded to the nearest; nil where no price, or
// none for what was used, is known. Cached and reasoning tokens cost like the others of their side
// unless they have a price of their own.
func (p *Pricing) Cost(u chat.Usage) *int64 {
	if p == nil || p.Input == nil || p.Output == nil {
		return nil
	}
	cached, reasoning := p.Input, p.Output
	if p.Cached != nil {
		cached = p.Cached
	}
	if p.Reasoning != nil {
		reasoning = p.Reasoning
	}
	var hi, lo uint64 // micro-dollars per million, as a sum of 128 bits
	for _, part := range [...]struct {
		tokens int
		price  int64
	}{{u.Prompt, *p.Input}, {u.Cached, *cached}, {u.Completion, *p.Output}, {u.Reasoning, *reasoning}} {
		h, l := bits.Mul64(uint64(max(0, part.tokens)), uint64(max(0, part.price)))
		var carry uint64
		lo, carry = bits.Add64(lo, l, 0)
		hi, _ = bits.Add64(hi, h, carry) // four products of 63 bits each fit
	}
	const million = 1_000_000
	lo, carry := bits.Add64(lo, million/2, 0)
	cost := int64(mostCost)
	if hi += carry; hi < million { // the quotient fits into 64 bits
		quotient, _ := bits.Div64(hi, lo, million)
		cost = int64(min(quotient, mostCost))
	}
	return &cost
}

// mostCost is what a call costs at most, in micro-dollars: nearly nine million dollars, so that a million
// of such calls can be added up.
const mostCost = math.MaxInt64 >> 20

// JSON is the model's verbose form.
func (m *Model) JSON() []byte { return m.encoded }

// Catalog is an unchanging set of models.
type Catalog struct {
	models  []*Model
	byID    map[string]*Model
	list    []byte
	verbose []byte
}

// New makes a catalog of the models, listed in the given order. A router among them is made as capable as
// the models behind it.
func New(models []Model) (*Catalog, error) {
	c := &Catalog{byID: make(map[string]*Model, len(models))}
	for i := range models {
		m := models[i]
		if m.Plan < account.Free || m.Plan > account.Premium {
			return nil, fmt.Errorf("model %q: its plan must be free, basic or premium", m.ID)
		}
		if c.byID[m.ID] != nil {
			return nil, fmt.Errorf("model %q is listed twice", m.ID)
		}
		if m.Router {
			m.standBehind(models)
		}
		m.encoded = encodeModel(&m, true)
		c.models = append(c.models, &m)
		c.byID[m.ID] = &m
	}
	c.list = encodeList(c.models, false)
	c.verbose = encodeList(c.models, true)
	return c, nil
}

// Lookup finds a model by its id.
func (c *Catalog) Lookup(id string) (*Model, bool) {
	m, ok := c.byID[id]
	return m, ok
}

// Models is every model, in the order of listing.
func (c *Catalog) Models() []*Model { return c.models }

// JSON is the reply to GET /v1/models, plain or verbose.
func (c *Catalog) JSON(verbose bool) []byte {
	if verbose {
		return c.verbose
	}
	return c.list
}
