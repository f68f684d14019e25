package app

import (
	"context"
	"net"
	"slices"

	"sluice/internal/account"
	"sluice/internal/catalog"
	"sluice/internal/config"
	"sluice/internal/discovery"
)

// sources returns the providers whose models become part of the catalog although nobody configured them. Until the
// operator gives them a tier, models of the environment and of this machine are for staff alone.
func sources(cfg *config.Config, f *discovery.Found) []discovery.Source {
	var all []discovery.Source
	for _, v := range cfg.Found() {
		all = append(all, discovery.Source{Kind: v.Kind, Name: v.Name, Origin: catalog.Environment, Plan: account.Free, StaffOnly: true, WellKnown: true})
	}
	for _, s := range f.Local {
		all = append(all, discovery.Source{Kind: s.Kind, Name: s.Kind, Origin: catalog.ThisMachine, Plan: account.Free, StaffOnly: true})
	}
	for i := range cfg.Providers {
		p := &cfg.Providers[i]
		if plan, err := account.ParsePlan(p.Discover); p.Discover != "" && err == nil {
			all = append(all, discovery.Source{Kind: p.Kind, Name: p.Name, Origin: catalog.ByProvider, Plan: plan})
		}
	}
	return all
}

// lookAround looks for model servers on this machine and, with all set, asks the providers for their models. It
// applies what has changed.
func (a *App) lookAround(ctx context.Context, all bool) error {
	s := a.settings.Load()
	listers := map[string]discovery.Lister{}
	for _, u := range s.upstreams {
		if l, ok := u.provider.Keys[0].Adapter.(discovery.Lister); ok && all && u.config.Discover != "" {
			listers[u.config.Name] = l
		}
	}
	local := a.localServers(s.config)
	for _, server := range local {
		c := config.Unconfigured(server.Kind, server.BaseURL, "")
		up, err := newUpstream(&c, s.pool(), nil)
		if err != nil {
			return err
		}
		adapter := up.Keys[0].Adapter
		if l, ok := adapter.(discovery.Lister); ok {
			listers[c.Name] = l
		}
		defer adapter.(connected).Close()
	}
	next, failed := s.found.Look(ctx, listers, local)
	for name, err := range failed {
		if slices.ContainsFunc(s.config.Providers, func(p config.Provider) bool { return p.Name == name }) {
			a.log.Warn("a provider does not list its models", "provider", name, "error", err.Error())
		}
	}
	if ctx.Err() != nil || discovery.Same(next.Listed, s.found.Listed) {
		return nil
	}
	return a.applyFound(next)
}

// localServers returns the model servers to look for on this machine.
func (a *App) localServers(cfg *config.Config) []discovery.Server {
	if !cfg.Discover {
		return nil
	}
	_, own, _ := net.SplitHostPort(a.Addr())
	var configured []discovery.Configured
	for i := range cfg.Providers {
		p := &cfg.Providers[i]
		configured = append(configured, discovery.Configured{Kind: p.Kind, Name: p.Name, BaseURL: p.BaseURL})
	}
	return discovery.Unclaimed(a.servers, configured, own)
}

// applyFound makes what was discovered part of the catalog, as a reload does with a configuration.
func (a *App) applyFound(f *discovery.Found) error {
	a.reloadMu.Lock()
	defer a.reloadMu.Unlock()
	old := a.settings.Load()
	s, err := newSettings(old.config, f)
	if err != nil {
		return err
	}
	if err := s.connect(old, a.pulse); err != nil {
		return err
	}
	a.joinCatalog(old, s)
	a.apply(old, s)
	discovery.Announce(old.catalog, s.catalog, a.log)
	return nil
}
