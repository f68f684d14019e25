package app_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/prompt/chat"
)

const twoPriced = `discover: false
providers: [{name: lab, kind: openai, base_url: "http://127.0.0.1:1/v1"}]
models:
- {id: lab/large, provider: lab, upstream: large, plan: free, context_length: 100000, max_output: 1000, pricing: {input: 4, output: 20}}
- {id: lab/small, provider: lab, upstream: small, plan: free, context_length: 100000, max_output: 1000, pricing: {input: 1, output: 3}}
- {id: lab/secret, provider: lab, upstream: secret, plan: premium, context_length: 100000, max_output: 1000, pricing: {input: 1, output: 3}}
`

// Owners see what their own calls would have cost, with the markup; staff sees the costs of all.
func TestWhatIfPages(t *testing.T) {
	t.Parallel()
	n := newSite(t, twoPriced).start(t)
	ana := n.join("ana@example.com")
	id := regexp.MustCompile(`acct_\w+`).FindString(n.get("/v1/account", ana.key).body)
	if id == "" {
		t.Fatal("/v1/account does not name the account")
	}
	cost := price.Nano(6_000_000) // 1000 at 4, 100 at 20
	call := usage.Settlement{
		ID: "a", At: time.Now().Add(-time.Hour), AccountID: id, KeyID: "key_a", Plan: "none", ModelAsked: "lab/large", ModelUsed: "lab/large", Provider: "lab",
		Tokens: chat.Usage{Prompt: 1000, Completion: 100}, Status: 200, End: usage.EndComplete, Cost: &cost, Margin: 1_000_000,
	}
	other := call
	other.ID, other.AccountID = "b", "acct_other"
	if err := n.Record(call, other); err != nil {
		t.Fatal(err)
	}
	const page = "/dashboard/activity/whatif"
	ana.wants(ana.get("/dashboard/activity"), "the link", 200, page)
	if body := ana.wants(ana.get(page), "the form with an example", 200, "Below: the last 7 days without prompt caches").body; strings.Contains(body, "lab/secret") || !strings.Contains(body, "$0.007") {
		t.Error("the form has a model of another plan, or no answer")
	}
	body := ana.wants(ana.get(page+"?from=lab/large&to=lab/small"), "another model", 200, "-$0.0057").body
	for _, want := range []string{"$0.007", "$0.0013", "By day", "By key", "Another model counts them differently", "<svg"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not have %s", want)
		}
	}
	ana.wants(ana.get(page+"?from=lab/large"), "half a question", 400, "Choose both models")
	ana.wants(ana.get(page+"?from=lab/large&to=lab/secret"), "a model of another plan", 400, "There is no model")
	ana.wants(ana.get(page+"?batched=200"), "too many batches", 400, "from 0 to 100")
	ana.wants(ana.get(page+"?ttl=2h"), "a time that is none", 400, "use 5m, 1h or none")
	ana.wants(ana.get(page+"?ttl=none&days=5&account=acct_other"), "no cache", 200, "$0.007")

	boss, _ := n.staffMember("boss@example.com")
	boss.wants(boss.get("/support/whatif"), "the form of staff", 200, "Account")
	boss.wants(boss.get("/support/whatif?from=lab/large&to=lab/small"), "all accounts", 200, "acct_other")
	body = boss.wants(boss.get("/support/whatif?from=lab/large&to=lab/small&account=ana@example.com"), "one account", 200, "-$0.0047").body
	if strings.Contains(body, "acct_other") {
		t.Error("the page of one account has another")
	}
	boss.wants(boss.get("/support/whatif?ttl=none&account=nobody@example.com"), "an account that is none", 400, "nobody@example.com")
	ana.wants(ana.get("/support/whatif"), "the console for a customer", 404, "")
}
