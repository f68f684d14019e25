package billing_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/kit/fault"
	"sluice/internal/store/sqlstore/alltest"
)

// TestMachine sends accounts through random lives: what customers, staff, the calendar and a processor
// with a bad line may do to them, in any order. After every step the books must be sound; see check.
func TestMachine(t *testing.T) {
	t.Parallel()
	steps := 10
	if os.Getenv("SLUICE_SOAK") != "" {
		steps = 100
	}
	rapid.Check(t, func(rt *rapid.T) {
		s := openStore(t)
		defer s.Close()
		l := newLife(rt, t, s)
		for range steps {
			name, do := l.draw(rt)
			do(rt)
			l.check(rt, name)
		}
		l.comeToRest(rt)
	})
}

// life is a fixture with somebody at it who presses every button.
type life struct {
	*fixture
	page *billing.Payment // the last page the customer was sent to

	issued map[string]billing.Issued // what invoices said when they were first seen, by payment

	was    account.Account // at the last check
	starts int             // of subscriptions until then
}

func newLife(rt *rapid.T, t *testing.T, s *alltest.Store) *life {
	// Ends of months and leap days come up more often than by chance.
	start := time.Date(rapid.IntRange(2026, 2029).Draw(rt, "year"), time.Month(rapid.IntRange(1, 12).Draw(rt, "month")),
		rapid.SampledFrom([]int{1, 15, 28, 29, 30, 31}).Draw(rt, "day"), 23, 59, rapid.IntRange(0, 59).Draw(rt, "second"), 0, time.UTC)
	l := &life{fixture: newFixture(t, s, start.Format(time.RFC3339)), issued: map[string]billing.Issued{}}
	l.seller = billing.Seller{Name: "Before", Taxes: []billing.Tax{{Country: "DE", Name: "VAT", Rate: 19_000}}}
	if rapid.Bool().Draw(rt, "subscribed") {
		l.subscribe(account.Basic, rapid.SampledFrom([]string{good, declinesRenewal}).Draw(rt, "card"))
	}
	return l
}

func (l *life) draw(rt *rapid.T) (string, func(*rapid.T)) {
	buttons := []struct {
		name string
		do   func(*rapid.T)
	}{
		{"subscribe", l.pressSubscribe},
		{"subscribe", l.pressSubscribe},
		{"pay", l.pressPay},
		{"pay", l.pressPay},
		{"pay", l.pressPay},
		{"come back", l.pressComeBack},
		{"upgrade", l.pressUpgrade},
		{"upgrade", l.pressUpgrade},
		{"pay overdue", l.pressOverdue},
		{"cancel", func(*rapid.T) { _ = l.CancelAtPeriodEnd(context.Background(), "customer", l.id) }},
		{"resume", func(*rapid.T) { _ = l.Resume(context.Background(), "customer", l.id) }},
		{"keep the plan", func(*rapid.T) { _ = l.KeepPlan(context.Background(), "customer", l.id) }},
		{"move", l.pressMove},
		{"downgrade", func(rt *rapid.T) { _ = l.Downgrade(context.Background(), "support", l.id, anyPlan.Draw(rt, "plan")) }},
		{"another card", func(rt *rapid.T) { _ = l.pay.SetCard(context.Background(), l.id, anyCard.Draw(rt, "card")) }},
		{"refund", l.pressRefund},
		{"dispute", l.pressDispute},
		{"staff", l.pressStaff},
		{"good line", l.line(false, false)},
		{"good line", l.line(false, false)},
		{"no line", l.line(true, false)},
		{"bad line", l.line(false, true)},
		{"minutes", l.wait(time.Minute, time.Hour)},
		{"days", l.wait(time.Hour, 4*day)},
		{"days", l.wait(time.Hour, 4*day)},
		{"a month", l.wait(27*day, 32*day)},
		{"a month", l.wait(27*day, 32*day)},
	}
	b := buttons[rapid.IntRange(0, len(buttons)-1).Draw(rt, "button")]
	return b.name, b.do
}

var (
	anyPlan = rapid.SampledFrom([]account.Plan{account.None, account.Free, account.Basic, account.Premium, account.Scale})
	anyCard = rapid.SampledFrom([]string{good, good, declines, declinesRenewal, confirms})
)

