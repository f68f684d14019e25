package settings

import (
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"slices"

	"sluice/internal/app/config"
	"sluice/internal/kit/pulse"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/discovery"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/anthropic"
	"sluice/internal/upstream/provider/bedrock"
	"sluice/internal/upstream/provider/gemini"
	"sluice/internal/upstream/provider/openai"
	"sluice/internal/upstream/replicas"
	"sluice/internal/upstream/routing"
	"sluice/sandbox/models"
)

// upstream is a provider: its configuration, and the adapters that were made from it. It has no
// adapters before Connect.
type upstream struct {
	config   config.Provider
	provider routing.Provider
	replicas []replica // with the adapters of provider
}

// replica is a server of a provider, with an adapter for each key. A provider with one address has one, whose place has
// no name.
type replica struct {
	place replicas.Place
	keys  []routing.Key
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
// is nil at the start of the process. The same holds for the replicas of a provider, one by one. with has what the adapters
// share.
func (s *Settings) Connect(old *Settings, with Shared) error {
	// The file of the weights is read again when the configuration is, and not when models are discovered.
	if old != nil && old.Config == s.Config {
		s.Weights = old.Weights
	}
	for i := range s.upstreams {
		u := &s.upstreams[i]
		var had []replica
		// The client is a setting of all providers, so it is not part of u.config.
		if old != nil && old.Config.UpstreamClient == s.Config.UpstreamClient {
			had = old.replicasOf(&u.config)
		}
		if err := u.connect(had, s.pool(), with); err != nil {
			return fmt.Errorf("provider %s: %w", u.config.Name, err)
		}
	}
	return nil
}

// Shared is what the adapters of a process share. Each part may be nil.
type Shared struct {
	Pulse *pulse.Pulse    // watches upstreams for silence
	Ways  *openai.Ways    // what is learned of their models
	Names *replicas.Names // what names of replicas stand for; nil: themselves
}

// Sources returns where the replicas of all providers are.
func (s *Settings) Sources() []replicas.Source {
	var all []replicas.Source
	for i := range s.upstreams {
		all = append(all, s.upstreams[i].config.Sources()...)
	}
	return all
}

// Reconnected returns settings that differ in the replicas that names stand for now. Route must follow.
func (s *Settings) Reconnected(with Shared) (*Settings, error) {
	next := *s // a copy, because requests read s
	next.upstreams = slices.Clone(s.upstreams)
	return &next, next.Connect(s, with)
}

// pool returns the options of connections to providers.
func (s *Settings) pool() *provider.PoolOptions {
	return &provider.PoolOptions{Standard: s.Config.UpstreamClient == "standard"}
}

// Route makes the routes to every model of the catalog. They take over the health of targets that
// old had, too. It must be called again whenever Catalog is replaced, because routes are looked up
// by the models of one catalog. drained reports which targets get no new calls; it is the same function for all
// settings of a process.
func (s *Settings) Route(old *Settings, drained routing.Drained, log *slog.Logger) {
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

// connect makes the adapters of a provider: one for each key of each replica. Those of a replica that it had stay.
func (u *upstream) connect(had []replica, opts *provider.PoolOptions, with Shared) error {
	c := &u.config
	u.provider = routing.Provider{Name: c.Name, Allow: c.Allow, SelfHosted: len(c.Replicas) > 0 || provider.SelfHosted(c.Kind), MaxConcurrent: c.MaxConcurrent, FirstContent: c.Timeouts.FirstContent}
	u.replicas = nil
	for _, place := range c.Places(with.Names) {
		at := slices.IndexFunc(had, func(r replica) bool { return r.place == place })
		if at >= 0 {
			u.add(had[at])
			continue
		}
		made, err := newReplica(c, place, *opts, with)
		if err != nil {
			return err
		}
		u.add(made)
	}
	return nil
}

// add adds a replica and its keys.
func (u *upstream) add(r replica) {
	u.replicas = append(u.replicas, r)
	u.provider.Keys = append(u.provider.Keys, r.keys...)
}

// newReplica returns a replica with an adapter for each key of its provider. The adapters share one pool of connections.
func newReplica(c *config.Provider, at replicas.Place, opts provider.PoolOptions, with Shared) (replica, error) {
	r := replica{place: at}
	opts.OnCall, opts.Address = !c.Probe, at.Address
	pool := provider.Connections(c.Timeouts.Connect, &opts)
	there := *c
	there.BaseURL = at.Base
	for _, key := range c.Keys() {
		a, err := NewAdapter(&there, key, pool, with.Pulse, with.Ways)
		if err != nil {
			return r, err
		}
		r.keys = append(r.keys, routing.Key{Adapter: a, LastFour: key.String(), Replica: at.Name})
	}
	return r, nil
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

// replicasOf returns the replicas of the provider that has the same configuration but for the list of its replicas; none
// if there is no such provider.
func (s *Settings) replicasOf(c *config.Provider) []replica {
	like := *c
	for i := range s.upstreams {
		like.Replicas = s.upstreams[i].config.Replicas
		// Deep, because a provider has lists of keys. A new field counts without a change here.
		if reflect.DeepEqual(s.upstreams[i].config, like) {
			return s.upstreams[i].replicas
		}
	}
	return nil
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
		inside[c.Name] = !c.AllowImageURLs && (len(c.Replicas) > 0 || provider.Inside(c.Kind, c.BaseURL))
	}
	return inside
}
