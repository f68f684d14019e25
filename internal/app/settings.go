package app

import (
	"fmt"
	"log/slog"

	"sluice/internal/account"
	"sluice/internal/catalog"
	"sluice/internal/config"
	"sluice/internal/httpapi"
	"sluice/internal/provider"
	"sluice/internal/provider/openai"
	"sluice/internal/provider/sandbox"
	"sluice/internal/pulse"
)

// settings is what one configuration means to the capabilities: everything a reload replaces.
type settings struct {
	config  *config.Config
	plans   account.Plans
	catalog *catalog.Catalog

	adapters map[string]provider.Adapter // by provider name
}

func newSettings(cfg *config.Config) (*settings, error) {
	c, err := newCatalog(cfg)
	if err != nil {
		return nil, err
	}
	return &settings{config: cfg, plans: newPlans(cfg), catalog: c}, nil
}

// http is the part that the front door reads.
func (s *settings) http() httpapi.Settings {
	return httpapi.Settings{Catalog: s.catalog, Adapters: s.adapters, Plans: s.plans, CORSOrigins: s.config.CORSOrigins, TrustedProxies: s.config.TrustedProxies}
}

// connect makes the adapters. A provider that is the same as in the old settings keeps its adapter,
// and with it its open connections.
func (s *settings) connect(old *settings, p *pulse.Pulse) error {
	s.adapters = map[string]provider.Adapter{catalog.SandboxProvider: sandbox.New()}
	for i := range s.config.Providers {
		c := &s.config.Providers[i]
		if kept := old.adapter(c); kept != nil {
			s.adapters[c.Name] = kept
			continue
		}
		a, err := openai.New(c.BaseURL, &openai.Options{APIKey: c.APIKey.Reveal(), Pulse: p})
		if err != nil {
			return fmt.Errorf("provider %s: %w", c.Name, err)
		}
		s.adapters[c.Name] = a
	}
	return nil
}

// adapter is that of an equal provider, or nil.
func (s *settings) adapter(c *config.Provider) provider.Adapter {
	if s == nil {
		return nil
	}
	for i := range s.config.Providers {
		if s.config.Providers[i] == *c {
			return s.adapters[c.Name]
		}
	}
	return nil
}

// disconnect lets the adapters go that the next settings do not use; nil: there are none to come.
func (s *settings) disconnect(next *settings) {
	for name, a := range s.adapters {
		upstream, ok := a.(*openai.Adapter)
		switch {
		case !ok:
		case next == nil:
			upstream.Close()
		case next.adapters[name] != a:
			upstream.Retire()
		}
	}
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

// newCatalog lists the router, then the configured models, then the sandbox.
func newCatalog(cfg *config.Config) (*catalog.Catalog, error) {
	models := []catalog.Model{catalog.Router(cfg.Brand)}
	for i := range cfg.Models {
		m, err := newModel(&cfg.Models[i])
		if err != nil {
			return nil, err
		}
		models = append(models, m)
	}
	if cfg.Sandbox {
		models = append(models, catalog.Sandbox()...)
	}
	return catalog.New(models)
}

func newModel(c *config.Model) (catalog.Model, error) {
	plan, err := account.ParsePlan(c.Plan)
	if err != nil {
		return catalog.Model{}, err
	}
	m := catalog.Model{
		ID: c.ID, OwnedBy: c.OwnedBy, Created: catalog.Since, Description: c.Description,
		Plan: plan, RequestMilli: int64(c.RequestMultiplier), UnitMilli: int64(c.RequestMultiplier),
		ContextLength: c.ContextLength, MaxOutput: c.MaxOutput,
		ToolCalling: c.ToolCalling, Thinks: c.Reasoning, Images: true,
		Provider: c.Provider, Upstream: c.Upstream,
	}
	if m.OwnedBy == "" {
		m.OwnedBy = c.Provider
	}
	if m.Upstream == "" {
		m.Upstream = c.ID
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
