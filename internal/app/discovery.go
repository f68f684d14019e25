package app

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"time"

	"sluice/internal/account"
	"sluice/internal/catalog"
	"sluice/internal/config"
	"sluice/internal/discovery"
	"sluice/internal/provider"
)

const (
	listEvery = time.Hour   // how often providers are asked for their models
	lookEvery = time.Minute // how often this machine is looked at for model servers
)

// found is what was discovered. It never changes: a look makes a new one.
type found struct {
	local  []config.Provider            // model servers on this machine
	listed map[string][]provider.Listed // by provider; those that did not answer are as they were
}

// upstreams are all providers there are: configured, of the environment, and of this machine.
func upstreams(cfg *config.Config, f *found) []config.Provider {
	all := slices.Clone(cfg.Providers)
	for _, v := range cfg.Found() {
		all = append(all, v.Provider)
	}
	return append(all, f.local...)
}

// discovered are the models that nobody configured. Ids that are taken are left alone.
func discovered(cfg *config.Config, f *found) ([]catalog.Model, error) {
	d, err := discovery.NewDescriber()
	if err != nil {
		return nil, err
	}
	var out []catalog.Model
	taken := map[string]bool{}
	for i := range cfg.Models {
		taken[cfg.Models[i].ID] = true
		for _, t := range cfg.Models[i].Targets {
			taken[discovery.ID(t.Provider, t.Upstream)] = true // it has a tier, if under another id
		}
	}
	add := func(models []catalog.Model, change func(*catalog.Model)) {
		for _, m := range models {
			if change(&m); !taken[m.ID] {
				taken[m.ID] = true
				out = append(out, m)
			}
		}
	}
	untiered := func(from catalog.Origin) func(*catalog.Model) {
		return func(m *catalog.Model) { m.Origin, m.StaffOnly, m.Plan = from, true, account.Free }
	}
	for _, v := range cfg.Found() {
		add(d.Known(v.Kind, v.Name), untiered(catalog.Environment))
	}
	for i := range f.local {
		p := &f.local[i]
		add(listedModels(d, p, f.listed[p.Name]), untiered(catalog.ThisMachine))
	}
	for i := range cfg.Providers {
		p := &cfg.Providers[i]
		plan, err := account.ParsePlan(p.Discover)
		if p.Discover == "" || err != nil {
			continue
		}
		add(listedModels(d, p, f.listed[p.Name]), func(m *catalog.Model) { m.Origin, m.Plan = catalog.ByProvider, plan })
	}
	return out, nil
}

func listedModels(d *discovery.Describer, p *config.Provider, listed []provider.Listed) []catalog.Model {
	var out []catalog.Model
	for _, l := range listed {
		out = append(out, d.Listed(p.Kind, p.Name, l))
	}
	return out
}

// vanished reports whether no place of a model lists it any more, as far as the places were asked.
func (f *found) vanished(m *catalog.Model) bool {
	places := m.Places()
	for _, t := range places {
		listed, asked := f.listed[t.Provider]
		if !asked || slices.ContainsFunc(listed, func(l provider.Listed) bool { return l.ID == t.Upstream }) {
			return false
		}
	}
	return len(places) > 0
}

