package billing

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"sluice/internal/account"
)

// Kind is what a payment is for.
type Kind string

// The kinds of payments.
const (
	ForStart   Kind = "subscribe" // the first period of a subscription
	ForUpgrade Kind = "upgrade"   // the difference for the rest of a period
	ForRenewal Kind = "renewal"   // the next period
)

// PaymentStatus is the state of a payment.
type PaymentStatus string

// A payment is Pending until the processor reports its outcome. Paid is final. Failed becomes Paid
// only if the money arrives after all, and is then refunded.
const (
	Pending PaymentStatus = "pending"
	Paid    PaymentStatus = "paid"
	Failed  PaymentStatus = "failed"
)

// Payment is one amount asked of a customer. It is stored before the processor hears of it, and the
// processor knows it by its ID, so that a crash at any point cannot charge it twice or forget it.
type Payment struct {
	ID        string
	AccountID string
	Kind      Kind
	Status    PaymentStatus
	Processor string // the name of the processor that was asked
	// Present says that the customer pays on the processor's page, at URL. Otherwise the saved
	// payment method is charged.
	Present bool

	Plan        account.Plan
	PriceCents  int64     // of the plan, a month
	AmountCents int64     // what is charged
	CreditCents int64     // what a credit pays beside it
	PeriodStart time.Time // what is paid for; an upgrade's begins in the middle of a period
	PeriodEnd   time.Time

	Ref    string // the processor's id; empty until it has answered
	URL    string // where the customer pays or confirms it; empty once the payment has ended
	Reason string // why it failed, for the customer to read
	// Confirm says that it failed only because the customer must confirm it in person.
	Confirm bool

	CreatedAt time.Time
	PaidAt    time.Time
	Invoice   int64   // the number of its invoice, once paid
	Issued    *Issued // what that says; nil: it was not written down then

	RefundedCents int64 // what the customer has got back
	RefundToCents int64 // what the customer is to get back in all

	DisputedCents int64 // what the customer's bank holds or has kept because of a dispute
	DisputeSteps  int   // see Outcome
}

// Open reports whether the payment is pending. A nil payment is not.
func (p *Payment) Open() bool { return p != nil && p.Status == Pending }

// refundDue reports whether the processor still has to refund something. What the customer's bank
// has taken back must not be refunded as well.
func (p *Payment) refundDue() bool {
	return p != nil && p.RefundToCents > p.RefundedCents && p.DisputedCents == 0
}

const (
	pagePatience = day             // how long a customer may take to pay on the processor's page
	resumeAfter  = 2 * time.Minute // how long after its start a charge without an answer is asked about again
)

// VisitAt returns when, on the real clock, the payment is to be looked at again; zero means never.
// ahead is how far the account's clock is ahead.
func (p *Payment) VisitAt(ahead time.Duration) time.Time {
	switch {
	case p.refundDue():
		return p.PaidAt.Add(-ahead)
	case p.Status != Pending:
		return time.Time{}
	case p.Present:
		return p.CreatedAt.Add(pagePatience - ahead)
	}
	return p.CreatedAt.Add(resumeAfter - ahead)
}

// Method describes a saved payment method. It holds no more than a receipt shows, so it may be
// stored and displayed.
type Method struct {
	Brand    string // such as visa; empty: there is none
	LastFour string
	Expires  string // MM/YY
}

// String returns the text that the customer recognizes the method by; empty if there is none.
func (m Method) String() string {
	if m.Brand == "" {
		return ""
	}
	return m.Brand + " ending in " + m.LastFour + ", expires " + m.Expires
}

// Customer is whom a processor charges.
type Customer struct {
	AccountID string
	Email     string
	Ref       string // the processor's id; empty: it does not know the customer yet
}

// Outcome is what a processor says about a payment now. Fields that the processor does not know are
// zero, and settle leaves what it has.
type Outcome struct {
	Status   PaymentStatus
	Ref      string
	URL      string // of a pending one: where the customer pays or confirms it
	Reason   string // of a failed one
	Confirm  bool   // of a failed one: the customer must confirm it in person
	Customer string // the processor's id of the customer, once it has one
	Method   Method // what it was paid with

	RefundedCents int64

	// DisputedCents is what the customer's bank has taken back and not returned: the sum of
	// disputes that are open or lost. Inquiries, which move no money, are not disputes.
	DisputedCents int64
	// DisputeSteps counts 1 for each dispute that was opened and 1 more for each that was closed.
	// It never falls, so an old outcome can be told from a new one.
	DisputeSteps int
}

// Processor moves money. It is asked about payments by our ids and answers with their current
// state, so that every call may be repeated. Its methods may be called from several goroutines.
type Processor interface {
	// Name returns the name that tells its payments from those of another processor.
	Name() string
	// Begin charges the saved method, or opens a page for a customer who is present. The same
	// payment is charged once however often it is begun. An error means that the outcome is not
	// known.
	Begin(ctx context.Context, c Customer, p Payment) (Outcome, error)
	// Outcome returns the state of a payment that was begun.
	Outcome(ctx context.Context, p Payment) (Outcome, error)
	// Cancel makes sure that a pending payment is never paid. If it has been paid already, the
	// outcome is Paid.
	Cancel(ctx context.Context, p Payment) (Outcome, error)
	// Refund gives back what is missing until p.RefundToCents are given back in all, so it may be
	// repeated.
	Refund(ctx context.Context, p Payment) (Outcome, error)
	// Portal returns the page where the customer changes the payment method, and the processor's id
	// of the customer.
	Portal(ctx context.Context, c Customer) (url string, ref string, err error)
	// Method returns the customer's saved payment method; zero if there is none.
	Method(ctx context.Context, c Customer) (Method, error)
}

// newPaymentID returns a random id, by which the processor knows the payment.
func newPaymentID() string { return "pay_" + strings.ToLower(rand.Text()) }
