package routing

import (
	"log/slog"
	"slices"
	"time"

	"sluice/internal/prompt/allowance"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/provider"
)

// Routes holds the targets of every model of a catalog. It never changes, so it needs no lock: a reload
// makes a new one, which takes over the health and the load of the targets that stay.
type Routes struct {
	byModel map[*catalog.Model]*route // by identity: the models must be those of the same catalog
	health  map[place]*Health
	loads   map[string]*load // by provider
	servers map[address]*server
	targets []*Target // one for each place, in the order of the catalog
	placed  map[holding]*placed
}

// holding identifies a model's target across reloads.
type holding struct {
	model  string
	target uint64 // its name
}

// place identifies a target across reloads and across models: two models that are the same upstream model
// behind the same key share their health. An adapter has one key, so it stands for that key.
type place struct {
	adapter  provider.Adapter
	upstream string
}

// route holds the targets of one model.
type route struct {
	model     *catalog.Model
	targets   []*Target        // may be empty
	fallbacks []*route         // of the models that stand in for it, in their order
	header    []string         // the value of x-sluice-model, made once
	ends      *ending          // nil for nearly every model
	affinity  catalog.Affinity // which conversations stay with one of the targets; see Router.Stay
	bound     bool             // what the model thinks is of use under one key only
	name      uint64           // a hash of the model's id
	weight    float64          // the sum of the targets' weights
}

// Options are the choices of New; the zero value is the default.
type Options struct {
	// Old is the value that the new one replaces; nil at the start of the process.
	Old *Routes
	// Drained reports whether the operator wants no new calls at a target; nil: at none. It is asked at each attempt,
	// so it must be quick, and the same for all routes of a process: requests keep the routes they began with.
	Drained Drained
	// Log gets a line when a breaker opens and when it closes again; default slog.Default().
	Log *slog.Logger
}

// Drained reports whether the operator wants no new calls at a target. The replica is empty where a provider has one
// address.
type Drained func(provider, upstream, key, replica string) bool

// New returns the routes of a catalog's models at the providers. It leaves out targets whose provider is
// not in the list: the model then has fewer targets, or none, and a request for it fails with a 503. The
// providers' names must differ.
func New(c *catalog.Catalog, providers []Provider, opts *Options) *Routes {
	if opts == nil {
		opts = &Options{}
	}
	log := opts.Log
	if log == nil {
		log = slog.Default()
	}
	r := &Routes{byModel: map[*catalog.Model]*route{}, health: map[place]*Health{}, loads: map[string]*load{}, servers: map[address]*server{}, placed: map[holding]*placed{}}
	byName := map[string]*Provider{}
	for i := range providers {
		p := &providers[i]
		byName[p.Name] = p
		r.loads[p.Name] = opts.Old.load(p)
	}
	// Providers first, then models, then fallbacks: each step needs the one before.
	for _, m := range c.Models() {
		rt := &route{model: m, header: []string{m.ID}, ends: endingOf(m, time.Now())}
		for _, t := range m.Places() {
			if p := byName[t.Provider]; p != nil {
				rt.targets = append(rt.targets, r.connect(p, t, allowance.New(p.Allow, m.Allow), opts, log)...)
			}
		}
		r.settle(rt, opts.Old)
		r.byModel[m] = rt
	}
	for m, rt := range r.byModel {
		for _, id := range m.Fallbacks {
			if other, ok := c.Lookup(id); ok && other != m {
				rt.fallbacks = append(rt.fallbacks, r.byModel[other])
			}
		}
	}
	return r
}

// load returns the provider's load: the old one, with its counts, if there is one. It sets the new bound.
// The receiver may be nil.
func (r *Routes) load(p *Provider) *load {
	l := &load{}
	if r != nil && r.loads[p.Name] != nil {
		l = r.loads[p.Name]
	}
	l.most.Store(int64(p.MaxConcurrent))
	return l
}

// connect returns the targets of a model at one provider: one for each key of each replica, which share the weight.
func (r *Routes) connect(p *Provider, t catalog.Target, allow *allowance.Set, opts *Options, log *slog.Logger) []*Target {
	targets := make([]*Target, len(p.Keys))
	for i, key := range p.Keys {
		at := place{key.Adapter, t.Upstream}
		targets[i] = &Target{
			Provider: p.Name, Upstream: t.Upstream, LastFour: key.LastFour, Replica: key.Replica, Adapter: key.Adapter, Allow: allow, FirstContent: p.FirstContent,
			weight: float64(t.Weight) / float64(len(p.Keys)), load: r.loads[p.Name], server: r.server(p.Name, &key, opts.Old), selfHosted: p.SelfHosted, log: log, header: []string{p.Name}, drained: opts.Drained,
		}
		if r.health[at] == nil { // the first model at this place
			r.health[at] = opts.Old.known(at)
			r.targets = append(r.targets, targets[i])
		}
		targets[i].health = r.health[at]
	}
	return targets
}

// settle prepares a route for conversations that stay with its targets.
func (r *Routes) settle(rt *route, old *Routes) {
	for i, t := range rt.targets {
		t.name = nameOf(t.Provider + "\x00" + t.Upstream + "\x00" + t.LastFour + "\x00" + t.Replica)
		for slices.ContainsFunc(rt.targets[:i], func(other *Target) bool { return other.name == t.name }) {
			t.name = mix(t.name) // another key ends with the same characters
		}
		t.id = max(1, uint32(t.name))
		rt.weight += t.weight
		at := holding{rt.model.ID, t.name}
		if t.placed = r.placed[at]; t.placed == nil && old != nil {
			t.placed = old.placed[at]
		}
		if t.placed == nil {
			t.placed = &placed{}
		}
		r.placed[at] = t.placed
	}
	rt.name = nameOf(rt.model.ID)
	rt.settle(time.Now())
}

// known returns the health of a place that was there before, or a new one. The receiver may be nil.
func (r *Routes) known(at place) *Health {
	if r != nil && r.health[at] != nil {
		return r.health[at]
	}
	return &Health{}
}

// Targets returns the health of every target.
func (r *Routes) Targets(now time.Time) []TargetHealth {
	return healthOf(r.targets, now)
}

// Of returns the health of one model's targets; nil if the catalog does not have the model.
func (r *Routes) Of(m *catalog.Model, now time.Time) []TargetHealth {
	if rt := r.byModel[m]; rt != nil {
		return healthOf(rt.targets, now)
	}
	return nil
}

// healthOf returns the health of targets.
func healthOf(targets []*Target, now time.Time) []TargetHealth {
	all := make([]TargetHealth, len(targets))
	for i, t := range targets {
		all[i] = t.Health(now)
	}
	return all
}

// Tallies returns the counts of each provider, by its name.
func (r *Routes) Tallies() map[string]Tally {
	all := make(map[string]Tally, len(r.loads))
	for name, l := range r.loads {
		all[name] = Tally{Running: l.running.Load(), Answered: l.answered.Load(), Failed: l.failed.Load()}
	}
	return all
}
