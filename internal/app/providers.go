package app

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"time"

	"sluice/internal/catalog"
	"sluice/internal/config"
	"sluice/internal/netguard"
	"sluice/internal/provider"
	"sluice/internal/provider/anthropic"
	"sluice/internal/provider/bedrock"
	"sluice/internal/provider/gemini"
	"sluice/internal/provider/openai"
	"sluice/internal/provider/sandbox"
	"sluice/internal/pulse"
	"sluice/internal/routing"
	"sluice/internal/telemetry"
)

// connect makes the adapters. A provider that is the same as in the old settings keeps its adapters, and
// with them its open connections and what is known of its health.
func (s *settings) connect(old *settings, p *pulse.Pulse) error {
	s.providers = []routing.Provider{{Name: catalog.SandboxProvider, Keys: []routing.Key{{Adapter: sandbox.New()}}}}
	for i := range s.upstreams {
		c := &s.upstreams[i]
		if kept, ok := old.provider(c); ok && old.config.UpstreamClient == s.config.UpstreamClient {
			s.providers = append(s.providers, kept)
			continue
		}
		made, err := newUpstream(c, s.pool(), p)
		if err != nil {
			return fmt.Errorf("provider %s: %w", c.Name, err)
		}
		s.providers = append(s.providers, made)
	}
	return nil
}

// pool is how connections to providers are made.
func (s *settings) pool() *provider.PoolOptions {
	return &provider.PoolOptions{Standard: s.config.UpstreamClient == "standard"}
}

// route makes the routes to every model of the catalog.
func (s *settings) route(old *settings, log *slog.Logger) {
	opts := &routing.Options{Log: log}
	if old != nil {
		opts.Old = old.routes
	}
	s.routes = routing.New(s.catalog, s.providers, opts)
}

// newUpstream makes an adapter for each key of a provider; they share its connections.
func newUpstream(c *config.Provider, opts *provider.PoolOptions, p *pulse.Pulse) (routing.Provider, error) {
	made := routing.Provider{Name: c.Name, MaxConcurrent: c.MaxConcurrent, FirstContent: c.Timeouts.FirstContent}
	pool := provider.Connections(c.Timeouts.Connect, opts)
	for _, key := range c.Keys() {
		a, err := newAdapter(c, key, pool, p)
		if err != nil {
			return made, err
		}
		made.Keys = append(made.Keys, routing.Key{Adapter: a, LastFour: key.String()})
	}
	return made, nil
}

// newAdapter makes what speaks a provider's API with one of its keys.
func newAdapter(c *config.Provider, key config.Secret, pool http.RoundTripper, p *pulse.Pulse) (provider.Adapter, error) {
	switch c.Kind {
	case "anthropic":
		return anthropic.New(c.BaseURL, &anthropic.Options{APIKey: key.Reveal(), Pulse: p, Silence: c.Timeouts.Silence, Transport: pool})
	case "bedrock":
		keys := bedrock.Keys{AccessKeyID: c.AccessKeyID, SecretAccessKey: key.Reveal(), SessionToken: c.SessionToken.Reveal()}
		return bedrock.New(c.Region, keys, &bedrock.Options{BaseURL: c.BaseURL, Pulse: p, Silence: c.Timeouts.Silence, Transport: pool})
	case "gemini":
		return gemini.New(c.BaseURL, &gemini.Options{APIKey: key.Reveal(), Pulse: p, Silence: c.Timeouts.Silence, Transport: pool})
	}
	preset, ok := openai.PresetOf(c.Kind, c.BaseURL)
	if !ok {
		return nil, fmt.Errorf("nothing speaks to the kind %s", c.Kind) // config.Load lets only known kinds pass
	}
	return openai.New(c.BaseURL, &openai.Options{
		Preset: preset, APIKey: key.Reveal(), APIVersion: c.APIVersion, Pulse: p, Silence: c.Timeouts.Silence, Transport: pool,
	})
}

// provider is that of an equal configuration, if there is one.
func (s *settings) provider(c *config.Provider) (routing.Provider, bool) {
	if s == nil {
		return routing.Provider{}, false
	}
	for i := range s.upstreams {
		if reflect.DeepEqual(s.upstreams[i], *c) {
			return s.providers[i+1], true // behind the sandbox
		}
	}
	return routing.Provider{}, false
}

// connected is an adapter with connections of its own.
type connected interface {
	Close()
	Retire()
}

// disconnect lets the adapters go that the next settings do not use; nil: there are none to come.
func (s *settings) disconnect(next *settings) {
	stays := map[provider.Adapter]bool{}
	if next != nil {
		for _, p := range next.providers {
			for _, k := range p.Keys {
				stays[k.Adapter] = true
			}
		}
	}
	for _, p := range s.providers {
		for _, k := range p.Keys {
			a, ok := k.Adapter.(connected)
			switch {
			case !ok || stays[k.Adapter]:
			case next == nil:
				a.Close()
			default:
				a.Retire()
			}
		}
	}
}

// gauges is what the metrics show of the providers.
func (s *settings) gauges() []telemetry.Upstream {
	standings, tallies := s.routes.Standings(time.Now()), s.routes.Tallies()
	all := make([]telemetry.Upstream, 0, len(s.providers))
	for _, p := range s.providers {
		t := tallies[p.Name]
		u := telemetry.Upstream{Provider: p.Name, Running: t.Running, Answered: t.Answered, Failed: t.Failed, States: map[string]int{}}
		for state := routing.Closed; state <= routing.HalfOpen; state++ {
			u.States[state.String()] = 0 // a series that comes and goes is hard to watch
		}
		for _, target := range standings {
			if target.Provider != p.Name {
				continue
			}
			u.States[target.State.String()]++
			u.ErrorRate = max(u.ErrorRate, target.ErrorRate)
			u.FirstContent = max(u.FirstContent, target.Latency.Seconds())
		}
		all = append(all, u)
	}
	return all
}

// insideProviders are those that would fetch an image's address from inside the operator's network, where a
// caller has no business: see Provider.AllowImageURLs.
func insideProviders(cfg *config.Config, f *found) map[string]bool {
	inside := map[string]bool{}
	all := upstreams(cfg, f)
	for i := range all {
		inside[all[i].Name] = !all[i].AllowImageURLs && isInside(&all[i])
	}
	return inside
}

func isInside(p *config.Provider) bool {
	switch p.Kind {
	case "vllm", "llamacpp", "lmstudio", "ollama": // run by the operator, wherever that is
		return true
	}
	u, err := url.Parse(p.BaseURL)
	return err != nil || u.Scheme != "https" || netguard.CheckHost(u.Hostname()) != nil
}
