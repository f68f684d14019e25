package app_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice/internal/account"
	"sluice/internal/operate/notice"
)

// A call that passes half of a budget leads to one mail, one message and one webhook, also if somebody looks again.
func TestBudgetMarks(t *testing.T) {
	t.Parallel()
	m, u := newMailbox(t), newVectorUpstream(t)
	n := newSite(t, fmt.Sprintf(`
alerts: {allow_hosts: [127.0.0.1]}
signup: open
providers: [{name: one, kind: openai, base_url: %q}]
models: [{id: lab/vec, kind: embedding, provider: one, plan: free, context_length: 8192, pricing: {input: 1, output: 0}}]
`, u.URL)).start(t)
	ana := n.join("ana@example.com")
	ana.leads(ana.post("/dashboard/webhooks", "url", m.URL, "types", "budget.mark"), "POST /dashboard/webhooks", "whsec_")
	// A call has 77 tokens, and costs as many millionths of a dollar.
	n.SetBudget(ana.email, account.Budget{ID: "bud_1", Name: "the team", Amount: 150_000, Window: account.Daily, Scope: account.BudgetScope{Account: true}})
	owner := n.Owner(ana.email)
	told := func(what string, webhooks int, percents ...int) {
		t.Helper()
		n.LookAtBudgets(t.Context())
		mails := func(percent int) int {
			return strings.Count(n.log.String(), fmt.Sprintf(`"subject":"%d%% of the budget \"the team\" is spent"`, percent))
		}
		eventually(t, what+": the webhooks", func() bool { return len(m.got("budget.mark")) >= webhooks })
		for _, percent := range percents {
			eventually(t, fmt.Sprint(what, ": the mail of ", percent), func() bool { return mails(percent) > 0 })
		}
		all, err := n.Notices(owner)
		all = slices.DeleteFunc(all, func(one notice.Notice) bool { return one.Kind != notice.Budget })
		if sent := mails(50) + mails(80) + mails(100); err != nil || sent != len(percents) || len(all) != len(percents) || len(m.got("budget.mark")) != webhooks {
			t.Errorf("%s: %d mails, %d messages and %d webhooks, want %d, %d and %d: %v", what, sent, len(all), len(m.got("budget.mark")), len(percents), len(percents), webhooks, err)
		}
	}
	call := func() {
		t.Helper()
		if r := n.request("POST", "/v1/embeddings", ana.key, `{"model":"lab/vec","input":"a"}`); r.status != 200 {
			t.Fatalf("the call = %d %s", r.status, r.body)
		}
	}
	told("before any call", 0)
	call()
	told("half", 1, 50)
	told("another look", 1, 50)
	call()
	// Two marks at once are one mail. A second webhook of the first mark would have come before these two.
	told("all", 3, 50, 100)
}
