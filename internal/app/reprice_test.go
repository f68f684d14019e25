package app_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sluice/internal/ledger/costs"
	"sluice/internal/ledger/price"
	"sluice/internal/operate/admin"
)

// Prices that turn out to have been wrong are corrected: whatever tells the cost of past calls tells the same, to the
// nano-dollar, before and after.
func TestReprice(t *testing.T) {
	t.Parallel()
	upstream, _ := costly(t)
	config := fmt.Sprintf(`
providers: [{name: lab, kind: openai, base_url: %q}]
markup: {all: 1.5}
models:
  - {id: lab/one, provider: lab, plan: free, context_length: 100000, max_output: 1000}
  - {id: lab/other, provider: lab, plan: free, context_length: 100000, max_output: 1000}
prices:
  - {model: lab/one, input: 1.234567, output: 2.000003}
`, upstream)
	s := newSite(t, config)
	n := s.start(t)
	ana := n.join("ana@example.com")
	must[admin.Account](n, "account.set-plan", admin.Target{Actor: "tester", Ref: ana.email, Plan: "basic"})
	for _, model := range []string{"lab/one", "lab/one", "lab/other"} {
		if r := n.request("POST", "/v1/chat/completions", ana.key, fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"please answer."}]}`, model)); r.status != 200 {
			t.Fatalf("a call of %s = %d %s", model, r.status, r.body)
		}
	}
	// 1000 and 50 tokens: twice 0.001234567 + 0.00010000015, and that times 1.5.
	const before, beforeTold = 2 * 1_334_567, 2 * 2_001_851
	ana.agrees(before, beforeTold, 1)

	// The right price was another one all the time, and the other model had one, too.
	s.write(t, config+"  - {model: lab/one, from: 2020-01-01, input: 3.456789, output: 7.000007}\n  - {model: lab/other, from: 2020-01-01, input: 1, output: 1}\n")
	if err := n.Reload(); err != nil {
		t.Fatal(err)
	}
	ana.agrees(before, beforeTold, 1) // a change of prices changes no past call

	const after, afterTold = 2*3_806_789 + 1_050_000, 2*5_710_184 + 1_575_000
	order := admin.RepriceOrder{Actor: "tester", From: "2000-01-01", To: "3000-01-01", DryRun: true}
	for _, order.DryRun = range []bool{true, false} {
		out := must[admin.Repriced](n, "prices.reprice", order)
		if got, want := fmt.Sprint(out), "{3 [{lab/one 2 0 0 0.004944444 0.002472222} {lab/other 1 1 0 0.00105 0.000525}] }"; got != want {
			t.Fatalf("prices.reprice, dry run %t = %s, want %s", order.DryRun, got, want)
		}
		if order.DryRun {
			ana.agrees(before, beforeTold, 1)
		}
	}
	ana.agrees(after, afterTold, 0)
	if out := must[admin.Repriced](n, "prices.reprice", order); out.Looked != 3 || len(out.Models) != 0 {
		t.Errorf("prices.reprice, once more = %+v, want no change", out)
	}
	ana.agrees(after, afterTold, 0)
}

// agrees checks what calls of today cost, by everything that tells it: cost to staff, and told to the customer.
func (p *person) agrees(cost, told price.Nano, unpriced int64) {
	t := p.n.t
	t.Helper()
	p.n.shelve()
	staff, customer := string(cost.AppendJSON(nil)), string(told.AppendJSON(nil))
	explained := must[costs.Reply](p.n, "usage.explain", admin.ExplainQuery{Ref: p.email})
	if sum := &explained.Total; sum.Cost.String() != staff || sum.Margin.String() != string((told-cost).AppendJSON(nil)) || sum.Unpriced != unpriced {
		t.Errorf("usage.explain = %+v, want %s, and %s with the markup", sum, staff, customer)
	}
	if sum := must[admin.WhatIf](p.n, "whatif", admin.WhatIfQuery{Account: p.email, CacheTTL: "none"}).Total; sum.Cost.String() != staff || sum.Unpriced != unpriced {
		t.Errorf("whatif = %+v, want %s", sum, staff)
	}
	var reply costs.Reply
	if r := p.n.get("/v1/usage/explain", p.key); json.Unmarshal([]byte(r.body), &reply) != nil || reply.Total.Cost.String() != customer || reply.Total.Unpriced != unpriced {
		t.Errorf("GET /v1/usage/explain = %d %s, want %s", r.status, r.body, customer)
	}
	if r := p.n.get("/v1/usage", p.key); !strings.Contains(r.body, customer) {
		t.Errorf("GET /v1/usage = %d %s, want %s", r.status, r.body, customer)
	}
	for _, page := range []string{"/dashboard", "/dashboard/activity", "/dashboard/costs"} {
		p.wants(p.get(page), page, 200, "$"+customer)
	}
	for file, column := range map[string]string{"/dashboard/activity.csv": "list_price_usd", "/dashboard/activity/days.csv": "cost_usd", "/dashboard/costs.csv": "cost_usd"} {
		if sum := p.sum(file, column); sum != told {
			t.Errorf("%s adds up to %d, want %d", file, sum, told)
		}
	}
	if sum := p.exported(); sum != told {
		t.Errorf("the export adds up to %d, want %d", sum, told)
	}
	if audit := must[admin.Audit](p.n, "audit", admin.Empty{}); len(audit.Differences) > 0 || audit.Compared == 0 {
		t.Errorf("audit = %+v", audit)
	}
}

// exported adds up the calls in the export as JSON.
func (p *person) exported() (sum price.Nano) {
	p.n.t.Helper()
	var list []struct {
		Price json.Number `json:"list_price_usd"`
	}
	r := p.get("/dashboard/activity.json")
	if err := json.Unmarshal([]byte(r.body), &list); err != nil {
		p.n.t.Errorf("the export = %d %s, %v", r.status, r.body, err)
	}
	for _, x := range list {
		sum += nano(p.n.t, x.Price.String())
	}
	return sum
}

// sum adds up a column of a file.
func (p *person) sum(path, column string) (sum price.Nano) {
	p.n.t.Helper()
	r := p.wants(p.get(path), path, 200, column)
	rows, err := csv.NewReader(strings.NewReader(r.body)).ReadAll()
	if err != nil {
		p.n.t.Fatalf("%s: %v", path, err)
	}
	for _, row := range rows[1:] {
		for i, name := range rows[0] {
			if name == column {
				sum += nano(p.n.t, row[i])
			}
		}
	}
	return sum
}

// nano reads an amount of dollars; none is zero.
func nano(t *testing.T, text string) price.Nano {
	t.Helper()
	if text == "" {
		return 0
	}
	n, err := price.Parse(text)
	if err != nil {
		t.Fatalf("%q is no amount: %v", text, err)
	}
	return n
}
