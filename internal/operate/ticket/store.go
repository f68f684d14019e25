package ticket

import (
	"context"
	"strconv"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
)

// Store keeps tickets. Each method is one transaction.
type Store interface {
	// OpenTicket stores a new ticket with its first message and an audit entry, if that has an action. check is
	// called with what the account has, under its lock; an error of it is returned, and nothing is stored. Of an
	// account with more than keep tickets the oldest closed ones are deleted.
	OpenTicket(ctx context.Context, m *Ticket, first Message, e account.Entry, keep int, check func(Holding) error) error
	// ChangeTicket locks a ticket, calls change with it, and stores what it has become, the new message and the
	// audit entry. If change returns an error, nothing is stored. It returns fault.NotFound without a ticket of
	// this id.
	ChangeTicket(ctx context.Context, id string, since time.Time, change func(*Change) error) (*Ticket, error)
	// Ticket returns a ticket, or fault.NotFound.
	Ticket(ctx context.Context, id string) (*Ticket, error)
	// TicketMessages returns the messages of a ticket, oldest first.
	TicketMessages(ctx context.Context, id string, limit int) ([]Message, error)
	// TicketsOf returns the tickets of an account, the last opened first, after a place; zero: from the first. With
	// threads, only those that have a message.
	TicketsOf(ctx context.Context, accountID string, threads bool, after Place, limit int) ([]Ticket, error)
	// TicketQueue returns a page of the tickets of all accounts.
	TicketQueue(ctx context.Context, q Query) ([]Ticket, error)
	// TicketCounts returns how many tickets each view has, except for Done.
	TicketCounts(ctx context.Context) (map[View]int, error)
	// UnreadTickets counts the threads of an account in which support has written something new.
	UnreadTickets(ctx context.Context, accountID string) (int, error)
	// ReadTicket notes that the customer has seen a thread of an account, or all of them if id is empty.
	ReadTicket(ctx context.Context, accountID, id string) error
	// GatherTickets opens tickets for what needs support, closes those whose cause is gone, and wakes snoozed
	// ones. It handles at most most causes of each sort, and reports whether there may be more.
	GatherTickets(ctx context.Context, now time.Time, most int) (more bool, err error)
	// JoinInquiries makes threads of inquiries that were stored as notices, and adds answers that were given to
	// the notice. With an account it does so for that one alone. It reports whether there may be more.
	JoinInquiries(ctx context.Context, accountID string, most int) (more bool, err error)
}

// Holding is what an account has.
type Holding struct {
	Open    int // tickets with messages that are not closed
	New     int // tickets that the customer opened within the last 24 hours
	Written int // messages that the customer wrote within the last 24 hours
}

// Change is a change of a ticket under its lock.
type Change struct {
	Ticket
	Holding
	Say   Message       // a new message; none if Text is empty
	Audit account.Entry // none if Action is empty
}

// View is one list of the queue.
type View string

const (
	Waiting  View = "waiting"  // open, for support
	Answered View = "answered" // open, for the customer
	Sleeping View = "snoozed"
	Done     View = "closed" // newest first; the others are oldest first
)

// Views returns all views in the order of the page.
func Views() []View { return []View{Waiting, Answered, Sleeping, Done} }

// Query asks for a page of the queue.
type Query struct {
	View     View
	Kind     Kind   // empty: all
	Assignee string // empty: all; Nobody: those without one
	// After is the place of the last ticket of the page before; zero: the first page.
	After Place
	Limit int
}

// Nobody as the assignee of a Query means tickets that nobody works on.
const Nobody = "-"

// Place is the position of a ticket in a list: the time that the list is ordered by, and its id.
type Place struct {
	At time.Time
	ID string
}

// String returns the place as a cursor.
func (p Place) String() string {
	if p == (Place{}) {
		return ""
	}
	return strconv.FormatInt(p.At.UnixMilli(), 10) + "." + p.ID
}

// ParsePlace reads a cursor. An empty one is the beginning.
func ParsePlace(text string) (Place, error) {
	if text == "" {
		return Place{}, nil
	}
	at, id, ok := strings.Cut(text, ".")
	n, err := strconv.ParseInt(at, 10, 64)
	if !ok || err != nil || id == "" || len(text) > 100 {
		return Place{}, fault.New(fault.Invalid, "this is not a cursor of the list; use next from the previous page").At("after")
	}
	return Place{time.UnixMilli(n).UTC(), id}, nil
}