// What may be refused, or go unanswered, may be; only the books must be right.
func (l *life) pressSubscribe(rt *rapid.T) {
	if p, err := l.Subscribe(context.Background(), "customer", l.id, anyPlan.Draw(rt, "plan")); err == nil && p != nil {
		l.page = p
	}
}

// pressPay fills in a page: the present one, or one that was left long ago. Some never come back.
func (l *life) pressPay(rt *rapid.T) {
	if l.page == nil {
		return
	}
	_, _ = l.pay.Pay(context.Background(), l.page.ID, anyCard.Draw(rt, "card"))
	_ = l.pay.Confirm(context.Background(), l.page.ID, rapid.Bool().Draw(rt, "yes"))
	if rapid.Bool().Draw(rt, "comes back") {
		l.pressComeBack(rt)
	}
}

func (l *life) pressComeBack(*rapid.T) {
	if l.page != nil {
		_, _ = l.Settle(context.Background(), l.id, l.page.ID)
	}
}

func (l *life) pressUpgrade(rt *rapid.T) {
	o, err := l.Quote(context.Background(), l.id, anyPlan.Draw(rt, "plan"))
	if err != nil {
		return
	}
	l.now = l.now.Add(time.Duration(rapid.IntRange(0, 1000).Draw(rt, "seconds")) * time.Second)
	upgrade := l.Upgrade
	if rapid.Bool().Draw(rt, "in person") {
		upgrade = l.UpgradeInPerson
	}
	if p, err := upgrade(context.Background(), "customer", l.id, o); err == nil && p.Open() {
		l.page = p
	}
}

// pressMove changes what the next invoices say, of the customer and of the seller.
func (l *life) pressMove(rt *rapid.T) {
	country := rapid.SampledFrom([]string{"", "DE", "AT"}).Draw(rt, "country")
	l.must(l.SetDetails(context.Background(), l.id, billing.Details{Name: "Now in " + country, Country: country}))
	rate := rapid.Int64Range(0, 100_000).Draw(rt, "rate")
	l.seller = billing.Seller{Name: fmt.Sprint("Since ", rate), Taxes: []billing.Tax{{Country: "DE", Name: "VAT", Rate: rate}}}
}

func (l *life) pressOverdue(*rapid.T) {
	if p, err := l.PayOverdue(context.Background(), "customer", l.id); err == nil {
		l.page = p
	}
}

func (l *life) pressRefund(rt *rapid.T) {
	invoices, err := l.Invoices(context.Background(), l.id, 1)
	if err == nil && len(invoices) > 0 {
		_, _ = l.Refund(context.Background(), "support", invoices[0].ID, rapid.Int64Range(1, 2000).Draw(rt, "cents"))
	}
}

// pressDispute opens a dispute of one of the last payments, or closes the one that is open. The
// processor's event may come twice, or never.
func (l *life) pressDispute(rt *rapid.T) {
	invoices, err := l.Invoices(context.Background(), l.id, 2)
	if err != nil || len(invoices) == 0 {
		return
	}
	id := rapid.SampledFrom(invoices).Draw(rt, "payment").ID
	d := l.till.disputes[id]
	d.steps++
	if d.steps%2 == 1 {
		d.cents += l.till.kept(id)
	} else if rapid.Bool().Draw(rt, "won") {
		d.cents = 0
	}
	l.till.disputes[id] = d
	for i := range rapid.IntRange(0, 2).Draw(rt, "events") {
		_ = l.Receive(context.Background(), billing.Event{ID: fmt.Sprint(id, d.steps, i), PaymentID: id})
	}
}

func (l *life) pressStaff(rt *rapid.T) {
	ctx := context.Background()
	switch rapid.IntRange(0, 5).Draw(rt, "what") {
	case 0:
		l.must(second(l.accounts.SetPlan(ctx, "staff", l.id, anyPlan.Draw(rt, "plan"))))
	case 1:
		l.must(second(l.accounts.Suspend(ctx, "staff", l.id, "terms")))
	case 2:
		l.must(second(l.Terminate(ctx, "staff", l.id, "terms")))
	default:
		if _, err := l.accounts.Unsuspend(ctx, "staff", l.id); !fault.Is(err, fault.Conflict) { // it was terminated
			l.must(err)
		}
	}
}

