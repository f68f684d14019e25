package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	"sluice/internal/app/config"
	"sluice/internal/app/settings"
	"sluice/internal/kit/pace"
	"sluice/internal/upstream/catalog"
)

// Reload reads the configuration again. If it is valid, it applies to every request that arrives
// from then on; running requests keep the old one. If it is invalid, Reload returns an error and
// changes nothing. Settings that need a restart are logged and stay as they are.
func (a *App) Reload() error {
	a.reloadMu.Lock()
	defer a.reloadMu.Unlock()
	err := a.reload()
	if err != nil {
		if a.onDisk.Refuse(err) {
			a.metrics.Reloaded(false)
			a.log.Error("the new configuration was refused; the old one stays", "error", err.Error())
		}
		return err
	}
	a.onDisk.Accept()
	a.metrics.Reloaded(true)
	a.log.Info("configuration reloaded", "models", len(a.settings.Load().Catalog.Models()))
	return nil
}

// reload does everything that can fail before it changes anything. The caller holds reloadMu.
func (a *App) reload() error {
	if a.opts.Load == nil {
		return errors.New("there is no configuration to reload")
	}
	cfg, err := a.opts.Load()
	if err != nil {
		return err
	}
	old := a.settings.Load()
	if err := cfg.Replaces(old.Config); err != nil {
		return err
	}
	restart := cfg.RestartNeeded(a.begun) // and not with the last one: what waits must keep waiting
	cfg.Brand = old.Config.Brand          // keys and the router's id change together, at a start
	s, err := settings.New(cfg, old.Found)
	if err != nil {
		return err
	}
	a.names.Learn(context.Background(), s.Sources())
	if err := s.Connect(old, a.shared()); err != nil {
		return err
	}
	if err := a.loadCertificate(context.Background(), cfg); err != nil {
		return err
	}
	// Nothing below fails.
	a.onDisk.Wait(restart)
	if len(restart) > 0 {
		a.log.Warn("some changes take effect only at the next start", "fields", restart)
	}
	a.warn(cfg)
	s.Weights.Check(a.log)
	a.setLevel(s)
	if a.tracer != nil {
		a.tracer.Set(s.Sampling())
	}
	a.joinCatalog(old, s)
	a.apply(old, s)
	return nil
}

// warn logs what is valid in a configuration but probably a mistake.
func (a *App) warn(cfg *config.Config) {
	for _, w := range cfg.Warnings() {
		a.log.Warn("configuration", "warning", w)
	}
}

// setLevel applies the configured log level.
func (a *App) setLevel(s *settings.Settings) {
	if a.opts.Level != nil {
		a.opts.Level.Set(s.LogLevel())
	}
}

// apply puts the settings s in force for every request and video job that starts from now on, and
// disconnects the providers that only old used. The caller holds reloadMu. After that s must not
// change any more.
func (a *App) apply(old, s *settings.Settings) {
	s.Describe(a.origin(s.Config), old)
	a.settings.Store(s)
	a.api.Apply(s.HTTP(a.origin(s.Config)))
	a.videos.Apply(a.videoSettings(s))
	old.Disconnect(s)
}

// joinCatalog records the catalog of new settings and makes their routes. A reload must work while
// the database is down: then new models get the time of the reload as their date, and keepCatalog
// records them later.
func (a *App) joinCatalog(old, s *settings.Settings) {
	if err := s.Import(a.imported.all()); err != nil {
		a.log.Error("imported prices could not be used", "error", err.Error())
	}
	s.Tier(a.helm.Tiers())
	err := s.Join(context.Background(), a.facts.stores.service, a.facts.alone(), old)
	if err != nil {
		s.JoinLater(old)
	} else {
		err = a.recordPrices(context.Background(), s)
	}
	if err != nil {
		a.log.Warn("changes of the catalog could not be stored yet; they will be retried", "error", err.Error())
	}
	s.Route(old, a.helm.Drained, a.log)
}

// keepCatalogs calls keepCatalog until ctx ends; not at the start, because openCatalog has just done the same.
func (a *App) keepCatalogs(ctx context.Context) {
	for range pace.Every(ctx, catalog.KeepEvery) {
		a.keepCatalog()
		pace.Wake(a.imported.wake)
	}
}

// keepCatalog tells the database again which catalog this process has. It thereby records changes
// that were held back or could not be stored before, and takes over the dates that other nodes have
// given to models. See catalog.State.Record.
func (a *App) keepCatalog() {
	a.reloadMu.Lock()
	defer a.reloadMu.Unlock()
	old := a.settings.Load()
	next := *old // a copy, because requests read old; it shares the adapters
	if err := next.Join(context.Background(), a.facts.stores.service, a.facts.alone(), old); err != nil {
		a.log.Warn("the catalog could not be stored", "error", err.Error())
		return
	}
	if err := a.recordPrices(context.Background(), &next); err != nil {
		a.log.Warn("the prices in force could not be stored", "error", err.Error())
	}
	if next.Same(old) { // almost always
		return
	}
	next.Route(old, a.helm.Drained, a.log)
	a.apply(old, &next)
}

// loadCertificate reads the certificate and its key, for connections that are made from now on. If
// they are unreadable or do not match, the old certificate stays.
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

// watch reloads when the files that the configuration was read from change on disk, until ctx ends.
func (a *App) watch(ctx context.Context) {
	if a.opts.Load == nil {
		return
	}
	config.Watch(ctx, func() *config.Config { return a.settings.Load().Config }, a.Reload, func() {
		if a.onDisk.Accept() { // otherwise a signal has reloaded it meanwhile
			a.log.Info("the configuration file again matches what is in force")
		}
	})
}

// certificateEnds returns when the certificate in force expires, in Unix seconds; 0 without TLS.
func (a *App) certificateEnds() int64 {
	pair := a.cert.Load()
	if pair == nil || pair.Leaf == nil {
		return 0
	}
	return pair.Leaf.NotAfter.Unix()
}
