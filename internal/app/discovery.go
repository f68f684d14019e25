package app

import (
	"context"
	"net"

	"sluice/internal/app/settings"
	"sluice/internal/upstream/discovery"
)

// lookAround looks for models and applies what has changed. If all is set, it asks the providers as
// well; see settings.Settings.Look. Looking takes seconds, so it does not hold reloadMu. One look
// runs at a time: the older answer of a slow look would otherwise replace a newer one.
func (a *App) lookAround(ctx context.Context, all bool) error {
	a.lookMu.Lock()
	defer a.lookMu.Unlock()
	s := a.settings.Load()
	_, own, _ := net.SplitHostPort(a.Addr())
	next, failed, err := s.Look(ctx, a.servers, own, all)
	if err != nil {
		return err
	}
	discovery.LogFailed(failed, a.log)
	// When the process stops, the requests of Look are cut off, and their results say nothing.
	if ctx.Err() != nil || discovery.Same(next.Listed, s.Found.Listed) {
		return nil
	}
	return a.applyFound(next)
}

// applyFound makes what was discovered part of the catalog. It works like a reload, with the
// configuration in force now: a reload may have replaced the one that Look began with.
func (a *App) applyFound(f *discovery.Found) error {
	a.reloadMu.Lock()
	defer a.reloadMu.Unlock()
	old := a.settings.Load()
	s, err := settings.New(old.Config, f)
	if err != nil {
		return err
	}
	if err := s.Connect(old, a.shared()); err != nil {
		return err
	}
	a.joinCatalog(old, s)
	a.apply(old, s)
	discovery.Announce(old.Catalog, s.Catalog, a.log)
	return nil
}
