package discovery_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"sluice/internal/account"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/discovery"
	"sluice/internal/upstream/provider"
)

func lists(ids ...string) discovery.Lister {
	return lister(func(context.Context) ([]provider.Listed, error) {
		var out []provider.Listed
		for _, id := range ids {
			out = append(out, provider.Listed{ID: id})
		}
		return out, nil
	})
}

// A provider that does not answer keeps its last list; a server on this machine that does not is gone.
func TestLook(t *testing.T) {
	t.Parallel()
	fails := lister(func(context.Context) ([]provider.Listed, error) { return nil, errors.New("away") })
	here := []discovery.Server{{Kind: "ollama"}, {Kind: "lmstudio"}}
	first, failed := (&discovery.Found{}).Look(t.Context(), map[string]discovery.Lister{"lab": lists("x"), "ollama": lists("llama"), "lmstudio": lists()}, here)
	if len(failed) != 0 || len(first.Local) != 1 || first.Local[0].Kind != "ollama" || len(first.Listed["lab"]) != 1 {
		t.Fatalf("Look = %+v, %v, want the lab and one server", first, failed)
	}
	second, failed := first.Look(t.Context(), map[string]discovery.Lister{"lab": fails, "ollama": fails, "lmstudio": fails}, here)
	if len(failed) != 3 || len(second.Local) != 0 || len(second.Listed["ollama"]) != 0 || len(second.Listed["lab"]) != 1 {
		t.Errorf("Look = %+v, %v, want the lab as it was and no server", second, failed)
	}

	for id, want := range map[string]bool{"x": false, "y": true} {
		m := catalog.Model{Provider: "lab", Upstream: id, Targets: []catalog.Target{{Provider: "lab", Upstream: id}}}
		if got := second.Vanished(&m); got != want {
			t.Errorf("Vanished(%s) = %t, want %t", id, got, want)
		}
	}
	if other := (catalog.Model{Targets: []catalog.Target{{Provider: "lab", Upstream: "y"}, {Provider: "other", Upstream: "y"}}}); second.Vanished(&other) {
		t.Error("a model vanished although one of its providers was not asked")
	}
}

func TestFoundModels(t *testing.T) {
	t.Parallel()
	f := &discovery.Found{Listed: map[string][]provider.Listed{"lab": {{ID: "a"}, {ID: "b"}, {ID: "c"}}}}
	configured := []catalog.Model{
		{ID: "lab/a"},
		{ID: "mine", Targets: []catalog.Target{{Provider: "lab", Upstream: "b"}}},
	}
	source := discovery.Source{Kind: "vllm", Name: "lab", Origin: catalog.ByProvider, Plan: account.Basic}
	models, err := f.Models([]discovery.Source{source, source}, configured)
	if err != nil || len(models) != 1 {
		t.Fatalf("Models = %+v, %v, want the one that is not configured, once", models, err)
	}
	if m := models[0]; m.ID != "lab/c" || m.Origin != catalog.ByProvider || m.Plan != account.Basic || m.StaffOnly {
		t.Errorf("Models = %+v, want lab/c for the Basic plan", m)
	}
	known, err := f.Models([]discovery.Source{{Kind: "openai", Name: "openai", Origin: catalog.Environment, StaffOnly: true, WellKnown: true}}, nil)
	if err != nil || len(known) == 0 || !known[0].StaffOnly || known[0].Origin != catalog.Environment {
		t.Errorf("Models of a key in the environment = %+v, %v, want the well-known ones, for staff", known, err)
	}
}

func TestUnclaimed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		configured []discovery.Configured
		own        string
		want       string
	}{
		{nil, "80", "[ollama llamacpp lmstudio]"},
		{nil, "8080", "[ollama lmstudio]"},
		{[]discovery.Configured{{Kind: "ollama", Name: "x", BaseURL: "http://elsewhere:1/v1"}}, "80", "[llamacpp lmstudio]"},
		{[]discovery.Configured{{Kind: "openai", Name: "lmstudio", BaseURL: "http://elsewhere:1/v1"}}, "80", "[ollama llamacpp]"},
		{[]discovery.Configured{{Kind: "openai", Name: "x", BaseURL: "http://localhost:1234/v1"}}, "80", "[ollama llamacpp]"},
		{[]discovery.Configured{{Kind: "openai", Name: "x", BaseURL: "http://127.0.0.1:8080"}}, "80", "[ollama lmstudio]"},
		{[]discovery.Configured{{Kind: "openai", Name: "x", BaseURL: "http://10.0.0.1:8080"}}, "80", "[ollama llamacpp lmstudio]"},
	} {
		var kinds []string
		for _, s := range discovery.Unclaimed(discovery.Servers(), tt.configured, tt.own) {
			kinds = append(kinds, s.Kind)
		}
		if got := fmt.Sprint(kinds); got != tt.want {
			t.Errorf("Unclaimed(%+v, %s) = %s, want %s", tt.configured, tt.own, got, tt.want)
		}
	}
}
