// Package settings turns a configuration into what the capabilities need: plans, the catalog, providers with their
// adapters, routes, and the video engines.
//
// A Settings is everything that a reload replaces. It is built and checked beside the one in force, takes over the
// adapters that stay the same, and is then swapped in. When that happens is decided in app.
package settings

import (
	"bytes"
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
)

// Settings is what one configuration means to the capabilities. It does not change once requests are served with it.
type Settings struct {
	Config   *config.Config
	Found    *discovery.Found // beside the configuration
	Revision string           // of the configured catalog

	Description *api.Description // what callers are told about the API
	Plans       account.Plans
	Catalog     *catalog.Catalog
	Routes      *routing.Routes // nil before Route

	upstreams []upstream // all providers but the sandbox
}

// New makes settings from a configuration and what was found beside it, nil if nothing was yet. They cannot serve
// requests before Connect, Join, Route and Describe, in this order.
func New(cfg *config.Config, f *discovery.Found) (*Settings, error) {
	if f == nil {
		f = &discovery.Found{}
	}
	s := &Settings{Config: cfg, Found: f, Plans: newPlans(cfg), upstreams: upstreams(cfg, f)}
	var err error
	if s.Catalog, err = s.newCatalog(); err != nil {
		return nil, err
	}
	return s, nil
}

// Join records the catalog in the store and dates its models. Alone says that no other process can run on the
// database. Old is nil at the start.
func (s *Settings) Join(ctx context.Context, store catalog.Store, alone bool, old *Settings) error {
	by := catalog.Process{Alone: alone}
	if old != nil {
		by.Was = old.Revision
	}
	dated, revision, err := s.Catalog.Join(ctx, store, by)
	if err == nil {
		s.Catalog, s.Revision = dated, revision
	}
	return err
}

// JoinLater stands in for Join while the database is away: new models have the present date.
func (s *Settings) JoinLater(old *Settings) {
	s.Revision, s.Catalog = old.Revision, s.Catalog.DatedLike(old.Catalog, time.Now())
}

// Same reports whether two settings list the same models.
func (s *Settings) Same(old *Settings) bool {
	return s.Revision == old.Revision && bytes.Equal(s.Catalog.JSON(true), old.Catalog.JSON(true))
}

// Health says how well a model is; empty if that is not known.
func (s *Settings) Health(m *catalog.Model) string { return s.Routes.Describe(m, time.Now()) }

// Standing returns where the models come from and how well they are.
func (s *Settings) Standing() []admin.ModelStanding { return admin.Standings(s.Catalog, s.Health) }

// HTTP returns the part that the front door reads.
func (s *Settings) HTTP() httpapi.Settings {
	return httpapi.Settings{
		Description: s.Description, Catalog: s.Catalog, Routes: s.Routes, Scorer: routing.Estimate{Dial: s.Config.Router.Dial}, Plans: s.Plans,
		CORSOrigins: s.Config.CORSOrigins, TrustedProxies: s.Config.TrustedProxies, PublicURL: s.Config.PublicURL,
	}
}

// Describe makes the description of the API. It takes that of the old settings over if the names in it are the same.
func (s *Settings) Describe(origin string, old *Settings) {
	names := api.Defaults()
	names.Origin, names.Brand, names.VideoModel = origin, s.Config.Brand, s.Config.Video.ModelID
	if m, ok := s.Catalog.Lookup(api.Defaults().Model); !ok || !m.Sandbox { // without the sandbox, its models are no example
		first, second := s.Catalog.Examples()
		names.Model, names.Other, names.Owner = first.ID, second.ID, first.OwnedBy
	}
	if old != nil && old.Description.Names == names {
		s.Description = old.Description
		return
	}
	s.Description = api.Describe(names)
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
func (s *Settings) newCatalog() (*catalog.Catalog, error) {
	models := []catalog.Model{catalog.Router(s.Config.Brand)}
	for i := range s.Config.Models {
		m, err := newModel(&s.Config.Models[i])
		if err != nil {
			return nil, err
		}
		m.Vanished = s.Found.Vanished(&m)
		models = append(models, m)
	}
	more, err := s.Found.Models(sources(s.Config, s.Found), models[1:])
	if err != nil {
		return nil, err
	}
	models = append(models, more...)
	if s.Config.Sandbox {
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

// LogLevel returns the configured log level.
func (s *Settings) LogLevel() slog.Level {
	var l slog.Level
	if l.UnmarshalText([]byte(s.Config.Log.Level)) != nil {
		return slog.LevelInfo // config.Load lets only known names pass
	}
	return l
}
