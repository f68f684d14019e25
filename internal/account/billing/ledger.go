package billing

import (
	"time"

	"sluice/internal/account"
)

// What is a kind of ledger entry.
type What string

// Only Charged, Refunded, Disputed and DisputeWon move money. Every other entry says what happened
// and has the amount 0.
const (
	Charged    What = "charged"
	Refunded   What = "refunded"
	Disputed   What = "disputed"    // the customer's bank has taken the payment back
	DisputeWon What = "dispute_won" // the bank has returned it

	ChoseFree          What = "chose_free"
	Started            What = "started"
	Upgraded           What = "upgraded"
	Renewed            What = "renewed"
	PaymentFailed      What = "payment_failed" // it is not tried again
	RenewalFailed      What = "renewal_failed" // it is tried again; the plan stays active until then
	CancelPlanned      What = "cancel_planned" // the subscription ends with its period
	CancelTakenBack    What = "cancel_taken_back"
	DowngradeRequested What = "downgrade_requested" // the customer asks support for a lower plan
	DowngradePlanned   What = "downgrade_planned"   // support has set one for the next period
	DowngradeTakenBack What = "downgrade_taken_back"
	Ended              What = "ended"            // by the customer's wish, or because the account is locked
	Lapsed             What = "lapsed"           // because the last retry failed
	Revoked            What = "revoked"          // because a payment for it is disputed
	DisputeLost        What = "dispute_lost"     // the money stays with the customer
	Superseded         What = "superseded"       // staff has set another plan
	ClockMoved         What = "clock_moved"      // the account's test clock
	BillingStopped     What = "billing_stopped"  // see Stop
	BillingReleased    What = "billing_released" // staff has ended a Stop
	Credited           What = "credited"         // staff has changed the credit; see Billing.Credit
	CreditUsed         What = "credit_used"      // it has lowered a renewal
)

// Entry is one line of the ledger: something that happened to an account's billing. Entries are
// never changed. The amounts of all entries of an account add up to what the processor has charged,
// less what the processor or the customer's bank has given back.
type Entry struct {
	Seq         int64        `json:"seq"`
	At          time.Time    `json:"at"` // on the account's clock
	AccountID   string       `json:"-"`
	Actor       string       `json:"actor"`
	What        What         `json:"what"`
	Plan        account.Plan `json:"plan"`
	AmountCents int64        `json:"cents"`             // positive: from the customer; negative: back to the customer
	PaymentID   string       `json:"payment,omitempty"` // empty: the entry is about no payment
	Detail      string       `json:"detail,omitempty"`
}
