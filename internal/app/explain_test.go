package app_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice/internal/ledger/costs"
	"sluice/internal/operate/admin"
)

// A cost is taken apart by the API, on the pages, in the export and for staff, and all have the same sum.
func TestExplain(t *testing.T) {
	t.Parallel()
	upstream, _ := costly(t)
	n := newSite(t, fmt.Sprintf(`
providers: [{name: lab, kind: openai, base_url: %q}]
models:
  - {id: lab/one, provider: lab, plan: free, context_length: 100000, max_output: 1000, pricing: {input: 1, output: 2}}
  - {id: lab/other, provider: lab, plan: free, context_length: 100000, max_output: 1000}
`, upstream)).start(t)
	ana := n.join("ana@example.com")
	must[admin.Account](n, "account.set-plan", admin.Target{Actor: "tester", Ref: ana.email, Plan: "basic"})
	for _, model := range []string{"lab/one", "lab/one", "lab/other"} {
		if r := n.request("POST", "/v1/chat/completions", ana.key, fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"please answer."}]}`, model)); r.status != 200 {
			t.Fatalf("a call of %s = %d %s", model, r.status, r.body)
		}
	}
	check := func(what string, e *costs.Reply) {
		t.Helper()
		if e.Total.Requests != 3 || e.Total.Cost != "0.0022" || e.Total.Unpriced != 1 || len(e.Days) != 1 || len(e.Models) != 2 || len(e.Data) != 3 {
			t.Fatalf("%s = %+v, want three requests at 0.0022", what, e)
		}
		// Requests of the same millisecond have no order.
		slices.SortFunc(e.Data, func(a, b costs.CallReply) int { return strings.Compare(b.Model, a.Model) })
		if d := &e.Data[0]; d.Cost != nil || !d.Unpriced || d.Model != "lab/other" {
			t.Errorf("%s: the last request = %+v, want it unpriced", what, d)
		}
		d := &e.Data[1]
		if len(d.Formula) != 2 || d.Formula[0].Count != "1000" || d.Formula[0].Rate != "1" || d.Formula[1].Amount != "0.0001" || d.Formula[1].Source != "vendor" || *d.Cost != "0.0011" || len(e.Prices[d.Version]) == 0 {
			t.Errorf("%s: the request = %+v, want its formula", what, d)
		}
	}
	n.shelve()
	var told costs.Reply
	r := n.get("/v1/usage/explain", ana.key)
	if err := json.Unmarshal([]byte(r.body), &told); err != nil || r.status != 200 {
		t.Fatalf("GET /v1/usage/explain = %d %s, %v", r.status, r.body, err)
	}
	check("the API", &told)
	staff := must[costs.Reply](n, "usage.explain", admin.ExplainQuery{Ref: ana.email})
	check("staff", &staff)

	for _, path := range []string{"/dashboard", "/dashboard/activity", "/dashboard/activity?range=1h"} {
		page := ana.wants(ana.get(path), path, 200, `href="/dashboard/costs?`).body
		_, link, _ := strings.Cut(page, `href="/dashboard/costs?`)
		link, _, _ = strings.Cut(link, `"`)
		ana.wants(ana.get("/dashboard/costs?"+strings.ReplaceAll(link, "&amp;", "&")), "the costs of "+path, 200, `>$0.0022</div>`)
	}
	ana.wants(ana.get("/dashboard/costs?served=lab/one"), "the costs of a model", 200, "$1 per million")
	// Customers read of list prices, as on all their pages.
	if page := ana.get("/dashboard/costs").body; !strings.Contains(page, `<th class="num">List price</th>`) || strings.Contains(page, `<th class="num">Cost</th>`) {
		t.Error("the page of costs names an amount by another word than other pages")
	}
	ana.wants(ana.get("/dashboard/costs?day=x"), "the costs of no day", 400, "day must be a day")
	if file := ana.wants(ana.get("/dashboard/costs.csv"), "the file", 200, "id,at,model_asked").body; strings.Count(file, ",0.0011,") != 2 || strings.Count(file, "\n") != 4 {
		t.Errorf("the file has other costs: %s", file)
	}

	// The prices are the same, so nothing is corrected; the model without one has still none.
	order := admin.RepriceOrder{Actor: "tester", From: "2000-01-01", To: "3000-01-01"}
	out := must[admin.Repriced](n, "prices.reprice", order)
	if len(out.Models) != 1 || out.Models[0].Changed != 0 || out.Models[0].Unpriced != 1 || out.Models[0].Model != "lab/other" || out.Next != "" {
		t.Errorf("prices.reprice = %+v, want no change", out)
	}
}
