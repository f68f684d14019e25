package stripe

import (
	"context"
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/account"
	"sluice/internal/account/billing"
)

// TestAnyDelivery lets customers pay, lose their connection and change cards while events arrive in any
// order, more than once, late, or never. Once everything has been delivered, the books agree with Stripe's.
func TestAnyDelivery(t *testing.T) {
	t.Parallel()
	steps := 10
	if os.Getenv("SLUICE_SOAK") != "" {
		steps = 80
	}
	rapid.Check(t, func(rt *rapid.T) {
		d := newFixture(t)
		defer d.close()
		for range steps {
			d.step(rt)
		}
		d.fake.line(false, false)
		d.pass(2 * day)
		if rapid.Bool().Draw(rt, "delivered") {
			d.deliverAll()
			d.deliverAll()
		} else { // the machine has asked about the payments; the rest it asks for now
			d.must(d.CatchUp(context.Background(), time.Time{}))
		}
		d.agrees(rt)
	})
}

func (d *fixture) step(rt *rapid.T) {
	ctx := context.Background()
	plan := rapid.SampledFrom([]account.Plan{account.Basic, account.Premium, account.Scale}).Draw(rt, "plan")
	card := rapid.SampledFrom([]string{goodCard, goodCard, brokeCard, carefulCard}).Draw(rt, "card")
	switch rapid.IntRange(0, 14).Draw(rt, "step") {
	case 0, 1:
		_, _ = d.Subscribe(ctx, "customer", d.id, plan)
	case 2, 3, 4:
		if pages := d.fake.opened(); len(pages) > 0 { // open or not
			d.fake.payPage(rapid.SampledFrom(pages).Draw(rt, "page"), card)
		}
	case 5, 6:
		if events := d.fake.sent(); len(events) > 0 {
			d.deliver(events[rapid.IntRange(0, len(events)-1).Draw(rt, "event")])
		}
	case 7:
		if o, err := d.Quote(ctx, d.id, plan); err == nil && !o.First {
			_, _ = d.Upgrade(ctx, "customer", d.id, o)
		}
	case 8:
		d.pass(time.Duration(rapid.IntRange(1, 20*24).Draw(rt, "hours")) * time.Hour)
	case 9:
		d.fake.refundByHand(100)
	case 10:
		b, err := d.store.Record(ctx, d.id)
		d.must(err)
		d.fake.changeCard(b.Customer, card)
	case 12:
		if charged := d.fake.charged(); len(charged) > 0 {
			d.fake.dispute(rapid.SampledFrom(charged).Draw(rt, "disputed"), rapid.Bool().Draw(rt, "inquiry"))
		}
	case 13:
		if charged := d.fake.charged(); len(charged) > 0 {
			d.fake.decide(rapid.SampledFrom(charged).Draw(rt, "decided"), rapid.Bool().Draw(rt, "won"))
		}
	case 14:
		_ = d.CatchUp(ctx, d.now().Add(-3*day))
	case 11:
		d.fake.line(rapid.Bool().Draw(rt, "down"), rapid.Bool().Draw(rt, "lost"))
	}
}

// agrees compares each payment with Stripe's record of it.
func (d *fixture) agrees(rt *rapid.T) {
	ctx := context.Background()
	entries, err := d.Ledger(ctx, d.id, 1<<30)
	d.must(err)
	started := "" // by which payment the present subscription was
	booked, given := map[string]int64{}, map[string]bool{}
	for _, e := range entries {
		booked[e.PaymentID] += e.AmountCents
		if started == "" && e.What == billing.Started { // the newest comes first
			started = e.PaymentID
		}
		given[e.PaymentID] = given[e.PaymentID] || e.What == billing.Started || e.What == billing.Renewed || e.What == billing.Upgraded
	}
	b, err := d.store.Record(ctx, d.id)
	d.must(err)
	d.fake.mu.Lock()
	defer d.fake.mu.Unlock()
	for _, pi := range d.fake.intents {
		id := pi.metadata[paymentKey]
		want := pi.kept()
		if booked[id] != want {
			rt.Fatalf("payment %s is booked with %d, Stripe has %d", id, booked[id], want)
		}
		if want > 0 && !given[id] {
			rt.Fatalf("payment %s of %d cents gave nothing", id, want)
		}
		if p, err := d.store.Payment(ctx, id); err == nil && pi.disputed() > 0 && b.Plan != account.None && (id == started || p.PaidAt.After(b.Began)) {
			rt.Fatalf("payment %s is disputed, and the plan %s that it paid for is active", id, b.Plan)
		}
		delete(booked, id)
	}
	for id, cents := range booked {
		if cents != 0 {
			rt.Fatalf("payment %s is booked with %d, Stripe knows nothing of it", id, cents)
		}
	}
	if b.Payment != nil || b.Plan != b.Account.Plan {
		rt.Fatalf("in the end the account has %s, pays for %s, and %+v is open", b.Account.Plan, b.Plan, b.Payment)
	}
}
