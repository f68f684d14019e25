package billing

import (
	"fmt"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
)

// Status is the state of a subscription.
type Status string

// PastDue is a subscription whose renewal has failed and is being retried. The plan is still active.
const (
	NotSubscribed Status = "none"
	Active        Status = "active"
	PastDue       Status = "past_due"
)

// Subscription is a paid plan and its current period. An account has at most one; the zero value is
// none. Free and granted plans have no subscription.
type Subscription struct {
	Plan        account.Plan
	PriceCents  int64        // a month, as the current period was charged
	NextPlan    account.Plan // from the next period on, set by support; None: the same plan
	Began       time.Time    // fixes the billing day
	PeriodStart time.Time
	PeriodEnd   time.Time
	CancelAtEnd bool

	Failed       int       // how often the renewal has failed; 0: not
	FailingSince time.Time // when it failed first
	Due          time.Time // when the subscription is renewed, retried or ended
}

// Status returns the state of the subscription.
func (s *Subscription) Status() Status {
	switch {
	case s.Plan == account.None:
		return NotSubscribed
	case s.Failed > 0:
		return PastDue
	}
	return Active
}

// Record is everything that is stored about one account's billing. The store loads it, runs one
// change, and stores it with the new entries and the account's plan, all in one transaction. So a
// plan is never active without the payment for it, and a payment never without what it was for.
type Record struct {
	Account *account.Account
	Subscription
	Processor string // the processor that Customer is an id of
	Customer  string // that processor's id of the customer; empty: it has none
	Method    Method
	// Ahead is how far the account's clock is ahead of the real one. Only test mode moves it.
	Ahead time.Duration
	// Payment is the payment that was asked for, or the unfinished one; nil: there is none.
	Payment *Payment
	// Undelivered is the number of payments in a row that were charged and refunded; see brakeAt.
	Undelivered int
	Stop        *Stop // nil: payments are made
	// Details are what the customer wants on invoices. Only SetBillingDetails changes them.
	Details Details
	// CreditCents is what support has credited and no payment has used yet. It lowers the next renewals.
	CreditCents int64

	Entries []Entry       // new entries for the ledger
	Audit   account.Entry // for the audit log; without an action if the account has not changed

	actor string
	using string    // the processor in use; empty: there is none
	now   time.Time // the account's clock, in whole seconds

	seller Seller // for invoices
	test   bool   // the processor in use moves no money
}

// begin sets who works on the books, with which processor, and the time. real is the real clock.
// Every change starts with it.
func (b *Record) begin(actor, using string, real time.Time) {
	b.actor, b.using = actor, using
	b.now = real.Add(b.Ahead).UTC().Truncate(time.Second)
	b.settleSuperseded()
}

// asCustomer returns the account as the processor in use knows it. The id that another processor
// gave it is left out.
func (b *Record) asCustomer() Customer {
	c := Customer{AccountID: b.Account.ID, Email: b.Account.Email}
	if b.Processor == b.using {
		c.Ref = b.Customer
	}
	return c
}

// know sets the customer's id at the processor in use. A new id means a new customer there, without
// a saved method.
func (b *Record) know(customer string) {
	if b.Processor != b.using || b.Customer != customer {
		b.Processor, b.Customer, b.Method = b.using, customer, Method{}
	}
}

// VisitAt returns when, on the real clock, the subscription is due; zero means never. One that is stopped can only
// end.
func (b *Record) VisitAt() time.Time {
	if b.Plan == account.None || b.Stop != nil && !b.CancelAtEnd {
		return time.Time{}
	}
	return b.Due.Add(-b.Ahead)
}

// note adds an entry to the ledger and returns it, so that the caller can set its amount. The
// pointer is valid until the next call.
func (b *Record) note(what What, plan account.Plan, format string, args ...any) *Entry {
	e := Entry{At: b.now, AccountID: b.Account.ID, Actor: b.actor, What: what, Plan: plan, Detail: fmt.Sprintf(format, args...)}
	if b.Payment != nil {
		e.PaymentID = b.Payment.ID
	}
	b.Entries = append(b.Entries, e)
	return &b.Entries[len(b.Entries)-1]
}

// setPlan changes the account's plan and the audit log. It does nothing if the account has the plan
// already.
func (b *Record) setPlan(plan account.Plan, why What) {
	a := b.Account
	if a.Plan == plan && !a.Granted {
		return
	}
	b.Audit = account.Entry{
		At: b.now, Actor: b.actor, Action: "billing." + string(why), AccountID: a.ID,
		Detail: fmt.Sprintf("%s to %s", a.Plan, plan),
	}
	a.Plan, a.Granted = plan, false
}

