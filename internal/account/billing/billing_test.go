package billing_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/kit/fault"
)

const day = 24 * time.Hour

func TestSubscribe(t *testing.T) {
	t.Parallel()
	d := newFixture(t, openStore(t), "2026-01-31T10:00:00Z")
	p, err := d.Subscribe(t.Context(), "customer", d.id, account.Basic)
	if err != nil || p.Status != billing.Pending || p.URL != "/pay?payment="+p.ID || p.AmountCents != 1000 {
		t.Fatalf("Subscribe = %+v, %v, want a pending payment of 1000 cents with a page", p, err)
	}
	d.stands("before the payment", account.None, billing.NotSubscribed, 0)
	if again, err := d.Subscribe(t.Context(), "customer", d.id, account.Basic); err != nil || again.ID != p.ID {
		t.Errorf("Subscribe again = %+v, %v, want the same payment", again, err)
	}
	if p := d.payWith(p, declines); p.Status != billing.Pending {
		t.Errorf("a declined card made the payment %s, want pending: the page is still open", p.Status)
	}
	d.now = d.now.Add(time.Minute)
	if p := d.payWith(p, good); p.Status != billing.Paid || p.Invoice == 0 {
		t.Errorf("a good card made the payment %+v, want paid with an invoice", p)
	}
	d.stands("after the payment", account.Basic, billing.Active, 1000)
	v := d.view()
	if want := "2026-02-28T10:01:00Z"; v.PeriodEnd.Format(time.RFC3339) != want || v.Method.String() != "visa ending in 4242, expires 12/99" {
		t.Errorf("the period ends %s, paid with %s; want %s", v.PeriodEnd, v.Method, want)
	}
	if _, err := d.Subscribe(t.Context(), "customer", d.id, account.Premium); !fault.Is(err, fault.Conflict) {
		t.Errorf("a second Subscribe = %v, want a conflict", err)
	}
	invoices, err := d.Invoices(t.Context(), d.id, 10)
	if err != nil || len(invoices) != 1 || invoices[0].ID != p.ID {
		t.Errorf("Invoices = %+v, %v, want the one payment", invoices, err)
	}
	log, err := d.accounts.History(t.Context(), d.id, 0, 1)
	if err != nil || log[0].Action != "billing.started" || log[0].Detail != "none to basic" {
		t.Errorf("the audit log says %+v, %v, want the change of plan", log, err)
	}
}

func TestConfirmation(t *testing.T) {
	t.Parallel()
	d := newFixture(t, openStore(t), "2026-03-10T10:00:00Z")
	p := d.subscribe(account.Basic, confirms)
	if p, confirm, err := d.TestPayment(t.Context(), d.id, p.ID); err != nil || !confirm || p.Status != billing.Pending {
		t.Fatalf("the payment is %+v, confirm %t, %v, want one that waits for confirmation", p, confirm, err)
	}
	if p, err := d.ConfirmTest(t.Context(), d.id, p.ID, false); err != nil || p.Status != billing.Pending {
		t.Fatalf("ConfirmTest(no) = %+v, %v, want it still open", p, err)
	}
	d.payWith(p, confirms)
	d.must(second(d.ConfirmTest(t.Context(), d.id, p.ID, true)))
	d.stands("after confirming", account.Basic, billing.Active, 1000)

	o, err := d.Quote(t.Context(), d.id, account.Premium)
	d.must(err)
	if p, err := d.Upgrade(t.Context(), "customer", d.id, o); err != nil || p.Status != billing.Failed || !p.Confirm {
		t.Fatalf("Upgrade = %+v, %v, want a failure that a confirmation mends", p, err)
	}
	d.stands("before the second confirmation", account.Basic, billing.Active, 1000)
	p, err = d.UpgradeInPerson(t.Context(), "customer", d.id, o)
	d.must(err)
	d.payWith(p, confirms)
	d.must(second(d.ConfirmTest(t.Context(), d.id, p.ID, true)))
	d.stands("after the second confirmation", account.Premium, billing.Active, 2500)
	d.pass(31*day, day)
	d.stands("after a renewal", account.Premium, billing.Active, 5000)
}

