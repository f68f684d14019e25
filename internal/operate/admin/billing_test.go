package admin_test

import (
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/account/billing/testpay"
	"sluice/internal/kit/fault"
	"sluice/internal/operate/admin"
)

// TestBillingOperations sends a subscription through what operators can do with it.
func TestBillingOperations(t *testing.T) {
	t.Parallel()
	b, store := newBackend(t)
	clock := func() time.Time { return started }
	b.Billing = billing.New(store, &billing.Options{Processor: testpay.New(store, "/pay", "/card"), Now: clock})
	c := admin.InProcess(b)
	a := must[admin.CreatedAccount](t, c, "account.create", admin.NewAccount{Actor: "t", Email: "u@example.com"})
	p, err := b.Billing.Subscribe(t.Context(), "customer", a.ID, account.Premium)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.Billing.PayTest(t.Context(), a.ID, p.ID, "4242424242424242"); err != nil {
		t.Fatal(err)
	}
	got := must[admin.Billing](t, c, "billing.show", admin.Target{Ref: a.Email})
	if got.Status != billing.Active || got.Plan != "premium" || got.Balance != 2500 || len(got.Ledger) != 2 || len(got.Invoices) != 1 ||
		got.Method != "visa ending in 4242, expires 12/99" || !got.Due.Equal(started.AddDate(0, 1, 0)) {
		t.Errorf("billing.show = %+v, want an active premium plan that was paid for", got)
	}
	if got := must[admin.Billing](t, c, "billing.downgrade", admin.Target{Actor: "t", Ref: a.ID, Plan: "basic"}); got.NextPlan != "basic" || got.Plan != "premium" {
		t.Errorf("billing.downgrade = %+v, want basic from the next period on", got)
	}
	if got := must[admin.Billing](t, c, "billing.advance", admin.Move{Actor: "t", Ref: a.ID, To: started.AddDate(0, 2, 1)}); got.Plan != "basic" || got.Balance != 4500 {
		t.Errorf("billing.advance = %+v, want two months of basic paid", got)
	}
	if got := must[admin.Billing](t, c, "billing.refund", admin.RefundOrder{Actor: "t", Payment: p.ID, Cents: 500}); got.Balance != 4000 || got.Invoices[2].Refunded != 500 {
		t.Errorf("billing.refund = %+v, want 500 given back", got)
	}
	if got := must[admin.Account](t, c, "account.terminate", admin.Target{Actor: "t", Ref: a.ID, Reason: "terms"}); got.Status != "terminated" || got.Plan != "none" {
		t.Errorf("account.terminate = %+v, want it terminated without a plan", got)
	}
	for name, in := range map[string]any{
		"billing.downgrade": admin.Target{Actor: "t", Ref: a.ID, Plan: "gold"},
		"billing.refund":    admin.RefundOrder{Actor: "t", Payment: p.ID, Cents: 9999},
		"account.terminate": admin.Target{Actor: "t", Ref: a.ID},
	} {
		if err := c.Call(t.Context(), name, in, &admin.Empty{}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s with %+v = %v, want invalid", name, in, err)
		}
	}
}