// line sets how the processor can be reached.
func (l *life) line(before, after bool) func(*rapid.T) {
	return func(*rapid.T) { l.flaky.before, l.flaky.after = before, after }
}

// wait lets time pass; the server looks in now and then, or sleeps for all of it.
func (l *life) wait(least, most time.Duration) func(*rapid.T) {
	return func(rt *rapid.T) {
		by := time.Duration(rapid.Int64Range(int64(least/time.Second), int64(most/time.Second)).Draw(rt, "seconds")) * time.Second
		l.pass(by, by/time.Duration(rapid.SampledFrom([]int{1, 7}).Draw(rt, "visits")))
	}
}

// check holds the books against the rules and against the processor's own.
func (l *life) check(rt *rapid.T, after string) {
	wrong := func(format string, args ...any) { rt.Fatalf("after %q: %s", after, fmt.Sprintf(format, args...)) }
	ctx := context.Background()
	healthy := !l.flaky.before && !l.flaky.after
	if healthy {
		l.must(l.VisitDue(ctx))
	}
	b, err := l.store.Record(ctx, l.id)
	l.must(err)

	// Never two active plans: the one subscription is the account's plan, or staff has replaced it.
	a := b.Account
	paidFor := a.Plan > account.Free && !a.Granted
	switch {
	case paidFor && b.Plan != a.Plan:
		wrong("the account has %s and pays for %s", a.Plan, b.Plan)
	case paidFor && healthy && !l.now.Before(b.Due):
		wrong("at %s the plan %s is still due since %s", l.now, b.Plan, b.Due)
	case b.Plan != account.None && b.PeriodEnd.Day() != min(b.Began.Day(), lastDay(b.PeriodEnd)):
		wrong("the period that began with %s ends %s", b.Began, b.PeriodEnd)
	}
	if l.index.Plan != a.Plan || l.index.Version != a.Version || (l.index.Suspended == nil) != (a.Suspended == nil) {
		wrong("requests are judged by %s at version %d, the store has %s at %d", l.index.Plan, l.index.Version, a.Plan, a.Version)
	}
	// What staff has granted nobody takes away but staff, or a customer who buys something better.
	starts, entries := 0, l.ledger()
	for _, e := range entries {
		if e.What == billing.Started {
			starts++
		}
	}
	if l.was.Granted && after != "staff" && (!a.Granted || a.Plan != l.was.Plan) && starts == l.starts {
		wrong("the granted plan %s became %s", l.was.Plan, a.Plan)
	}
	l.was, l.starts = *a, starts
	l.checkMoney(wrong, entries, b)
	l.checkInvoices(wrong)
}

// checkInvoices checks that the lines of every invoice add up to what was charged, and that an invoice says for good what
// it said at first.
func (l *life) checkInvoices(wrong func(string, ...any)) {
	list, err := l.Invoices(context.Background(), l.id, 1000)
	l.must(err)
	for i := range list {
		p := &list[i]
		if p.Issued == nil {
			wrong("payment %s is paid and says nothing", p.ID)
		}
		var sum int64
		for _, line := range p.Issued.Lines {
			sum += line.Cents
		}
		if sum != p.AmountCents {
			wrong("the lines of payment %s add up to %d, want %d", p.ID, sum, p.AmountCents)
		}
		if tax := p.Issued.Tax; (tax != nil) != (p.Issued.Customer.Country == "DE") || tax != nil && (tax.Cents < 0 || tax.Cents > p.AmountCents) {
			wrong("payment %s of %d to %q has the tax %+v", p.ID, p.AmountCents, p.Issued.Customer.Country, tax)
		}
		before, seen := l.issued[p.ID]
		if !seen {
			l.issued[p.ID] = *p.Issued
		} else if diff := cmp.Diff(before, *p.Issued); diff != "" {
			wrong("the invoice of payment %s has changed: -before +now\n%s", p.ID, diff)
		}
	}
}