func TestUpgrade(t *testing.T) {
	t.Parallel()
	d := newFixture(t, openStore(t), "2026-04-10T00:00:00Z")
	d.subscribe(account.Basic, good)
	d.now = d.now.Add(15 * day) // half of 30 days
	o, err := d.Quote(t.Context(), d.id, account.Premium)
	if err != nil || o.AmountCents != 750 || o.First {
		t.Fatalf("Quote = %+v, %v, want 750 cents", o, err)
	}
	d.now = d.now.Add(10 * time.Minute)
	dearer := o
	dearer.AmountCents = 1
	if _, err := d.Upgrade(t.Context(), "customer", d.id, dearer); !fault.Is(err, fault.Conflict) {
		t.Errorf("Upgrade at an amount that was never offered = %v, want a conflict", err)
	}
	p, err := d.Upgrade(t.Context(), "customer", d.id, o)
	if err != nil || p.Status != billing.Paid || p.AmountCents != 750 {
		t.Fatalf("Upgrade = %+v, %v, want what was shown to be paid", p, err)
	}
	d.stands("after the upgrade", account.Premium, billing.Active, 1750)
	if v := d.view(); v.PeriodEnd.Format(time.DateOnly) != "2026-05-10" {
		t.Errorf("the period ends %s, want the same day as before", v.PeriodEnd)
	}
	if _, err := d.Upgrade(t.Context(), "customer", d.id, o); !fault.Is(err, fault.Conflict) {
		t.Errorf("the same Upgrade again = %v, want a conflict", err)
	}
	o, err = d.Quote(t.Context(), d.id, account.Scale)
	d.must(err)
	d.now = d.now.Add(16 * time.Minute)
	if _, err := d.Upgrade(t.Context(), "customer", d.id, o); !fault.Is(err, fault.Conflict) {
		t.Errorf("Upgrade with an old offer = %v, want a conflict", err)
	}
	if _, err := d.Quote(t.Context(), d.id, account.Basic); !fault.Is(err, fault.Conflict) {
		t.Errorf("Quote of a lower plan = %v, want a conflict", err)
	}
	d.pass(15*day, day)
	d.stands("after the renewal", account.Premium, billing.Active, 1750+2500)
}

// A failed renewal is tried again on days 3, 5 and 7; the plan is active until the last has failed.
func TestRetries(t *testing.T) {
	t.Parallel()
	d := newFixture(t, openStore(t), "2026-01-31T12:00:00Z")
	d.subscribe(account.Basic, declinesRenewal)
	d.pass(28*day+10*day, 6*time.Hour)
	d.stands("after the last retry", account.None, billing.NotSubscribed, 1000)
	var days []int
	renewal := time.Date(2026, 2, 28, 12, 0, 0, 0, time.UTC)
	for _, e := range d.entries {
		switch e.What {
		case billing.RenewalFailed: // and is tried again
			days = append(days, int(e.At.Sub(renewal)/day))
		case billing.Lapsed:
			if want := renewal.Add(7 * day); !e.At.Equal(want) {
				t.Errorf("the plan lapsed %s, want %s", e.At, want)
			}
		}
	}
	if !slices.Equal(days, []int{0, 3, 5}) {
		t.Errorf("a renewal that is tried again failed on days %v, want 0, 3 and 5", days)
	}
	if n := len(d.entries); d.entries[n-2].What != billing.PaymentFailed || d.entries[n-1].What != billing.Lapsed {
		t.Errorf("the last entries are %+v, want a payment that is not tried again, and the lapse", d.entries[n-2:])
	}
	if len(d.index.Keys) != 1 {
		t.Errorf("the account has %d keys after the lapse, want its master key", len(d.index.Keys))
	}
	// A new subscription starts anew, on a day of its own.
	d.subscribe(account.Basic, good)
	if v := d.view(); v.PeriodEnd.Format(time.DateOnly) != "2026-04-10" {
		t.Errorf("the new period ends %s, want a month after the new beginning", v.PeriodEnd)
	}
}

