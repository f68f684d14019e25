package app

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"sluice/api"
	"sluice/internal/account"
	"sluice/internal/admin"
	"sluice/internal/catalog"
	"sluice/internal/config"
	"sluice/internal/discovery"
	"sluice/internal/httpapi"
	"sluice/internal/routing"
	"sluice/internal/sqlstore"
)

// settings is what one configuration means to the capabilities: everything that a reload replaces. It does not
// change once it is stored in App.settings.
type settings struct {
	config   *config.Config
	found    *discovery.Found // beside the configuration
	revision string           // of the configured catalog

	description *api.Description // what callers are told about the API
	plans       account.Plans
	catalog     *catalog.Catalog

	upstreams []upstream      // all providers but the sandbox
	routes    *routing.Routes // nil before route
}

// newSettings makes settings from a configuration and what was found beside it, nil if nothing was yet. They cannot
// serve requests before connect, join, route and describe, in this order.
func newSettings(cfg *config.Config, f *discovery.Found) (*settings, error) {
	if f == nil {
		f = &discovery.Found{}
	}
	s := &settings{config: cfg, found: f, plans: newPlans(cfg), upstreams: upstreams(cfg, f)}
	var err error
	s.catalog, err = s.newCatalog()
	return s, err
}

// join records the catalog in the database and dates its models. Old is nil at the start.
func (s *settings) join(ctx context.Context, store *sqlstore.Store, old *settings) error {
	by := catalog.Process{Alone: store.Engine() == sqlstore.SQLite} // its folder is locked
	if old != nil {
		by.Was = old.revision
	}
	dated, revision, err := s.catalog.Join(ctx, store, by)
	if err == nil {
		s.catalog, s.revision = dated, revision
	}
	return err
}

// health says how well a model is; empty if that is not known.
func (s *settings) health(m *catalog.Model) string { return s.routes.Describe(m, time.Now()) }

// standing returns where the models come from and how well they are.
func (s *settings) standing() []admin.ModelStanding { return admin.Standings(s.catalog, s.health) }

// http returns the part that the front door reads.
func (s *settings) http() httpapi.Settings {
	return httpapi.Settings{
		Description: s.description, Catalog: s.catalog, Routes: s.routes, Scorer: routing.Estimate{Dial: s.config.Router.Dial}, Plans: s.plans,
		CORSOrigins: s.config.CORSOrigins, TrustedProxies: s.config.TrustedProxies, PublicURL: s.config.PublicURL,
	}
}

// describe makes the description of the API. It takes that of the old settings over if the names in it are the same.
func (s *settings) describe(origin string, old *settings) {
	names := api.Defaults()
	names.Origin, names.Brand, names.VideoModel = origin, s.config.Brand, s.config.Video.ModelID
	if m, ok := s.catalog.Lookup(api.Defaults().Model); !ok || !m.Sandbox { // without the sandbox, its models are no example
		first, second := s.catalog.Examples()
		names.Model, names.Other, names.Owner = first.ID, second.ID, first.OwnedBy
	}
	if old != nil && old.description.Names == names {
		s.description = old.description
		return
	}
	s.description = api.Describe(names)
}

// newPlans lays the configured overrides over the built-in table.
func newPlans(cfg *config.Config) account.Plans {
	plans := account.BuiltinPlans()
	for name, over := range cfg.Plans {
		p, err := account.ParsePlan(name)
		if err != nil {
			continue // config.Load lets only known names pass
		}
		t := &plans[p]
		t.Limits = t.Over(account.Overrides{
			RequestsPerMinute: limit(over.RequestsPerMinute),
			Concurrent:        limit(over.Concurrent),
			TokensPerMinute:   limit(over.TokensPerMinute),
		})
		if over.PriceUSD != nil {
			t.PriceCents = int64(*over.PriceUSD) / 10_000
		}
		if over.MonthlyUnits != nil {
			t.MonthlyUnits = *limit(over.MonthlyUnits)
		}
		if over.UnfinishedVideos != nil {
			t.UnfinishedVideos = *limit(over.UnfinishedVideos)
		}
	}
	return plans
}

func limit(l *config.Limit) *account.Limit {
	if l == nil {
		return nil
	}
	v := account.Limit(*l)
	if *l == config.Unlimited {
		v = account.Unlimited
	}
	return &v
}

// newCatalog lists the router, then the configured models, those found beside them, and the sandbox.
func (s *settings) newCatalog() (*catalog.Catalog, error) {
	models := []catalog.Model{catalog.Router(s.config.Brand)}
	for i := range s.config.Models {
		m, err := newModel(&s.config.Models[i])
		if err != nil {
			return nil, err
		}
		m.Vanished = s.found.Vanished(&m)
		models = append(models, m)
	}
	more, err := s.found.Models(sources(s.config, s.found), models[1:])
	if err != nil {
		return nil, err
	}
	models = append(models, more...)
	if s.config.Sandbox {
		models = append(models, catalog.Sandbox()...)
	}
	inside := insideProviders(s.upstreams)
	for i := range models {
		models[i].NoImageURLs = slices.ContainsFunc(models[i].Places(), func(t catalog.Target) bool { return inside[t.Provider] })
	}
	return catalog.New(models)
}

func newModel(c *config.Model) (catalog.Model, error) {
	plan, err := account.ParsePlan(c.Plan)
	if err != nil {
		return catalog.Model{}, err
	}
	m := catalog.Model{
		ID: c.ID, OwnedBy: c.OwnedBy, Description: c.Description,
		Plan: plan, RequestMilli: int64(c.RequestMultiplier), UnitMilli: int64(c.RequestMultiplier),
		ContextLength: c.ContextLength, MaxOutput: c.MaxOutput,
		ToolCalling: c.ToolCalling, Thinks: c.Reasoning, Images: true, NoJSON: !c.JSONMode, Origin: catalog.Configured,
		Provider: c.Targets[0].Provider, Upstream: c.Targets[0].Upstream, Fallbacks: c.Fallbacks,
	}
	for _, t := range c.Targets {
		m.Targets = append(m.Targets, catalog.Target(t))
	}
	if day, err := c.CreatedAt(); err != nil {
		return catalog.Model{}, err
	} else if !day.IsZero() {
		m.Created = day.Unix()
	}
	if m.OwnedBy == "" {
		m.OwnedBy = m.Provider
	}
	for t := range m.Quality {
		m.Quality[t] = uint8(c.Quality)
	}
	if c.UnitCost != nil {
		m.UnitMilli = int64(*c.UnitCost)
	}
	if p := c.Pricing; p != nil {
		m.Pricing = &catalog.Pricing{
			Input: (*int64)(p.Input), Output: (*int64)(p.Output), Cached: (*int64)(p.Cached), Reasoning: (*int64)(p.Reasoning),
		}
	}
	return m, nil
}

func logLevel(name string) slog.Level {
	var l slog.Level
	if l.UnmarshalText([]byte(name)) != nil {
		return slog.LevelInfo // config.Load lets only known names pass
	}
	return l
}