// discover looks for models now and then, and applies what has changed.
func (a *App) discover(ctx context.Context) {
	list, look := time.NewTicker(listEvery), time.NewTicker(lookEvery)
	defer list.Stop()
	defer look.Stop()
	all := true
	for {
		if err := a.lookAround(ctx, all); err != nil && ctx.Err() == nil {
			a.log.Warn("what was discovered could not be applied", "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-list.C:
			all = true
		case <-look.C:
			all = false
		}
	}
}

// lookAround looks at this machine, and asks the providers for their models where all is set.
func (a *App) lookAround(ctx context.Context, all bool) error {
	s := a.settings.Load()
	listers := map[string]discovery.Lister{}
	if all {
		for i, c := range s.upstreams {
			if c.Discover == "" {
				continue
			}
			if l, ok := s.providers[i+1].Keys[0].Adapter.(discovery.Lister); ok { // behind the sandbox
				listers[c.Name] = l
			}
		}
	}
	local := a.localServers(s.config)
	for i := range local {
		up, err := newUpstream(&local[i], s.pool(), nil)
		if err != nil {
			return err
		}
		adapter := up.Keys[0].Adapter
		if l, ok := adapter.(discovery.Lister); ok {
			listers[local[i].Name] = l
		}
		defer adapter.(connected).Close()
	}
	listed, failed := discovery.Ask(ctx, listers)
	next := &found{listed: map[string][]provider.Listed{}}
	for name, models := range s.found.listed {
		if !slices.ContainsFunc(local, func(p config.Provider) bool { return p.Name == name }) {
			next.listed[name] = models // it was not asked, or did not answer: nothing new
		}
	}
	for name, models := range listed {
		next.listed[name] = models
	}
	for _, p := range local {
		if len(listed[p.Name]) > 0 {
			next.local = append(next.local, p)
		}
	}
	for name, err := range failed {
		if slices.ContainsFunc(s.config.Providers, func(p config.Provider) bool { return p.Name == name }) {
			a.log.Warn("a provider does not list its models", "provider", name, "error", err.Error())
		}
	}
	if ctx.Err() != nil || discovery.Same(next.listed, s.found.listed) {
		return nil
	}
	return a.applyFound(next)
}

// localServers are the model servers to look for: not where one is configured, nor at our own address.
func (a *App) localServers(cfg *config.Config) []config.Provider {
	if !cfg.Discover {
		return nil
	}
	_, own, _ := net.SplitHostPort(a.Addr())
	var out []config.Provider
	for _, server := range a.servers {
		u, err := url.Parse(server.BaseURL)
		if err != nil || u.Port() == own {
			continue
		}
		taken := slices.ContainsFunc(cfg.Providers, func(p config.Provider) bool {
			at, err := url.Parse(p.BaseURL)
			return p.Kind == server.Kind || p.Name == server.Kind || err == nil && at.Port() == u.Port() && (at.Hostname() == "localhost" || at.Hostname() == u.Hostname())
		})
		if !taken {
			out = append(out, config.Unconfigured(server.Kind, server.BaseURL, ""))
		}
	}
	return out
}

// applyFound makes what was discovered part of the catalog, like a reload does with a configuration.
func (a *App) applyFound(f *found) error {
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
	a.announce(old.catalog, s.catalog)
	return nil
}

// announce tells which models have come and gone.
func (a *App) announce(old, next *catalog.Catalog) {
	type group struct {
		provider string
		from     catalog.Origin
		staff    bool
	}
	came := map[group][]string{}
	for _, m := range next.Models() {
		before, there := (*catalog.Model)(nil), false
		if old != nil {
			before, there = old.Lookup(m.ID)
		}
		switch {
		case m.Vanished && there && !before.Vanished:
			a.log.Warn("a provider no longer lists a model", "provider", m.Provider, "model", m.ID)
		case !there && (m.Origin == catalog.Environment || m.Origin == catalog.ThisMachine || m.Origin == catalog.ByProvider):
			g := group{m.Provider, m.Origin, m.StaffOnly}
			came[g] = append(came[g], m.ID)
		}
	}
	for g, ids := range came {
		hint := ""
		if g.staff {
			hint = "only staff accounts may call them; give them a tier under models, or set discover: false"
		}
		a.log.Info("models were found", "provider", g.provider, "from", string(g.from), "models", shortList(ids), "hint", hint)
	}
	if old != nil {
		for _, m := range old.Models() {
			if _, stays := next.Lookup(m.ID); !stays && m.Origin != catalog.Configured {
				a.log.Info("a found model is gone", "provider", m.Provider, "model", m.ID)
			}
		}
	}
}

// shortList names a few and numbers the rest.
func shortList(ids []string) string {
	const few = 5
	if len(ids) <= few {
		return fmt.Sprint(ids)
	}
	return fmt.Sprintf("%v and %d more", ids[:few], len(ids)-few)
}
