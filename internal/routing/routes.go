package routing

import (
	"log/slog"
	"time"

	"sluice/internal/catalog"
	"sluice/internal/provider"
)

// Routes is how every model of a catalog is reached. It never changes: a reload makes a new one, which
// takes over what is known of the targets that stay.
type Routes struct {
	byModel map[*catalog.Model]*route
	health  map[place]*Health
	loads   map[string]*load // by provider
	targets []*Target        // each place once, in the order of the catalog
}

// place is where a model is served. An adapter has one key, so it stands for that.
type place struct {
	adapter  provider.Adapter
	upstream string
}

// route is how one model is reached.
type route struct {
	model     *catalog.Model
	targets   []*Target
	fallbacks []*route
	header    []string // x-sluice-model
}

// Options are the choices of New; the zero value is the default.
type Options struct {
	// Old are the routes that these replace.
	Old *Routes
	// Log is told when a target is given up and when it is back; default slog.Default().
	Log *slog.Logger
}

// New connects the models with their providers. Targets at a provider that is not there are left out.
func New(c *catalog.Catalog, providers []Provider, opts *Options) *Routes {
	if opts == nil {
		opts = &Options{}
	}
	log := opts.Log
	if log == nil {
		log = slog.Default()
	}
	r := &Routes{byModel: map[*catalog.Model]*route{}, health: map[place]*Health{}, loads: map[string]*load{}}
	byName := map[string]*Provider{}
	for i := range providers {
		p := &providers[i]
		byName[p.Name] = p
		r.loads[p.Name] = opts.Old.load(p)
	}
	for _, m := range c.Models() {
		rt := &route{model: m, header: []string{m.ID}}
		for _, t := range m.Places() {
			if p := byName[t.Provider]; p != nil {
				rt.targets = append(rt.targets, r.connect(p, t, opts.Old, log)...)
			}
		}
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

// load is that of a provider, with what is counted in it.
func (r *Routes) load(p *Provider) *load {
	l := &load{}
	if r != nil && r.loads[p.Name] != nil {
		l = r.loads[p.Name]
	}
	l.most.Store(int64(p.MaxConcurrent))
	return l
}

// connect makes the targets of one place of a model: one for each key, which share its weight.
func (r *Routes) connect(p *Provider, t catalog.Target, old *Routes, log *slog.Logger) []*Target {
	targets := make([]*Target, len(p.Keys))
	for i, key := range p.Keys {
		at := place{key.Adapter, t.Upstream}
		targets[i] = &Target{
			Provider: p.Name, Upstream: t.Upstream, LastFour: key.LastFour, Adapter: key.Adapter, FirstContent: p.FirstContent,
			weight: float64(t.Weight) / float64(len(p.Keys)), load: r.loads[p.Name], log: log, header: []string{p.Name},
		}
		if r.health[at] == nil {
			r.health[at] = old.known(at)
			r.targets = append(r.targets, targets[i])
		}
		targets[i].health = r.health[at]
	}
	return targets
}

// known is the health of a place that was there before, or a new one.
func (r *Routes) known(at place) *Health {
	if r != nil && r.health[at] != nil {
		return r.health[at]
	}
	return &Health{}
}

// Standings is what is known of every target.
func (r *Routes) Standings(now time.Time) []Standing {
	all := make([]Standing, len(r.targets))
	for i, t := range r.targets {
		all[i] = t.Standing(now)
	}
	return all
}

// Of is what is known of a model's targets.
func (r *Routes) Of(m *catalog.Model, now time.Time) []Standing {
	rt := r.byModel[m]
	if rt == nil {
		return nil
	}
	all := make([]Standing, len(rt.targets))
	for i, t := range rt.targets {
		all[i] = t.Standing(now)
	}
	return all
}

// Tallies are the providers' counts.
func (r *Routes) Tallies() map[string]Tally {
	all := make(map[string]Tally, len(r.loads))
	for name, l := range r.loads {
		all[name] = Tally{Running: l.running.Load(), Answered: l.answered.Load(), Failed: l.failed.Load()}
	}
	return all
}
