package app_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sluice/internal/ledger/price"
	"sluice/internal/operate/admin"
)

// boundedSite starts a server with models at a stall that cost in every way.
func boundedSite(t *testing.T, u *stall) *node {
	t.Helper()
	return newSite(t, unbounded+fmt.Sprintf(`
providers: [{name: lab, kind: openai, base_url: %q, allow: [service_tier, web_search_options]}]
models:
  - {id: plain, provider: lab, plan: free, context_length: 100000, max_output: 1000}
  - {id: reasons, provider: lab, plan: free, context_length: 100000, max_output: 1000, reasoning: true}
  - {id: caches, provider: lab, plan: free, context_length: 100000, max_output: 1000}
  - {id: bands, provider: lab, plan: free, context_length: 100000, max_output: 1000}
  - {id: tiers, provider: lab, plan: free, context_length: 100000, max_output: 1000}
  - {id: searches, provider: lab, plan: free, context_length: 100000, max_output: 1000, tool_calling: true}
  - {id: covered, provider: lab, plan: free, context_length: 100000, max_output: 1000, fallbacks: [dear, unpriced, caches]}
  - {id: dear, provider: lab, plan: free, context_length: 100000, max_output: 1000}
  - {id: unpriced, provider: lab, plan: free, context_length: 100000, max_output: 1000}
prices:
  - {model: plain, input: 3, output: 15}
  - {model: reasons, input: 3, output: 15, reasoning: 60}
  - {model: caches, input: 3, output: 15, cache_read: 0.3, cache_write_5m: 3.75, cache_write_1h: 6}
  - {model: bands, input: 3, output: 15, above: [{tokens: 500, input: 6, output: 22.5}]}
  - {model: tiers, input: 3, output: 15, tiers: {priority: 2, flex: 0.5}}
  - {model: searches, input: 3, output: 15, calls: {web_search: 0.01}}
  - {model: covered, input: 1, output: 1}
  - {model: dear, input: 10, output: 50}
sandbox: false
`, u.url)).start(t)
}

