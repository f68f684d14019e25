package admin

import (
	"context"
	"strings"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/operate/ticket"
)

// TicketThread is a ticket with its messages, oldest first.
type TicketThread struct {
	ticket.Ticket
	Thread []ticket.Message `json:"thread"`
}

// TicketQuery is the argument of matter.list. With Account, it asks for the tickets of one account, newest first, and
// View, Kind and Assignee are not used.
type TicketQuery struct {
	// View is "waiting" (the default), "answered", "snoozed" or "closed".
	View string `json:"view,omitempty"`
	Kind string `json:"kind,omitempty"`
	// Assignee is a member of staff, or "-" for tickets that nobody has.
	Assignee string `json:"assignee,omitempty"`
	Account  string `json:"account,omitempty"`
	Cursor          // at most 200 of a page
}

// TicketRef names a ticket.
type TicketRef struct {
	ID string `json:"id"`
}

// TicketStep is a change of a ticket. Version is that of the ticket as the actor has seen it; if it has changed since,
// the step is refused. 0 skips the check. Which of the other fields are used depends on the operation.
type TicketStep struct {
	Actor   string    `json:"actor"`
	ID      string    `json:"id"`
	Version int64     `json:"version,omitempty"`
	Text    string    `json:"text,omitempty"`
	To      string    `json:"to,omitempty"`
	Until   time.Time `json:"until,omitzero"`
	Reason  string    `json:"reason,omitempty"`
	// Decision is "clear", "warn", "restore" or "suspend".
	Decision string `json:"decision,omitempty"`
}