// checkMoney holds every payment's ledger entries against the processor's record of it. One that is
// unfinished, or that the customer has not come back from, may lag behind; it never runs ahead.
func (l *life) checkMoney(wrong func(string, ...any), entries []billing.Entry, b *billing.Record) {
	unfinished := b.Payment
	booked := map[string]int64{}
	given := map[string]int{}
	started := "" // by which payment the present subscription was
	cut := false  // a period, by staff or by the end of a subscription before its time
	for _, e := range entries {
		booked[e.PaymentID] += e.AmountCents
		switch e.What {
		case billing.Started, billing.Upgraded, billing.Renewed:
			given[e.PaymentID]++
			if started == "" && e.What == billing.Started { // the newest comes first
				started = e.PaymentID
			}
		case billing.Superseded, billing.Ended, billing.Lapsed, billing.Revoked:
			cut = true
		}
		if e.AmountCents != 0 && e.PaymentID == "" {
			wrong("an entry of %d cents belongs to no payment", e.AmountCents)
		}
	}
	type span struct{ start, end time.Time }
	var periods []span
	for id := range booked {
		if id == "" {
			continue
		}
		p, err := l.store.Payment(context.Background(), id)
		l.must(err)
		// A dispute whose event did not come is not in the books yet.
		open := p.Open() || p.RefundToCents > p.RefundedCents || p.DisputeSteps < l.till.disputes[id].steps
		if !open && booked[id] != l.till.kept(id) {
			wrong("payment %s (%s, %s) is booked with %d, the processor has %d", id, p.Kind, p.Status, booked[id], l.till.kept(id))
		}
		if p.DisputedCents > 0 && b.Plan != account.None && (id == started || p.PaidAt.After(b.Began)) {
			wrong("payment %s is disputed, and the plan %s that it paid for is active", id, b.Plan)
		}
		if p.Open() && booked[id] != 0 {
			wrong("payment %s is open and booked with %d", id, booked[id])
		}
		if given[id] > 1 {
			wrong("payment %s gave %d things", id, given[id])
		}
		if p.Status == billing.Paid && given[id] == 0 && p.RefundToCents != p.AmountCents {
			wrong("payment %s was charged for nothing", id)
		}
		if given[id] == 1 {
			if p.Status != billing.Paid || !p.PeriodStart.Before(p.PeriodEnd) {
				wrong("payment %s is %s and gave %s to %s", id, p.Status, p.PeriodStart, p.PeriodEnd)
			}
			if p.Kind != billing.ForUpgrade {
				periods = append(periods, span{p.PeriodStart, p.PeriodEnd})
			}
		}
	}
	// What the processor took and we do not know of yet can only be what is open; where nothing is, the
	// totals agree.
	var ledger, processor int64
	for _, cents := range booked {
		ledger += cents
	}
	unheard := false
	for id := range l.till.objects {
		processor += l.till.kept(id)
		if _, known := booked[id]; !known && l.till.kept(id) != 0 && (unfinished == nil || unfinished.ID != id) {
			wrong("the processor has taken %d for payment %s, which the ledger does not know", l.till.kept(id), id)
		}
		p, err := l.store.Payment(context.Background(), id)
		l.must(err)
		unheard = unheard || p.DisputeSteps < l.till.disputes[id].steps
	}
	if unfinished == nil && !unheard && ledger != processor {
		wrong("the ledger has %d, the processor %d", ledger, processor)
	}
	for i := range periods {
		for j := range i {
			if !cut && periods[i].start.Before(periods[j].end) && periods[j].start.Before(periods[i].end) {
				wrong("the periods %v and %v overlap", periods[i], periods[j])
			}
		}
	}
}

// comeToRest mends the line, lets everything end, and holds the totals against each other.
func (l *life) comeToRest(rt *rapid.T) {
	l.flaky.before, l.flaky.after = false, false
	for id, d := range l.till.disputes {
		l.must(l.Receive(context.Background(), billing.Event{ID: fmt.Sprint(id, d.steps, "late"), PaymentID: id}))
	}
	l.pass(3*day, 12*time.Hour)
	l.check(rt, "everything")
	b, err := l.store.Record(context.Background(), l.id)
	l.must(err)
	if b.Payment != nil {
		rt.Fatalf("a payment never ended: %+v", b.Payment)
	}
	if ledger, processor := l.balance(); ledger != processor {
		rt.Fatalf("in the end the ledger has %d, the processor %d", ledger, processor)
	}
}

func lastDay(t time.Time) int {
	return time.Date(t.Year(), t.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
}