func TestOverdue(t *testing.T) {
	t.Parallel()
	d := newFixture(t, openStore(t), "2026-03-15T12:00:00Z")
	if _, err := d.PayOverdue(t.Context(), "customer", d.id); !fault.Is(err, fault.Conflict) {
		t.Errorf("PayOverdue with nothing overdue = %v, want a conflict", err)
	}
	d.subscribe(account.Basic, declinesRenewal)
	d.pass(31*day+4*day, day)
	d.stands("on day 4", account.Basic, billing.PastDue, 1000)
	if _, err := d.Quote(t.Context(), d.id, account.Scale); !fault.Is(err, fault.Conflict) {
		t.Errorf("Quote while overdue = %v, want a conflict", err)
	}
	p, err := d.PayOverdue(t.Context(), "customer", d.id)
	d.must(err)
	// The retry of day 5 closes the page that the customer has left, and fails once more.
	d.pass(day, day)
	if p, err := d.Settle(t.Context(), d.id, p.ID); err != nil || p.Status != billing.Failed {
		t.Errorf("the page's payment is %+v, %v, want failed", p, err)
	}
	d.stands("on day 5", account.Basic, billing.PastDue, 1000)
	p, err = d.PayOverdue(t.Context(), "customer", d.id)
	d.must(err)
	d.payWith(p, good)
	d.stands("paid on day 5", account.Basic, billing.Active, 2000)
	if v := d.view(); v.PeriodEnd.Format(time.DateOnly) != "2026-05-15" {
		t.Errorf("the period ends %s, want the billing day kept", v.PeriodEnd)
	}
	d.pass(30*day, day)
	d.stands("with the new card", account.Basic, billing.Active, 3000)
}

func TestCancel(t *testing.T) {
	t.Parallel()
	d := newFixture(t, openStore(t), "2028-01-30T12:00:00Z")
	if err := d.CancelAtPeriodEnd(t.Context(), "customer", d.id); !fault.Is(err, fault.Conflict) {
		t.Errorf("CancelAtPeriodEnd without a subscription = %v, want a conflict", err)
	}
	d.subscribe(account.Premium, good)
	d.must(d.CancelAtPeriodEnd(t.Context(), "customer", d.id))
	d.must(d.Resume(t.Context(), "customer", d.id))
	d.pass(31*day, day)
	d.stands("taken back", account.Premium, billing.Active, 5000)
	d.must(d.CancelAtPeriodEnd(t.Context(), "customer", d.id))
	d.now = time.Date(2028, 3, 30, 11, 59, 59, 0, time.UTC)
	d.must(d.VisitDue(t.Context()))
	d.stands("the second before the end", account.Premium, billing.Active, 5000)
	d.pass(time.Second, time.Second)
	d.stands("at the end", account.None, billing.NotSubscribed, 5000)
}

func TestFree(t *testing.T) {
	t.Parallel()
	d := newFixture(t, openStore(t), "2026-01-01T00:00:00Z")
	if p, err := d.Subscribe(t.Context(), "customer", d.id, account.Free); p != nil || err != nil {
		t.Fatalf("Subscribe(free) = %+v, %v, want no payment", p, err)
	}
	d.pass(400*day, 40*day)
	d.stands("a year later", account.Free, billing.NotSubscribed, 0)
	d.subscribe(account.Basic, good)
	d.stands("from free to paid", account.Basic, billing.Active, 1000)
	if _, err := d.Subscribe(t.Context(), "customer", d.id, account.Free); !fault.Is(err, fault.Conflict) {
		t.Errorf("Subscribe(free) from a paid plan = %v, want a conflict: it is a downgrade", err)
	}
}

