// Package ticket holds what customers and support have to settle: one thread per ticket, and the queue of support.
//
// A customer opens a ticket with a message, and both sides answer in it. The service opens tickets, too: for keys
// that were switched off, scores past 90, fast climbs and failed payments. Such a ticket has no message, and the
// customer does not see it until support writes one. Every ticket waits for somebody, and the queue is those that
// wait for support.
//
// What a decision of support does to an account is not done here; see package admin.
package ticket

import (
	"time"
)

// Kind is what a ticket is about.
type Kind string

// The kinds that customers choose from. An inquiry is opened by abuse control and answered by the customer.
const (
	Restore   Kind = "restore"
	Downgrade Kind = "downgrade"
	Billing   Kind = "billing"
	Inquiry   Kind = "inquiry"
	Other     Kind = "other"
)

// The kinds that the service opens for support alone.
const (
	PastNinety  Kind = "past-90"     // the abuse score has passed 90
	Climb       Kind = "climb"       // it rose fast
	Deactivated Kind = "deactivated" // the keys are off
	Payment     Kind = "payment"     // a renewal could not be charged
)

// ForCustomers returns the kinds that a customer can open a ticket with, in the order of the form.
func ForCustomers() []Kind { return []Kind{Restore, Downgrade, Billing, Inquiry, Other} }

// kinds are all kinds, by how pages name them.
var kinds = map[Kind]string{
	Restore: "Restore my keys", Downgrade: "Downgrade", Billing: "Billing", Inquiry: "Inquiry", Other: "Something else",
	PastNinety: "Score past 90", Climb: "Fast climb", Deactivated: "Keys off", Payment: "Failed payment",
}

// Title returns how pages name the kind.
func (k Kind) Title() string { return kinds[k] }

// State is where a ticket is in its life.
type State string

const (
	Open    State = "open"
	Snoozed State = "snoozed" // it comes back at a time, or when the customer writes
	Closed  State = "closed"  // a message of the customer opens it again
)

// Side is who wrote a message, and for whom a ticket waits.
type Side string

const (
	Customer Side = "customer"
	Support  Side = "support"
)

// The bounds of what accounts and staff can write (docs/bounds.md#what-is-bounded).
const (
	MostText     = 8000 // characters of a message
	MostSubject  = 150  // characters of a subject
	MostMessages = 400  // in a thread
	mostOpen     = 20   // tickets of an account that are not closed
	mostNew      = 50   // tickets that an account opens within 24 hours
	mostWritten  = 200  // messages that an account writes within 24 hours
	mostKept     = 2000 // tickets of an account; the oldest closed ones are deleted
	MostListed   = 200  // tickets in one page of a list
	mostReason   = 1000 // characters of a reason
	// mailPause is the least time between two mails to staff about one thread.
	mailPause = 15 * time.Minute
	// longestSnooze is how far ahead a ticket can be snoozed.
	longestSnooze = 366 * 24 * time.Hour
)

// Ticket is one thread, without its messages.
type Ticket struct {
	ID        string `json:"id"`
	AccountID string `json:"account"`
	Email     string `json:"email"` // of the account, as it is now
	Kind      Kind   `json:"kind"`
	Cause     string `json:"-"` // what made the service open it; empty: a person did
	Subject   string `json:"subject"`
	State     State  `json:"state"`
	Waits     Side   `json:"waits_for"`          // for whose answer or decision it waits
	Assignee  string `json:"assignee,omitempty"` // who of the staff works on it; empty: nobody

	OpenedAt     time.Time `json:"opened_at"`
	Since        time.Time `json:"since"` // since when it waits for Waits; the order of the queue
	ChangedAt    time.Time `json:"-"`
	SnoozedUntil time.Time `json:"snoozed_until,omitzero"` // zero unless it is snoozed

	Messages int  `json:"messages"`
	Unread   bool `json:"-"` // support has written something that the customer has not seen

	MailedAt time.Time `json:"-"`       // when staff was last mailed about it
	Version  int64     `json:"version"` // rises by one with every change
}

// Message is one message of a thread.
type Message struct {
	Number int       `json:"-"` // from 1
	At     time.Time `json:"at"`
	From   Side      `json:"from"`
	Author string    `json:"author"` // as in the audit log; customers see only the side
	Text   string    `json:"text"`
}