// What is reserved bounds what a call costs, in every way that calls cost something; and what a vendor reports beyond any of it, the
// customer does not pay.
func TestHardBudgetBounds(t *testing.T) {
	t.Parallel()
	u := newStall(t)
	n := boundedSite(t, u)
	const hi = `"messages":[{"role":"user","content":"Hi"}]` // 8 tokens
	const micro price.Nano = 1000                            // a millionth of a dollar
	long := `"messages":[{"role":"user","content":"` + strings.Repeat("word ", 600) + `"}]`
	image := `"messages":[{"role":"user","content":[{"type":"text","text":"Hi"},{"type":"image_url","image_url":{"url":"data:image/png;base64,` + base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n\x1a\n")) + `"}}]}]`
	file := `"messages":[{"role":"user","content":[{"type":"text","text":"Hi"},{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,` + strings.Repeat("QUFB", 2000) + `"}}]}]`
	tokens := func(prompt, completion int, more string) string {
		return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d%s}`, prompt, completion, prompt+completion, more)
	}
	for _, tt := range []struct {
		name, body string
		least      price.Nano // that must be reserved
		most       price.Nano // that need be reserved; 0: least
		usage      string     // the most that an honest vendor reports
		more       string
	}{
		{"a reply", `{"model":"plain",` + hi + `}`, 15024 * micro, 0, tokens(8, 1000, ""), ""},
		{"a bound of the caller's", `{"model":"plain","max_tokens":100,` + hi + `}`, 1524 * micro, 0, tokens(8, 100, ""), ""},
		{"a bound beyond the model's", `{"model":"plain","max_tokens":90000,` + hi + `}`, 15024 * micro, 0, tokens(8, 1000, ""), ""},
		{"several replies", `{"model":"plain","n":3,"max_tokens":100,` + hi + `}`, 4524 * micro, 0, tokens(8, 300, ""), ""},
		{"reasoning", `{"model":"reasons",` + hi + `}`, 60024 * micro, 0, tokens(8, 1000, `,"completion_tokens_details":{"reasoning_tokens":1000}`), ""},
		{"a cache that is written", `{"model":"caches",` + hi + `}`, 15048 * micro, 0, tokens(8, 1000, ""), ""},
		{"a long context", `{"model":"bands",` + long + `}`, 26000 * micro, 28000 * micro, tokens(608, 1000, ""), ""},
		{"a dear tier", `{"model":"tiers","service_tier":"priority",` + hi + `}`, 30048 * micro, 0, tokens(8, 1000, ""), `,"service_tier":"priority"`},
		{"a cheap tier that is not granted", `{"model":"tiers","service_tier":"flex",` + hi + `}`, 15024 * micro, 0, tokens(8, 1000, ""), `,"service_tier":"default"`},
		{"a dear fallback", `{"model":"covered",` + hi + `}`, 50080 * micro, 0, tokens(8, 1000, ""), ""},
		{"a search", `{"model":"searches","web_search_options":{},` + hi + `}`, 300000*micro + 15000*micro + 160000*micro, 0, tokens(100000, 1000, ""), ""},
		{"the router's choice", `{"model":"service/auto",` + hi + `}`, 15024 * micro, 60024 * micro, tokens(8, 1000, ""), ""},
		{"an image", `{"model":"plain",` + image + `}`, 39576 * micro, 39700 * micro, tokens(4784, 1000, ""), ""},
		{"a document", `{"model":"plain",` + file + `}`, 315000 * micro, 0, tokens(7000, 1000, ""), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := n.spender(tt.name, "0")
			s.t = t
			path := hardDoors[0].path
			needed := s.worst(path, tt.body)
			if most := max(tt.least, tt.most); needed < tt.least || needed > most {
				t.Errorf("the call needs %s, want %s to %s", needed, tt.least, most)
			}
			s.has(needed - 1)
			s.refusal(path, s.request("POST", path, s.MasterKey, tt.body))
			s.has(needed)
			u.tells(tt.usage, tt.more)
			r := s.request("POST", path, s.MasterKey, tt.body)
			if r.status != 200 {
				t.Fatalf("a call that fits = %d %s", r.status, r.body)
			}
			<-u.came
			honest := s.balanced(tt.name, needed)
			calls, err := s.SettledFor(t.Context(), s.ID)
			if err != nil || len(calls) != 1 || calls[0].Margin != 0 {
				t.Errorf("an honest vendor's call has the settlements %+v, %v, want one without a loss", calls, err)
			}

			// What a vendor reports beyond that is the operator's loss.
			amount := honest + needed + needed/2
			s.has(amount)
			u.tells(strings.NewReplacer(`"prompt_tokens":`, `"prompt_tokens":1`, `"completion_tokens":`, `"completion_tokens":9`).Replace(tt.usage), tt.more)
			if r = s.request("POST", path, s.MasterKey, tt.body); r.status != 200 {
				t.Fatalf("a call of a vendor that reports too much = %d %s", r.status, r.body)
			}
			<-u.came
			if cost := s.balanced("a report of too much", amount); r.header.Get("X-Sluice-Cost") != "" && cost != honest+needed {
				t.Errorf("a vendor's report of too much costs %s, want no more than %s", cost-honest, needed)
			}
			at := s.refusal(path, s.request("POST", path, s.MasterKey, tt.body))
			if s.dollars(at.Spent) > amount {
				t.Errorf("%s of %s are spent", at.Spent, amount)
			}
		})
	}
}

// The operator sees what a call has cost beyond what was reserved for it, its customer what is not charged, and computing the cost
// anew does not charge it either.
func TestBeyondReserved(t *testing.T) {
	t.Parallel()
	u := newStall(t)
	n := hardSite(t, u)
	s := n.spender("s", "1")
	u.tells(`{"prompt_tokens":10,"completion_tokens":500000,"total_tokens":500010}`, "")
	r := n.request("POST", chatPath, s.MasterKey, hardDoors[0].body)
	if r.status != 200 || r.header.Get("X-Sluice-Cost") != "0.015024" {
		t.Fatalf("the call = %d %v %s, want it to cost what was reserved", r.status, r.header, r.body)
	}
	s.balanced("a report of too much", n.dollars("1"))
	n.shelve()
	told := decode[struct {
		Data []struct {
			Cost     json.Number `json:"cost_usd"`
			Rounding json.Number `json:"rounding_usd"`
			Beyond   json.Number `json:"not_charged_usd"`
		}
	}](n, n.get("/v1/usage/explain", s.MasterKey))
	if len(told.Data) != 1 || told.Data[0].Cost != "0.015024" || told.Data[0].Beyond != "7.485006" || told.Data[0].Rounding != "0" {
		t.Errorf("the explanation has %+v, want what is not charged", told.Data)
	}
	found := n.found(r.header.Get("X-Request-Id")).Settled
	if len(found) != 1 || found[0].CostUSD != "7.50003" || found[0].ChargeUSD != "0.015024" {
		t.Errorf("staff see %+v, want the cost and the charge", found)
	}
	must[any](n, "prices.reprice", admin.RepriceOrder{Actor: "t", Reason: "r", From: "2020-01-01", To: "2100-01-01"})
	if got := decode[struct {
		Total struct {
			Cost json.Number `json:"cost_usd"`
		}
	}](n, n.get("/v1/usage/explain", s.MasterKey)).Total.Cost; got != "0.015024" {
		t.Errorf("computed anew, the calls cost %s", got)
	}
	s.balanced("computing it anew", n.dollars("1"))

	// A call beyond all bounds, put into the books, is found.
	calls, err := s.SettledFor(t.Context(), s.ID)
	if err != nil || len(calls) != 1 {
		t.Fatalf("the account has %d calls, %v", len(calls), err)
	}
	more, dear := calls[0], n.dollars("2")
	more.ID, more.Cost, more.Margin, more.Corrected = more.ID+"2", &dear, 0, nil
	if err := n.Record(more); err != nil {
		t.Fatal(err)
	}
	if a := must[admin.Audit](n, "audit", admin.Empty{}); len(a.Overspent) != 1 || a.Overspent[0].Count != s.budget || a.Overspent[0].Over() < n.dollars("1") {
		t.Errorf("the audit finds %+v, want the overspend", a.Overspent)
	}
}

// A model whose cost nobody can bound is refused under a hard budget, with the reason. A budget that only warns lets it through.
func TestHardBudgetUnknown(t *testing.T) {
	t.Parallel()
	u := newStall(t)
	n := boundedSite(t, u)
	s := n.spender("s", "1000")
	const hi = `"messages":[{"role":"user","content":"Hi"}]`
	for body, want := range map[string]string{
		`{"model":"unpriced",` + hi + `}`:                             `The model "unpriced" has no price, so nobody can say whether this call fits the budget "s".`,
		`{"model":"plain","service_tier":"priority",` + hi + `}`:      `The model "plain" has no price for the service tier "priority", so nobody can say whether this call fits the budget "s".`,
		`{"model":"plain","web_search_options":{},` + hi + `}`:        `What the tools cost that the provider runs for this call is not known for the model "plain", so`,
		`{"model":"unpriced","max_cost":1,"max_tokens":5,` + hi + `}`: `has no price`,
	} {
		r := n.request("POST", chatPath, s.MasterKey, body)
		n.refusedBy(chatPath, r)
		if text := strings.ReplaceAll(r.body, `\"`, `"`); !strings.Contains(text, want) || strings.Contains(text, "can raise it") || !strings.Contains(text, `"needed":null`) {
			t.Errorf("%s = %s, want %q and nothing about raising the budget", body, r.body, want)
		}
	}
	if len(u.came) != 0 {
		t.Errorf("the upstream got %d calls that were refused", len(u.came))
	}
	n.recordIn(n.request("PATCH", "/v1/budgets/"+s.budget, s.MasterKey, `{"hard":false,"amount":"0"}`))
	if r := n.request("POST", chatPath, s.MasterKey, `{"model":"unpriced",`+hi+`}`); r.status != http.StatusOK {
		t.Errorf("under a budget that only warns the call = %d %s", r.status, r.body)
	}
	if r := n.request("POST", chatPath, s.MasterKey, `{"model":"plain",`+hi+`}`); r.status != http.StatusOK {
		t.Errorf("above a budget that only warns the call = %d %s", r.status, r.body)
	}
	n.audited("calls above a budget that only warns")
}
