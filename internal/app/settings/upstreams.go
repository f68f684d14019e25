package settings

import (
	"fmt"
	"log/slog"
	"net/http"
	"reflect"

	"sluice/internal/app/config"
	"sluice/internal/kit/pulse"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/discovery"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/anthropic"
	"sluice/internal/upstream/provider/bedrock"
	"sluice/internal/upstream/provider/gemini"
	"sluice/internal/upstream/provider/openai"
	"sluice/internal/upstream/routing"
	"sluice/sandbox/models"
)

// upstream is a provider: its configuration, and the adapters that were made from it. It has no
// adapters before Connect.
type upstream struct {
	config   config.Provider
	provider routing.Provider
}

// upstreams returns all providers except the sandbox: those that are configured, those whose keys
// are in the environment, and the model servers that were found on this machine.
func upstreams(cfg *config.Config, f *discovery.Found) []upstream {
	var all []upstream
	for i := range cfg.Providers {
		all = append(all, upstream{config: cfg.Providers[i]})
	}
	for _, v := range cfg.Found() {
		all = append(all, upstream{config: v.Provider})
	}
	for _, s := range f.Local {
		all = append(all, upstream{config: config.Unconfigured(s.Kind, s.BaseURL, "")})
	}
	return all
}

// Connect makes the adapters. It connects to nobody yet. A provider whose configuration is the same
// as in the old settings keeps its adapters, and with them its open connections and its health. old
// is nil at the start of the process. p watches upstreams for silence, and ways is what is learned of their models.
func (s *Settings) Connect(old *Settings, p *pulse.Pulse, ways *openai.Ways) error {
	// The file of the weights is read again when the configuration is, and not when models are discovered.
	if old != nil && old.Config == s.Config {
		s.Weights = old.Weights
	}
	for i := range s.upstreams {
		u := &s.upstreams[i]
		// The client is a setting of all providers, so it is not part of u.config.
		if kept, ok := old.provider(&u.config); ok && old.Config.UpstreamClient == s.Config.UpstreamClient {
			u.provider = kept
			continue
		}
		made, err := newUpstream(&u.config, s.pool(), p, ways)
		if err != nil {
			return fmt.Errorf("provider %s: %w", u.config.Name, err)
		}
		u.provider = made
	}
	return nil
}

// pool returns the options of connections to providers.
func (s *Settings) pool() *provider.PoolOptions {
	return &provider.PoolOptions{Standard: s.Config.UpstreamClient == "standard"}
}

// Route makes the routes to every model of the catalog. They take over the health of targets that
// old had, too. It must be called again whenever Catalog is replaced, because routes are looked up
// by the models of one catalog. drained reports which targets get no new calls; it is the same function for all
// settings of a process.
func (s *Settings) Route(old *Settings, drained func(provider, upstream, key string) bool, log *slog.Logger) {
	opts := &routing.Options{Drained: drained, Log: log}
	if old != nil {
		opts.Old = old.Routes
	}
	// The sandbox is always there. If it is switched off, the catalog has no models that lead to it.
	providers := []routing.Provider{{Name: catalog.SandboxProvider, Keys: []routing.Key{{Adapter: models.New()}}}}
	for _, u := range s.upstreams {
		providers = append(providers, u.provider)
	}
	s.Routes = routing.New(s.Catalog, providers, opts)
}

// newUpstream returns a provider with an adapter for each of its keys. The adapters share one pool of
// connections. p and ways may be nil; see NewAdapter.
func newUpstream(c *config.Provider, opts *provider.PoolOptions, p *pulse.Pulse, ways *openai.Ways) (routing.Provider, error) {
	made := routing.Provider{Name: c.Name, Allow: c.Allow, SelfHosted: provider.SelfHosted(c.Kind), MaxConcurrent: c.MaxConcurrent, FirstContent: c.Timeouts.FirstContent}
	opts.OnCall = !c.Probe
	pool := provider.Connections(c.Timeouts.Connect, opts)
	for _, key := range c.Keys() {
		a, err := NewAdapter(c, key, pool, p, ways)
		if err != nil {
			return made, err
		}
		made.Keys = append(made.Keys, routing.Key{Adapter: a, LastFour: key.String()})
	}
	return made, nil
}

