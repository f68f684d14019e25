package discovery_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

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
	if known.ID != "openai/gpt-4o-mini" || known.ContextLength != 128_000 || known.Pricing == nil {
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