func TestDowngrade(t *testing.T) {
	t.Parallel()
	d := newFixture(t, openStore(t), "2026-01-01T00:00:00Z")
	d.subscribe(account.Scale, good)
	d.must(d.RequestDowngrade(t.Context(), "customer", d.id, account.Basic, "too much for us"))
	d.stands("after the request", account.Scale, billing.Active, 7500)
	if e := d.entries[len(d.entries)-1]; e.What != billing.DowngradeRequested || e.Plan != account.Basic || e.Detail != "too much for us" {
		t.Errorf("the last entry is %+v, want the request", e)
	}
	d.must(d.Downgrade(t.Context(), "support", d.id, account.Premium))
	d.must(d.KeepPlan(t.Context(), "customer", d.id))
	if v, e := d.view(), d.entries[len(d.entries)-1]; v.NextPlan != account.None || e.What != billing.DowngradeTakenBack || e.Plan != account.Scale {
		t.Errorf("after the customer took it back the next plan is %s, and the last entry %+v", v.NextPlan, e)
	}
	before := len(d.entries)
	d.must(d.KeepPlan(t.Context(), "customer", d.id))
	if len(d.entries) != before {
		t.Errorf("taking back what is not planned wrote %+v", d.entries[before:])
	}
	d.must(d.Downgrade(t.Context(), "support", d.id, account.Basic))
	d.stands("set for the next period", account.Scale, billing.Active, 7500)
	d.pass(31*day, day)
	d.stands("in the next period", account.Basic, billing.Active, 8500)
	for _, plan := range []account.Plan{account.None, account.Free, account.Basic, account.Premium} {
		if err := d.Downgrade(t.Context(), "support", d.id, plan); !fault.Is(err, fault.Invalid) {
			t.Errorf("Downgrade(%s) from basic = %v, want invalid", plan, err)
		}
	}
	d.must(d.CancelAtPeriodEnd(t.Context(), "customer", d.id))
	d.pass(31*day, day)
	if err := d.KeepPlan(t.Context(), "customer", d.id); !fault.Is(err, fault.Conflict) {
		t.Errorf("KeepPlan without a subscription = %v, want a conflict", err)
	}
}

// What staff sets is granted: it has no period and costs nothing, and ends the subscription.
func TestGranted(t *testing.T) {
	t.Parallel()
	d := newFixture(t, openStore(t), "2026-01-01T00:00:00Z")
	d.subscribe(account.Basic, good)
	d.must(second(d.accounts.SetPlan(t.Context(), "staff", d.id, account.Premium)))
	d.pass(90*day, day)
	d.stands("granted a higher plan", account.Premium, billing.NotSubscribed, 1000)
	if _, err := d.Subscribe(t.Context(), "customer", d.id, account.Premium); !fault.Is(err, fault.Conflict) {
		t.Errorf("Subscribe to what is granted = %v, want a conflict", err)
	}
	d.subscribe(account.Scale, good)
	d.stands("bought a higher one", account.Scale, billing.Active, 8500)
	if d.index.Granted {
		t.Error("a plan that was bought is granted")
	}
}

func TestSuspended(t *testing.T) {
	t.Parallel()
	d := newFixture(t, openStore(t), "2026-01-01T00:00:00Z")
	d.subscribe(account.Basic, good)
	d.must(second(d.accounts.Suspend(t.Context(), "staff", d.id, "terms")))
	d.must(second(d.accounts.Unsuspend(t.Context(), "staff", d.id)))
	d.pass(31*day, day)
	d.stands("suspended for a while", account.Basic, billing.Active, 2000)
	d.must(second(d.accounts.Suspend(t.Context(), "staff", d.id, "terms")))
	d.pass(31*day, day)
	d.stands("suspended at the renewal", account.None, billing.NotSubscribed, 2000)
	if _, err := d.Subscribe(t.Context(), "customer", d.id, account.Basic); !fault.Is(err, fault.Suspended) {
		t.Errorf("Subscribe while suspended = %v, want suspended", err)
	}
}

