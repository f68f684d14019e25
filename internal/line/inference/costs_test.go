package inference

import (
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/auth"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/price"
	"sluice/internal/line/toolloop"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/catalog"
)

// series returns the prices of an entry.
func series(t *testing.T, e price.Entry) *price.Series {
	t.Helper()
	e.Model = "m"
	sealed, err := price.Sealed(e)
	if err != nil {
		t.Fatal(err)
	}
	return price.NewBook([]*price.Entry{sealed}).Find("m", "", "")
}

func TestCosts(t *testing.T) {
	t.Parallel()
	const dollar = price.Rate(1_000_000_000) // a million tokens
	cached := price.Of(dollar, 2*dollar)
	cached[price.CacheRead], cached[price.CacheWrite1h] = dollar/10, 2*dollar
	banded := price.Entry{Rates: cached, Bands: []price.Band{{Above: 500, Rates: price.Of(10*dollar, 20*dollar)}}}
	flat := price.Flat(dollar, 2*dollar)
	const (
		plain = `{"model":"m","messages":[{"role":"user","content":"Hi"}]`
		seen  = `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}]}`
		read  = `{"model":"m","messages":[{"role":"user","content":[{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERi0="}}]}]}`
	)
	for _, tt := range []struct {
		name        string
		body        string
		prompt      int
		model       catalog.Model
		least, most price.Nano // -1: not known
	}{
		{"a flat price", plain + `}`, 1000, catalog.Model{Price: flat, MaxOutput: 100}, 1_000_000, 1_200_000},
		{"no longest reply", plain + `}`, 1000, catalog.Model{Price: flat, ContextLength: 2000}, 1_000_000, 5_000_000},
		{"no bound", plain + `}`, 1000, catalog.Model{Price: flat}, -1, -1},
		{"a bound of the caller's", plain + `,"max_tokens":1}`, 1000, catalog.Model{Price: flat}, 1_000_000, 1_002_000},
		{"a cache", plain + `}`, 400, catalog.Model{Price: series(t, banded), MaxOutput: 100}, 40_000, 1_000_000},
		{"a band", plain + `}`, 501, catalog.Model{Price: series(t, banded), MaxOutput: 100}, 5_010_000, 7_010_000},
		{"a tier", plain + `,"service_tier":"flex"}`, 1000, catalog.Model{Price: series(t, price.Entry{Rates: price.Of(dollar, dollar), Tiers: map[string]price.Factor{"flex": 500_000}}), MaxOutput: 100}, 500_000, 1_100_000},
		{"two places", plain + `}`, 1000, catalog.Model{Targets: []catalog.Target{{Provider: "a", Price: flat}, {Provider: "b", Price: price.Flat(dollar/2, 4*dollar)}}, MaxOutput: 100}, 500_000, 1_200_000},
		{"a place without a price", plain + `}`, 1000, catalog.Model{Targets: []catalog.Target{{Provider: "a", Price: flat}, {Provider: "b"}}, MaxOutput: 100}, -1, -1},
		{"an image", seen, 1100, catalog.Model{Price: flat, ContextLength: 100_000, MaxOutput: 100}, 1_100_000, 1_100_000 + 7_168_000 + 200_000},
		{"an image in a small window", seen, 1100, catalog.Model{Price: flat, ContextLength: 5000, MaxOutput: 100}, 1_100_000, 5_200_000},
		{"a file", read, 1100, catalog.Model{Price: flat, ContextLength: 100_000, MaxOutput: 100}, 1_100_000, 100_200_000},
		{"a search without a window", plain + `,"web_search_options":{}}`, 1000, catalog.Model{Price: series(t, price.Entry{Rates: price.Of(dollar, 2*dollar), Fees: map[string]price.Nano{"web_search": 10_000_000, "video_x": 1e9}}), MaxOutput: 100}, -1, -1},
		{"a search", plain + `,"web_search_options":{}}`, 1000, catalog.Model{Price: series(t, price.Entry{Rates: price.Of(dollar, 2*dollar), Fees: map[string]price.Nano{"web_search": 10_000_000}}), ContextLength: 2000, MaxOutput: 100}, 1_000_000, 162_200_000},
		{"a file without a window", read, 1100, catalog.Model{Price: flat, MaxOutput: 100}, -1, -1},
		{"tools", plain + `,"tools":[{"type":"mcp","server_label":"s","server_url":"https://example.com/mcp"}]}`, 1000, catalog.Model{Price: flat, ContextLength: 2000, MaxOutput: 100}, 1_000_000, 3 * 2_200_000},
	} {
		req, err := chat.Parse([]byte(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		if tt.model.Targets == nil {
			tt.model.Provider = "p"
		}
		l := &Line{tools: toolloop.New(nil, &toolloop.Options{MaxRounds: 2})}
		least, most := l.Costs(&Call{Start: time.Unix(1, 0), Caller: auth.Caller{Account: &account.Account{}}, Request: req, prompt: size{req: req, exact: tt.prompt}}, &tt.model)
		if (least == nil) != (tt.least < 0) || (most == nil) != (tt.most < 0) || least != nil && (*least != tt.least || *most != tt.most) {
			t.Errorf("%s: Costs = %v, %v, want %d and %d", tt.name, least, most, tt.least, tt.most)
		}
	}
}

// A call whose cost nobody can bound is refused with the reason, and with what would help.
func TestUnknownCosts(t *testing.T) {
	t.Parallel()
	const dollar = price.Rate(1_000_000_000)
	const plain = `{"model":"m","messages":[{"role":"user","content":"Hi"}]`
	flat, hard := price.Flat(dollar, dollar), []budget.Due{{Budget: &account.Budget{Name: "b", Hard: true}}}
	for _, tt := range []struct {
		body  string
		model catalog.Model
		dues  []budget.Due
		want  string
	}{
		{plain + `}`, catalog.Model{Price: flat}, hard, `How long a reply of the model "m" can be is not known, so nobody can say whether this call fits the budget "b". Set max_tokens.`},
		{plain + `}`, catalog.Model{Price: flat}, nil, `How long a reply of the model "m" can be is not known, so nobody can say whether this call stays below max_cost. Set max_tokens. Or leave max_cost out.`},
		{plain + `}`, catalog.Model{}, hard, `The model "m" has no price, so nobody can say whether this call fits the budget "b". Use a model with a price, or ask the operator to set one.`},
		{plain + `,"service_tier":"x"}`, catalog.Model{Price: flat, MaxOutput: 1}, hard, `The model "m" has no price for the service tier "x", so nobody can say whether this call fits the budget "b". Leave service_tier out, or ask the operator to set a price for it.`},
		{plain + `,"web_search_options":{}}`, catalog.Model{Price: flat, MaxOutput: 1}, hard, `What the tools cost that the provider runs for this call is not known for the model "m", so nobody can say whether this call fits the budget "b". Leave them out, or ask the operator to set a price for them.`},
	} {
		req, err := chat.Parse([]byte(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		tt.model.ID, tt.model.Provider = "m", "p"
		got := (&Line{}).unknown(&Call{Start: time.Unix(1, 0), Request: req}, &tt.model, tt.dues)
		if !fault.Is(got, fault.BudgetExceeded) || fault.From(got).Message != tt.want {
			t.Errorf("unknown(%s) = %v, want %s", tt.body, got, tt.want)
		}
	}
}
