package billing

import (
	"time"

	"sluice/internal/account"
)

// What is a kind of ledger entry.
type What string

// Charged and Refunded move money; every other entry says what happened and has the amount 0.
const (
	Charged  What = "charged"
	Refunded What = "refunded"

	ChoseFree          What = "chose_free"
	Started            What = "started"
	Upgraded           What = "upgraded"
	Renewed            What = "renewed"
	PaymentFailed      What = "payment_failed" // one that the customer was there for
	RenewalFailed      What = "renewal_failed" // it is tried again, or the plan lapses
	CancelPlanned      What = "cancel_planned" // the subscription ends with its period
	CancelTakenBack    What = "cancel_taken_back"
	DowngradeRequested What = "downgrade_requested" // the customer asks support for a lower plan
	DowngradePlanned   What = "downgrade_planned"   // support has set one for the next period
	Ended              What = "ended"               // by the customer's wish, or because the account is locked
	Lapsed             What = "lapsed"              // because the last retry failed
	Superseded         What = "superseded"          // staff has set another plan
	ClockMoved         What = "clock_moved"         // the account's test clock
)

// Entry is one line of the ledger: what happened to an account's billing. Over all entries of an
// account the amounts are what its processor has charged less what it has given back.
type Entry struct {
	Seq         int64
	At          time.Time
	AccountID   string
	Actor       string
	What        What
	Plan        account.Plan
	AmountCents int64
	PaymentID   string // empty: it is about none
	Detail      string
}
