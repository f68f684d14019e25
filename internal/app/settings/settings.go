// Package settings turns a configuration into what other packages need: plans, the catalog,
// providers with their adapters, routes, the video engines, and the site that the doctor examines.
//
// A Settings is everything that a reload replaces. It is built and checked beside the one in force,
// takes over the adapters of providers that have not changed, and is then swapped in. Package app
// decides when. Values that a reload cannot change, such as addresses, do not belong here.
package settings

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"sluice/api"
	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/api/httpapi"
	"sluice/internal/app/config"
	"sluice/internal/ledger/price"
	"sluice/internal/operate/admin"
	"sluice/internal/prompt/alias"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/discovery"
	"sluice/internal/upstream/routing"
	"sluice/internal/web/webui"
)

// Settings is what one configuration means. It does not change once requests are served with it, so
// they read it without a lock, and a request keeps the one that it started with.
type Settings struct {
	Config   *config.Config
	Found    *discovery.Found // models that nobody configured; never nil
	Revision string           // of the configured catalog; empty before Join

	Description *api.Description // what callers are told about the API; nil before Describe
	Plans       account.Plans
	Catalog     *catalog.Catalog // its models have no dates before Join, and the configured tiers before Tier
	Routes      *routing.Routes  // nil before Route
	Weights     *routing.Weights // what the router has learned; never nil

	Site webui.Site // how the pages look

	Book     *price.Book   // the prices of all models
	Imported []price.Taken // the part of them that operators have imported; see Import

	configured *catalog.Catalog  // the catalog without the decisions of staff
	upstreams  []upstream        // all providers except the sandbox
	kinds      map[string]string // see vendors
	markup     *price.Markup     // what customers are told in place of costs; nil: costs
}

// New makes settings from a configuration and from what was discovered; f is nil if nothing was yet.
// It has no side effects, so it also serves to check a configuration. The settings cannot serve
// requests before Connect, Import, Tier, Join, Route and Describe have been called, in this order.
func New(cfg *config.Config, f *discovery.Found) (*Settings, error) {
	if f == nil {
		f = &discovery.Found{}
	}
	s := &Settings{Config: cfg, Found: f, Plans: newPlans(cfg), upstreams: upstreams(cfg, f), kinds: vendors(cfg), markup: cfg.Markup.Price(), Weights: routing.NewWeights(cfg.Router.Weights)}
	// config.Load checks each part by itself. What can still be wrong shows when all models are put
	// together, such as an id that occurs twice.
	var err error
	if s.configured, err = s.newCatalog(); err != nil {
		return nil, err
	}
	s.Catalog = s.configured
	s.Site, err = newSite(cfg)
	return s, err
}

// newSite returns how the pages look. Reading the logo is its only effect.
func newSite(cfg *config.Config) (webui.Site, error) {
	c := &cfg.Site
	logo, kind, err := c.ReadLogo()
	if err != nil {
		return webui.Site{}, fmt.Errorf("site.logo: %w", err)
	}
	texts := webui.Site{Name: c.Name, Headline: c.Headline, Intro: c.Intro, Footer: c.Footer, Seller: newSeller(c), Sharing: c.Sharing}
	return webui.NewSite(texts, logo, kind, c.Accent, c.AccentDark)
}

// Seller returns who invoices are from that are issued now.
func (s *Settings) Seller() billing.Seller {
	seller := s.Site.Seller
	seller.Name = cmp.Or(seller.Name, s.Config.ShownName())
	return seller
}

// newSeller returns who invoices are from.
func newSeller(c *config.Site) billing.Seller {
	s := billing.Seller{Name: c.Seller, Address: strings.TrimSpace(c.SellerAddress), TaxID: c.SellerTaxID}
	for _, t := range c.Taxes {
		s.Taxes = append(s.Taxes, billing.Tax{Country: t.Country, WithTaxID: t.WithTaxID, Name: t.Name, Rate: int64(t.Percent), Note: t.Note})
	}
	return s
}

// Tier gives models the tiers that staff has decided on, in place of those of the configuration. Join and Route must
// follow.
func (s *Settings) Tier(tiers map[string]catalog.Tier) {
	s.Catalog = s.configured.Tiered(tiers, time.Now())
}

