package alert

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/ledger/abuse"
	"sluice/internal/upstream/routing"
)

// Mail says in sentences what a webhook sends as fields, and names customers by their address.
func TestLetterOf(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	address := func(id string) string { return map[string]string{"acct_1": "ana@example.com"}[id] }
	down := DownUpstreams([]routing.TargetHealth{{Provider: "lab", Upstream: "a", Down: true, State: routing.Open}, {Provider: "lab", Upstream: "b"}})[0]
	condition := Condition{Key: down.Key, Since: at, Began: down.Began, Title: down.Title, Data: string(mustJSON(t, down.Data))}
	for _, tt := range []struct {
		name    string
		event   Event
		subject string
		text    []string
	}{
		{
			"a payment", OfLedger(&billing.Entry{Seq: 7, At: at, AccountID: "acct_1", What: billing.RenewalFailed, Plan: account.Scale, AmountCents: 500, PaymentID: "pay_1", Detail: "The card expired."})[0],
			"Account ana@example.com: a renewal failed and will be retried",
			[]string{"The plan is Scale.", "The amount is $5.00.", "The reason: The card expired.", "https://x.example/support/accounts/acct_1"},
		},
		{
			"a review", OfAbuse(&abuse.Event{At: at, AccountID: "acct_2", Kind: abuse.Review, Plan: account.Basic, Tier: account.Free, Score: 60, Why: "fast"})[0],
			"Account acct_2 needs a review: fast",
			[]string{"The abuse score is 60 of 100 for models of the tier Free. The plan is Basic."},
		},
		{
			"a provider", condition.Beginning("n1"),
			"Upstream lab is down: 1 of 2 targets",
			[]string{"1 of 2 targets of lab do not answer.", "- a, open", "https://x.example/support/upstreams"},
		},
		{"what has no sentences", NewEvent("", "new.type", "k", at, "News", map[string]any{"some_thing": 3}), "News", []string{"Some thing: 3"}},
	} {
		d := Delivery{Type: tt.event.Type, Title: tt.event.Title, Body: tt.event.Body}
		subject, text := letterOf(&d, address, "https://x.example")
		if subject != tt.subject {
			t.Errorf("the subject of %s = %q, want %q", tt.name, subject, tt.subject)
		}
		for _, want := range tt.text {
			if !strings.Contains(text, want) {
				t.Errorf("the mail about %s = %q, want %q in it", tt.name, text, want)
			}
		}
		if strings.Contains(text, "amount_cents") {
			t.Errorf("the mail about %s has the fields of the webhook: %q", tt.name, text)
		}
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