// superseded reports whether staff has set another plan since the subscription started. Then the
// subscription is over.
func (b *Record) superseded() bool {
	return b.Plan != account.None && (b.Account.Granted || b.Account.Plan != b.Plan)
}

// end ends the subscription. The account keeps its keys and its history, and has no plan, unless
// staff has set one.
func (b *Record) end(what What, format string, args ...any) {
	b.note(what, b.Plan, format, args...)
	if !b.superseded() {
		b.setPlan(account.None, what)
	}
	b.Subscription = Subscription{}
}

// settleSuperseded ends a subscription that a plan set by staff has replaced, so that nothing more
// is charged.
func (b *Record) settleSuperseded() {
	if b.superseded() {
		b.end(Superseded, "the plan was set to %s", b.Account.Plan)
	}
}

// chooseFree starts the free plan. It costs nothing, has no period and never lapses.
func (b *Record) chooseFree() error {
	switch {
	case b.Account.Plan == account.Free:
		return nil
	case b.Account.Plan != account.None:
		return fault.New(fault.Conflict, "the account has the %s plan; to downgrade, choose a lower plan on the Plan page", b.Account.Plan.Title())
	}
	b.note(ChoseFree, account.Free, "")
	b.setPlan(account.Free, ChoseFree)
	return nil
}

// openPayment adds a pending payment. The caller of the change passes it to the processor once it
// is stored. An amount of 0 is paid at once.
func (b *Record) openPayment(kind Kind, plan account.Plan, price, cents, credit int64, start, end time.Time, present bool) {
	b.Payment = &Payment{
		CreditCents: credit,
		ID:          newPaymentID(), AccountID: b.Account.ID, Kind: kind, Status: Pending, Processor: b.using, Present: present,
		Plan: plan, PriceCents: price, AmountCents: cents, PeriodStart: start, PeriodEnd: end, CreatedAt: b.now,
	}
	if cents == 0 {
		b.settle(Outcome{Status: Paid}) // there is nothing to charge
	}
}

// subscribe opens the payment for the first period of a paid plan.
func (b *Record) subscribe(plan account.Plan, price int64) error {
	switch {
	case b.Account.Suspended != nil:
		return errSuspended()
	case b.Plan != account.None:
		return fault.New(fault.Conflict, "the account is subscribed to the %s plan; upgrade it instead", b.Plan.Title())
	case b.Account.Plan >= plan:
		return fault.New(fault.Conflict, "the account has the %s plan already; to downgrade, choose a lower plan on the Plan page", b.Account.Plan.Title())
	}
	b.openPayment(ForStart, plan, price, price, 0, b.now, boundary(b.now, 1), true)
	return nil
}

// renew opens the payment for the period that now is in, less the credit. Periods that passed while no server ran
// are not charged. least is the smallest amount that the processor can charge.
func (b *Record) renew(plans *account.Plans, present bool, least int64) {
	plan := b.Plan
	if b.NextPlan != account.None {
		plan = b.NextPlan
	}
	start, end := periodAt(b.Began, b.now)
	price := plans[plan].PriceCents
	credit := b.useCredit(price, least)
	b.CreditCents -= credit
	b.openPayment(ForRenewal, plan, price, price-credit, credit, start, end, present)
}

// settle books what the processor says about Payment. It is idempotent and order does not matter:
// the same outcome may come twice, and an old outcome after a new one changes nothing.
func (b *Record) settle(o Outcome) {
	p := b.Payment
	if o.Customer != "" {
		b.know(o.Customer)
	}
	if o.Ref != "" {
		p.Ref = o.Ref
	}
	switch {
	case o.Status == Pending && p.Open():
		p.URL = o.URL
	case o.Status == Paid && p.Status != Paid:
		b.paid(o)
	case o.Status == Failed && p.Open():
		b.failed(o)
	}
	if more := o.RefundedCents - p.RefundedCents; p.Status == Paid && more > 0 {
		b.note(Refunded, p.Plan, "").AmountCents = -more
		p.RefundedCents = o.RefundedCents
		p.RefundToCents = max(p.RefundToCents, o.RefundedCents)
	}
	if p.Status == Paid && o.DisputeSteps > p.DisputeSteps {
		b.disputed(o)
	}
}

