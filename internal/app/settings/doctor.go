package settings

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"time"

	"sluice/internal/app/config"
	"sluice/internal/ledger/admission/redisledger"
	"sluice/internal/ledger/price"
	"sluice/internal/operate/doctor"
	"sluice/internal/store/sqlstore"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/replicas"
)

// Examined describes the site of a configuration to the doctor, as it is without a server.
func Examined(cfg *config.Config) *doctor.Site {
	sqlite := cfg.Database == "sqlite"
	site := &doctor.Site{
		File: cfg.File(), Warnings: cfg.Warnings(), Changes: cfg.Changes, Data: cfg.Data, Secret: cfg.Secret.Reveal(),
		Approximate: cfg.Cluster == "approximate" && !sqlite,
		Listen:      cfg.Listen, Origin: cfg.Origin(), Doors: cfg.ImpliedDoors(),
		Database: doctor.Database{
			SQLite: sqlite, File: sqlstore.File,
			Inspect: func(ctx context.Context) (doctor.Inspection, error) { return inspect(ctx, cfg) },
			Check: func(ctx context.Context, patience time.Duration) (bool, error) {
				return sqlstore.CheckPages(ctx, cfg.Data, patience)
			},
		},
		Models: func() (doctor.Models, error) {
			s, err := New(cfg, nil)
			if err != nil {
				return doctor.Models{}, err
			}
			return s.Counted(), nil
		},
	}
	if cfg.Redis != "" && !sqlite {
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
		names := replicas.NewNames(nil, slog.New(slog.DiscardHandler)) // what cannot be looked up cannot be reached, which is reported
		names.Learn(context.Background(), c.Sources())
		for _, at := range c.Places(names) {
			site.Providers = append(site.Providers, examined(c, at))
		}
	}
	return site
}

// examined describes one server of a provider to the doctor.
func examined(c *config.Provider, at replicas.Place) doctor.Provider {
	p := doctor.Provider{Name: c.Name, Where: cmp.Or(config.WithoutSecrets(at.Base), c.Kind), Address: at.Address, Replica: at.Name}
	if at.Address != "" {
		p.Where += " at " + at.Address
	}
	there := *c
	there.BaseURL = at.Base
	for _, key := range c.Keys() {
		p.Keys = append(p.Keys, doctor.Key{
			Secret: key.Reveal(), Shown: key.String(),
			Connect: func(t http.RoundTripper) (provider.Adapter, error) { return NewAdapter(&there, key, t, nil, nil) },
		})
	}
	return p
}

// Counted returns what the doctor must know of the models and their prices.
func (s *Settings) Counted() doctor.Models {
	m := doctor.CountModels(s.Catalog)
	m.Aged = s.Book.Aging(time.Now())
	_, m.List = price.Listed()
	return m
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
