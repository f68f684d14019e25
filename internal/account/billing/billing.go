// Package billing sells the paid plans: subscribe, upgrade, renew, lapse.
//
// The rules are methods of Record: changes to one account's subscription that are given the time and
// touch nothing else. Billing runs them inside transactions of the store, and between transactions
// moves money through a Processor.
//
// No money is charged twice and none is forgotten, because of three rules. A payment is stored
// before the processor hears of it. The processor knows it by our id. And everything the processor
// says goes through one method, Record.settle, which may be told the same thing twice, late or out
// of order. So it does not matter who reports an outcome: the call itself, a webhook, the customer
// who comes back, or the retry after a crash.
//
// This package owns the schedule, not the processor; see docs/decisions/0010-billing.md.
package billing

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
)

// Store is all that Billing keeps; sqlstore/payments implements it. The parts stand beside the code that
// uses them.
type Store interface {
	RecordStore
	HistoryStore
	DetailsStore
	DueStore
	EventStore
	StopStore
}

// RecordStore keeps the records of all accounts. Each method is one transaction.
type RecordStore interface {
	// FindAccount returns an account by its id or its address.
	FindAccount(ctx context.Context, ref string) (*account.Account, error)
	// ChangeBilling locks the account, calls change with its record, and stores the result: the
	// subscription, the payment, the new entries, and, if Audit has an action, the account itself.
	// If change returns an error, nothing is stored. Record.Payment is the payment with paymentID,
	// or, if that is empty, the unfinished one.
	ChangeBilling(ctx context.Context, accountID, paymentID string, change func(*Record) error) (*account.Account, error)
	// Record returns the record without locking it.
	Record(ctx context.Context, accountID string) (*Record, error)
	// Payment returns a payment by its id, or fault.NotFound.
	Payment(ctx context.Context, id string) (*Payment, error)
}

// HistoryStore reads what has happened.
type HistoryStore interface {
	// Invoices returns at most limit paid payments of an account, newest first.
	Invoices(ctx context.Context, accountID string, limit int) ([]Payment, error)
	// Refundable returns at most limit of those of which something can be given back.
	Refundable(ctx context.Context, accountID string, limit int) ([]Payment, error)
	// Ledger returns at most limit entries of an account, newest first.
	Ledger(ctx context.Context, accountID string, limit int) ([]Entry, error)
	// LedgerBefore does the same for those before a number; 0: the newest.
	LedgerBefore(ctx context.Context, accountID string, before int64, limit int) ([]Entry, error)
	// Charged returns the sum of all entries of an account, in cents.
	Charged(ctx context.Context, accountID string) (int64, error)
}

// Options are the choices of New; the zero value is the default.
type Options struct {
	// Processor moves the money. If it is nil, paid plans are not for sale.
	Processor Processor
	// Withdrawn reports whether the processor must not be used now; then everything is as if there
	// were none. If it is nil, the processor may always be used.
	Withdrawn func() bool
	// LeastCents is the smallest amount that the processor can charge. A smaller amount is waived.
	LeastCents int64
	// Plans are the terms in force. Default account.BuiltinPlans.
	Plans func() account.Plans
	// Seller returns who invoices are from, at the time when one is issued. If nil, they name nobody.
	Seller func() Seller
	// OnChange is called with every new state of an account before the change returns to its
	// caller, so that the next request is judged by the new plan. May be nil.
	OnChange func(*account.Account)
	// OnEntry is called with every new entry of the ledger after it was stored, to write to the
	// customer. May be nil.
	OnEntry func(context.Context, *account.Account, Entry)
	// Now is the clock. Default time.Now.
	Now func() time.Time
	// Log is for what goes wrong in the background. Default slog.Default().
	Log *slog.Logger
}

// Billing runs the subscriptions of all accounts. Its methods may be called from several goroutines
// and on several nodes: the store locks the account for each change. ref is an account's id or its
// address; actor is who the ledger names.
type Billing struct {
	HistoryStore // for pages and support

	store     Store
	processor Processor
	withdrawn func() bool
	least     int64
	plans     func() account.Plans
	seller    func() Seller
	onChange  func(*account.Account)
	onEntry   func(context.Context, *account.Account, Entry)
	now       func() time.Time
	log       *slog.Logger
	caughtUp  atomic.Bool  // this process has asked for lost events once
	stopped   atomic.Int64 // accounts whose billing is stopped
}