// disputed books the disputes of Payment. If the customer's bank has taken money back, the
// subscription that the payment belongs to ends at once, and winning the dispute does not bring it
// back.
func (b *Record) disputed(o Outcome) {
	p := b.Payment
	taken := o.DisputedCents - p.DisputedCents
	p.DisputedCents, p.DisputeSteps = o.DisputedCents, o.DisputeSteps
	switch {
	case taken > 0:
		b.note(Disputed, p.Plan, "the customer's bank has taken the payment back").AmountCents = -taken
		// The payment may belong to an earlier subscription that has ended; then this one continues.
		if b.Plan != account.None && !p.PaidAt.Before(b.Began) {
			b.end(Revoked, "a payment for it is disputed")
		}
	case taken < 0:
		b.note(DisputeWon, p.Plan, "the money is back; the plan is not").AmountCents = -taken
	case p.DisputedCents > 0:
		b.note(DisputeLost, p.Plan, "")
	default: // opened and won since the processor was asked last
		b.note(DisputeWon, p.Plan, "")
	}
}

// paid books the money and gives what it was paid for. If that is no longer possible, the whole
// amount is to be refunded.
func (b *Record) paid(o Outcome) {
	p := b.Payment
	was := b.Subscription
	defer func() { p.Issued = b.issue(&was) }()
	wasOpen := p.Open()
	p.Status, p.PaidAt, p.URL, p.Reason, p.Confirm = Paid, b.now, "", "", false
	if p.AmountCents > 0 {
		b.note(Charged, p.Plan, "").AmountCents = p.AmountCents
	}
	if o.Method.Brand != "" {
		b.Method = o.Method
	}
	if wasOpen && b.fulfil() {
		b.Undelivered = 0
		if p.CreditCents > 0 {
			b.note(CreditUsed, p.Plan, "%s, %s are left", Dollars(p.CreditCents), Dollars(b.CreditCents))
		}
		return
	}
	b.returnCredit()
	p.RefundToCents = p.AmountCents
	if p.AmountCents > 0 {
		b.undelivered()
	}
}

// fulfil gives what Payment was for. It reports false, and changes nothing, if that is no longer
// possible.
func (b *Record) fulfil() bool {
	p := b.Payment
	if b.Account.Suspended != nil {
		return false
	}
	switch p.Kind {
	case ForStart:
		if b.Plan != account.None || b.Account.Plan >= p.Plan {
			return false
		}
		p.PeriodStart, p.PeriodEnd = b.now, boundary(b.now, 1)
		b.Subscription = Subscription{Began: b.now}
		b.openPeriod(Started)
	case ForUpgrade:
		if b.Plan == account.None || b.Plan >= p.Plan || !p.PeriodEnd.Equal(b.PeriodEnd) {
			return false
		}
		b.Plan, b.PriceCents, b.NextPlan = p.Plan, p.PriceCents, account.None
		b.note(Upgraded, p.Plan, "for the rest of the period")
		b.setPlan(p.Plan, Upgraded)
	case ForRenewal:
		if b.Plan == account.None || p.PeriodStart.Before(b.PeriodEnd) {
			return false
		}
		b.openPeriod(Renewed)
	}
	return true
}

// openPeriod starts the period that Payment is for. It also clears what was noted about failed
// renewals.
func (b *Record) openPeriod(why What) {
	p := b.Payment
	b.Subscription = Subscription{
		Plan: p.Plan, PriceCents: p.PriceCents, Began: b.Began, CancelAtEnd: b.CancelAtEnd,
		PeriodStart: p.PeriodStart, PeriodEnd: p.PeriodEnd, Due: p.PeriodEnd,
	}
	b.note(why, p.Plan, "until %s", moment(p.PeriodEnd))
	b.setPlan(p.Plan, why)
}

// failed books that Payment has failed. A renewal that the schedule tried is retried after
// retryDays; after the last retry the plan lapses.
func (b *Record) failed(o Outcome) {
	p := b.Payment
	p.Status, p.URL, p.Reason, p.Confirm = Failed, "", o.Reason, o.Confirm
	b.returnCredit()
	if p.Kind != ForRenewal || p.Present || b.Plan == account.None {
		b.note(PaymentFailed, p.Plan, "%s", p.Reason)
		return
	}
	if b.Failed == 0 {
		b.FailingSince = b.now
	}
	b.Failed++
	if b.Failed > len(retryDays) {
		b.note(PaymentFailed, p.Plan, "%s", p.Reason)
		b.end(Lapsed, "the last of %d tries failed: %s", b.Failed, p.Reason)
		return
	}
	b.note(RenewalFailed, p.Plan, "%s", p.Reason)
	b.Due = nextRetry(b.FailingSince, b.now, b.Failed)
}