// NewAdapter returns an adapter for the API of a provider that uses one of its keys. If p is nil, it
// does not notice silence of the upstream; that is enough for asking for a list of models. If ways is nil, the adapter keeps
// what it learns to itself.
//
// A provider with an API of its own needs a case here; all others speak OpenAI's format.
func NewAdapter(c *config.Provider, key config.Secret, pool http.RoundTripper, p *pulse.Pulse, ways *openai.Ways) (provider.Adapter, error) {
	switch c.Kind {
	case "anthropic":
		return anthropic.New(c.BaseURL, &anthropic.Options{APIKey: key.Reveal(), FirstParty: c.FirstParty, Pulse: p, Silence: c.Timeouts.Silence, Transport: pool})
	case "bedrock":
		if c.API == "native" {
			return newNative(c, key, pool, p)
		}
		keys := bedrock.Keys{AccessKeyID: c.AccessKeyID, SecretAccessKey: key.Reveal(), SessionToken: c.SessionToken.Reveal()}
		return bedrock.New(c.Region, keys, &bedrock.Options{BaseURL: c.BaseURL, Pulse: p, Silence: c.Timeouts.Silence, Transport: pool})
	case "gemini":
		return gemini.New(c.BaseURL, &gemini.Options{APIKey: key.Reveal(), Pulse: p, Silence: c.Timeouts.Silence, Transport: pool})
	}
	preset, ok := openai.PresetOf(c.Kind, c.BaseURL)
	if !ok {
		return nil, fmt.Errorf("there is no adapter for the kind %s", c.Kind) // config.Load lets only known kinds pass
	}
	return openai.New(c.BaseURL, &openai.Options{
		Preset: preset, APIKey: key.Reveal(), APIVersion: c.APIVersion, API: c.API, Ways: ways, Pulse: p, Silence: c.Timeouts.Silence, Transport: pool,
	})
}

// provider returns the provider that has the same configuration, and reports whether there is one. s
// may be nil, which has no providers.
func (s *Settings) provider(c *config.Provider) (routing.Provider, bool) {
	if s == nil {
		return routing.Provider{}, false
	}
	// Deep, because a provider has lists of keys. A new field counts without a change here.
	for i := range s.upstreams {
		if reflect.DeepEqual(s.upstreams[i].config, *c) {
			return s.upstreams[i].provider, true
		}
	}
	return routing.Provider{}, false
}

// connected is an adapter that holds connections. All have them except the sandbox.
type connected interface {
	Close()  // closes all connections
	Retire() // closes idle connections; calls in progress continue
}

// Disconnect closes the connections of the adapters that next does not use. Calls in progress
// continue, because their requests still use s. If next is nil, the process stops, and Disconnect
// closes everything at once.
func (s *Settings) Disconnect(next *Settings) {
	stays := map[provider.Adapter]bool{} // Connect has handed over the same adapters, so they can be compared
	if next != nil {
		for _, u := range next.upstreams {
			for _, k := range u.provider.Keys {
				stays[k.Adapter] = true
			}
		}
	}
	for _, u := range s.upstreams {
		for _, k := range u.provider.Keys {
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

// insideProviders returns which providers are inside the operator's network, by name. They must not
// be sent the address of an image, because they would fetch it from there on behalf of a caller. See
// config.Provider.AllowImageURLs.
func insideProviders(all []upstream) map[string]bool {
	inside := map[string]bool{}
	for i := range all {
		c := &all[i].config
		inside[c.Name] = !c.AllowImageURLs && provider.Inside(c.Kind, c.BaseURL)
	}
	return inside
}
