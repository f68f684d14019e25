// Package billing sells the paid plans: subscribe, upgrade, renew, lapse.
//
// The machine is the methods of Books: transitions of one account's subscription that are given the
// time and touch nothing else. Billing runs them in the store's transactions and moves money through a
// Processor in between. A payment is stored before the processor hears of it, the processor knows it by
// our id, and what the processor says is taken in by one idempotent transition, settle; so whoever
// reports an outcome (the call itself, a webhook, the customer who comes back, the machine that asks
// again after a crash) reports the same thing, and late, double or reordered reports do no harm.
//
// Who owns the schedule is not the processor but this package; see docs/decisions/0010-billing.md.
package billing

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/fault"
)

// Store keeps the books. Each method is one transaction.
type Store interface {
	// FindAccount looks an account up by its id or its address.
	FindAccount(ctx context.Context, ref string) (*account.Account, error)
	// ChangeBilling locks the account, lets change work on its books and stores what became of them:
	// the subscription, the payment, the new entries, and where Audit has an action the account itself.
	// The payment is the one with the id; for an empty id the unfinished one, if there is any.
	ChangeBilling(ctx context.Context, accountID, paymentID string, change func(*Books) error) (*account.Account, error)
	// Books reads the books without locking them.
	Books(ctx context.Context, accountID string) (*Books, error)
	// Payment looks a payment up by its id; fault.NotFound if there is none.
	Payment(ctx context.Context, id string) (*Payment, error)
	// Invoices returns the paid payments of an account, newest first.
	Invoices(ctx context.Context, accountID string, limit int) ([]Payment, error)
	// Ledger returns the entries of an account, newest first.
	Ledger(ctx context.Context, accountID string, limit int) ([]Entry, error)
	// BillingDue returns accounts with something to do at a time, whose id is greater than after, in
	// order of id.
	BillingDue(ctx context.Context, now time.Time, after string, limit int) ([]string, error)
	// HasBillingEvent reports whether a processor's event has been dealt with; AddBillingEvent notes it.
	HasBillingEvent(ctx context.Context, id string) (bool, error)
	AddBillingEvent(ctx context.Context, id, kind string, at time.Time) error
}

// Options are the choices of New; the zero value is the default.
type Options struct {
	// Processor moves the money. Nil: paid plans are not for sale.
	Processor Processor
	// Withdrawn reports that the processor may not be used, at the moment or any more; then all is as if there
	// were none. Nil: it always may.
	Withdrawn func() bool
	// LeastCents is the smallest amount that the processor can charge; less is waived.
	LeastCents int64
	// Plans are the terms in force. Default account.BuiltinPlans.
	Plans func() account.Plans
	// OnChange is told every new state of an account before the change returns to its caller.
	OnChange func(*account.Account)
	// OnEntry is told every new line of the ledger, once it is stored: to write to the customer.
	OnEntry func(context.Context, *account.Account, Entry)
	// Now is the clock. Default time.Now.
	Now func() time.Time
	// Log is for what goes wrong in the background. Default slog.Default().
	Log *slog.Logger
}

// Billing runs the machine of every account.
type Billing struct {
	store     Store
	processor Processor
	withdrawn func() bool
	least     int64
	plans     func() account.Plans
	onChange  func(*account.Account)
	onEntry   func(context.Context, *account.Account, Entry)
	now       func() time.Time
	log       *slog.Logger
}

// New returns Billing over a store.
func New(store Store, opts *Options) *Billing {
	if opts == nil {
		opts = &Options{}
	}
	m := &Billing{
		store: store, processor: opts.Processor, withdrawn: opts.Withdrawn, least: opts.LeastCents, plans: opts.Plans,
		onChange: opts.OnChange, onEntry: opts.OnEntry, now: opts.Now, log: opts.Log,
	}
	if m.plans == nil {
		m.plans = account.BuiltinPlans
	}
	if m.onChange == nil {
		m.onChange = func(*account.Account) {}
	}
	if m.onEntry == nil {
		m.onEntry = func(context.Context, *account.Account, Entry) {}
	}
	if m.now == nil {
		m.now = time.Now
	}
	if m.log == nil {
		m.log = slog.Default()
	}
	return m
}

