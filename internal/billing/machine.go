package billing

import (
	"context"
	"fmt"
	"time"

	"sluice/internal/account"
	"sluice/internal/fault"
)

const (
	machine     = "billing" // who the ledger names for what time and processors bring
	visitEvery  = time.Minute
	visitAtOnce = 100
	mostSteps   = 20 // of one visit; the next goes on
	patience    = time.Minute

	// What happens to a payment after it has ended, such as a refund or a dispute, is asked for in case its
	// event was lost: every hour for the last days, and at the start for as long as no server may have run.
	catchUpEvery = time.Hour
	catchUpLast  = 3 * day
	catchUpFirst = 30 * day

	catchUpPatience = 10 * time.Minute
)

// DueStore finds the accounts whose time has come.
type DueStore interface {
	// BillingDue returns at most limit accounts that have something to do at now and whose id is greater than
	// after, in order of id.
	BillingDue(ctx context.Context, now time.Time, after string, limit int) ([]string, error)
}

// Run renews, retries and ends subscriptions when their time has come, and finishes payments that were
// left unfinished, until ctx ends.
func (m *Billing) Run(ctx context.Context) {
	tick := time.NewTicker(visitEvery)
	defer tick.Stop()
	span, next := catchUpFirst, m.now()
	for {
		if err := m.VisitDue(ctx); err != nil && ctx.Err() == nil {
			m.log.Warn("what is due in billing could not be looked up", "error", err.Error())
		}
		if now := m.now(); !now.Before(next) {
			next = now.Add(catchUpEvery)
			switch err := m.CatchUp(ctx, now.Add(-span)); {
			case err == nil:
				span = catchUpLast
			case ctx.Err() == nil:
				m.log.Warn("lost events of the payment processor could not be asked for", "error", err.Error())
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// VisitDue does what is due now, for every account. What fails for one is logged, and tried again the
// next time.
func (m *Billing) VisitDue(ctx context.Context) error {
	after := ""
	for {
		ids, err := m.due.BillingDue(ctx, m.now(), after, visitAtOnce)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if err := m.visit(ctx, id); err != nil {
				m.log.Warn("billing of an account waits", "account", id, "error", err.Error())
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		if len(ids) < visitAtOnce {
			return nil
		}
		after = ids[len(ids)-1]
	}
}

// visit does what is due for an account, step by step, each of which may be cut short at any point and
// is gone on with at the next visit.
func (m *Billing) visit(ctx context.Context, accountID string) error {
	for range mostSteps {
		var next step
		var p *Payment
		_, err := m.change(ctx, machine, accountID, "", func(b *Books) error {
			plans := m.plans()
			next = b.tick(&plans)
			p = b.Payment
			return nil
		})
		if err != nil {
			return err
		}
		switch next {
		case rest:
			return nil
		case charge:
			_, err = m.begin(ctx, p)
		case refund:
			err = m.sendRefund(ctx, p.ID)
		case ask:
			after, err := m.finish(ctx, p)
			if err != nil || after.Open() { // it is in the processor's hands
				return err
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Advance moves an account's clock to a time, and lets everything happen that falls due on the way,
// each thing at its own time. Only test mode has such clocks.
func (m *Billing) Advance(ctx context.Context, actor, ref string, to time.Time) (View, error) {
	if !m.Test() {
		return View{}, fault.New(fault.Conflict, "time can be moved in test mode only; set billing.processor to testpay")
	}
	to = to.UTC().Truncate(time.Second)
	for first := true; ; first = false {
		arrived := false
		a, err := m.change(ctx, actor, ref, "", func(b *Books) error {
			if first && (to.Before(b.now) || to.After(b.now.AddDate(10, 0, 0))) {
				return fault.New(fault.Invalid, "the account's clock is at %s; it moves forward only, and by ten years at most",
					b.now.Format(time.RFC3339)).At("to")
			}
			stop := to
			if b.Plan != account.None && b.Due.After(b.now) && b.Due.Before(to) {
				stop = b.Due
			}
			if first {
				b.note(ClockMoved, b.Account.Plan, "to %s", to.Format(time.RFC3339))
			}
			if by := stop.Sub(b.now); by > 0 {
				b.Ahead += by
			}
			arrived = stop.Equal(to)
			return nil
		})
		if err != nil {
			return View{}, err
		}
		if err := m.visit(ctx, a.ID); err != nil {
			return View{}, err
		}
		if arrived {
			return m.Show(ctx, a.ID)
		}
	}
}

// pay opens a payment and begins it. One that is under way for the same thing is gone on with; any
// other is brought to its end first, so that a customer never has two.
func (m *Billing) pay(ctx context.Context, actor, ref string, same func(*Payment) bool, open func(*Books) error) (*Payment, error) {
	if m.inUse() == nil {
		return nil, errNotForSale()
	}
	b, err := m.read(ctx, ref)
	if err != nil {
		return nil, err
	}
	if p := b.Payment; p.Open() {
		if p.URL != "" && same(p) {
			return p, nil
		}
		if _, err := m.finish(ctx, p); err != nil {
			return nil, err
		}
	}
	var p *Payment
	_, err = m.change(ctx, actor, ref, "", func(b *Books) error {
		if b.Payment.Open() {
			return fault.New(fault.Conflict, "another payment is under way; wait for it to end")
		}
		if err := open(b); err != nil {
			return err
		}
		p = b.Payment
		return nil
	})
	if err != nil {
		return nil, err
	}
	return m.begin(ctx, p)
}

// begin hands a stored payment to the processor. Where no answer comes it stays pending, and is begun
// again under the same id.
func (m *Billing) begin(ctx context.Context, p *Payment) (*Payment, error) {
	if !p.Open() {
		return p, nil
	}
	if p.Processor == "" || p.Processor != m.processorName() {
		return m.take(ctx, p, Outcome{Status: Failed, Reason: "The payment processor is not in use any more."})
	}
	b, err := m.read(ctx, p.AccountID)
	if err != nil {
		return nil, err
	}
	// A customer who goes away must not cut his payment in half.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	o, err := m.processor.Begin(ctx, b.asCustomer(), *p)
	if err != nil {
		return nil, unanswered(fmt.Errorf("begin payment %s: %w", p.ID, err))
	}
	return m.take(ctx, p, o)
}

// finish brings a pending payment to its end: a charge is asked for again, under the same id; a page
// that the customer has left is closed.
func (m *Billing) finish(ctx context.Context, p *Payment) (*Payment, error) {
	if !p.Present || p.Processor != m.processorName() {
		return m.begin(ctx, p)
	}
	if p.Ref == "" { // the processor's answer was lost, and with it the page's address: nobody can pay there
		return m.take(ctx, p, Outcome{Status: Failed, Reason: errLeft})
	}
	o, err := m.processor.Cancel(ctx, *p)
	if err != nil {
		return nil, unanswered(fmt.Errorf("cancel payment %s: %w", p.ID, err))
	}
	if o.Status == Failed && o.Reason == "" {
		o.Reason = errLeft
	}
	return m.take(ctx, p, o)
}

const errLeft = "The payment was not completed."

// Settle asks the processor what has become of a payment of the account and takes it over: for the page
// that the customer comes back to. It returns the payment as it then is.
func (m *Billing) Settle(ctx context.Context, accountID, paymentID string) (*Payment, error) {
	p, err := m.payment(ctx, accountID, paymentID)
	if err != nil {
		return nil, err
	}
	return m.poll(ctx, p)
}

// payment is one of the account's own.
func (m *Billing) payment(ctx context.Context, accountID, paymentID string) (*Payment, error) {
	p, err := m.books.Payment(ctx, paymentID)
	if err == nil && p.AccountID != accountID {
		return nil, fault.New(fault.NotFound, "there is no payment %q", paymentID)
	}
	return p, err
}

func (m *Billing) poll(ctx context.Context, p *Payment) (*Payment, error) {
	if p.Ref == "" || p.Processor != m.processorName() {
		return p, nil
	}
	o, err := m.processor.Outcome(ctx, *p)
	if err != nil {
		return nil, unanswered(fmt.Errorf("look up payment %s: %w", p.ID, err))
	}
	return m.take(ctx, p, o)
}

// take books an outcome, and returns the payment as it then is. What was paid in vain is given back.
func (m *Billing) take(ctx context.Context, p *Payment, o Outcome) (*Payment, error) {
	var after *Payment
	_, err := m.change(ctx, machine, p.AccountID, p.ID, func(b *Books) error {
		b.settle(o)
		after = b.Payment
		return nil
	})
	if err != nil {
		return nil, err
	}
	if after.refundDue() {
		if err := m.sendRefund(ctx, after.ID); err != nil {
			m.log.Warn("a refund waits", "payment", after.ID, "error", err.Error())
		}
		return m.books.Payment(ctx, after.ID)
	}
	return after, nil
}

// sendRefund lets the processor give back what is due of a payment.
func (m *Billing) sendRefund(ctx context.Context, paymentID string) error {
	p, err := m.books.Payment(ctx, paymentID)
	if err != nil {
		return err
	}
	if p.Processor != m.processorName() {
		return fmt.Errorf("payment %s was made with %s, which is not in use any more", p.ID, p.Processor)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	o, err := m.processor.Refund(ctx, *p)
	if err != nil {
		return unanswered(fmt.Errorf("refund payment %s: %w", p.ID, err))
	}
	_, err = m.change(ctx, machine, p.AccountID, p.ID, func(b *Books) error {
		b.settle(o)
		return nil
	})
	return err
}

// Reporter is a processor that keeps what it has reported.
type Reporter interface {
	// Reports hands over the events since a time about what happens to payments after they have ended. Those
	// that receive refuses come again the next time.
	Reports(ctx context.Context, since time.Time, receive func(context.Context, Event) error) error
}

// CatchUp takes in the events since a time that were lost on their way.
func (m *Billing) CatchUp(ctx context.Context, since time.Time) error {
	r, ok := m.processor.(Reporter)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, catchUpPatience)
	defer cancel()
	return r.Reports(ctx, since, m.Receive)
}

// Event is what a processor reports of its own accord: that something has happened to a payment, or to
// a customer's payment method. What it is now is asked of the processor, so that events may come
// twice, late and in any order.
type Event struct {
	ID        string
	Kind      string
	PaymentID string // empty: it is about none of ours
	Ref       string // the processor's name for the payment
	AccountID string // whose payment method may have changed; empty: nobody's
}

// EventStore remembers which events have been handled.
type EventStore interface {
	// HasBillingEvent reports whether an event of a processor has been handled.
	HasBillingEvent(ctx context.Context, id string) (bool, error)
	// AddBillingEvent records that it has been.
	AddBillingEvent(ctx context.Context, id, kind string, at time.Time) error
}

// Receive takes in an event that the processor's signature has vouched for.
func (m *Billing) Receive(ctx context.Context, e Event) error {
	seen, err := m.events.HasBillingEvent(ctx, e.ID)
	if err != nil || seen {
		return err
	}
	if e.PaymentID != "" {
		if err := m.hear(ctx, e); err != nil {
			return err
		}
	}
	if e.AccountID != "" {
		if _, err := m.RefreshMethod(ctx, e.AccountID); err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	return m.events.AddBillingEvent(ctx, e.ID, e.Kind, m.now())
}

// hear settles the payment of an event. One that we do not know was made by somebody else who shares
// the processor's account with us.
func (m *Billing) hear(ctx context.Context, e Event) error {
	p, err := m.books.Payment(ctx, e.PaymentID)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if p.Ref == "" {
		p.Ref = e.Ref
	}
	_, err = m.poll(ctx, p)
	return err
}
