package ticket

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
)

// Act names a ticket and who of the staff acts on it. Version is that of the ticket as the actor has seen it; if it
// has changed since, nothing is done. 0 means that the actor has not looked.
type Act struct {
	Actor   string
	ID      string
	Version int64
}

// Answer adds a message of support to a thread. The ticket then waits for the customer.
func (o *Office) Answer(ctx context.Context, act Act, text string) (*Ticket, error) {
	return o.Decide(ctx, act, Decision{Action: "matter.answer", Text: text})
}

// Decision is what support does with a ticket at once.
type Decision struct {
	Action string // for the audit log, such as matter.answer
	Text   string // a message to the customer; empty: none
	Close  bool
	Reason string // for the audit log
}

// Decide adds a message of support, if there is one, and closes the ticket, if it is to be closed.
func (o *Office) Decide(ctx context.Context, act Act, d Decision) (*Ticket, error) {
	var err error
	if d.Text != "" || !d.Close {
		if d.Text, err = parseText(d.Text); err != nil {
			return nil, err
		}
	}
	if d.Reason, err = parseReason(d.Reason); err != nil {
		return nil, err
	}
	m, err := o.act(ctx, act, func(c *Change, now time.Time) error {
		c.note(act.Actor, d.Action, "", d.Reason, now)
		if d.Text != "" {
			if err := c.say(Message{At: now, From: Support, Author: act.Actor, Text: d.Text}); err != nil {
				return err
			}
			c.Unread = true
			if c.Waits != Customer {
				c.Waits, c.Since = Customer, now
			}
			c.State, c.SnoozedUntil = Open, time.Time{}
			if c.Assignee == "" {
				c.Assignee = act.Actor
			}
		}
		if d.Close {
			c.close(now)
		}
		return nil
	})
	if err == nil && d.Text != "" {
		o.mailCustomer(m, d.Text)
	}
	return m, err
}

// Assign gives a ticket to somebody of the staff. An empty name takes it from whoever has it.
func (o *Office) Assign(ctx context.Context, act Act, to string) (*Ticket, error) {
	to = strings.TrimSpace(clean(to, false))
	if len(to) > 254 || to == Nobody {
		return nil, fault.New(fault.Invalid, "a name has at most 254 bytes").At("to")
	}
	return o.act(ctx, act, func(c *Change, now time.Time) error {
		if c.Assignee == to {
			return nil
		}
		detail := "to " + to
		if to == "" {
			detail = "to nobody"
		}
		c.note(act.Actor, "matter.assign", detail, "", now)
		c.Assignee = to
		return nil
	})
}

// Take gives a ticket to the actor, whoever had it, and always makes a new version of it: whoever acts on the one before
// is refused.
func (o *Office) Take(ctx context.Context, act Act) (*Ticket, error) {
	return o.act(ctx, act, func(c *Change, now time.Time) error {
		if c.Assignee != act.Actor {
			c.note(act.Actor, "matter.assign", "to "+act.Actor, "", now)
			c.Assignee = act.Actor
		}
		return nil
	})
}

// Snooze takes a ticket out of the queue until a time.
func (o *Office) Snooze(ctx context.Context, act Act, until time.Time) (*Ticket, error) {
	until = until.UTC().Truncate(time.Millisecond)
	return o.act(ctx, act, func(c *Change, now time.Time) error {
		if !until.After(now) || until.Sub(now) > longestSnooze {
			return fault.New(fault.Invalid, "a ticket is snoozed until a time in the next %d days", int(longestSnooze.Hours())/24).At("until")
		}
		if c.State == Closed {
			return fault.New(fault.Conflict, "the ticket is closed")
		}
		c.note(act.Actor, "matter.snooze", "until "+until.Format("2 Jan 2006 15:04 UTC"), "", now)
		c.State, c.SnoozedUntil = Snoozed, until
		return nil
	})
}

// Close closes a ticket. The customer can still open it again by a message.
func (o *Office) Close(ctx context.Context, act Act, reason string) (*Ticket, error) {
	return o.Decide(ctx, act, Decision{Action: "matter.close", Close: true, Reason: reason})
}

// Reopen puts a ticket that is closed or snoozed back into the queue.
func (o *Office) Reopen(ctx context.Context, act Act) (*Ticket, error) {
	return o.act(ctx, act, func(c *Change, now time.Time) error {
		if c.State == Open {
			return nil
		}
		c.note(act.Actor, "matter.reopen", "", "", now)
		// A customer who waited before the ticket was snoozed does not lose the place in the queue.
		if c.State != Snoozed || c.Waits != Support {
			c.Waits, c.Since = Support, now
		}
		c.State, c.SnoozedUntil = Open, time.Time{}
		return nil
	})
}

