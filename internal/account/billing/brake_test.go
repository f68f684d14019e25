package billing_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/kit/fault"
)

// count returns how many entries of a kind the ledger has.
func (d *fixture) count(what billing.What) (n int) {
	d.t.Helper()
	entries, err := d.Ledger(d.t.Context(), d.id, 1000)
	d.must(err)
	for _, e := range entries {
		if e.What == what {
			n++
		}
	}
	return n
}

// A state in which every renewal is charged and refunded stops after the second one, until staff has looked at it.
// Here the renewal is due before the period that is paid for has ended.
func TestBrake(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	d := newFixture(t, store, "2026-04-10T00:00:00Z")
	d.subscribe(account.Basic, good)
	broken := func(b *billing.Record) error {
		b.PeriodEnd, b.Due = d.now.AddDate(1, 0, 0), d.now
		return nil
	}
	if _, err := store.ChangeBilling(t.Context(), d.id, "", broken); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		d.must(d.VisitDue(t.Context()))
		d.now = d.now.Add(time.Minute)
	}
	if charged, refunded := d.count(billing.Charged)-1, d.count(billing.Refunded); charged != 2 || refunded != 2 {
		t.Errorf("after ten visits %d renewals were charged and %d refunded, want two of each", charged, refunded)
	}
	d.stands("while it is stopped", account.Basic, billing.Active, 1000)
	v := d.view()
	if v.Stop == nil || !strings.Contains(v.Stop.Why, "2 payments in a row were charged and had to be refunded") || d.count(billing.BillingStopped) != 1 {
		t.Errorf("the account is stopped: %+v, with %d entries, want a reason and one entry", v.Stop, d.count(billing.BillingStopped))
	}
	if n, note := d.StopCount(), d.Note(); n != 1 || !strings.Contains(note, "billing of an account is stopped") {
		t.Errorf("StopCount = %d, Note = %q, want one", n, note)
	}
	if all, err := d.Stops(t.Context()); err != nil || len(all) != 1 || all[0].AccountID != d.id {
		t.Errorf("Stops = %+v, %v, want the account", all, err)
	}
	// The customer cannot pay either.
	if o, err := d.Quote(t.Context(), d.id, account.Premium); err == nil {
		_, err = d.Upgrade(t.Context(), "customer", d.id, o)
		if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "until support has looked at it") {
			t.Errorf("Upgrade while stopped = %v, want a refusal", err)
		}
	}

	// Released without being mended, it stops again after two.
	if _, err := d.Release(t.Context(), "staff", d.id); err != nil {
		t.Fatal(err)
	}
	if n := d.StopCount(); n != 0 || d.Note() != "" {
		t.Errorf("after the release StopCount = %d, Note = %q, want none", n, d.Note())
	}
	for range 5 {
		d.must(d.VisitDue(t.Context()))
		d.now = d.now.Add(time.Minute)
	}
	if charged, refunded := d.count(billing.Charged)-1, d.count(billing.Refunded); charged != 4 || refunded != 4 || d.view().Stop == nil {
		t.Errorf("after the release %d renewals were charged and %d refunded, want it stopped after two more", charged, refunded)
	}
	// Mended and released, it continues.
	if _, err := store.ChangeBilling(t.Context(), d.id, "", func(b *billing.Record) error {
		b.PeriodEnd, b.Due = d.now, d.now
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Release(t.Context(), "staff", d.id); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Release(t.Context(), "staff", d.id); !fault.Is(err, fault.Conflict) {
		t.Errorf("a second Release = %v, want a conflict", err)
	}
	d.now = d.now.AddDate(0, 1, 0)
	d.must(d.VisitDue(t.Context()))
	if d.count(billing.Renewed) != 1 || d.view().Stop != nil {
		t.Errorf("after the cause was mended: %d renewals, stopped %+v, want it renewed", d.count(billing.Renewed), d.view().Stop)
	}
}

// One refund is no reason to stop, and a payment that is fulfilled starts the count again.
func TestBrakeCountsInARow(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	d := newFixture(t, store, "2026-04-10T00:00:00Z")
	d.subscribe(account.Basic, good)
	for round := range 3 {
		if _, err := store.ChangeBilling(t.Context(), d.id, "", func(b *billing.Record) error {
			b.Undelivered, b.PeriodEnd, b.Due = 1, d.now, d.now
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		d.now = d.now.AddDate(0, 1, 0)
		d.must(d.VisitDue(t.Context()))
		if got, err := store.Record(context.Background(), d.id); err != nil || got.Undelivered != 0 || got.Stop != nil {
			t.Errorf("round %d: after a renewal %d payments count as refunded in a row, stopped %v, want none", round, got.Undelivered, got.Stop)
		}
	}
}

// A stopped subscription that its owner has cancelled still ends.
func TestStoppedSubscriptionEnds(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	d := newFixture(t, store, "2026-04-10T00:00:00Z")
	d.subscribe(account.Basic, good)
	if _, err := store.ChangeBilling(t.Context(), d.id, "", func(b *billing.Record) error {
		b.Stop = &billing.Stop{At: d.now, Why: "a test"}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	d.must(d.CancelAtPeriodEnd(t.Context(), "customer", d.id))
	d.now = d.now.AddDate(0, 1, 1)
	d.must(d.VisitDue(t.Context()))
	d.stands("after the period", account.None, billing.NotSubscribed, 1000)
}
