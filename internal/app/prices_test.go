package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sluice/internal/ledger/price"
	"sluice/internal/operate/admin"
	"sluice/internal/testkit/pgtest"
)

// entry returns a price as an argument of an operation.
func entry(t *testing.T, text string) []*price.Entry {
	t.Helper()
	list, err := price.Read(strings.NewReader(`{"prices":[` + text + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// A call costs what the prices in force say, and its customer is told that with the operator's markup. What staff imports is in force
// for the next call, and every version that was in force is kept.
func TestPriceBook(t *testing.T) {
	t.Parallel()
	u := newVectorUpstream(t)
	s := newSite(t, "")
	write := func(markup string) {
		s.write(t, fmt.Sprintf(`
providers: [{name: one, kind: openai, base_url: %q}]
models: [{id: lab/vec, kind: embedding, provider: one, plan: free, context_length: 8192}]
plans: {free: {requests_per_minute: 100}}
%s
`, u.URL, markup))
	}
	write("markup: {all: 1.5, plans: {basic: 1.2}}")
	n := s.start(t)
	a := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "a@example.com", Plan: "basic"})
	settled := func() admin.Request {
		t.Helper()
		r := n.request("POST", "/v1/embeddings", a.MasterKey, `{"model":"lab/vec","input":"a"}`) // 77 tokens
		n.shelve()
		found := n.found(r.header.Get("X-Request-Id"))
		if r.status != http.StatusOK || len(found.Settled) != 1 {
			t.Fatalf("%d settlements of %d %s, want 1", len(found.Settled), r.status, r.body)
		}
		return found.Settled[0]
	}
	verbose := func() string {
		t.Helper()
		return n.get("/v1/models/lab%2Fvec", a.MasterKey).body
	}

	// Nobody knows its price.
	if r := settled(); r.CostUSD != "" || r.ChargeUSD != "" {
		t.Errorf("a call without a price costs %q, charged %q", r.CostUSD, r.ChargeUSD)
	}
	if got := verbose(); !strings.Contains(got, `"unpriced":true`) || strings.Contains(got, `"pricing"`) {
		t.Errorf("the model without a price is %s", got)
	}

	// An import without take changes nothing; with it, the next call has the price.
	in := admin.PriceImport{Actor: "t", Entries: entry(t, `{"model":"lab/vec","input":1.000000001,"output":0},{"model":"elsewhere","input":1}`)}
	if out := must[admin.PriceChanges](n, "prices.import", in); len(out.Changes) != 1 || out.Skipped != 1 || out.Taken != 0 {
		t.Errorf("prices.import = %+v, want one change", out)
	}
	if r := settled(); r.CostUSD != "" {
		t.Errorf("a call costs %q after an import that was not taken", r.CostUSD)
	}
	in.Take = true
	if out := must[admin.PriceChanges](n, "prices.import", in); out.Taken != 1 {
		t.Errorf("prices.import = %+v, want one taken", out)
	}
	// 77 × 1.000000001 / 1,000,000 = 0.000077000000077, of which 0.000077 is whole nano-dollars; times 1.2.
	if r := settled(); r.CostUSD != "0.000077" || r.ChargeUSD != "0.0000924" {
		t.Errorf("a call costs %q, charged %q, want 0.000077 and 0.0000924", r.CostUSD, r.ChargeUSD)
	}
	// The catalog has the markup for all.
	if got := verbose(); !strings.Contains(got, `"input":1.500000002`) || strings.Contains(got, "unpriced") {
		t.Errorf("the model with a price is %s", got)
	}

	// The configuration has precedence, and a reload is enough for it and for another markup.
	write("prices: [{model: lab/vec, input: 2}]\nmarkup: {all: 1.5, plans: {basic: 1.2}, accounts: {" + a.ID + ": 0.5}}")
	must[admin.Reloaded](n, "reload", admin.Empty{})
	if r := settled(); r.CostUSD != "0.000154" || r.ChargeUSD != "0.000077" {
		t.Errorf("a call costs %q, charged %q, want 0.000154 and 0.000077", r.CostUSD, r.ChargeUSD)
	}
	sums := must[admin.Usage](n, "usage", admin.UsageQuery{Ref: a.ID, Days: 1})
	if sums.Totals.CostUSD != "0.000231" || sums.Totals.ChargeUSD != "0.0001694" || sums.Totals.Unpriced != 2 {
		t.Errorf("usage = %+v", sums.Totals)
	}

	// What was in force is known for ever, with who imported it.
	seen := must[admin.List[price.Seen]](n, "prices.history", admin.Cursor{}).Data
	if len(seen) != 2 || seen[0].Origin != "prices" || seen[0].Entry.Text() != "input 2" || seen[1].Origin != "imported" || seen[1].By != "t" || seen[1].Entry.Text() != "input 1.000000001, output 0" {
		text, _ := json.Marshal(seen)
		t.Errorf("prices.history = %s", text)
	}
}

// TestPriceCustomers: no door tells a customer the cost without the markup.
func TestPriceCustomers(t *testing.T) {
	t.Parallel()
	u := newVectorUpstream(t)
	n := newSite(t, fmt.Sprintf(`
providers: [{name: one, kind: openai, base_url: %q}]
models: [{id: lab/vec, kind: embedding, provider: one, plan: free, context_length: 8192}]
prices: [{model: lab/vec, input: 1000}]
markup: {all: 3}
`, u.URL)).start(t)
	a := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "a@example.com", Plan: "basic"})
	if r := n.request("POST", "/v1/embeddings", a.MasterKey, `{"model":"lab/vec","input":"a"}`); r.status != http.StatusOK {
		t.Fatalf("embeddings = %d %s", r.status, r.body)
	}
	n.shelve()
	for _, path := range []string{"/v1/models?verbose=true", "/v1/usage", "/v1/models/lab%2Fvec"} {
		got := n.get(path, a.MasterKey)
		if got.status == http.StatusOK && strings.Contains(got.body, "0.077") {
			t.Errorf("%s tells the cost: %s", path, got.body)
		}
		if got.status == http.StatusOK && strings.Contains(got.body, `"input":1000`) {
			t.Errorf("%s tells the vendor's price: %s", path, got.body)
		}
	}
	if got := n.get("/v1/usage", a.MasterKey); got.status != http.StatusOK || !strings.Contains(got.body, "0.231") {
		t.Errorf("/v1/usage = %d %s, want the charge 0.231", got.status, got.body)
	}
	for _, path := range []string{"/models", "/models/lab/vec"} {
		body := n.get(path, "").body
		if !strings.Contains(body, "$3,000") {
			t.Errorf("%s does not show the price with the markup", path)
		}
	}
}

