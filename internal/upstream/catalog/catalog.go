// Package catalog holds the models that callers may name and what the API says about each of them.
//
// A Catalog is immutable: a reload builds a new one. Its JSON replies are encoded once, when it is
// built, so listing the models costs one copy. A Model names the upstream that serves it; calling
// that upstream is the job of package provider.
package catalog

import (
	"fmt"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/price"
	"sluice/internal/prompt/alias"
	"sluice/internal/prompt/chat"
)

// Model is one entry of the catalog (docs/api.md#model-object).
type Model struct {
	ID      string
	OwnedBy string
	// Created is in Unix seconds: the configured date, or the time when the model joined the
	// catalog. 0 means that it is not known yet; see Dated.
	Created     int64
	Description string

	// Plan is the lowest plan that may call the model: Free, Basic or Premium.
	Plan account.Plan
	// RequestMilli is how many thousandths of a request one call consumes, and UnitMilli how many
	// thousandths of a unit it adds to the count that the abuse score is computed from.
	RequestMilli int64
	UnitMilli    int64

	// Embeds means that the model makes embeddings and nothing else: it takes no part in chat completions.
	Embeds bool
	// ContextLength and MaxOutput are in tokens. Of a model that embeds, ContextLength is the longest input, and MaxOutput 0.
	ContextLength int
	MaxOutput     int
	ToolCalling   bool
	Thinks        bool // the model can reason, so reasoning_effort has an effect
	// Efforts are the efforts that the model takes, in rising order; nil if that is not known.
	Efforts []chat.Effort
	Images  bool // the model accepts image parts
	// NoImageURLs restricts images to data: URLs. It is set where the upstream would fetch a URL
	// from inside the operator's network.
	NoImageURLs bool
	// Allow is what the operator allows callers of the model to choose; see package allowance.
	Allow  []string
	NoJSON bool // the model cannot be forced to answer in JSON
	// Quality holds the estimates that are known; QualityAt fills in the others.
	Quality Quality
	// Price has the prices of the first of its places; see Prices. It is nil if they are not known.
	Price *price.Series
	// Markup is what customers are told in place of costs; nil: costs. All models have the same.
	Markup *price.Markup

	// Provider is the name of the provider that serves the model. It is empty for the router.
	Provider string
	Upstream string // the provider's name for the model
	// Targets lists the places that serve the model if there are several. Provider and Upstream are
	// then those of the first; see Places.
	Targets   []Target
	Fallbacks []string // ids of the models that answer when this one is unavailable
	Affinity  Affinity // which conversations stay with one of the targets
	// Aliases are names and patterns, as in package alias, that callers may use in place of the id.
	Aliases   []string
	Router    bool
	Sandbox   bool
	StaffOnly bool // the model has no tier yet, so only staff may call it
	Origin    Origin
	Vanished  bool // its provider no longer lists it
	// Shutdown is the day on which the vendor ends the model, zero if none is announced, and Successor the model that the
	// vendor advises instead, by the vendor's name; it may be empty.
	Shutdown  time.Time
	Successor string
	// Moved means that staff has changed the tier, or is going to. Plan is the tier now, and Upcoming the one that is
	// announced, or nil.
	Moved    bool
	Upcoming *Tier

	// joins means that Created is the time when the model joined, not a configured date, so Dated
	// may replace it.
	joins bool
	// encoded is the verbose JSON form, made by New.
	encoded []byte
}

// Affinity says which conversations stay with one of a model's targets, so that its prompt cache stays warm.
type Affinity string

const (
	AffinityDefault Affinity = ""        // AffinityPrefix if that is likely to pay, else AffinityOff; package routing decides
	AffinityOff     Affinity = "off"     // none
	AffinitySession Affinity = "session" // those that have a session id
	AffinityPrefix  Affinity = "prefix"  // all: those without a session id by their first messages
)

// Origin says where a model's entry comes from.
type Origin string

