package app

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"sluice/internal/config"
)

// Reload reads the configuration again. A good one applies to every request that arrives from then
// on; a bad one is returned as an error and changes nothing.
func (a *App) Reload() error {
	a.reloadMu.Lock()
	defer a.reloadMu.Unlock()
	err := a.reload()
	a.metrics.Reloaded(err == nil)
	if err != nil {
		a.log.Error("the new configuration was refused; the old one stays", "error", err.Error())
		return err
	}
	a.log.Info("configuration reloaded", "models", len(a.settings.Load().catalog.Models()))
	return nil
}

func (a *App) reload() error {
	if a.opts.Load == nil {
		return errors.New("there is nothing to reload from")
	}
	cfg, err := a.opts.Load()
	if err != nil {
		return err
	}
	old := a.settings.Load()
	restart := cfg.RestartNeeded(old.config)
	cfg.Brand = old.config.Brand // keys and the router's id change together, at a start
	s, err := newSettings(cfg, old.found)
	if err != nil {
		return err
	}
	if err := s.connect(old, a.pulse); err != nil {
		return err
	}
	if err := a.loadCertificate(context.Background(), cfg); err != nil {
		return err
	}
	if len(restart) > 0 {
		a.log.Warn("some changes take effect at the next start only", "fields", restart)
	}
	a.warn(cfg)
	a.setLevel(cfg)
	a.joinCatalog(old, s)
	a.apply(old, s)
	return nil
}

// warn logs what is legal in a configuration but probably not meant.
func (a *App) warn(cfg *config.Config) {
	for _, w := range cfg.Warnings() {
		a.log.Warn("configuration", "warning", w)
	}
}

func (a *App) setLevel(cfg *config.Config) {
	if a.opts.Level != nil {
		a.opts.Level.Set(logLevel(cfg.Log.Level))
	}
}

// apply makes the settings those of everything that begins from now on.
func (a *App) apply(old, s *settings) {
	s.describe(a.origin(s.config), old)
	a.settings.Store(s)
	a.api.Apply(s.http())
	a.videos.Apply(a.videoSettings(s))
	old.disconnect(s)
}

// joinCatalog records the catalog of new settings and makes their routes. A reload does not depend on the database:
// while that is away, new models have the time of the reload, and keepCatalog makes up for it.
func (a *App) joinCatalog(old, s *settings) {
	if err := s.join(context.Background(), a.facts.store, old); err != nil {
		a.log.Warn("the changes of the catalog could not be stored; they will be soon", "error", err.Error())
		s.revision, s.catalog = old.revision, s.catalog.DatedLike(old.catalog, time.Now())
	}
	s.route(old, a.log)
}

// keepCatalog tells the database which catalog runs here, and logs the changes that were held back: see
// catalog.State.Record.
func (a *App) keepCatalog() {
	a.reloadMu.Lock()
	defer a.reloadMu.Unlock()
	old := a.settings.Load()
	next := *old
	if err := next.join(context.Background(), a.facts.store, old); err != nil {
		a.log.Warn("the database was not told of the catalog", "error", err.Error())
		return
	}
	if next.revision == old.revision && bytes.Equal(next.catalog.JSON(true), old.catalog.JSON(true)) {
		return
	}
	next.route(old, a.log)
	a.apply(old, &next)
}

// loadCertificate reads the certificate for new connections.
func (a *App) loadCertificate(_ context.Context, cfg *config.Config) error {
	if !cfg.TLS.Enabled() {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(cfg.TLS.Cert, cfg.TLS.Key)
	if err != nil {
		return fmt.Errorf("tls: %w", err)
	}
	a.cert.Store(&pair)
	return nil
}

// watch reloads when the configuration file or the certificate changes on disk.
func (a *App) watch(ctx context.Context) {
	if a.opts.Load == nil {
		return
	}
	config.Watch(ctx, a.seen, func() *config.Config { return a.settings.Load().config }, func() {
		_ = a.Reload() // logged there
	})
}