// TestPriceNodes: what is imported on one node is in force on the other.
func TestPriceNodes(t *testing.T) {
	t.Parallel()
	u := newVectorUpstream(t)
	yaml := "database: " + pgtest.URL(t) + "\nsecret: one-secret-for-all-nodes-of-this-test\ncluster: approximate\n" + fmt.Sprintf(`
providers: [{name: one, kind: openai, base_url: %q}]
models: [{id: lab/vec, kind: embedding, provider: one, plan: free, context_length: 8192}]
`, u.URL)
	one, two := newSite(t, yaml).start(t), newSite(t, yaml).start(t)
	list := func(n *node) admin.Price {
		t.Helper()
		return must[admin.List[admin.Price]](n, "prices.list", admin.PriceQuery{Model: "lab/vec"}).Data[0]
	}
	if !list(two).Unpriced {
		t.Fatal("the model has a price before there is one")
	}
	must[admin.PriceChanges](one, "prices.import", admin.PriceImport{Actor: "t", Take: true, Entries: entry(t, `{"model":"lab/vec","input":1}`)})
	if p := list(one); !p.InForce || p.Origin != "imported" {
		t.Errorf("the price where it was imported is %+v", p)
	}
	eventually(t, "the price on the other node", func() bool { return list(two).InForce })
}

// Models of the sandbox cost what an operator says, so that everything that depends on costs can be tried without a vendor.
func TestSandboxPrices(t *testing.T) {
	t.Parallel()
	n := newSite(t, `
prices: [{model: sandbox/small, from: 2026-01-01, input: 3, cache_read: 0.3, cache_write_5m: 3.75, cache_write_1h: 6, output: 15, above: [{tokens: 200000, input: 6, output: 22.5}], tiers: {priority: 2, batch: 0.5}, calls: {web_search: 0.01}}]
`).start(t)
	for path, body := range map[string]string{
		"/v1/chat/completions": `"messages":[{"role":"user","content":"hi"}]`,
		"/v1/messages":         `"max_tokens":100,"messages":[{"role":"user","content":"hi"}]`,
		"/v1/responses":        `"input":"hi"`,
	} {
		// 8 tokens at 3 and 17 at 15 dollars a million.
		r := n.request("POST", path, n.OwnerKey(), `{"model":"sandbox/small","usage":{"include":true},`+body+`}`)
		if cost := r.header.Get("X-Sluice-Cost"); cost != "0.000279" || !strings.Contains(r.body, `"cost":0.000279`) {
			t.Errorf("POST %s costs %q, want 0.000279 there and in %s", path, cost, r.body)
		}
	}
	if r := n.request("POST", "/v1/embeddings", n.OwnerKey(), `{"model":"sandbox/embed","input":"hi","usage":{"include":true}}`); !strings.Contains(r.body, `"cost":null`) {
		t.Errorf("embeddings without a price = %s, want no cost", r.body)
	}
	if list := must[admin.List[admin.Price]](n, "prices.list", admin.PriceQuery{}).Data; len(list) != 1 || list[0].Model != "sandbox/small" {
		t.Errorf("prices.list = %+v, want those of sandbox/small alone", list)
	}
}