func TestTerminate(t *testing.T) {
	t.Parallel()
	d := newFixture(t, openStore(t), "2026-01-01T00:00:00Z")
	d.subscribe(account.Basic, good)
	if _, err := d.Terminate(t.Context(), "staff", d.id, " "); !fault.Is(err, fault.Invalid) {
		t.Errorf("Terminate without a reason = %v, want invalid", err)
	}
	d.must(second(d.Terminate(t.Context(), "staff", d.id, "resold access")))
	d.stands("terminated", account.None, billing.NotSubscribed, 1000)
	if d.index.Suspended == nil || d.index.Suspended.Reason != "resold access" || len(d.index.Keys) != 1 {
		t.Errorf("the terminated account is %+v, want it suspended with its key kept", d.index)
	}
	if _, err := d.accounts.Unsuspend(t.Context(), "staff", d.id); !fault.Is(err, fault.Conflict) || d.index.Suspended == nil {
		t.Errorf("Unsuspend of a terminated account = %v, want a conflict and no change", err)
	}

	// One that was suspended before is terminated all the same.
	d = newFixture(t, openStore(t), "2026-01-01T00:00:00Z")
	d.must(second(d.accounts.Suspend(t.Context(), "staff", d.id, "a question")))
	d.must(second(d.Terminate(t.Context(), "staff", d.id, "resold access")))
	if _, err := d.accounts.Unsuspend(t.Context(), "staff", d.id); !fault.Is(err, fault.Conflict) || d.index.Suspended.Reason != "resold access" {
		t.Errorf("Unsuspend = %v, the account is suspended for %+v, want a conflict and the reason of the termination", err, d.index.Suspended)
	}
}

// Periods during which no server ran are not charged.
func TestLongSleep(t *testing.T) {
	t.Parallel()
	d := newFixture(t, openStore(t), "2026-01-31T12:00:00Z")
	d.subscribe(account.Basic, good)
	d.pass(100*day, 100*day) // to 11 May
	d.stands("after the sleep", account.Basic, billing.Active, 2000)
	if v := d.view(); v.PeriodStart.Format(time.DateOnly) != "2026-04-30" || v.PeriodEnd.Format(time.DateOnly) != "2026-05-31" {
		t.Errorf("the period is %s to %s, want the one of today", v.PeriodStart, v.PeriodEnd)
	}
}

// A charge whose answer was lost is booked once, whether it was made or not.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for _, done := range []bool{false, true} {
		d := newFixture(t, openStore(t), "2026-01-15T12:00:00Z")
		d.subscribe(account.Basic, good)
		d.flaky.before, d.flaky.after = !done, done
		d.pass(31*day+time.Hour, 30*time.Minute)
		if ledger, _ := d.balance(); ledger != 1000 || d.view().Payment == nil {
			t.Errorf("done %t: the ledger says %d while nobody answers, want 1000 and an open payment", done, ledger)
		}
		d.flaky.before, d.flaky.after = false, false
		d.pass(30*time.Minute, 30*time.Minute)
		d.stands("when the line is back", account.Basic, billing.Active, 2000)
		if n := len(d.till.objects); n != 2 {
			t.Errorf("done %t: the processor knows %d payments, want 2", done, n)
		}
	}
}

// Money that comes too late for what it was meant for goes back.
func TestLateMoney(t *testing.T) {
	t.Parallel()
	d := newFixture(t, openStore(t), "2026-01-15T12:00:00Z")
	late, err := d.Subscribe(t.Context(), "customer", d.id, account.Basic)
	d.must(err)
	if _, err := d.pay.Pay(t.Context(), late.ID, good); err != nil {
		t.Fatal(err)
	}
	d.must(second(d.accounts.SetPlan(t.Context(), "staff", d.id, account.Premium)))
	p, err := d.Settle(t.Context(), d.id, late.ID)
	if err != nil || p.Status != billing.Paid || p.RefundedCents != 1000 {
		t.Errorf("Settle = %+v, %v, want it paid and given back", p, err)
	}
	d.stands("given back", account.Premium, billing.NotSubscribed, 0)

	// The same where the refund's answer is lost.
	d = newFixture(t, openStore(t), "2026-01-15T12:00:00Z")
	late, err = d.Subscribe(t.Context(), "customer", d.id, account.Basic)
	d.must(err)
	_, err = d.pay.Pay(t.Context(), late.ID, good)
	d.must(err)
	d.must(second(d.accounts.Suspend(t.Context(), "staff", d.id, "terms")))
	o, err := d.pay.Outcome(t.Context(), *late)
	d.must(err)
	d.flaky.after = true
	d.must(d.Receive(t.Context(), billing.Event{ID: "evt_1", PaymentID: "pay_unknown"}))
	if err := d.Receive(t.Context(), billing.Event{ID: "evt_2", PaymentID: late.ID, Ref: o.Ref}); err == nil {
		t.Error("Receive = nil while the processor does not answer, want an error, so that the event comes again")
	}
	d.flaky.after = false
	d.must(d.Receive(t.Context(), billing.Event{ID: "evt_2", PaymentID: late.ID, Ref: o.Ref}))
	d.stands("given back later", account.None, billing.NotSubscribed, 0)
}

