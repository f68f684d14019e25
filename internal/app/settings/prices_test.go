package settings

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/app/config"
	"sluice/internal/ledger/price"
)

// TestPrecedence: the list of the program, then imported prices, then those of a model, then those of the section prices.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, model, prices, imported string
		want                          string // input, its origin, and the price of cache reads
	}{
		{"list", "", "", "", "2 list 0.2"},
		{"imported", "", "", `{"vendor":"openai","model":"gpt-6-sol","input":3}`, "3 imported unknown"},
		{"imported twice", "", "", `{"vendor":"openai","model":"gpt-6-sol","input":3},{"vendor":"openai","model":"gpt-6-sol","input":4}`, "4 imported unknown"},
		{"imported for the id", "", "", `{"model":"lab/gpt","input":5}`, "5 imported unknown"},
		{"imported for another time", "", "", `{"vendor":"openai","model":"gpt-6-sol","from":"2100-01-01","input":3}`, "2 list 0.2"},
		{"model", "pricing: {input: 6}", "", `{"model":"lab/gpt","input":5}`, "6 models[].pricing 6"},
		{"prices", "pricing: {input: 6}", "prices: [{model: lab/gpt, input: 7}]", `{"model":"lab/gpt","input":5}`, "7 prices unknown"},
		{"prices that have ended", "", "prices: [{model: lab/gpt, until: 2026-01-01, input: 7}]", "", "2 list 0.2"},
	} {
		cfg, err := config.Load(config.Source{Path: "sluice.yaml", Text: []byte("discover: false\nproviders: [{name: lab, kind: openai}]\n" +
			"models: [{id: lab/gpt, provider: lab, upstream: gpt-6-sol, plan: free, context_length: 1000, max_output: 100, " + tt.model + "}]\n" + tt.prices + "\n")})
		if err != nil {
			t.Fatal(err)
		}
		s, err := New(cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		list, err := price.Read(strings.NewReader(`{"prices":[` + tt.imported + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		var taken []price.Taken
		for _, e := range list {
			e.Origin = price.FromImport
			taken = append(taken, price.Taken{Entry: e})
		}
		if err := s.Import(taken); err != nil {
			t.Fatal(err)
		}
		m, _ := s.Catalog.Lookup("lab/gpt")
		e := m.Priced(time.Now())
		if e == nil {
			t.Errorf("%s: no price, want %s", tt.name, tt.want)
			continue
		}
		if got := strings.Join([]string{e.Rates[price.Input].String(), e.Origin.String(), e.Rates[price.CacheRead].String()}, " "); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
		if at := m.Prices("lab", "gpt-6-sol").At(time.Now().Unix()); at != e {
			t.Errorf("%s: its place has the price %v, and the model %v", tt.name, at, e)
		}
	}
}

// TestVendorsOnly: only the vendor itself has the vendor's list prices, and only Claude has caches that follow from input.
func TestVendorsOnly(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load(config.Source{Path: "sluice.yaml", Environ: []string{"GROQ_API_KEY=x"}, Text: []byte(`
providers:
- {name: here, kind: openai, base_url: "http://127.0.0.1:1/v1"}
- {name: claude, kind: anthropic}
- {name: lab, kind: openai}
models:
- {id: copy, provider: here, upstream: gpt-6-sol, plan: free, context_length: 1000, max_output: 100}
- {id: claude, provider: claude, upstream: claude-sonnet-9, plan: free, context_length: 1000, max_output: 100}
- {id: both, targets: [{provider: claude, upstream: claude-sonnet-9}, {provider: lab, upstream: claude-sonnet-9}], plan: free, context_length: 1000, max_output: 100}
- {id: groq, provider: groq, upstream: openai/gpt-oss-120b, plan: free, context_length: 1000, max_output: 100}
prices:
- {model: claude, input: 3, output: 15}
- {model: both, input: 3, output: 15}
`)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{
		"copy": "unpriced", "claude": "input 3, cache_read 0.3, cache_write_5m 3.75, cache_write_1h 6, cache_write 3.75, output 15",
		"both": "input 3, output 15", "groq": "input 0.15, output 0.6",
	} {
		m, _ := s.Catalog.Lookup(id)
		got := "unpriced"
		if e := m.Priced(time.Now()); e != nil {
			got = e.Text()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
}

// TestVideoPrices: videos have the vendor's list prices and the markup, and their prices are among those in force.
func TestVideoPrices(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load(config.Source{Path: "sluice.yaml", Text: []byte(`discover: false
markup: {plans: {basic: 1.5}}
video:
  provider: google
  providers:
  - {name: google, kind: veo, base_url: "https://generativelanguage.googleapis.com/v1beta", api_key: k, model: veo-3.1-generate-preview}
`)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	e := s.VideoPrices("google").At(time.Now().Unix())
	if e == nil || s.VideoPrices("sandbox") != nil {
		t.Fatalf("the prices of videos are %v, and of the sandbox %v", e, s.VideoPrices("sandbox"))
	}
	v := s.Video("https://example.com", nil, slog.New(slog.DiscardHandler))
	if got := v.Engine.Price.At(time.Now().Unix()); got != e || v.Markup.Of("basic", "acct") != 1_500_000 {
		t.Errorf("videos cost %v with the markup %v, want %v with 1.5", got, v.Markup, e)
	}
	if !slices.Contains(s.InForce(), e) {
		t.Error("the prices in force have none of videos")
	}
}
