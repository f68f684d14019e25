package testpay_test

import (
	"context"
	"testing"

	"sluice/internal/account/billing"
	"sluice/internal/account/billing/testpay"
	"sluice/internal/kit/fault"
)

// stock keeps objects in memory.
type stock map[string][]byte

func (s stock) ChangeTestObject(_ context.Context, id string, change func([]byte) ([]byte, error)) error {
	body, err := change(s[id])
	if err == nil {
		s[id] = body
	}
	return err
}

var ana = billing.Customer{AccountID: "acct_1", Email: "ana@example.com"}

// TestCards holds what each card does against what the form says of it.
func TestCards(t *testing.T) {
	t.Parallel()
	tests := []struct {
		number          string
		page            billing.PaymentStatus // paid on the page, once confirmed
		confirm         bool
		renewal, charge billing.PaymentStatus // later, without the customer
		mustConfirm     bool                  // the charge
	}{
		{"4242 4242 4242 4242", billing.Paid, false, billing.Paid, billing.Paid, false},
		{"4000000000000002", billing.Pending, false, billing.Failed, billing.Failed, false},
		{"4000000000000341", billing.Paid, false, billing.Failed, billing.Paid, false},
		{"4000002500003155", billing.Paid, true, billing.Paid, billing.Failed, true},
		{"1234", billing.Pending, false, billing.Failed, billing.Failed, false},
	}
	for _, tt := range tests {
		p := testpay.New(stock{}, "/pay", "/card")
		first := billing.Payment{ID: "pay_1", AmountCents: 1000, Present: true, Kind: billing.ForStart}
		o, err := p.Begin(t.Context(), ana, first)
		if err != nil || o.Status != billing.Pending || o.URL != "/pay?payment=pay_1" {
			t.Fatalf("%s: Begin = %+v, %v, want a page", tt.number, o, err)
		}
		if confirm, err := p.Pay(t.Context(), "pay_1", tt.number); err != nil || confirm != tt.confirm {
			t.Errorf("%s: Pay = %t, %v, want %t", tt.number, confirm, err, tt.confirm)
		}
		if err := p.Confirm(t.Context(), "pay_1", true); err != nil {
			t.Errorf("%s: Confirm = %v", tt.number, err)
		}
		if o, err := p.Outcome(t.Context(), first); err != nil || o.Status != tt.page {
			t.Errorf("%s: the page's payment is %+v, %v, want %s", tt.number, o, err, tt.page)
		}
		for kind, want := range map[billing.Kind]billing.PaymentStatus{billing.ForRenewal: tt.renewal, billing.ForUpgrade: tt.charge} {
			o, err := p.Begin(t.Context(), ana, billing.Payment{ID: "pay_" + string(kind), AmountCents: 1000, Kind: kind})
			if err != nil || o.Status != want || o.Confirm != (tt.mustConfirm && kind == billing.ForUpgrade) {
				t.Errorf("%s: the %s is %+v, %v, want %s", tt.number, kind, o, err, want)
			}
		}
	}
}

// A payment is one, however often it is begun, and whatever the customer does later.
func TestOnce(t *testing.T) {
	t.Parallel()
	p := testpay.New(stock{}, "/pay", "/card")
	if err := p.SetCard(t.Context(), ana.AccountID, "4242424242424242"); err != nil {
		t.Fatal(err)
	}
	pay := billing.Payment{ID: "pay_1", AmountCents: 1000, Kind: billing.ForRenewal}
	for range 3 {
		if o, err := p.Begin(t.Context(), ana, pay); err != nil || o.Status != billing.Paid || o.Method.LastFour != "4242" {
			t.Fatalf("Begin = %+v, %v, want paid", o, err)
		}
		if o, err := p.Cancel(t.Context(), pay); err != nil || o.Status != billing.Paid {
			t.Errorf("Cancel of a paid one = %+v, %v, want paid", o, err)
		}
		pay.RefundToCents = 400
		if o, err := p.Refund(t.Context(), pay); err != nil || o.RefundedCents != 400 {
			t.Errorf("Refund = %+v, %v, want 400 in all", o, err)
		}
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	p := testpay.New(stock{}, "/pay", "/card")
	pay := billing.Payment{ID: "pay_1", AmountCents: 1000, Present: true}
	if _, err := p.Outcome(t.Context(), pay); !fault.Is(err, fault.NotFound) {
		t.Errorf("Outcome of what was never begun = %v, want not found", err)
	}
	if _, err := p.Begin(t.Context(), ana, pay); err != nil {
		t.Fatal(err)
	}
	if o, err := p.Cancel(t.Context(), pay); err != nil || o.Status != billing.Failed {
		t.Errorf("Cancel = %+v, %v, want failed", o, err)
	}
	if _, err := p.Pay(t.Context(), pay.ID, "4242424242424242"); err != nil {
		t.Fatal(err)
	}
	if o, err := p.Outcome(t.Context(), pay); err != nil || o.Status != billing.Failed {
		t.Errorf("a cancelled payment is %+v, %v after a card was given, want failed", o, err)
	}
}