// NewTicket is the argument of matter.open: a message of support to a customer.
type NewTicket struct {
	Actor   string `json:"actor"`
	Ref     string `json:"ref"`
	Kind    string `json:"kind"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
}

// ticketList returns a page of the queue, or of the tickets of an account. What needs support is gathered first, so that
// nothing that has just happened is missing.
func (b *Backend) ticketList(ctx context.Context, in TicketQuery) (List[ticket.Ticket], error) {
	after, err := ticket.ParsePlace(in.After)
	if err != nil {
		return List[ticket.Ticket]{}, err
	}
	if err := b.Tickets.Gather(ctx); err != nil {
		return List[ticket.Ticket]{}, err
	}
	var list []ticket.Ticket
	var next ticket.Place
	if in.Account != "" {
		a, err := b.Accounts.Find(ctx, in.Account)
		if err != nil {
			return List[ticket.Ticket]{}, err
		}
		list, next, err = b.Tickets.Of(ctx, a.ID, after, in.Limit)
		if err != nil {
			return List[ticket.Ticket]{}, err
		}
	} else {
		list, next, err = b.Tickets.Queue(ctx, ticket.Query{View: ticket.View(in.View), Kind: ticket.Kind(in.Kind), Assignee: in.Assignee, After: after, Limit: in.Limit})
		if err != nil {
			return List[ticket.Ticket]{}, err
		}
	}
	return List[ticket.Ticket]{Data: some(list), Next: next.String()}, nil
}

// TicketCounts is how many tickets wait for support and for customers, and how many are snoozed.
type TicketCounts struct {
	Waiting  int `json:"waiting"`
	Answered int `json:"answered"`
	Snoozed  int `json:"snoozed"`
}

// ticketCounts returns the numbers that the console shows beside the views of its queue. Closed tickets have none.
func (b *Backend) ticketCounts(ctx context.Context, _ Empty) (TicketCounts, error) {
	n, err := b.Tickets.Counts(ctx)
	return TicketCounts{n[ticket.Waiting], n[ticket.Answered], n[ticket.Sleeping]}, err
}

// ticketShow returns a ticket with its whole thread, whose length package ticket bounds.
func (b *Backend) ticketShow(ctx context.Context, in TicketRef) (TicketThread, error) {
	m, messages, err := b.Tickets.Show(ctx, in.ID)
	if err != nil {
		return TicketThread{}, err
	}
	return TicketThread{Ticket: *m, Thread: some(messages)}, nil
}

// ticketOpen writes to a customer.
func (b *Backend) ticketOpen(ctx context.Context, in NewTicket) (TicketThread, error) {
	a, err := b.Accounts.Find(ctx, in.Ref)
	if err != nil {
		return TicketThread{}, err
	}
	m, err := b.Tickets.Write(ctx, in.Actor, a, ticket.Kind(in.Kind), in.Subject, in.Text)
	return b.shown(ctx, m, err)
}

// ticketAnswer and the steps below carry the version that the member saw; see TicketStep.act. A step on a ticket that has
// changed since does nothing.
func (b *Backend) ticketAnswer(ctx context.Context, in TicketStep) (TicketThread, error) {
	m, err := b.Tickets.Answer(ctx, in.act(), in.Text)
	return b.shown(ctx, m, err)
}

func (b *Backend) ticketAssign(ctx context.Context, in TicketStep) (TicketThread, error) {
	m, err := b.Tickets.Assign(ctx, in.act(), in.To)
	return b.shown(ctx, m, err)
}

func (b *Backend) ticketSnooze(ctx context.Context, in TicketStep) (TicketThread, error) {
	m, err := b.Tickets.Snooze(ctx, in.act(), in.Until)
	return b.shown(ctx, m, err)
}

func (b *Backend) ticketClose(ctx context.Context, in TicketStep) (TicketThread, error) {
	m, err := b.Tickets.Close(ctx, in.act(), in.Reason)
	return b.shown(ctx, m, err)
}

func (b *Backend) ticketReopen(ctx context.Context, in TicketStep) (TicketThread, error) {
	m, err := b.Tickets.Reopen(ctx, in.act())
	return b.shown(ctx, m, err)
}

// ticketDecide does what support has decided about the account of a ticket, tells the customer, and closes the ticket.
// The ticket is first taken by the actor, so that of two members who decide at once the second is refused before
// anything happens to the account.
func (b *Backend) ticketDecide(ctx context.Context, in TicketStep) (TicketThread, error) {
	if in.Reason = strings.TrimSpace(in.Reason); in.Reason == "" {
		return TicketThread{}, fault.New(fault.Invalid, "a decision needs a reason; it is kept in the audit log").At("reason")
	}
	act := b.decisions()[in.Decision]
	if act == nil {
		return TicketThread{}, fault.New(fault.Invalid, "there is no decision %q; choose clear, warn, restore or suspend", in.Decision).At("decision")
	}
	if in.Decision != "clear" && strings.TrimSpace(in.Text) == "" {
		return TicketThread{}, fault.New(fault.Invalid, "tell the customer what you decided").At("text")
	}
	m, err := b.Tickets.Take(ctx, in.act())
	if err != nil {
		return TicketThread{}, err
	}
	if err := act(ctx, in.Actor, m.AccountID, in.Reason); err != nil {
		return TicketThread{}, err
	}
	step := in.act()
	step.Version = m.Version
	m, err = b.Tickets.Decide(ctx, step, ticket.Decision{Action: "matter." + in.Decision, Text: in.Text, Close: true, Reason: in.Reason})
	return b.shown(ctx, m, err)
}

// decisions returns what each decision does to an account.
func (b *Backend) decisions() map[string]func(ctx context.Context, actor, accountID, reason string) error {
	return map[string]func(context.Context, string, string, string) error{
		"clear": func(context.Context, string, string, string) error { return nil },
		"warn":  func(context.Context, string, string, string) error { return nil },
		"restore": func(ctx context.Context, actor, id, _ string) error {
			a, err := b.Scores.Restore(ctx, actor, id)
			if err != nil || a.Suspended == nil {
				return err
			}
			_, err = b.Accounts.Unsuspend(ctx, actor, id)
			return err
		},
		"suspend": func(ctx context.Context, actor, id, reason string) error {
			_, err := b.Accounts.Suspend(ctx, actor, id, reason)
			return err
		},
	}
}

func (in *TicketStep) act() ticket.Act {
	return ticket.Act{Actor: in.Actor, ID: in.ID, Version: in.Version}
}

// shown returns a ticket after a change, with its messages.
func (b *Backend) shown(ctx context.Context, m *ticket.Ticket, err error) (TicketThread, error) {
	if err != nil {
		return TicketThread{}, err
	}
	return b.ticketShow(ctx, TicketRef{ID: m.ID})
}
