package oracles

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stripe/stripe-mock/embedded"
	"github.com/stripe/stripe-mock/server"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/account/billing/stripe"
)

// mock is Stripe's own stand-in: it holds requests against the description of the API and answers with
// examples. It knows nothing of what was said before, so what its examples lack is filled in.
type mock struct {
	stub *server.StubServer
	fill map[string]any // into every object it answers with

	mu   sync.Mutex
	seen []string // "METHOD path status"
}

func newMock(t *testing.T, fill map[string]any) (*mock, string) {
	t.Helper()
	spec, err := server.LoadSpec(embedded.OpenAPISpec, "")
	if err != nil {
		t.Fatal(err)
	}
	fixtures, err := server.LoadFixtures(embedded.OpenAPIFixtures, "")
	if err != nil {
		t.Fatal(err)
	}
	stub, err := server.NewStubServer(fixtures, spec, false, false)
	if err != nil {
		t.Fatal(err)
	}
	m := &mock{stub: stub, fill: fill}
	srv := httptest.NewServer(m)
	t.Cleanup(srv.Close)
	return m, srv.URL
}

func (m *mock) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	reply := httptest.NewRecorder()
	m.stub.HandleRequest(reply, r)
	m.mu.Lock()
	m.seen = append(m.seen, fmt.Sprint(r.Method, " ", r.URL.Path, " ", reply.Code))
	m.mu.Unlock()
	body := map[string]any{}
	if err := json.Unmarshal(reply.Body.Bytes(), &body); err == nil && reply.Code == http.StatusOK {
		for name, v := range m.fill {
			body[name] = v
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(reply.Code)
	_ = json.NewEncoder(w).Encode(body)
}

// TestStripeRequests lets the adapter do everything it can, and wants every request to be one that
// Stripe's description allows.
func TestStripeRequests(t *testing.T) {
	t.Parallel()
	m, url := newMock(t, map[string]any{
		"metadata": map[string]string{"sluice_payment": "pay_1"}, "status": "succeeded", "payment_status": "paid", "payment_intent": "pi_1",
		"customer": "cus_1", "payment_method": map[string]string{"id": "pm_1", "object": "payment_method"},
	})
	p := stripe.New("sk_test_123", "whsec_1", func() string { return "https://sluice.test/dashboard/plan" }, &stripe.Options{URL: url})
	who := billing.Customer{AccountID: "acct_1", Email: "ana@example.com"}
	known := billing.Customer{AccountID: "acct_1", Email: "ana@example.com", Ref: "cus_1"}
	pay := billing.Payment{
		ID: "pay_1", AccountID: "acct_1", Kind: billing.ForStart, Status: billing.Pending, Plan: account.Basic, AmountCents: 1000, PriceCents: 1000,
		PeriodStart: time.Now(), PeriodEnd: time.Now().AddDate(0, 1, 0), CreatedAt: time.Now(), RefundToCents: 400,
	}
	with := func(ref string, present bool) billing.Payment {
		q := pay
		q.Ref, q.Present = ref, present
		return q
	}
	steps := map[string]func() error{
		"Begin, present":     func() error { _, err := p.Begin(t.Context(), who, with("", true)); return err },
		"Begin, away":        func() error { _, err := p.Begin(t.Context(), known, with("", false)); return err },
		"Outcome, page":      func() error { _, err := p.Outcome(t.Context(), with("cs_1", true)); return err },
		"Outcome, charge":    func() error { _, err := p.Outcome(t.Context(), with("pi_1", true)); return err },
		"Cancel, page":       func() error { _, err := p.Cancel(t.Context(), with("cs_1", true)); return err },
		"Cancel, charge":     func() error { _, err := p.Cancel(t.Context(), with("pi_1", false)); return err },
		"Refund":             func() error { _, err := p.Refund(t.Context(), with("pi_1", false)); return err },
		"Portal":             func() error { _, _, err := p.Portal(t.Context(), who); return err },
		"the payment method": func() error { _, err := p.Method(t.Context(), known); return err },
		"Reports": func() error {
			return p.Reports(t.Context(), time.Now().Add(-time.Hour), func(context.Context, billing.Event) error { return nil })
		},
	}
	for name, step := range steps {
		if err := step(); err != nil {
			t.Errorf("%s = %v", name, err)
		}
	}
	for _, want := range []string{
		"GET /v1/checkout/sessions 200", "GET /v1/checkout/sessions/cs_1 200", "GET /v1/events 200", "GET /v1/customers/cus_1 200", "GET /v1/payment_intents 200", "GET /v1/payment_intents/pi_1 200",
		"POST /v1/billing_portal/sessions 200", "POST /v1/checkout/sessions 200", "POST /v1/checkout/sessions/cs_1/expire 200", "POST /v1/customers 200",
		"POST /v1/customers/cus_1 200", "POST /v1/payment_intents 200", "POST /v1/payment_intents/pi_1/cancel 200", "POST /v1/refunds 200",
	} {
		if !slices.Contains(m.seen, want) {
			t.Errorf("%s is missing", want)
		}
	}
}
