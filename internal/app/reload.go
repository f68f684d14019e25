package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"sluice/internal/app/config"
	"sluice/internal/app/settings"
)

// Reload reads the configuration again. If it is valid, it applies to every request that arrives
// from then on; running requests keep the old one. If it is invalid, Reload returns an error and
// changes nothing. Settings that need a restart are logged and stay as they are.
func (a *App) Reload() error {
	a.reloadMu.Lock()
	defer a.reloadMu.Unlock()
	err := a.reload()
	if err != nil {
		problem := err.Error()
		// What was refused is tried again until it is accepted. That is news once.
		if was := a.refused.Swap(&problem); was == nil || *was != problem {
			a.metrics.Reloaded(false)
			a.log.Error("the new configuration was refused; the old one stays", "error", problem)
		}
		return err
	}
	a.refused.Store(nil)
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
	restart := cfg.RestartNeeded(a.begun) // and not with the last one: what waits goes on to wait
	cfg.Brand = old.Config.Brand          // keys and the router's id change together, at a start
	s, err := settings.New(cfg, old.Found)
	if err != nil {
		return err
	}
	if err := s.Connect(old, a.pulse); err != nil {
		return err
	}
	if err := a.loadCertificate(context.Background(), cfg); err != nil {
		return err
	}
	// Nothing below fails.
	a.waiting.Store(&restart)
	if len(restart) > 0 {
		a.log.Warn("some changes take effect at the next start only", "fields", restart)
	}
	a.warn(cfg)
	a.checkWeights(s)
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

// checkWeights logs if the configured weights of the router cannot be used.
func (a *App) checkWeights(s *settings.Settings) {
	if err := s.Weights.Err(); err != nil {
		a.log.Warn("the router's weights cannot be used; it goes by its estimates", "file", s.Config.Router.Weights, "error", err)
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
	a.api.Apply(s.HTTP())
	a.videos.Apply(a.videoSettings(s))
	old.Disconnect(s)
}

// joinCatalog records the catalog of new settings and makes their routes. A reload must work while
// the database is down: then new models get the time of the reload as their date, and keepCatalog
// records them later.
func (a *App) joinCatalog(old, s *settings.Settings) {
	s.Tier(a.helm.Tiers())
	if err := s.Join(context.Background(), a.facts.stores.service, a.facts.alone(), old); err != nil {
		a.log.Warn("changes of the catalog could not be stored yet; they will be retried", "error", err.Error())
		s.JoinLater(old)
	}
	s.Route(old, a.helm.Drained, a.log)
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
		if a.refused.Swap(nil) == nil {
			return // a signal has reloaded it meanwhile
		}
		a.log.Info("the configuration file is again the one that is in force")
	})
}

// restartNeeded returns the settings of the configuration on disk that wait for a restart.
func (a *App) restartNeeded() []string {
	if waiting := a.waiting.Load(); waiting != nil {
		return *waiting
	}
	return nil
}

// configNote says in /readyz that the configuration in force is not the one on disk. What is wrong
// with that one is in the log; it may quote names that are not for everybody.
func (a *App) configNote() string {
	if a.refused.Load() != nil {
		return "the configuration on disk was refused, and an older one is in force; the log says more"
	}
	if waiting := a.restartNeeded(); len(waiting) > 0 {
		return "these settings were changed and wait for a restart: " + strings.Join(waiting, ", ")
	}
	return ""
}

// certificateEnds returns when the certificate in force expires, in Unix seconds; 0 without TLS.
func (a *App) certificateEnds() int64 {
	pair := a.cert.Load()
	if pair == nil || pair.Leaf == nil {
		return 0
	}
	return pair.Leaf.NotAfter.Unix()
}