func TestRefund(t *testing.T) {
	t.Parallel()
	d := newFixture(t, openStore(t), "2026-01-15T12:00:00Z")
	p := d.subscribe(account.Basic, good)
	if _, err := d.Refund(t.Context(), "support", p.ID, 1001); !fault.Is(err, fault.Invalid) {
		t.Errorf("Refund of more than was paid = %v, want invalid", err)
	}
	d.must(second(d.Refund(t.Context(), "support", p.ID, 300)))
	d.stands("after a refund", account.Basic, billing.Active, 700)
	d.flaky.after, d.flaky.only = true, "Refund"
	if _, err := d.Refund(t.Context(), "support", p.ID, 700); err == nil {
		t.Error("Refund = nil while nobody answers, want an error")
	}
	d.flaky.after = false
	d.pass(time.Minute, time.Minute)
	d.stands("after the rest", account.Basic, billing.Active, 0)
	if _, err := d.Refund(t.Context(), "support", p.ID, 1); !fault.Is(err, fault.Invalid) {
		t.Errorf("Refund of nothing left = %v, want invalid", err)
	}
}

func TestAdvance(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	d := newFixture(t, s, "2026-01-31T12:00:00Z")
	d.subscribe(account.Basic, good)
	v, err := d.Advance(t.Context(), "cli", d.id, time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC))
	if err != nil || v.PeriodEnd.Format(time.DateOnly) != "2026-06-30" || !v.Now.Equal(time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("Advance = %+v, %v, want the period of June", v, err)
	}
	d.stands("in June", account.Basic, billing.Active, 5000)
	if _, err := d.Advance(t.Context(), "cli", d.id, time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)); !fault.Is(err, fault.Invalid) {
		t.Errorf("Advance backwards = %v, want invalid", err)
	}
	// The account's clock goes on from there, and another account's is its own.
	d.pass(30*day, day)
	d.stands("in July", account.Basic, billing.Active, 6000)
	o, err := d.Quote(t.Context(), d.id, account.Scale)
	if err != nil || o.At.Format(time.DateOnly) != "2026-07-01" {
		t.Errorf("Quote = %+v, %v, want one of July", o, err)
	}
	real := billing.New(s, nil)
	if _, err := real.Advance(t.Context(), "cli", d.id, time.Date(2027, 5, 1, 0, 0, 0, 0, time.UTC)); !fault.Is(err, fault.Conflict) {
		t.Errorf("Advance outside test mode = %v, want a conflict", err)
	}
}

func TestNotForSale(t *testing.T) {
	t.Parallel()
	d := newFixture(t, openStore(t), "2026-01-31T12:00:00Z")
	m := billing.New(d.store, nil)
	if m.Sells() {
		t.Error("Sells() = true without a processor")
	}
	if _, err := m.Subscribe(t.Context(), "customer", d.id, account.Basic); !fault.Is(err, fault.Conflict) {
		t.Errorf("Subscribe without a processor = %v, want a conflict", err)
	}
	if _, _, err := m.PayTest(t.Context(), d.id, "pay_1", good); m.Test() || m.TestCards() != nil || !fault.Is(err, fault.NotFound) {
		t.Errorf("PayTest outside test mode = %v, want not found", err)
	}
	if _, err := m.Portal(t.Context(), "customer", d.id); !fault.Is(err, fault.Conflict) {
		t.Errorf("Portal without a processor = %v, want a conflict", err)
	}
}

