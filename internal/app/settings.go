package app

import (
	"cmp"
	"log/slog"
	"slices"
	"strings"

	"sluice/api"
	"sluice/internal/account"
	"sluice/internal/catalog"
	"sluice/internal/config"
	"sluice/internal/httpapi"
	"sluice/internal/routing"
)

// settings is what one configuration means to the capabilities: everything a reload replaces.
type settings struct {
	config  *config.Config
	found   *found // beside the configuration
	version string // of the configured catalog

	description *api.Description // what callers are told of the API
	plans       account.Plans
	catalog     *catalog.Catalog

	upstreams []config.Provider  // all providers but the sandbox
	providers []routing.Provider // the sandbox, then the upstreams
	routes    *routing.Routes
}

// newSettings makes settings of a configuration and of what was found beside it; nil: nothing yet.
func newSettings(cfg *config.Config, f *found) (*settings, error) {
	if f == nil {
		f = &found{}
	}
	c, err := newCatalog(cfg, f)
	if err != nil {
		return nil, err
	}
	return &settings{config: cfg, found: f, plans: newPlans(cfg), catalog: c, upstreams: upstreams(cfg, f)}, nil
}

// http is the part that the front door reads.
func (s *settings) http() httpapi.Settings {
	return httpapi.Settings{Description: s.description, Catalog: s.catalog, Routes: s.routes, Scorer: routing.Estimate{Dial: s.config.Router.Dial}, Plans: s.plans, CORSOrigins: s.config.CORSOrigins, TrustedProxies: s.config.TrustedProxies, PublicURL: s.config.PublicURL}
}

// describe makes the description of the API, unless that of the old settings has the same names.
func (s *settings) describe(origin string, old *settings) {
	names := api.Names{Origin: origin, Brand: s.config.Brand, VideoModel: s.config.Video.ModelID}
	names.Model, names.Other, names.Owner = examples(s.catalog)
	if old != nil && old.description.Names == names {
		s.description = old.description
		return
	}
	s.description = api.Describe(names)
}

// examples are two models for examples to call, and the owner of the first: built-in ones where there are
// any, then such as need the lowest plan. Where there is none, it is the router.
func examples(c *catalog.Catalog) (first, second, owner string) {
	if m, ok := c.Lookup(api.Defaults().Model); ok && m.Sandbox {
		d := api.Defaults()
		return d.Model, d.Other, d.Owner
	}
	var fit []*catalog.Model
	for _, m := range c.Models() {
		if !m.Router && !m.StaffOnly && !m.Vanished && !strings.ContainsFunc(m.ID, needsQuoting) {
			fit = append(fit, m)
		}
	}
	slices.SortStableFunc(fit, func(a, b *catalog.Model) int { return cmp.Compare(a.Plan, b.Plan) })
	if len(fit) == 0 {
		router := c.Models()[0]
		return router.ID, router.ID, router.OwnedBy
	}
	return fit[0].ID, fit[len(fit)-1].ID, fit[0].OwnedBy
}

// needsQuoting reports whether a character means something to a shell, JSON or HTML.
func needsQuoting(c rune) bool {
	return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-._:/@", c))
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
func newCatalog(cfg *config.Config, f *found) (*catalog.Catalog, error) {
	models := []catalog.Model{catalog.Router(cfg.Brand)}
	for i := range cfg.Models {
		m, err := newModel(&cfg.Models[i])
		if err != nil {
			return nil, err
		}
		m.Vanished = f.vanished(&m)
		models = append(models, m)
	}
	more, err := discovered(cfg, f)
	if err != nil {
		return nil, err
	}
	models = append(models, more...)
	if cfg.Sandbox {
		models = append(models, catalog.Sandbox()...)
	}
	inside := insideProviders(cfg, f)
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
