package price_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice/internal/ledger/price"
)

// Lists with the fields of LiteLLM's and of models.dev's, with models and prices of our own.
const (
	litellmList = `{
	"sample_spec": {"litellm_provider": "one of them", "input_cost_per_token": 0},
	"lab-1": {"litellm_provider": "openai", "input_cost_per_token": 2e-06, "output_cost_per_token": 1e-05, "cache_read_input_token_cost": 2e-07,
		"input_cost_per_token_above_272k_tokens": 4e-06, "output_cost_per_token_above_272k_tokens": 1.5e-05, "cache_read_input_token_cost_above_272k_tokens": 4e-07,
		"input_cost_per_token_batches": 1e-06, "output_cost_per_token_batches": 5e-06, "input_cost_per_token_priority": 4e-06, "output_cost_per_token_priority": 2.1e-05,
		"search_context_cost_per_query": {"search_context_size_low": 0.01, "search_context_size_medium": 0.0125}, "max_tokens": 1000, "code_interpreter_cost_per_session": 0.03},
	"anthropic/poet-5": {"litellm_provider": "anthropic", "input_cost_per_token": 3e-06, "output_cost_per_token": 1.5e-05, "cache_creation_input_token_cost": 3.75e-06,
		"cache_creation_input_token_cost_above_1hr": 6e-06, "cache_read_input_token_cost": 3e-07, "source": "https://example.com/prices"},
	"too-fine": {"litellm_provider": "openai", "input_cost_per_token": 1.23456789012e-07},
	"free-text": {"litellm_provider": "openai", "mode": "chat"}
}`
	modelsDevList = `{"google": {"id": "google", "models": {"gem-9": {"id": "gem-9", "cost": {"input": 1.25, "output": 10, "cache_read": 0.31, "context_over_200k": {"input": 2.5, "output": 15}, "odd": 1}}}}}`
	ownList       = `{"prices": [{"vendor": "lab", "model": "a", "input": 1, "output": 2}]}`
)

func TestImport(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, list, want string }{
		{"LiteLLM", litellmList, `litellm
{"vendor":"anthropic","model":"poet-5","input":3,"cache_read":0.3,"cache_write_5m":3.75,"cache_write_1h":6,"cache_write":3.75,"output":15,"source":"https://example.com/prices"}
{"vendor":"openai","model":"lab-1","input":2,"cache_read":0.2,"output":10,"above":[{"tokens":272000,"input":4,"cache_read":0.4,"output":15}],"tiers":{"batch":0.5},"calls":{"web_search":0.0125}}
ignored code_interpreter_cost_per_session 1
refused openai lab-1: the prices of the tier priority are no multiple of the list prices
refused openai too-fine: input must be a number of dollars per million tokens from 0 to 1000000 with at most nine decimals, not "1.23456789012e-1"
`},
		{"models.dev", modelsDevList, `models.dev
{"vendor":"gemini","model":"gem-9","input":1.25,"cache_read":0.31,"output":10,"above":[{"tokens":200000,"input":2.5,"output":15}],"source":"https://models.dev"}
ignored odd 1
`},
		{"our own", ownList, `sluice
{"vendor":"lab","model":"a","input":1,"output":2}
`},
	} {
		in, err := price.Import(strings.NewReader(tt.list))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got := shown(t, in); got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
	for _, bad := range []string{"", "[]", "{}", `{"a":1}`, `{"prices":[{"model":"m","input":"x"}]}`, "null"} {
		if _, err := price.Import(strings.NewReader(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// shown writes what was imported, a line each.
func shown(t *testing.T, in *price.Imported) string {
	t.Helper()
	b := &strings.Builder{}
	fmt.Fprintln(b, in.Format)
	for _, e := range in.Entries {
		raw, err := e.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(b, "%s\n", raw)
	}
	for name, n := range in.Ignored {
		fmt.Fprintln(b, "ignored", name, n)
	}
	slices.Sort(in.Refused)
	for _, r := range in.Refused {
		fmt.Fprintln(b, "refused", r)
	}
	return b.String()
}

func TestDiff(t *testing.T) {
	t.Parallel()
	old := []*price.Entry{
		entry(t, `{"vendor":"v","model":"same","from":"2026-01-01","input":1,"output":2,"source":"https://a.example"}`),
		entry(t, `{"vendor":"v","model":"dearer","input":1,"output":2}`),
		entry(t, `{"vendor":"v","model":"gone","input":1,"output":2}`),
	}
	list := []*price.Entry{
		entry(t, `{"vendor":"v","model":"same","input":1,"output":2}`),
		entry(t, `{"vendor":"v","model":"dearer","input":1,"output":3}`),
		entry(t, `{"vendor":"v","model":"new","input":1,"output":2}`),
		entry(t, `{"vendor":"v","model":"past","until":"2026-01-01","input":1,"output":2}`),
	}
	var got []string
	for _, c := range price.NewBook(old).Diff(list, at("2026-11-18T00:00:00Z")) {
		got = append(got, fmt.Sprint(c.Model, " ", c.Old != nil, " ", c.New.Model))
	}
	if want := []string{"dearer true dearer", "new false new"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
