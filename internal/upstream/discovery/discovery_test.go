package discovery_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/discovery"
	"sluice/internal/upstream/provider"
)

type lister func(ctx context.Context) ([]provider.Listed, error)

func (l lister) Models(ctx context.Context) ([]provider.Listed, error) { return l(ctx) }

func TestAsk(t *testing.T) {
	t.Parallel()
	many := make([]provider.Listed, 5000)
	for i := range many {
		many[i].ID = fmt.Sprintf("m%04d", i)
	}
	broken := errors.New("broken")
	listed, failed := discovery.Ask(t.Context(), map[string]discovery.Lister{
		"two":    lister(func(context.Context) ([]provider.Listed, error) { return []provider.Listed{{ID: "b"}, {ID: "a"}}, nil }),
		"many":   lister(func(context.Context) ([]provider.Listed, error) { return many, nil }),
		"broken": lister(func(context.Context) ([]provider.Listed, error) { return nil, broken }),
	})
	if got := listed["two"]; len(got) != 2 || got[0].ID != "a" || got[1].ID != "b" {
		t.Errorf("two = %v, want both in their order", got)
	}
	if n := len(listed["many"]); n != 2000 {
		t.Errorf("%d models of one upstream, want a bound", n)
	}
	if !errors.Is(failed["broken"], broken) || len(failed) != 1 {
		t.Errorf("failed = %v", failed)
	}
}

func TestDescriber(t *testing.T) {
	t.Parallel()
	d, err := discovery.NewDescriber()
	if err != nil {
		t.Fatal(err)
	}
	if all := d.Known("anthropic", "claude"); len(all) == 0 || all[0].ID != "claude/"+all[0].Upstream || all[0].Provider != "claude" {
		t.Errorf("Known(anthropic) = %+v", all)
	}
	if all := d.Known("vllm", "x"); len(all) != 0 {
		t.Errorf("Known(vllm) = %+v, want none: everybody runs their own", all)
	}
	known := d.Listed("openai", "openai", provider.Listed{ID: "gpt-4o-mini", ContextLength: 1})
	if known.ID != "openai/gpt-4o-mini" || known.ContextLength != 128_000 || known.Price == nil {
		t.Errorf("a known model = %+v", known)
	}
	for _, tt := range []struct {
		listed          provider.Listed
		id              string
		context, output int
	}{
		{provider.Listed{ID: "llama3.2:3b"}, "local/llama3.2:3b", 32_768, 8_192},
		{provider.Listed{ID: "my model", ContextLength: 4096}, "local/my-model", 4096, 4096},
		{provider.Listed{ID: "x", ContextLength: 100_000, MaxOutput: 20_000}, "local/x", 100_000, 20_000},
		{provider.Listed{ID: "vec", Embeds: true}, "local/vec", 8192, 0},
		{provider.Listed{ID: "vec-2", Embeds: true, ContextLength: 512}, "local/vec-2", 512, 0},
	} {
		m := d.Listed("ollama", "local", tt.listed)
		if m.ID != tt.id || m.Upstream != tt.listed.ID || m.ContextLength != tt.context || m.MaxOutput != tt.output || m.Created != 0 || m.Provider != "local" || m.Embeds != tt.listed.Embeds || m.Embeds && m.ToolCalling {
			t.Errorf("Listed(%+v) = %+v", tt.listed, m)
		}
	}
}

func TestSame(t *testing.T) {
	t.Parallel()
	a := map[string][]provider.Listed{"x": {{ID: "1"}}}
	for _, tt := range []struct {
		b    map[string][]provider.Listed
		want bool
	}{
		{map[string][]provider.Listed{"x": {{ID: "1"}}}, true},
		{map[string][]provider.Listed{"x": {{ID: "2"}}}, false},
		{map[string][]provider.Listed{"y": {{ID: "1"}}}, false},
		{nil, false},
	} {
		if got := discovery.Same(a, tt.b); got != tt.want {
			t.Errorf("Same(%v, %v) = %t", a, tt.b, got)
		}
	}
}

// What a configured model does not say is filled in from its provider's list and from what is known. It must be true of all
// its targets.
func TestComplete(t *testing.T) {
	t.Parallel()
	d, err := discovery.NewDescriber()
	if err != nil {
		t.Fatal(err)
	}
	day := func(s string) time.Time {
		at, err := time.Parse(time.DateOnly, s)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	found := &discovery.Found{Listed: map[string][]provider.Listed{"lab": {{ID: "ending", Shutdown: day("2027-03-01")}, {ID: "gpt-5-mini", Shutdown: day("2026-12-24")}}}}
	kinds := map[string]string{"lab": "openai"}
	for _, tt := range []struct {
		name, targets, configured, want string
		efforts                         int
	}{
		{"the provider's own list wins", "lab/gpt-5-mini", "", "2026-12-24", 4},
		{"known", "lab/gpt-4o-mini", "", "2027-01-14", 0},
		{"listed", "lab/ending", "", "2027-03-01", 0},
		{"neither", "lab/other", "", "", 0},
		{"a server of the same name elsewhere", "elsewhere/gpt-4o-mini", "", "", 0},
		{"configured", "lab/gpt-4o-mini", "2026-12-01", "2026-12-01", 0},
		{"the last target decides", "lab/gpt-4o-mini lab/ending", "", "2027-03-01", 0},
		{"one target stays", "lab/ending lab/other", "", "", 0},
		{"efforts of both", "lab/gpt-6-sol lab/gpt-5-mini", "", "", 3},
	} {
		m := catalog.Model{}
		for place := range strings.FieldsSeq(tt.targets) {
			name, upstream, _ := strings.Cut(place, "/")
			m.Targets = append(m.Targets, catalog.Target{Provider: name, Upstream: upstream, Weight: 1})
		}
		if tt.configured != "" {
			m.Shutdown = day(tt.configured)
		}
		d.Complete(&m, kinds, found)
		got := ""
		if !m.Shutdown.IsZero() {
			got = m.Shutdown.Format(time.DateOnly)
		}
		if got != tt.want || len(m.Efforts) != tt.efforts {
			t.Errorf("%s: ends on %q with the efforts %v, want %q and %d", tt.name, got, m.Efforts, tt.want, tt.efforts)
		}
	}
}
