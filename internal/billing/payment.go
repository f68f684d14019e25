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

// PaymentStatus is how far a payment has come.
type PaymentStatus string

// A payment is Pending until the processor has spoken; what it then becomes is final.
const (
	Pending PaymentStatus = "pending"
	Paid    PaymentStatus = "paid"
	Failed  PaymentStatus = "failed"
)

// Payment is one amount asked of a customer. It is stored before the processor hears of it, and its ID
// is what the processor knows it by, so that no crash can make it be charged twice or be forgotten.
type Payment struct {
	ID        string
	AccountID string
	Kind      Kind
	Status    PaymentStatus
	Processor string // the name of the one that was asked
	// Present says that the customer is there and pays on the processor's page, at URL; otherwise the
	// saved payment method is charged.
	Present bool

	Plan        account.Plan
	PriceCents  int64 // of the plan, a month
	AmountCents int64
	PeriodStart time.Time // what is paid for; an upgrade's begins in the middle of a period
	PeriodEnd   time.Time

	Ref    string // the processor's own name for it
	URL    string // where the customer pays or confirms it
	Reason string // why it failed, for the customer to read
	// Confirm says that it failed only because the customer must confirm it himself.
	Confirm bool

	CreatedAt time.Time
	PaidAt    time.Time
	Invoice   int64 // the number of its invoice, once paid

	RefundedCents int64 // what the customer has got back
	RefundToCents int64 // what he is to have back in all

	DisputedCents int64 // what the customer's bank holds or has kept because he disputes the payment
	DisputeSteps  int   // see Outcome
}

// Open reports whether the payment is still under way.
func (p *Payment) Open() bool { return p != nil && p.Status == Pending }

// refundDue reports whether the processor still has to give something back. What the customer's bank
// has taken back cannot be refunded as well.
func (p *Payment) refundDue() bool {
	return p != nil && p.RefundToCents > p.RefundedCents && p.DisputedCents == 0
}

const (
	pagePatience = day             // how long a customer may take to pay on the processor's page
	resumeAfter  = 2 * time.Minute // when a charge without an answer is asked about again
)

// VisitAt is when, on the real clock, the machine has to look at an unfinished payment again; zero:
// never. The account's clock is ahead by so much.
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

// Method describes a saved payment method: never more than a receipt would show.
type Method struct {
	Brand    string // such as visa; empty: there is none
	LastFour string
	Expires  string // MM/YY
}

// String is how the customer knows it; empty if there is none.
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
	Ref       string // the processor's own name; empty: it does not know him yet
}

// Outcome is what a processor says of a payment, as of now.
type Outcome struct {
	Status   PaymentStatus
	Ref      string
	URL      string // of a pending one: where the customer pays or confirms it
	Reason   string // of a failed one
	Confirm  bool   // of a failed one: the customer must confirm it himself
	Customer string // the processor's name for the customer, once it has one
	Method   Method // what it was paid with

	RefundedCents int64

	// DisputedCents is what the customer's bank has taken back and not returned: that of disputes which are
	// open or lost. Inquiries, which move no money, are not disputes.
	DisputedCents int64
	// DisputeSteps is how far the disputes have come: 1 for each that was opened and 1 more for each that
	// was closed. It never falls, so that an old outcome is told from a new one.
	DisputeSteps int
}

// Processor moves money. It is asked about payments by our own ids and answers with their present
// state, so that every question may be asked again.
type Processor interface {
	// Name tells its payments from those of another.
	Name() string
	// Begin charges the saved method, or opens a page for a customer who is present. The same payment
	// begun twice is charged once. An error means that the outcome is unknown.
	Begin(ctx context.Context, c Customer, p Payment) (Outcome, error)
	// Outcome tells what has become of a payment that was begun.
	Outcome(ctx context.Context, p Payment) (Outcome, error)
	// Cancel makes sure that a pending payment is never paid. One that was paid before is Paid.
	Cancel(ctx context.Context, p Payment) (Outcome, error)
	// Refund gives back what is missing to p.RefundToCents in all.
	Refund(ctx context.Context, p Payment) (Outcome, error)
	// Portal is the page where the customer changes his payment method, and comes back from.
	Portal(ctx context.Context, c Customer) (url string, ref string, err error)
	// Method is the customer's saved payment method.
	Method(ctx context.Context, c Customer) (Method, error)
}

func newPaymentID() string { return "pay_" + strings.ToLower(rand.Text()) }
