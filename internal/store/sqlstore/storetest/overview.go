package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/account/billing"
	"sluice/internal/operate/overview"
	"sluice/internal/store/sqlstore/alltest"
)

// minutes checks that nodes read each other's minutes, that a minute is replaced by a later state of it, and that old
// ones go.
func minutes(t *testing.T, open func() *alltest.Store) {
	s, ctx := open(), t.Context()
	at := func(n int, calls int64) overview.Minute {
		return overview.Minute{
			At: base.Add(time.Duration(n) * time.Minute), Calls: calls, Took: overview.Times{0, calls},
			Accounts: map[string]overview.Load{"a": {Calls: calls}}, Targets: map[string]overview.Target{"p/u ": {Answered: calls}},
		}
	}
	must(t, s.StoreMinutes(ctx, "one", []overview.Minute{at(0, 1), at(1, 2)}, base))
	must(t, s.StoreMinutes(ctx, "two", []overview.Minute{at(1, 3)}, base))
	must(t, s.StoreMinutes(ctx, "one", []overview.Minute{at(1, 5)}, base))
	read := func(except string, from time.Time) map[string]overview.Minute {
		got := map[string]overview.Minute{}
		must(t, s.Minutes(ctx, except, from, func(node string, m overview.Minute) {
			got[fmt.Sprint(node, " ", m.At.Sub(base))] = m
		}))
		return got
	}
	if diff := cmp.Diff(map[string]overview.Minute{"one 0s": at(0, 1), "one 1m0s": at(1, 5)}, read("two", base)); diff != "" {
		t.Errorf("Minutes for two: -want +got\n%s", diff)
	}
	if diff := cmp.Diff(map[string]overview.Minute{"two 1m0s": at(1, 3)}, read("one", base.Add(time.Minute))); diff != "" {
		t.Errorf("Minutes for one: -want +got\n%s", diff)
	}
	must(t, s.StoreMinutes(ctx, "two", nil, base.Add(time.Minute)))
	if got := read("", base.Add(-time.Hour)); len(got) != 2 {
		t.Errorf("%d minutes are left, want the two that are not old", len(got))
	}
}

// revenue checks that payments are added up by day, without refunds and without those that nobody has paid.
func revenue(t *testing.T, open func() *alltest.Store) {
	s := open()
	day := base.UTC().Truncate(24 * time.Hour)
	for i, paid := range []time.Time{day.Add(-time.Second), day, day.Add(24*time.Hour - time.Second), day.Add(24 * time.Hour), {}} {
		a := create(t, s, i+1)
		changeBilling(t, s, a.ID, "", func(b *billing.Record) {
			b.Payment = newPayment(fmt.Sprint("pay_", i), a.ID)
			if !paid.IsZero() {
				b.Payment.Status, b.Payment.PaidAt, b.Payment.Invoice, b.Payment.RefundedCents = billing.Paid, paid, int64(i+1), int64(i)
			}
		})
	}
	got, err := s.Revenue(t.Context(), day)
	n := day.Unix() / 86400
	if diff := cmp.Diff(map[int64]overview.Income{n: {Payments: 2, Cents: 2*900 - 1 - 2}, n + 1: {Payments: 1, Cents: 900 - 3}}, got); err != nil || diff != "" {
		t.Errorf("Revenue: %v, -want +got\n%s", err, diff)
	}
}
