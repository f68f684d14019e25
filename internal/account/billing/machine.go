package billing

import (
	"context"
	"fmt"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
)

const (
	machine     = "billing"   // who the ledger names for what time and processors do
	visitAtOnce = 100         // accounts in one query
	mostSteps   = 20          // of one visit, so that an account cannot hold up the others; the next visit continues
	patience    = time.Minute // how long one call to the processor may take

	// Refunds and disputes happen after a payment has ended, and only events report them. Events
	// can be lost, so they are asked for again: for the last three days, and the first time of a
	// process for the last 30, because no server may have run.
	catchUpLast  = 3 * day
	catchUpFirst = 30 * day

	catchUpPatience = 10 * time.Minute
)

// How often Visit and CatchUpLost should be called.
const (
	VisitEvery   = time.Minute
	CatchUpEvery = time.Hour
)

// DueStore finds the accounts whose time has come.
type DueStore interface {
	// BillingDue returns at most limit accounts that have something to do at now and whose id is
	// greater than after, in order of id.
	BillingDue(ctx context.Context, now time.Time, after string, limit int) ([]string, error)
}

// Visit renews, retries and ends the subscriptions that are due, and finishes payments that were interrupted.
// What fails is logged and waits for the next visit.
func (m *Billing) Visit(ctx context.Context) {
	if err := m.VisitDue(ctx); err != nil && ctx.Err() == nil {
		m.log.Warn("what is due in billing could not be looked up", "error", err.Error())
	}
}

// CatchUpLost asks the processor for events that may have been lost. A failure is logged.
func (m *Billing) CatchUpLost(ctx context.Context) {
	span := catchUpFirst
	if m.caughtUp.Load() {
		span = catchUpLast
	}
	if err := m.CatchUp(ctx, m.now().Add(-span)); err == nil {
		m.caughtUp.Store(true)
	} else if ctx.Err() == nil {
		m.log.Warn("lost events of the payment processor could not be asked for", "error", err.Error())
	}
}

