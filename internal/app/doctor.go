package app

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"sluice/internal/app/config"
	"sluice/internal/app/settings"
	"sluice/internal/ledger/admission/redisledger"
	"sluice/internal/operate/doctor"
	"sluice/internal/store/sqlstore"
	"sluice/internal/upstream/provider"
)

// Examine describes the site of a configuration to the doctor and returns its findings. It changes
// nothing and needs no server.
func Examine(ctx context.Context, cfg *config.Config) []doctor.Finding {
	return doctor.Examine(ctx, siteOf(cfg))
}

// examine is Examine for this server itself: its configuration, with the variables that it was started with, its address
// and the models that it has discovered. version is that of the program that asks.
func (a *App) examine(ctx context.Context, version string) any {
	s := a.settings.Load()
	running := a.status(ctx)
	site := siteOf(s.Config)
	site.Running, site.Program, site.Listen, site.Origin = &running, version, a.Addr(), a.Origin()
	if why := a.refused.Load(); why != nil {
		site.Refused = *why
	}
	site.Models = func() (doctor.Models, error) { return countModels(s), nil }
	return doctor.Examine(ctx, site)
}

// CheckUpgrade returns what would happen if this program served the site of a configuration. It changes
// nothing.
func CheckUpgrade(ctx context.Context, cfg *config.Config) []doctor.Finding {
	return doctor.Upgrade(ctx, siteOf(cfg))
}

// siteOf describes the site of a configuration.
func siteOf(cfg *config.Config) *doctor.Site {
	site := &doctor.Site{
		File: cfg.File(), Warnings: cfg.Warnings(), Data: cfg.Data, Secret: cfg.Secret.Reveal(),
		Approximate: cfg.Cluster == "approximate" && cfg.Database != "sqlite",
		Listen:      cfg.Listen, Origin: cfg.Origin(), Doors: cfg.ImpliedDoors(),
		Database: doctor.Database{
			SQLite: cfg.Database == "sqlite", File: sqlstore.File,
			Inspect: func(ctx context.Context) (doctor.Inspection, error) { return inspect(ctx, cfg) },
			Check: func(ctx context.Context, patience time.Duration) (bool, error) {
				return sqlstore.CheckPages(ctx, cfg.Data, patience)
			},
		},
		Models: func() (doctor.Models, error) {
			s, err := settings.New(cfg, nil)
			if err != nil {
				return doctor.Models{}, err
			}
			return countModels(s), nil
		},
	}
	if cfg.Redis != "" && cfg.Database != "sqlite" {
		site.Redis = func(ctx context.Context) (doctor.Redis, error) {
			in, err := redisledger.Inspect(ctx, cfg.Redis.Reveal())
			return doctor.Redis{Name: in.Name, Version: in.Version, Evicts: in.Evicts}, err
		}
	}
	if cfg.TLS.Enabled() {
		site.Certificate = cfg.TLS.Cert
	}
	// Each key gets an adapter of its own, made as a server would make it, but without a pulse: the
	// doctor has a deadline instead.
	for i := range cfg.Providers {
		c := &cfg.Providers[i]
		p := doctor.Provider{Name: c.Name, Where: cmp.Or(config.WithoutSecrets(c.BaseURL), c.Kind)}
		for _, key := range c.Keys() {
			p.Keys = append(p.Keys, doctor.Key{
				Secret: key.Reveal(), Shown: key.String(),
				Connect: func(t http.RoundTripper) (provider.Adapter, error) { return settings.NewAdapter(c, key, t, nil) },
			})
		}
		site.Providers = append(site.Providers, p)
	}
	return site
}

// inspect translates what the store says about the database, so that the doctor need not know it.
func inspect(ctx context.Context, cfg *config.Config) (doctor.Inspection, error) {
	in, err := sqlstore.Inspect(ctx, cfg.Database, cfg.Data)
	return doctor.Inspection{
		Engine: string(in.Engine), Version: in.Version, Known: in.Known, Sealed: in.Sealed != nil, Unserved: in.Unserved,
		Calls: in.Calls, Takes: in.Takes(),
		Opens: func(secret string) bool { return sqlstore.Opens(in.Sealed, secret) },
	}, err
}

// countModels counts the models of settings. Those that nobody configured were discovered, which only a server does.
func countModels(s *settings.Settings) doctor.Models {
	m := doctor.Models{Configured: len(s.Config.Models), Router: s.Config.RouterID()}
	for _, model := range s.Catalog.Models() {
		configured := slices.ContainsFunc(s.Config.Models, func(c config.Model) bool { return c.ID == model.ID })
		switch {
		case model.Sandbox:
			m.Sandbox++
		case !configured && !model.Router:
			m.Discovered++
		}
	}
	return m
}