// New returns Billing over a store.
func New(store Store, opts *Options) *Billing {
	if opts == nil {
		opts = &Options{}
	}
	m := &Billing{
		HistoryStore: store, store: store, processor: opts.Processor, withdrawn: opts.Withdrawn, least: opts.LeastCents, plans: opts.Plans, seller: opts.Seller,
		onChange: opts.OnChange, onEntry: opts.OnEntry, now: opts.Now, log: opts.Log,
	}
	if m.plans == nil {
		m.plans = account.BuiltinPlans
	}
	if m.seller == nil {
		m.seller = func() Seller { return Seller{} }
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

// inUse returns the processor, or nil if there is none or it is withdrawn.
func (m *Billing) inUse() Processor {
	if m.withdrawn != nil && m.withdrawn() {
		return nil
	}
	return m.processor
}

// View is the state of an account's billing.
type View struct {
	Account      *account.Account
	Subscription           // zero: none; Free and granted plans have none
	Method       Method    // the saved payment method; zero: none
	Payment      *Payment  // the pending one, which the customer can continue at its URL; nil: none
	Stop         *Stop     // nil: payments are made
	CreditCents  int64     // what the next renewals are lowered by
	Now          time.Time // on the account's clock
}

// Show returns the state of an account's billing.
func (m *Billing) Show(ctx context.Context, ref string) (View, error) {
	b, err := m.read(ctx, ref)
	if err != nil {
		return View{}, err
	}
	v := View{Account: b.Account, Subscription: b.Subscription, Now: b.now, Stop: b.Stop, CreditCents: b.CreditCents}
	if b.Processor == b.using {
		v.Method = b.Method
	}
	if b.Payment.Open() {
		v.Payment = b.Payment
	}
	return v, nil
}

// Subscribe starts a plan. Free starts at once, and the payment is nil. For a paid plan the caller
// sends the customer to the payment's URL; the plan starts when the payment is made. If the price
// is 0, the payment is Paid at once.
func (m *Billing) Subscribe(ctx context.Context, actor, ref string, plan account.Plan) (*Payment, error) {
	switch plan {
	case account.None:
		return nil, fault.New(fault.Invalid, "choose a plan: free, basic, premium or scale").At("plan")
	case account.Free:
		_, err := m.change(ctx, actor, ref, "", (*Record).chooseFree)
		return nil, err
	}
	price := m.plans()[plan].PriceCents
	return m.pay(ctx, actor, ref, func(p *Payment) bool {
		return p.Kind == ForStart && p.Plan == plan && p.AmountCents == price
	}, func(b *Record) error { return b.subscribe(plan, price) })
}

// Upgrade accepts an offer of Quote: the saved payment method is charged the amount that was shown,
// and the higher plan starts at once. If the payment failed with Confirm set, the customer can
// confirm it with UpgradeInPerson.
func (m *Billing) Upgrade(ctx context.Context, actor, ref string, o Offer) (*Payment, error) {
	return m.payUpgrade(ctx, actor, ref, o, false)
}

// UpgradeInPerson is Upgrade on the processor's page, at the payment's URL: for a payment that the
// customer must confirm, or wants to make with another card.
func (m *Billing) UpgradeInPerson(ctx context.Context, actor, ref string, o Offer) (*Payment, error) {
	return m.payUpgrade(ctx, actor, ref, o, true)
}

// payUpgrade opens the payment of an upgrade. With present, the customer pays on the processor's page.
func (m *Billing) payUpgrade(ctx context.Context, actor, ref string, o Offer, present bool) (*Payment, error) {
	return m.pay(ctx, actor, ref, func(p *Payment) bool {
		return p.Kind == ForUpgrade && p.Plan == o.Plan && p.AmountCents == o.AmountCents && p.Present == present
	}, func(b *Record) error {
		if b.Plan == account.None {
			return errNoSubscription()
		}
		if b.Account.Suspended != nil {
			return errSuspended()
		}
		if err := b.holds(o, m.plans(), m.least); err != nil {
			return err
		}
		b.openPayment(ForUpgrade, o.Plan, m.plans()[o.Plan].PriceCents, o.AmountCents, 0, o.At.UTC(), b.PeriodEnd, present)
		return nil
	})
}

// PayOverdue opens a payment for a renewal that has failed. The customer pays at its URL.
func (m *Billing) PayOverdue(ctx context.Context, actor, ref string) (*Payment, error) {
	return m.pay(ctx, actor, ref, func(p *Payment) bool { return p.Kind == ForRenewal && p.Present }, func(b *Record) error {
		if b.Status() != PastDue {
			return fault.New(fault.Conflict, "no payment is overdue")
		}
		plans := m.plans()
		b.renew(&plans, true, m.least)
		return nil
	})
}

// CancelAtPeriodEnd ends the subscription at the end of the period that is paid for. If the renewal
// is unpaid, it ends at once.
func (m *Billing) CancelAtPeriodEnd(ctx context.Context, actor, ref string) error {
	_, err := m.change(ctx, actor, ref, "", (*Record).cancel)
	return err
}

// Resume takes CancelAtPeriodEnd back.
func (m *Billing) Resume(ctx context.Context, actor, ref string) error {
	_, err := m.change(ctx, actor, ref, "", (*Record).resume)
	return err
}

// KeepPlan takes a downgrade back that support has planned, so that the next period has the present plan.
func (m *Billing) KeepPlan(ctx context.Context, actor, ref string) error {
	_, err := m.change(ctx, actor, ref, "", (*Record).keep)
	return err
}

// MayRequestDowngrade returns why RequestDowngrade would refuse a request, or nil.
func (m *Billing) MayRequestDowngrade(ctx context.Context, ref string, plan account.Plan, message string) error {
	if err := checkMessage(strings.TrimSpace(message)); err != nil {
		return err
	}
	b, err := m.read(ctx, ref)
	if err != nil {
		return err
	}
	return b.mayDowngrade(plan)
}

// checkMessage checks what a customer writes to support with a request.
func checkMessage(message string) error {
	if utf8.RuneCountInString(message) > 2000 {
		return fault.New(fault.Invalid, "a message has at most 2,000 characters").At("message")
	}
	return nil
}

// RequestDowngrade records for support that the customer wants a lower plan, one that Downgrade can set. Nothing
// else happens: there is no downgrade by oneself (docs/api.md#plan-changes).
func (m *Billing) RequestDowngrade(ctx context.Context, actor, ref string, plan account.Plan, message string) error {
	message = strings.TrimSpace(message)
	if err := checkMessage(message); err != nil {
		return err
	}
	_, err := m.change(ctx, actor, ref, "", func(b *Record) error {
		if err := b.mayDowngrade(plan); err != nil {
			return err
		}
		b.note(DowngradeRequested, plan, "%s", message)
		return nil
	})
	return err
}

// Downgrade sets a lower paid plan from the next period on. Only support calls it.
func (m *Billing) Downgrade(ctx context.Context, actor, ref string, plan account.Plan) error {
	_, err := m.change(ctx, actor, ref, "", func(b *Record) error {
		plans := m.plans()
		return b.downgrade(plan, &plans)
	})
	return err
}

// Terminate suspends the account for good and ends its subscription. Keys and history stay. Only
// staff calls it.
func (m *Billing) Terminate(ctx context.Context, actor, ref, reason string) (*account.Account, error) {
	reason = strings.TrimSpace(reason)
	if reason == "" || utf8.RuneCountInString(reason) > 1000 {
		return nil, fault.New(fault.Invalid, "a reason of 1 to 1000 characters is required; it is kept in the audit log").At("reason")
	}
	return m.change(ctx, actor, ref, "", func(b *Record) error {
		b.terminate(reason)
		return nil
	})
}

// EndNow ends the subscription at once, without a refund, because the account is being closed. What stands against the
// account must be settled first, or its owner would open another one without it.
func (m *Billing) EndNow(ctx context.Context, actor, ref, why string) error {
	_, err := m.change(ctx, actor, ref, "", func(b *Record) error {
		switch {
		case b.Stop != nil:
			return fault.New(fault.Conflict, "payments of this account are stopped until support has looked at them, so it cannot be closed; contact support")
		case b.Status() == PastDue:
			return fault.New(fault.Conflict, "a payment is overdue; pay it, or cancel the plan, before you close the account")
		}
		if b.Plan != account.None {
			b.end(Ended, "%s", why)
		}
		return nil
	})
	return err
}

// Refund gives back cents of a payment. The plan stays as it is. Only support calls it.
func (m *Billing) Refund(ctx context.Context, actor, paymentID string, cents int64) (*Payment, error) {
	p, err := m.store.Payment(ctx, paymentID)
	if err != nil {
		return nil, err
	}
	p, err = m.poll(ctx, p) // something may have been refunded on the processor's own pages
	if err != nil {
		return nil, err
	}
	_, err = m.change(ctx, actor, p.AccountID, p.ID, func(b *Record) error {
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
	if err := m.sendRefund(ctx, paymentID); err != nil {
		return nil, err
	}
	return m.store.Payment(ctx, paymentID)
}

// Portal returns the address of the processor's page where the customer changes the payment method.
func (m *Billing) Portal(ctx context.Context, actor, ref string) (string, error) {
	if m.inUse() == nil {
		return "", errNotForSale()
	}
	b, err := m.read(ctx, ref)
	if err != nil {
		return "", err
	}
	url, customer, err := m.processor.Portal(ctx, b.asCustomer())
	if err != nil {
		return "", unanswered(err)
	}
	_, err = m.change(ctx, actor, ref, "", func(b *Record) error {
		b.know(customer)
		return nil
	})
	return url, err
}

// RefreshMethod asks the processor for the customer's payment method and stores it: for when the
// customer comes back from the portal.
func (m *Billing) RefreshMethod(ctx context.Context, ref string) (Method, error) {
	b, err := m.read(ctx, ref)
	if err != nil || m.inUse() == nil || b.asCustomer().Ref == "" {
		return Method{}, err
	}
	method, err := m.processor.Method(ctx, b.asCustomer())
	if err != nil {
		return Method{}, unanswered(err)
	}
	_, err = m.change(ctx, machine, ref, "", func(b *Record) error {
		b.Method = method
		return nil
	})
	return method, err
}

// read returns the current record, for questions. A change must go through change, which locks it.
func (m *Billing) read(ctx context.Context, ref string) (*Record, error) {
	a, err := m.store.FindAccount(ctx, ref)
	if err != nil {
		return nil, err
	}
	b, err := m.store.Record(ctx, a.ID)
	if err != nil {
		return nil, err
	}
	b.begin("", m.processorName(), m.now())
	return b, nil
}

// change runs apply inside a transaction of the store, publishes the account, and reports the new
// entries. paymentID is the payment that apply works on; empty means the unfinished one.
func (m *Billing) change(ctx context.Context, actor, ref, paymentID string, apply func(*Record) error) (*account.Account, error) {
	found, err := m.store.FindAccount(ctx, ref)
	if err != nil {
		return nil, err
	}
	// The caller may hang up after the commit; the new plan must still be published.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	var entries []Entry
	changed, err := m.store.ChangeBilling(ctx, found.ID, paymentID, func(b *Record) error {
		b.begin(actor, m.processorName(), m.now())
		b.seller, b.test = m.seller(), m.Test()
		err := apply(b)
		entries = b.Entries
		return err
	})
	if err != nil {
		if a, findErr := m.store.FindAccount(ctx, found.ID); findErr == nil {
			m.onChange(a) // the commit may have succeeded although its answer was lost
		}
		return nil, err
	}
	m.onChange(changed)
	for _, e := range entries {
		m.report(ctx, &e)
		m.onEntry(ctx, changed, e)
	}
	return changed, nil
}

// processorName returns the name of the processor in use, or an empty string.
func (m *Billing) processorName() string {
	if m.inUse() == nil {
		return ""
	}
	return m.processor.Name()
}

// errNotForSale says that there is no processor to pay with.
func errNotForSale() error {
	return fault.New(fault.Conflict, "paid plans are not for sale here; ask the operator for one")
}

// errSuspended refuses payments of an account that could not use what it pays for.
func errSuspended() error {
	return fault.New(fault.Suspended, "the account is suspended; contact support")
}

// unanswered returns the fault for a processor that did not answer. What was asked may have
// happened; retrying is safe because the processor knows payments by our ids.
func unanswered(err error) error {
	if fault.Is(err, fault.Conflict) || fault.Is(err, fault.Invalid) {
		return err
	}
	return fault.New(fault.Unavailable, "The payment processor is not responding. Try again shortly; nothing is charged twice.").
		After(10 * time.Second).Because(err)
}