const (
	Configured  Origin = "configuration"
	BuiltIn     Origin = "built in"
	Environment Origin = "environment"  // a vendor's key was found in an environment variable
	ThisMachine Origin = "this machine" // a model server was found running here
	ByProvider  Origin = "provider"     // its provider lists it
)

// Target is one place that serves a model.
type Target struct {
	Provider string
	Upstream string
	Weight   int           // relative share of the calls
	Price    *price.Series // nil: not known
}

// Places returns every place that serves the model. It returns none for the router.
func (m *Model) Places() []Target {
	if len(m.Targets) == 0 && m.Provider != "" {
		return []Target{{Provider: m.Provider, Upstream: m.Upstream, Weight: 1, Price: m.Price}}
	}
	return m.Targets
}

// Prices returns the prices of the model at one of its places, or nil if they are not known.
func (m *Model) Prices(provider, upstream string) *price.Series {
	for i := range m.Targets {
		if t := &m.Targets[i]; t.Provider == provider && t.Upstream == upstream {
			return t.Price
		}
	}
	return m.Price
}

// Priced returns the prices of a moment, or nil if they are not known.
func (m *Model) Priced(at time.Time) *price.Entry { return m.Price.At(at.Unix()) }

// Told returns the prices of a moment as everybody is told them: with the markup for all. It returns nil if they are not known.
func (m *Model) Told(at time.Time) *price.Entry { return m.Priced(at).Times(m.Markup.All()) }

// ToldTo returns the prices of a moment as an account on a plan is told them.
func (m *Model) ToldTo(at time.Time, plan, accountID string) *price.Entry {
	return m.Priced(at).Times(m.Markup.Of(plan, accountID))
}

// Repriced returns the catalog with other prices: change sets those of each model.
func (c *Catalog) Repriced(change func(*Model)) *Catalog { return c.with(change) }

// JSON returns the model's verbose form. The caller must not modify it.
func (m *Model) JSON() []byte { return m.encoded }

// Catalog is an immutable set of models. It is safe for concurrent use.
type Catalog struct {
	models  []*Model
	byID    map[string]*Model
	aliases *alias.Table // nil: there are none
	// list and verbose are the two encoded replies to GET /v1/models.
	list    []byte
	verbose []byte
}

// New builds a catalog that lists the models in the given order. It copies them. The capabilities
// of a router are replaced by those of the models behind it.
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
	aliases := map[string]string{}
	for _, m := range c.models {
		for _, name := range m.Aliases {
			if other := aliases[name]; other != "" {
				return nil, fmt.Errorf("the alias %q stands for two models, %q and %q", name, other, m.ID)
			}
			aliases[name] = m.ID
		}
	}
	var err error
	if c.aliases, err = alias.New(aliases); err != nil {
		return nil, err
	}
	c.list = encodeList(c.models, false)
	c.verbose = encodeList(c.models, true)
	return c, nil
}

// Lookup returns the model with the given id and reports whether it exists.
func (c *Catalog) Lookup(id string) (*Model, bool) {
	m, ok := c.byID[id]
	return m, ok
}

// Resolve returns the model that a caller means by a name: the one with that id, or else the one that an alias of the
// account stands for, or else one of the catalog. An alias never hides a model, and one whose model does not exist does
// not count. own may be nil.
func (c *Catalog) Resolve(name string, own *alias.Table) (*Model, bool) {
	if m, ok := c.byID[name]; ok {
		return m, true
	}
	for _, table := range [...]*alias.Table{own, c.aliases} {
		if id, ok := table.Find(name); ok {
			if m, ok := c.byID[id]; ok {
				return m, true
			}
		}
	}
	return nil, false
}

// Models returns all models in listing order. The caller must not modify the slice.
func (c *Catalog) Models() []*Model { return c.models }

// JSON returns the reply to GET /v1/models, plain or verbose. The caller must not modify it.
func (c *Catalog) JSON(verbose bool) []byte {
	if verbose {
		return c.verbose
	}
	return c.list
}