// close closes the ticket.
func (c *Change) close(now time.Time) {
	if c.State != Closed {
		c.State, c.SnoozedUntil, c.Since = Closed, time.Time{}, now
	}
}

// note writes the audit entry of a change. Every detail begins with the ticket.
func (c *Change) note(actor, action, detail, reason string, now time.Time) {
	if detail != "" {
		detail = ", " + detail
	}
	c.Audit = account.Entry{At: now, Actor: actor, Action: action, AccountID: c.AccountID, Detail: c.Ticket.ID + detail, Reason: reason}
}

// act is change with a check that nobody has changed the ticket since the actor saw it.
func (o *Office) act(ctx context.Context, a Act, change func(*Change, time.Time) error) (*Ticket, error) {
	return o.change(ctx, a.ID, func(c *Change, now time.Time) error {
		if err := Unchanged(&c.Ticket, a.Version); err != nil {
			return err
		}
		return change(c, now)
	})
}

// Unchanged returns a fault that says how a ticket is now, if its version is not the one that somebody has seen. 0
// means that nobody has looked.
func Unchanged(m *Ticket, seen int64) error {
	if seen == 0 || seen == m.Version {
		return nil
	}
	now := string(m.State)
	if m.Assignee != "" {
		now += ", assigned to " + m.Assignee
	}
	return fault.New(fault.Conflict, "The ticket has changed since you opened it: it is %s and has %d messages. Nothing was done; look at it again.", now, m.Messages)
}

// Queue returns a page of the queue and the place of the next one, which is zero after the last.
func (o *Office) Queue(ctx context.Context, q Query) ([]Ticket, Place, error) {
	if q.Limit < 1 || q.Limit > MostListed {
		q.Limit = MostListed
	}
	switch q.View {
	case "":
		q.View = Waiting
	case Waiting, Answered, Sleeping, Done:
	default:
		return nil, Place{}, fault.New(fault.Invalid, "there is no list %q; choose waiting, answered, snoozed or closed", q.View).At("view")
	}
	if _, ok := kinds[q.Kind]; !ok && q.Kind != "" {
		return nil, Place{}, fault.New(fault.Invalid, "there is no kind %q", q.Kind).At("kind")
	}
	limit := q.Limit
	q.Limit++
	list, err := o.store.TicketQueue(ctx, q)
	list, next := pageOf(list, limit, func(m *Ticket) time.Time { return m.Since })
	return list, next, err
}

// Counts returns how many tickets each view has, except for Done.
func (o *Office) Counts(ctx context.Context) (map[View]int, error) { return o.store.TicketCounts(ctx) }

const (
	// GatherEvery is how often Gather runs on one of the nodes.
	GatherEvery = 15 * time.Second
	// gatheredAtOnce is how many causes one transaction handles, and mostRounds bounds one run.
	gatheredAtOnce = 200
	mostRounds     = 100
)

// Gather opens tickets for what needs support and has none yet, closes those that have settled themselves, wakes
// snoozed ones, and makes threads of inquiries. It may run at any time on any node: each cause opens one ticket.
func (o *Office) Gather(ctx context.Context) error {
	for _, step := range []func() (bool, error){
		func() (bool, error) { return o.store.GatherTickets(ctx, o.clock(), gatheredAtOnce) },
		func() (bool, error) { return o.store.JoinInquiries(ctx, "", gatheredAtOnce) },
	} {
		for range mostRounds {
			more, err := step()
			if err != nil {
				return fmt.Errorf("gather tickets: %w", err)
			}
			if !more {
				break
			}
		}
	}
	return nil
}

// GatherLogged returns Gather for a node that does it from time to time. What fails is tried again next time.
func (o *Office) GatherLogged(log *slog.Logger) func(context.Context) {
	return func(ctx context.Context) {
		if err := o.Gather(ctx); err != nil && ctx.Err() == nil {
			log.Warn("tickets for support could not be collected", "error", err.Error())
		}
	}
}

// Join makes threads of an account's inquiries now, so that the customer can answer them.
func (o *Office) Join(ctx context.Context, accountID string) error {
	_, err := o.store.JoinInquiries(ctx, accountID, gatheredAtOnce)
	return err
}