// Join records the catalog in the store and gives each model the date on which it first appeared.
// alone says that no other process can use the database. old are the settings that these replace;
// nil at the start of the process. See catalog.State.Record.
func (s *Settings) Join(ctx context.Context, store catalog.Store, alone bool, old *Settings) error {
	by := catalog.Process{Alone: alone}
	if old != nil {
		by.Was = old.Revision
	}
	dated, revision, err := s.Catalog.Join(ctx, store, by)
	if err == nil { // otherwise s stays as it was, and JoinLater can follow
		s.Catalog, s.Revision = dated, revision
	}
	return err
}

// JoinLater takes the place of Join while the database is down. Models keep the dates that they have
// in old, and new ones get the current time.
func (s *Settings) JoinLater(old *Settings) {
	s.Revision, s.Catalog = old.Revision, s.Catalog.DatedLike(old.Catalog, time.Now())
}

// Same reports whether two settings list the same models with the same dates, so that applying s
// would change nothing for callers.
func (s *Settings) Same(old *Settings) bool {
	return s.Revision == old.Revision && bytes.Equal(s.Catalog.JSON(true), old.Catalog.JSON(true))
}

// Health describes the health of a model in a word; see routing.Routes.Describe. It returns "" if
// that is not known, as in a command without a server.
func (s *Settings) Health(m *catalog.Model) string { return s.Routes.Describe(m, time.Now()) }

// Models returns where each model comes from and how healthy it is.
func (s *Settings) Models() []admin.ModelState { return admin.ModelStates(s.Catalog, s.Health) }

// HTTP returns the part of the settings that the API needs. Origin is where links of this server lead.
func (s *Settings) HTTP(origin string) httpapi.Settings {
	return httpapi.Settings{
		Description: s.Description, Catalog: s.Catalog, Routes: s.Routes, Scorer: routing.Estimate{Dial: s.Config.Router.Dial}, Weights: s.Weights, Feedback: s.Config.Router.Feedback, Plans: s.Plans,
		CORSOrigins: s.Config.CORSOrigins, TrustedProxies: s.Config.TrustedProxies, PublicURL: s.Config.PublicURL, Origin: origin, Support: s.Config.Support.String(),
	}
}

// Describe makes the description of the API, which has names of this server in it: its origin, its
// brand, and models as examples. If these are the same as in old, it takes over the description of
// old: making one takes time and memory. old is nil at the start of the process.
func (s *Settings) Describe(origin string, old *Settings) {
	names := api.Defaults()
	names.Origin, names.Brand, names.VideoModel = origin, s.Config.Brand, s.Config.Video.ModelID
	// The examples name sandbox models by default. Without the sandbox they would not work.
	if m, ok := s.Catalog.Lookup(api.Defaults().Model); !ok || !m.Sandbox {
		first, second := s.Catalog.Examples()
		names.Model, names.Other, names.Owner = first.ID, second.ID, first.OwnedBy
		names.Embedder = s.Catalog.Embedder()
	}
	names.Head, names.Top = s.Site.DressDocs(s.Config.ShownName())
	if old != nil && old.Description.Names == names {
		s.Description = old.Description
		return
	}
	s.Description = api.Describe(names)
}

