package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"time"

	"sluice/internal/config"
)

const watchEvery = time.Second

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
	if a.load == nil {
		return errors.New("there is nothing to reload from")
	}
	cfg, err := a.load()
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
	if err := a.loadCertificate(cfg); err != nil {
		return err
	}
	if len(restart) > 0 {
		a.log.Warn("some changes take effect at the next start only", "fields", restart)
	}
	for _, w := range cfg.Warnings() {
		a.log.Warn("configuration", "warning", w)
	}
	if a.level != nil {
		a.level.Set(logLevel(cfg.Log.Level))
	}
	a.joinCatalog(old, s)
	a.apply(old, s)
	return nil
}

// apply makes the settings those of everything that begins from now on.
func (a *App) apply(old, s *settings) {
	s.describe(a.origin(s.config), old)
	a.settings.Store(s)
	a.api.Apply(s.http())
	a.videos.Apply(a.videoSettings(s))
	old.disconnect(s)
}

// loadCertificate reads the certificate that new connections are shown.
func (a *App) loadCertificate(cfg *config.Config) error {
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

// watch reloads when the configuration file or the certificate changes on disk. It looks at their
// state once a second: that also notices files that are replaced through links, as orchestrators do.
func (a *App) watch(ctx context.Context) {
	if a.load == nil {
		return
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	seen := a.seen
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if now := watched(a.settings.Load().config); now != seen {
			_ = a.Reload() // logged there
			seen = now     // a bad file is reported once, not every second
		}
	}
}

// watched is the state of the files a reload depends on.
func watched(cfg *config.Config) (state [3]fileState) {
	for i, path := range []string{cfg.File(), cfg.TLS.Cert, cfg.TLS.Key} {
		if path == "" {
			continue
		}
		if info, err := os.Stat(path); err == nil {
			state[i] = fileState{path: path, changed: info.ModTime(), size: info.Size()}
		}
	}
	return state
}

type fileState struct {
	path    string
	changed time.Time
	size    int64
}
