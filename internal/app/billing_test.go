package app_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/operate/admin"
)

// What was paid for holds for the very next request, what has lapsed no longer, and a restart changes
// neither.
func TestPlansAtWork(t *testing.T) {
	t.Parallel()
	s := newSite(t, "plans: {none: {requests_per_minute: unlimited}}\n")
	n := s.start(t)
	created := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "ana@example.com"})
	ask := func(when, model string, want int) {
		t.Helper()
		if r := n.request("POST", "/v1/chat/completions", created.MasterKey, `{"model":"`+model+`","messages":[{"role":"user","content":"What is 1+2?"}]}`); r.status != want {
			t.Errorf("%s: %s answers %d %s, want %d", when, model, r.status, r.body, want)
		}
	}
	const basic, premium = "sandbox/large", "sandbox/reasoner"
	ask("without a plan", basic, 402)
	sells := n.Billing()
	p, err := sells.Subscribe(t.Context(), "customer", created.ID, account.Basic)
	if err != nil || p.URL != "/dashboard/plan/pay?payment="+p.ID {
		t.Fatalf("Subscribe = %+v, %v, want a page of the dashboard", p, err)
	}
	ask("before paying", basic, 402)
	if _, _, err := sells.PayTest(t.Context(), created.ID, p.ID, "4000000000000341"); err != nil {
		t.Fatal(err)
	}
	ask("paid", basic, 200)
	ask("paid", premium, 403)
	o, err := sells.Quote(t.Context(), created.ID, account.Premium)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := sells.Upgrade(t.Context(), "customer", created.ID, o); err != nil || p.Status != billing.Paid || p.AmountCents != o.AmountCents {
		t.Fatalf("Upgrade = %+v, %v, want the offer paid", p, err)
	}
	ask("upgraded", premium, 200)
	n.stop()
	n = s.start(t)
	ask("after a restart", premium, 200)

	show := must[admin.Billing](n, "billing.show", admin.Target{Ref: created.ID})
	show = must[admin.Billing](n, "billing.advance", admin.Move{Actor: "t", Ref: created.ID, To: show.PeriodEnd.Add(4 * 24 * time.Hour)})
	if show.Status != billing.PastDue || show.Failed != 2 {
		t.Errorf("on day 4 the subscription is %s after %d tries, want past due after 2", show.Status, show.Failed)
	}
	ask("past due", premium, 200)
	must[admin.Billing](n, "billing.advance", admin.Move{Actor: "t", Ref: created.ID, To: show.PeriodEnd.Add(8 * 24 * time.Hour)})
	ask("lapsed", premium, 402)
	eventually(t, "mail about the payments", func() bool {
		log := n.log.String()
		return strings.Contains(log, "Your payment failed") && strings.Contains(log, "Your Premium plan has ended")
	})
	// The last failure is told as the end of the plan alone, not as one more that leaves it active.
	told, err := n.Notices(created.ID)
	if err != nil {
		t.Fatal(err)
	}
	var titles []string
	for _, x := range told { // newest first
		if strings.Contains(x.Body, "stays active") != (x.Title == "Your payment failed") {
			t.Errorf("the notice %q says %q", x.Title, x.Body)
		}
		titles = append(titles, x.Title)
	}
	if want := []string{"Your Premium plan has ended", "Your payment failed", "Your payment failed", "Your payment failed"}; !slices.Equal(titles, want) {
		t.Errorf("the customer was told %q, want %q", titles, want)
	}
	ask("lapsed", "sandbox/tiny", 200)
}

// The webhook is there only where Stripe is, and refuses what Stripe has not signed.
func TestWebhookRoute(t *testing.T) {
	t.Parallel()
	never := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/events" { // lost ones are asked for at the start
			t.Errorf("Stripe was asked for %s about a forged event", r.URL.Path)
		}
		_, _ = io.WriteString(w, `{"object":"list","data":[],"has_more":false}`)
	}))
	t.Cleanup(never.Close)
	n := newSite(t, "billing: {processor: stripe, secret_key: sk_test_1, webhook_secret: whsec_1, api_url: \""+never.URL+"\"}\n").start(t)
	if r := n.request("POST", "/webhooks/stripe", "", `{"id":"evt_1"}`); r.status != 400 || !strings.Contains(r.body, `"invalid_request_error"`) {
		t.Errorf("a forged event = %d %s, want 400", r.status, r.body)
	}
	if r := n.request("GET", "/webhooks/stripe", "", ""); r.status != 405 {
		t.Errorf("GET = %d %s, want 405", r.status, r.body)
	}
	n = newSite(t, "").start(t)
	if r := n.request("POST", "/webhooks/stripe", "", "{}"); r.status != 404 {
		t.Errorf("without Stripe = %d %s, want 404", r.status, r.body)
	}
}
