// Package catalog holds the models that callers may name, and what is told of each.
//
// A Catalog never changes: a reload makes a new one. Its replies are encoded once, when it is made,
// so that listing models costs a copy. Which upstream serves a model is written on the Model; asking
// that upstream is package provider's work.
package catalog

import (
	"fmt"

	"sluice/internal/account"
	"sluice/internal/chat"
)

// Model is one entry of the catalog (spec: Model).
type Model struct {
	ID          string
	OwnedBy     string
	Created     int64 // Unix seconds
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
	perMillion := int64(u.Prompt)**p.Input + int64(u.Cached)**cached + int64(u.Completion)**p.Output + int64(u.Reasoning)**reasoning
	cost := (perMillion + 500_000) / 1_000_000
	return &cost
}

// JSON is the model's verbose form.
func (m *Model) JSON() []byte { return m.encoded }

// Catalog is an unchanging set of models.
type Catalog struct {
	models  []*Model
	byID    map[string]*Model
	list    []byte
	verbose []byte
}

// New makes a catalog of the models, listed in the given order.
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