// Sells reports whether paid plans can be bought.
func (m *Billing) Sells() bool { return m.inUse() != nil }

// inUse is the processor; nil: there is none, or it is withdrawn.
func (m *Billing) inUse() Processor {
	if m.withdrawn != nil && m.withdrawn() {
		return nil
	}
	return m.processor
}

// View is how an account's billing stands.
type View struct {
	Account      *account.Account
	Subscription          // zero: none; Free and granted plans have none
	Method       Method   // the saved payment method; zero: none
	Payment      *Payment // the one under way, which the customer can go on with at its URL; nil: none
	Now          time.Time
}

// Show tells how an account's billing stands, on the account's clock.
func (m *Billing) Show(ctx context.Context, ref string) (View, error) {
	b, err := m.read(ctx, ref)
	if err != nil {
		return View{}, err
	}
	v := View{Account: b.Account, Subscription: b.Subscription, Now: b.now}
	if b.Processor == b.using {
		v.Method = b.Method
	}
	if b.Payment.Open() {
		v.Payment = b.Payment
	}
	return v, nil
}

// Subscribe takes a plan. Free is taken at once, and the payment is nil. For a paid plan the customer
// has to be sent to the payment's URL; the plan begins when the payment is made. One whose price is 0 is
// Paid at once.
func (m *Billing) Subscribe(ctx context.Context, actor, ref string, plan account.Plan) (*Payment, error) {
	switch plan {
	case account.None:
		return nil, fault.New(fault.Invalid, "choose a plan: free, basic, premium or scale").At("plan")
	case account.Free:
		_, err := m.change(ctx, actor, ref, "", (*Books).chooseFree)
		return nil, err
	}
	price := m.plans()[plan].PriceCents
	return m.pay(ctx, actor, ref, func(p *Payment) bool {
		return p.Kind == ForStart && p.Plan == plan && p.AmountCents == price
	}, func(b *Books) error { return b.subscribe(plan, price) })
}

// Upgrade takes an offer of Quote: the saved payment method is charged the amount that was shown, and
// the higher plan holds at once. If the payment failed with Confirm set, UpgradeInPerson lets the customer
// confirm it.
func (m *Billing) Upgrade(ctx context.Context, actor, ref string, o Offer) (*Payment, error) {
	return m.upgrade(ctx, actor, ref, o, false)
}

// UpgradeInPerson is Upgrade on the processor's page, at the payment's URL: for a payment that the
// customer must confirm, or to be made with another card.
func (m *Billing) UpgradeInPerson(ctx context.Context, actor, ref string, o Offer) (*Payment, error) {
	return m.upgrade(ctx, actor, ref, o, true)
}

func (m *Billing) upgrade(ctx context.Context, actor, ref string, o Offer, present bool) (*Payment, error) {
	return m.pay(ctx, actor, ref, func(p *Payment) bool {
		return p.Kind == ForUpgrade && p.Plan == o.Plan && p.AmountCents == o.AmountCents && p.Present == present
	}, func(b *Books) error {
		if b.Plan == account.None {
			return errNoSubscription()
		}
		if b.Account.Suspended != nil {
			return errSuspended()
		}
		if err := b.holds(o, m.plans(), m.least); err != nil {
			return err
		}
		b.openPayment(ForUpgrade, o.Plan, m.plans()[o.Plan].PriceCents, o.AmountCents, o.At.UTC(), b.PeriodEnd, present)
		return nil
	})
}