// newPlans returns the built-in plans with the configured values in place of theirs.
func newPlans(cfg *config.Config) account.Plans {
	plans := account.BuiltinPlans()
	for name, over := range cfg.Plans {
		p, err := account.ParsePlan(name)
		if err != nil {
			continue // config.Load lets only known names pass
		}
		// What the configuration leaves out is nil and keeps its built-in value.
		t := &plans[p]
		t.Limits = t.Over(account.Overrides{
			RequestsPerMinute: limit(over.RequestsPerMinute),
			Concurrent:        limit(over.Concurrent),
			TokensPerMinute:   limit(over.TokensPerMinute),
		})
		if over.PriceUSD != nil {
			t.PriceCents = int64(*over.PriceUSD) / 10_000 // micro-dollars to cents
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

// limit converts a configured limit. It returns nil for nil: not configured.
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

// newCatalog returns the catalog: the router, the configured models, the discovered models, and the
// sandbox models, in this order. It is the order in which they are listed.
func (s *Settings) newCatalog() (*catalog.Catalog, error) {
	models := []catalog.Model{catalog.Router(s.Config.Brand)}
	known, err := discovery.NewDescriber()
	if err != nil {
		return nil, err
	}
	for i := range s.Config.Models {
		m, err := newModel(&s.Config.Models[i])
		if err != nil {
			return nil, err
		}
		m.Vanished = s.Found.Vanished(&m)
		known.Complete(&m, s.kinds, s.Found)
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
	// One target inside the operator's network is enough: any target may get the request.
	inside := insideProviders(s.upstreams)
	aliases, err := alias.New(s.Config.Aliases)
	if err != nil {
		return nil, err
	}
	if s.Book, err = s.newBook(models); err != nil {
		return nil, err
	}
	for i := range models {
		models[i].Aliases = aliases.Of(models[i].ID)
		s.price(&models[i])
		models[i].NoImageURLs = slices.ContainsFunc(models[i].Places(), func(t catalog.Target) bool { return inside[t.Provider] })
	}
	return catalog.New(models)
}

// vendors returns the kinds of the providers by their names. Of a provider with an address of its own nobody knows which
// models it has, whatever their names: it has no kind.
func vendors(cfg *config.Config) map[string]string {
	kinds := map[string]string{}
	for i := range cfg.Providers {
		if p := &cfg.Providers[i]; p.AtVendor() {
			kinds[p.Name] = p.Kind
		}
	}
	for _, f := range cfg.Found() {
		kinds[f.Name] = f.Kind
	}
	return kinds
}

// CacheKind returns the kind of a provider whose caches are those of the vendor; empty if they may be of any server. A provider of
// another vendor's kind is most likely a proxy before it, while many servers speak OpenAI's dialect.
func (s *Settings) CacheKind(provider string) string {
	for i := range s.Config.Providers {
		if p := &s.Config.Providers[i]; p.Name == provider && (p.AtVendor() || p.Kind != "openai") {
			return p.Kind
		}
	}
	return s.kinds[provider]
}

// newModel returns a configured model. config.Load has checked that it has a target, and that the
// plan and the date are valid.
func newModel(c *config.Model) (catalog.Model, error) {
	plan, err := account.ParsePlan(c.Plan)
	if err != nil {
		return catalog.Model{}, err
	}
	m := catalog.Model{
		ID: c.ID, OwnedBy: c.OwnedBy, Description: c.Description,
		Plan: plan, RequestMilli: int64(c.RequestMultiplier), UnitMilli: int64(c.RequestMultiplier),
		ContextLength: c.ContextLength, MaxOutput: c.MaxOutput,
		Embeds:      c.Kind == "embedding",
		ToolCalling: c.ToolCalling, Thinks: c.Reasoning, Images: true, NoJSON: !c.JSONMode, Origin: catalog.Configured,
		Allow: c.Allow, Affinity: catalog.Affinity(c.Affinity), AutoCache: c.AutoCache,
		Provider: c.Targets[0].Provider, Upstream: c.Targets[0].Upstream, Fallbacks: c.Fallbacks,
	}
	for _, t := range c.Targets {
		m.Targets = append(m.Targets, catalog.Target{Provider: t.Provider, Upstream: t.Upstream, Weight: t.Weight})
	}
	if day, err := c.CreatedAt(); err != nil {
		return catalog.Model{}, err
	} else if !day.IsZero() {
		m.Created = day.Unix()
	}
	if m.Shutdown, err = c.ShutdownAt(); err != nil {
		return catalog.Model{}, err
	}
	for _, e := range c.Efforts {
		m.Efforts = append(m.Efforts, chat.Effort(e))
	}
	if m.OwnedBy == "" {
		m.OwnedBy = m.Provider
	}
	for t := range m.Quality { // one value for every kind of task
		m.Quality[t] = uint8(c.Quality)
	}
	if c.UnitCost != nil { // otherwise a call costs as many units as requests
		m.UnitMilli = int64(*c.UnitCost)
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
