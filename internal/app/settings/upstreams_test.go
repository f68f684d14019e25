package settings

import (
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/internal/app/config"
	"sluice/internal/kit/pulse"
	"sluice/internal/testkit/dnstest"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/gemini"
	"sluice/internal/upstream/provider/openai"
	"sluice/internal/upstream/replicas"
)

// Every kind that a configuration may name has something that speaks to it, at the address that the
// adapter knows, too.
func TestEveryKindHasAnAdapter(t *testing.T) {
	t.Parallel()
	for _, kind := range config.Kinds() {
		c := config.Provider{Name: "p", Kind: kind, BaseURL: config.Address(kind), Region: "us-east-1", AccessKeyID: "id"}
		if a, err := NewAdapter(&c, "key", http.DefaultTransport, nil, nil); err != nil || a == nil {
			t.Errorf("NewAdapter(kind %s) = %v, %v, want an adapter", kind, a, err)
		}
		if preset, ok := openai.PresetOf(kind, ""); ok && preset.BaseURL != c.BaseURL {
			t.Errorf("Address(%s) = %s, want %s", kind, c.BaseURL, preset.BaseURL)
		}
	}
	if got := config.Address("gemini"); got != gemini.BaseURL {
		t.Errorf("Address(gemini) = %s, want %s", got, gemini.BaseURL)
	}
}

// A reload keeps the adapters, and their connections, of providers that stay as they are, unless something
// else is to call them.
func TestUpstreamClientChanges(t *testing.T) {
	t.Parallel()
	var old *Settings
	for _, step := range []struct {
		client         string
		kept, standard bool
	}{{"lean", false, false}, {"lean", true, false}, {"standard", false, true}, {"standard", true, true}, {"lean", false, false}} {
		s, err := New(&config.Config{
			Brand: "service", UpstreamClient: step.client,
			Providers: []config.Provider{{Name: "p", Kind: "openai", BaseURL: "http://127.0.0.1:1/v1"}},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Connect(old, Shared{Pulse: pulse.New()}); err != nil {
			t.Fatal(err)
		}
		if s.pool().Standard != step.standard {
			t.Errorf("upstream_client %s: net/http makes every call: %t", step.client, !step.standard)
		}
		if old != nil && (s.upstreams[0].provider.Keys[0].Adapter == old.upstreams[0].provider.Keys[0].Adapter) != step.kept {
			t.Errorf("from %s to %s the adapter is the same: %t", old.Config.UpstreamClient, step.client, !step.kept)
		}
		old = s
	}
}

// A provider with probe: false is connected to by calls alone.
func TestProbe(t *testing.T) {
	t.Parallel()
	up := httptest.NewServer(http.NotFoundHandler())
	defer up.Close()
	for _, kind := range []string{"openai", "anthropic", "gemini"} {
		for probe, want := range map[bool]error{true: nil, false: provider.ErrNotTried} {
			c := &config.Provider{Name: "p", Kind: kind, BaseURL: up.URL, Probe: probe}
			made, err := newReplica(c, c.Places(nil)[0], provider.PoolOptions{}, Shared{})
			if err != nil {
				t.Fatal(err)
			}
			a, ok := made.keys[0].Adapter.(provider.Reacher)
			if !ok {
				t.Fatalf("%s: the adapter cannot connect", kind)
			}
			if err := a.Reach(t.Context()); !errors.Is(err, want) {
				t.Errorf("%s with probe: %t: Reach = %v, want %v", kind, probe, err, want)
			}
		}
	}
}

// Replicas that stay keep their adapters when others come and go, by the configuration or by a name; a change of anything
// else makes all anew.
func TestReplicasStay(t *testing.T) {
	t.Parallel()
	dns := dnstest.New(t)
	with := Shared{Names: replicas.NewNames(dns.Resolver(), slog.New(slog.DiscardHandler))}
	settings := func(text string) *Settings {
		file := filepath.Join(t.TempDir(), "sluice.yaml")
		if err := os.WriteFile(file, []byte("providers: [{name: own, kind: vllm, api_keys: [key-one-1111, key-two-2222], "+text+"}]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(config.Source{Path: file})
		if err != nil {
			t.Fatal(err)
		}
		s, err := New(cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	adapters := func(s *Settings) map[string]provider.Adapter {
		all := map[string]provider.Adapter{}
		for _, k := range s.upstreams[0].provider.Keys {
			all[k.Replica+k.LastFour] = k.Adapter
		}
		return all
	}
	var old *Settings
	connect := func(s *Settings, names, kept string) {
		t.Helper()
		if err := s.Connect(old, with); err != nil {
			t.Fatal(err)
		}
		var was map[string]provider.Adapter
		if old != nil {
			was = adapters(old)
		}
		now := adapters(s)
		same := map[string]bool{}
		for name, a := range now {
			if was[name] == a {
				same[name] = true
			}
		}
		if got := strings.Join(slices.Sorted(maps.Keys(now)), " "); got != names {
			t.Errorf("the targets are %q, want %q", got, names)
		}
		if got := strings.Join(slices.Sorted(maps.Keys(same)), " "); got != kept {
			t.Errorf("the adapters of %q stay, want %q", got, kept)
		}
		old = s
	}
	const byName = `replicas: ["http://10.0.0.9:1/v1", "dns+http://vllm.test:1/v1"]`
	connect(settings(`replicas: ["http://10.0.0.8:1/v1", "http://10.0.0.9:1/v1"]`), "10.0.0.8:1…1111 10.0.0.8:1…2222 10.0.0.9:1…1111 10.0.0.9:1…2222", "")
	connect(settings(byName), "10.0.0.9:1…1111 10.0.0.9:1…2222 vllm.test:1…1111 vllm.test:1…2222", "10.0.0.9:1…1111 10.0.0.9:1…2222")
	dns.Set("vllm.test", "10.0.0.1")
	if !with.Names.Look(t.Context(), old.Sources()) {
		t.Fatal("the lookup changes nothing")
	}
	next, err := old.Reconnected(with)
	if err != nil {
		t.Fatal(err)
	}
	connect(next, "10.0.0.1:1…1111 10.0.0.1:1…2222 10.0.0.9:1…1111 10.0.0.9:1…2222", "10.0.0.9:1…1111 10.0.0.9:1…2222")
	connect(settings(byName), "10.0.0.1:1…1111 10.0.0.1:1…2222 10.0.0.9:1…1111 10.0.0.9:1…2222", "10.0.0.1:1…1111 10.0.0.1:1…2222 10.0.0.9:1…1111 10.0.0.9:1…2222")
	connect(settings(byName+", max_concurrent: 5"), "10.0.0.1:1…1111 10.0.0.1:1…2222 10.0.0.9:1…1111 10.0.0.9:1…2222", "")
	if !insideProviders(old.upstreams)["own"] {
		t.Error("replicas would be sent addresses of images")
	}
}