// PayOverdue lets the customer pay a renewal that has failed, at the payment's URL.
func (m *Billing) PayOverdue(ctx context.Context, actor, ref string) (*Payment, error) {
	return m.pay(ctx, actor, ref, func(p *Payment) bool { return p.Kind == ForRenewal && p.Present }, func(b *Books) error {
		if b.Status() != PastDue {
			return fault.New(fault.Conflict, "no payment is overdue")
		}
		plans := m.plans()
		b.renew(&plans, true)
		return nil
	})
}

// CancelAtPeriodEnd ends the subscription with the period that is paid for. One whose renewal is unpaid
// ends at once.
func (m *Billing) CancelAtPeriodEnd(ctx context.Context, actor, ref string) error {
	_, err := m.change(ctx, actor, ref, "", (*Books).cancel)
	return err
}

// Resume takes CancelAtPeriodEnd back.
func (m *Billing) Resume(ctx context.Context, actor, ref string) error {
	_, err := m.change(ctx, actor, ref, "", (*Books).resume)
	return err
}

// RequestDowngrade writes down for support that the customer would like a lower plan, or none. Nothing
// else happens: there is no downgrade by oneself (docs/api.md#plan-changes).
func (m *Billing) RequestDowngrade(ctx context.Context, actor, ref string, plan account.Plan, message string) error {
	message = strings.TrimSpace(message)
	if len(message) > 2000 {
		return fault.New(fault.Invalid, "a message has at most 2000 bytes").At("message")
	}
	_, err := m.change(ctx, actor, ref, "", func(b *Books) error {
		if plan >= b.Account.Plan {
			return fault.New(fault.Invalid, "%s is not below the present plan, %s", plan, b.Account.Plan).At("plan")
		}
		b.note(DowngradeRequested, plan, "%s", message)
		return nil
	})
	return err
}

// Downgrade is for support: from the next period on the subscription is for a lower paid plan.
func (m *Billing) Downgrade(ctx context.Context, actor, ref string, plan account.Plan) error {
	_, err := m.change(ctx, actor, ref, "", func(b *Books) error {
		plans := m.plans()
		return b.downgrade(plan, &plans)
	})
	return err
}

// Terminate is for staff: it suspends the account without end and ends its subscription. Keys and
// history stay.
func (m *Billing) Terminate(ctx context.Context, actor, ref, reason string) (*account.Account, error) {
	reason = strings.TrimSpace(reason)
	if reason == "" || len(reason) > 1000 {
		return nil, fault.New(fault.Invalid, "a reason of 1 to 1000 bytes is required; it is kept in the audit log").At("reason")
	}
	return m.change(ctx, actor, ref, "", func(b *Books) error {
		b.terminate(reason)
		return nil
	})
}

// EndNow ends the subscription at once and gives nothing back: for an account that is closed.
func (m *Billing) EndNow(ctx context.Context, actor, ref, why string) error {
	_, err := m.change(ctx, actor, ref, "", func(b *Books) error {
		if b.Plan != account.None {
			b.end(Ended, "%s", why)
		}
		return nil
	})
	return err
}