// cancel ends the subscription at the end of its period, or at once if the renewal is unpaid.
func (b *Record) cancel() error {
	switch {
	case b.Plan == account.None:
		return errNoSubscription()
	case b.Status() == PastDue:
		b.end(Ended, "cancelled while the renewal was unpaid")
	case !b.CancelAtEnd:
		b.CancelAtEnd = true
		b.note(CancelPlanned, b.Plan, "ends %s", moment(b.PeriodEnd))
	}
	return nil
}

// keep takes a planned downgrade back.
func (b *Record) keep() error {
	if b.Plan == account.None {
		return errNoSubscription()
	}
	if b.NextPlan != account.None {
		b.NextPlan = account.None
		b.note(DowngradeTakenBack, b.Plan, "")
	}
	return nil
}

// resume takes a cancellation back.
func (b *Record) resume() error {
	if b.Plan == account.None {
		return errNoSubscription()
	}
	if b.CancelAtEnd {
		b.CancelAtEnd = false
		b.note(CancelTakenBack, b.Plan, "")
	}
	return nil
}

// downgrade sets a lower paid plan for the next period.
func (b *Record) downgrade(plan account.Plan, plans *account.Plans) error {
	if err := b.mayDowngrade(plan); err != nil {
		return err
	}
	b.NextPlan = plan
	b.note(DowngradePlanned, plan, "from %s on, for %s a month", moment(b.PeriodEnd), Dollars(plans[plan].PriceCents))
	return nil
}

// mayDowngrade returns why the subscription cannot change to a plan as a lower one, or nil.
func (b *Subscription) mayDowngrade(plan account.Plan) error {
	switch {
	case b.Plan == account.None:
		return errNoSubscription()
	case !b.Lower(plan):
		return fault.New(fault.Invalid, "%s is not a paid plan below %s; to end the subscription, cancel it", plan, b.Plan).At("plan")
	}
	return nil
}

// Lower reports whether support can lower the subscription to a plan.
func (b *Subscription) Lower(plan account.Plan) bool { return plan < b.Plan && plan > account.Free }

// terminate suspends the account for good and ends its subscription.
func (b *Record) terminate(reason string) {
	if b.Plan != account.None {
		b.end(Ended, "the account was terminated")
	}
	if b.Account.Suspended == nil || !b.Account.Suspended.Final {
		b.Account.Suspended = &account.Mark{At: b.now, Reason: reason, Final: true}
	}
	b.Audit = account.Entry{At: b.now, Actor: b.actor, Action: "account.terminate", AccountID: b.Account.ID, Detail: b.Audit.Detail, Reason: reason}
}

// step is what visit has to do next for an account.
type step uint8

const (
	rest   step = iota // nothing
	ask                // Payment is unfinished: ask the processor for its outcome
	charge             // Payment is new: pass it to the processor
	refund             // Payment is to be refunded
)

// tick does what is due without the processor, and returns what is to be done with it. least is that of renew.
func (b *Record) tick(plans *account.Plans, least int64) step {
	due := b.Plan != account.None && !b.now.Before(b.Due)
	switch p := b.Payment; {
	case p.Open() && p.Present && !due && b.now.Before(p.CreatedAt.Add(pagePatience)):
		return rest
	case p.Open():
		return ask
	case p.refundDue():
		return refund
	case !due:
		return rest
	case b.CancelAtEnd:
		b.end(Ended, "cancelled for the end of the period")
		return rest
	case b.Account.Suspended != nil: // nobody pays for what they may not use
		b.end(Ended, "the account is suspended")
		return rest
	case b.Stop != nil:
		return rest
	}
	b.renew(plans, false, least)
	return charge
}

func errNoSubscription() error {
	return fault.New(fault.Conflict, "the account has no subscription")
}

// moment returns a time as the log of payments names it: customers and staff read it.
func moment(at time.Time) string { return at.UTC().Format("2 Jan 2006 15:04 UTC") }

// Dollars returns an amount as people read it, such as $10.00.
func Dollars(cents int64) string {
	sign := ""
	if cents < 0 {
		sign, cents = "-", -cents
	}
	return fmt.Sprintf("%s$%d.%02d", sign, cents/100, cents%100)
}