func TestPortal(t *testing.T) {
	t.Parallel()
	d := newFixture(t, openStore(t), "2026-01-31T12:00:00Z")
	page, err := d.Portal(t.Context(), "customer", d.id)
	if err != nil || page != "/card" {
		t.Fatalf("Portal = %q, %v", page, err)
	}
	if _, err := d.SetTestCard(t.Context(), d.id, declines); !fault.Is(err, fault.Invalid) {
		t.Errorf("SetTestCard with a bad card = %v, want invalid", err)
	}
	m, err := d.SetTestCard(t.Context(), d.id, good)
	if err != nil || m.LastFour != "4242" || d.view().Method != m {
		t.Errorf("SetTestCard = %+v, %v, want the new card, kept", m, err)
	}
	if cards := d.TestCards(); len(cards) != 4 {
		t.Errorf("TestCards = %+v, want all four", cards)
	}
}

// While another processor is in use, or none, what the old one knows is kept for its return.
func TestProcessorAway(t *testing.T) {
	t.Parallel()
	d := newFixture(t, openStore(t), "2026-01-31T12:00:00Z")
	d.subscribe(account.Basic, good)
	none := billing.New(d.store, &billing.Options{Now: func() time.Time { return d.now }, Log: slog.New(slog.DiscardHandler)})
	d.now = d.now.Add(28 * day)
	d.must(none.VisitDue(t.Context()))
	d.stands("without a processor", account.Basic, billing.PastDue, 1000)
	d.pass(3*day, day)
	d.stands("with it again", account.Basic, billing.Active, 2000)
}

// A visit does what is due.
func TestVisit(t *testing.T) {
	t.Parallel()
	d := newFixture(t, openStore(t), "2026-01-31T12:00:00Z")
	d.subscribe(account.Basic, good)
	due := d.now.Add(28 * day)
	renewed := false
	m := billing.New(d.store, &billing.Options{
		Processor: d.flaky, Now: func() time.Time { return due },
		OnEntry: func(_ context.Context, _ *account.Account, e billing.Entry) {
			renewed = renewed || e.What == billing.Renewed
		},
	})
	m.Visit(t.Context())
	if !renewed {
		t.Error("Visit ended without a renewal")
	}
}

// A plan without a price needs no processor's page.
func TestNoPrice(t *testing.T) {
	t.Parallel()
	d := newFixture(t, openStore(t), "2026-01-31T12:00:00Z")
	m := billing.New(d.store, &billing.Options{
		Processor: d.flaky, Now: func() time.Time { return d.now }, OnChange: func(a *account.Account) { d.index = a },
		Plans: func() account.Plans {
			plans := account.BuiltinPlans()
			plans[account.Basic].PriceCents = 0
			return plans
		},
	})
	p, err := m.Subscribe(t.Context(), "customer", d.id, account.Basic)
	if err != nil || p.Status != billing.Paid {
		t.Fatalf("Subscribe = %+v, %v, want it paid", p, err)
	}
	d.now = d.now.Add(28 * day)
	d.must(m.VisitDue(t.Context()))
	d.stands("renewed", account.Basic, billing.Active, 0)
	if v := d.view(); v.PeriodEnd.Format(time.DateOnly) != "2026-03-31" {
		t.Errorf("the period ends %s, want the next month's end", v.PeriodEnd)
	}
}

// One customer must not learn of, or settle, another's payments.
func TestSettleOwnOnly(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	d, other := newFixture(t, s, "2026-01-31T12:00:00Z"), newFixture(t, s, "2026-01-31T12:00:00Z")
	p, err := d.Subscribe(context.Background(), "customer", d.id, account.Basic)
	d.must(err)
	if _, err := other.Settle(t.Context(), other.id, p.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("Settle of another's payment = %v, want not found", err)
	}
	if _, _, err := other.PayTest(t.Context(), other.id, p.ID, good); !fault.Is(err, fault.NotFound) {
		t.Errorf("PayTest of another's payment = %v, want not found", err)
	}
}

// second drops a result that the test does not look at.
func second[T any](_ T, err error) error { return err }