// Refund is for support: it gives cents of a payment back. The plan stays as it is.
func (m *Billing) Refund(ctx context.Context, actor, paymentID string, cents int64) (*Payment, error) {
	p, err := m.store.Payment(ctx, paymentID)
	if err != nil {
		return nil, err
	}
	p, err = m.settle(ctx, p) // the processor may have given something back by itself
	if err != nil {
		return nil, err
	}
	_, err = m.change(ctx, actor, p.AccountID, p.ID, func(b *Books) error {
		p := b.Payment
		if p.DisputedCents > 0 {
			return fault.New(fault.Conflict, "the customer's bank has taken back %s of this payment; what is disputed cannot be given back", Dollars(p.DisputedCents))
		}
		if left := p.AmountCents - p.RefundToCents; p.Status != Paid || cents < 1 || cents > left {
			return fault.New(fault.Invalid, "%s of this payment can be given back", Dollars(left))
		}
		p.RefundToCents += cents
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := m.refund(ctx, paymentID); err != nil {
		return nil, err
	}
	return m.store.Payment(ctx, paymentID)
}

// Portal is the page where the customer changes his payment method.
func (m *Billing) Portal(ctx context.Context, actor, ref string) (string, error) {
	if m.inUse() == nil {
		return "", errNotForSale()
	}
	b, err := m.read(ctx, ref)
	if err != nil {
		return "", err
	}
	url, customer, err := m.processor.Portal(ctx, b.customer())
	if err != nil {
		return "", unanswered(err)
	}
	_, err = m.change(ctx, actor, ref, "", func(b *Books) error {
		b.know(customer)
		return nil
	})
	return url, err
}

// RefreshMethod takes over what the processor has as the customer's payment method: for when he comes
// back from the portal.
func (m *Billing) RefreshMethod(ctx context.Context, ref string) (Method, error) {
	b, err := m.read(ctx, ref)
	if err != nil || m.inUse() == nil || b.customer().Ref == "" {
		return Method{}, err
	}
	method, err := m.processor.Method(ctx, b.customer())
	if err != nil {
		return Method{}, unanswered(err)
	}
	_, err = m.change(ctx, machine, ref, "", func(b *Books) error {
		b.Method = method
		return nil
	})
	return method, err
}

// Invoices are the account's paid payments, newest first.
func (m *Billing) Invoices(ctx context.Context, ref string, limit int) ([]Payment, error) {
	a, err := m.store.FindAccount(ctx, ref)
	if err != nil {
		return nil, err
	}
	return m.store.Invoices(ctx, a.ID, limit)
}

// Ledger is everything that happened to the account's billing, newest first.
func (m *Billing) Ledger(ctx context.Context, ref string, limit int) ([]Entry, error) {
	a, err := m.store.FindAccount(ctx, ref)
	if err != nil {
		return nil, err
	}
	return m.store.Ledger(ctx, a.ID, limit)
}

// read loads the books as they stand now.
func (m *Billing) read(ctx context.Context, ref string) (*Books, error) {
	a, err := m.store.FindAccount(ctx, ref)
	if err != nil {
		return nil, err
	}
	b, err := m.store.Books(ctx, a.ID)
	if err != nil {
		return nil, err
	}
	b.begin("", m.processorName(), m.now())
	return b, nil
}

// change runs one transition in the store's transaction and publishes its outcome.
func (m *Billing) change(ctx context.Context, actor, ref, paymentID string, apply func(*Books) error) (*account.Account, error) {
	found, err := m.store.FindAccount(ctx, ref)
	if err != nil {
		return nil, err
	}
	// A caller who goes away must not leave the outcome unpublished.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	var entries []Entry
	changed, err := m.store.ChangeBilling(ctx, found.ID, paymentID, func(b *Books) error {
		b.begin(actor, m.processorName(), m.now())
		err := apply(b)
		entries = b.Entries
		return err
	})
	if err != nil {
		if a, findErr := m.store.FindAccount(ctx, found.ID); findErr == nil {
			m.onChange(a) // the commit's answer may have been lost
		}
		return nil, err
	}
	m.onChange(changed)
	for _, e := range entries {
		m.onEntry(ctx, changed, e)
	}
	return changed, nil
}

// processorName is that of the one in use; empty: there is none.
func (m *Billing) processorName() string {
	if m.inUse() == nil {
		return ""
	}
	return m.processor.Name()
}

func errNotForSale() error {
	return fault.New(fault.Conflict, "paid plans are not for sale here; ask the operator for one")
}

func errSuspended() error {
	return fault.New(fault.Suspended, "the account is suspended; write to support")
}

// unanswered is the fault of a processor whose answer did not come: what was asked may have happened.
func unanswered(err error) error {
	if fault.Is(err, fault.Conflict) || fault.Is(err, fault.Invalid) {
		return err
	}
	return fault.New(fault.Unavailable, "The payment processor does not answer at the moment. Try again shortly; nothing is charged twice.").
		After(10 * time.Second).Because(err)
}
