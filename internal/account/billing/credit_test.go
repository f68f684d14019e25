package billing_test

import (
	"testing"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/kit/fault"
)

// A credit lowers renewals until it is used up, and never the same cents twice. A renewal that fails gives it back.
func TestCredit(t *testing.T) {
	t.Parallel()
	d := newFixture(t, openStore(t), "2026-04-10T00:00:00Z")
	d.subscribe(account.Basic, good)
	d.stands("at first", account.Basic, billing.Active, 1000)
	credit := func(cents int64) error { return d.Credit(t.Context(), "staff", d.id, cents, "an outage") }
	d.must(credit(1500))
	if v := d.view(); v.CreditCents != 1500 {
		t.Errorf("the credit is %d cents, want 1500", v.CreditCents)
	}
	d.pass(31*day, day)
	d.stands("after a renewal that the credit paid", account.Basic, billing.Active, 1000)
	if v := d.view(); v.CreditCents != 500 {
		t.Errorf("the credit after a renewal is %d cents, want 500", v.CreditCents)
	}
	d.pass(31*day, day)
	d.stands("after a renewal that the credit paid in part", account.Basic, billing.Active, 1500)
	d.pass(31*day, day)
	d.stands("after a renewal without credit", account.Basic, billing.Active, 2500)

	d.must(credit(70))
	left := d.view().CreditCents
	for _, cents := range []int64{0, -left - 1, 2_000_000} {
		if err := credit(cents); !fault.Is(err, fault.Invalid) {
			t.Errorf("Credit(%d) with %d cents of credit = %v, want it refused", cents, left, err)
		}
	}
	d.must(credit(-left))

	// A card that declines: the credit is there for the next try.
	d.must(credit(400))
	d.must(second(d.SetTestCard(t.Context(), d.id, declinesRenewal)))
	d.pass(31*day, day)
	if v := d.view(); v.Status() != billing.PastDue || v.CreditCents != 400 {
		t.Errorf("after a failed renewal the subscription is %s with %d cents of credit, want it past due with 400", v.Status(), v.CreditCents)
	}
}
