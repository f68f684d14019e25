package settings

import (
	"context"

	"sluice/internal/account"
	"sluice/internal/app/config"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/discovery"
)

// sources returns the providers whose models become part of the catalog although nobody configured
// them. Models of the environment and of this machine are for staff only, until the operator gives
// them a tier: nobody has decided yet that customers may spend money or computing time on them. A
// configured provider names that tier itself, in its field discover.
//
// The order decides which source wins if two have a model of the same id.
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

// Look looks for model servers on this machine and, if all is set, asks the configured providers for
// their models. servers are those that may run here, and ownPort is the port that this process
// listens on. Look returns what is known then, and the errors of configured providers that did not
// answer. It changes nothing: app applies the result.
func (s *Settings) Look(ctx context.Context, servers []discovery.Server, ownPort string, all bool) (*discovery.Found, map[string]error, error) {
	// Only providers with the field discover are asked, with their first key. Every provider has one;
	// see config.Provider.Keys.
	listers := map[string]discovery.Lister{}
	for _, u := range s.upstreams {
		if l, ok := u.provider.Keys[0].Adapter.(discovery.Lister); ok && all && u.config.Discover != "" {
			listers[u.config.Name] = l
		}
	}
	// A server on this machine that may not run yet is no upstream. It gets an adapter for this one
	// question.
	local := s.localServers(servers, ownPort)
	for _, server := range local {
		c := config.Unconfigured(server.Kind, server.BaseURL, "")
		up, err := newReplica(&c, c.Places(nil)[0], *s.pool(), Shared{})
		if err != nil {
			return nil, nil, err
		}
		adapter := up.keys[0].Adapter
		if l, ok := adapter.(discovery.Lister); ok {
			listers[c.Name] = l
		}
		defer adapter.(connected).Close()
	}
	next, failed := s.Found.Look(ctx, listers, local)
	for _, server := range local {
		delete(failed, server.Kind) // most machines run none of them
	}
	return next, failed, nil
}

// localServers returns the model servers to look for on this machine; none if the configuration
// switches discovery off.
func (s *Settings) localServers(servers []discovery.Server, ownPort string) []discovery.Server {
	if !s.Config.Discover {
		return nil
	}
	var configured []discovery.Configured
	for i := range s.Config.Providers {
		p := &s.Config.Providers[i]
		for _, at := range p.Places(nil) {
			configured = append(configured, discovery.Configured{Kind: p.Kind, Name: p.Name, BaseURL: at.Base})
		}
	}
	return discovery.Unclaimed(servers, configured, ownPort)
}