// VisitDue does what is due now, for every account. A failure is logged and retried at the next
// visit; it does not stop the others.
func (m *Billing) VisitDue(ctx context.Context) error {
	after := ""
	for {
		ids, err := m.store.BillingDue(ctx, m.now(), after, visitAtOnce)
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

// visit does what is due for an account, step by step. Each step may be interrupted at any point;
// the next visit continues it.
func (m *Billing) visit(ctx context.Context, accountID string) error {
	for range mostSteps {
		var next step
		var p *Payment
		_, err := m.change(ctx, machine, accountID, "", func(b *Record) error {
			plans := m.plans()
			next = b.tick(&plans, m.least)
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
			if err != nil || after.Open() { // the processor has not decided yet
				return err
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Advance moves an account's clock forward and does everything that falls due on the way, each
// thing at its own time. Only test mode has such clocks.
func (m *Billing) Advance(ctx context.Context, actor, ref string, to time.Time) (View, error) {
	if !m.Test() {
		return View{}, fault.New(fault.Conflict, "time can be moved in test mode only; set billing.processor to testpay")
	}
	to = to.UTC().Truncate(time.Second)
	for first := true; ; first = false {
		arrived := false
		a, err := m.change(ctx, actor, ref, "", func(b *Record) error {
			if first && (to.Before(b.now) || to.After(b.now.AddDate(10, 0, 0))) {
				return fault.New(fault.Invalid, "the account's clock is at %s; it moves forward only, and by ten years at most",
					b.now.Format(time.RFC3339)).At("to")
			}
			stop := to
			if b.Plan != account.None && b.Due.After(b.now) && b.Due.Before(to) {
				stop = b.Due
			}
			if first {
				b.note(ClockMoved, b.Account.Plan, "to %s", moment(to))
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

// pay opens a payment and starts it. same reports whether a pending payment is for the same thing;
// such a payment is returned instead. Any other pending payment is finished first, so that a
// customer never has two.
func (m *Billing) pay(ctx context.Context, actor, ref string, same func(*Payment) bool, open func(*Record) error) (*Payment, error) {
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
	_, err = m.change(ctx, actor, ref, "", func(b *Record) error {
		if b.Payment.Open() {
			return fault.New(fault.Conflict, "another payment is under way; wait for it to end")
		}
		if b.Stop != nil {
			return errStopped()
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

// begin passes a stored payment to the processor. If no answer comes, the payment stays pending and
// begin is called again with the same id, which the processor charges once.
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
	// A customer who closes the browser must not interrupt the payment between the charge and its
	// booking.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	o, err := m.processor.Begin(ctx, b.asCustomer(), *p)
	if err != nil {
		return nil, unanswered(fmt.Errorf("begin payment %s: %w", p.ID, err))
	}
	return m.take(ctx, p, o)
}

// finish ends a pending payment. A charge is asked for again with the same id; a page that the
// customer has left is closed, so that nobody can pay there later.
func (m *Billing) finish(ctx context.Context, p *Payment) (*Payment, error) {
	if !p.Present || p.Processor != m.processorName() {
		return m.begin(ctx, p)
	}
	if p.Ref == "" { // the answer with the page's address was lost, so nobody can pay there
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

// errLeft is what the customer reads about a page that was left.
const errLeft = "The payment was not completed."

// Settle asks the processor for the outcome of a payment of the account, books it, and returns the
// payment: for the page that the customer comes back to.
func (m *Billing) Settle(ctx context.Context, accountID, paymentID string) (*Payment, error) {
	p, err := m.payment(ctx, accountID, paymentID)
	if err != nil {
		return nil, err
	}
	return m.poll(ctx, p)
}

// payment returns a payment of the account. A payment of another account is fault.NotFound.
func (m *Billing) payment(ctx context.Context, accountID, paymentID string) (*Payment, error) {
	p, err := m.store.Payment(ctx, paymentID)
	if err == nil && p.AccountID != accountID {
		return nil, fault.New(fault.NotFound, "there is no payment %q", paymentID)
	}
	return p, err
}

// poll asks the processor for the outcome of a payment and books it. A payment that the processor
// in use does not know is returned as it is.
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

// take books an outcome and returns the payment after it. If the money came too late for what it
// was for, take refunds it.
func (m *Billing) take(ctx context.Context, p *Payment, o Outcome) (*Payment, error) {
	var after *Payment
	_, err := m.change(ctx, machine, p.AccountID, p.ID, func(b *Record) error {
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
		return m.store.Payment(ctx, after.ID)
	}
	return after, nil
}

// sendRefund asks the processor to refund what is due of a payment, and books the answer.
func (m *Billing) sendRefund(ctx context.Context, paymentID string) error {
	p, err := m.store.Payment(ctx, paymentID)
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
	_, err = m.change(ctx, machine, p.AccountID, p.ID, func(b *Record) error {
		b.settle(o)
		return nil
	})
	return err
}

// Reporter is a processor that keeps its events, so that lost ones can be read again.
type Reporter interface {
	// Reports calls receive with the events since a time about payments that had ended before. It
	// continues when receive fails, and returns the first error.
	Reports(ctx context.Context, since time.Time, receive func(context.Context, Event) error) error
}

// CatchUp handles the events since a time that were lost on their way. Events that were handled
// before are skipped.
func (m *Billing) CatchUp(ctx context.Context, since time.Time) error {
	r, ok := m.processor.(Reporter)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, catchUpPatience)
	defer cancel()
	return r.Reports(ctx, since, m.Receive)
}

// Event is a processor's report that something has happened to a payment or to a customer's payment
// method. It says that, and not what: the current state is asked of the processor, so events may
// come twice, late and in any order.
type Event struct {
	ID        string
	Kind      string
	PaymentID string // our id; empty: the event is about no payment of ours
	Ref       string // the processor's id of the payment
	AccountID string // whose payment method may have changed; empty: nobody's
}

// EventStore remembers which events have been handled.
type EventStore interface {
	// HasBillingEvent reports whether an event of a processor has been handled.
	HasBillingEvent(ctx context.Context, id string) (bool, error)
	// AddBillingEvent records that it has been.
	AddBillingEvent(ctx context.Context, id, kind string, at time.Time) error
}

// Receive handles an event. The caller has checked the processor's signature. If it fails, the
// processor must send the event again.
func (m *Billing) Receive(ctx context.Context, e Event) error {
	seen, err := m.store.HasBillingEvent(ctx, e.ID)
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
	return m.store.AddBillingEvent(ctx, e.ID, e.Kind, m.now())
}

// hear polls the payment of an event. A payment that we do not know is ignored: another program may
// share the processor's account with us.
func (m *Billing) hear(ctx context.Context, e Event) error {
	p, err := m.store.Payment(ctx, e.PaymentID)
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
