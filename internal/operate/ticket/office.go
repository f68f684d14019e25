package ticket

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"sluice/internal/account"
	"sluice/internal/account/mail"
	"sluice/internal/kit/fault"
)

// Poster sends mail, sooner or later. *mail.Outbox implements it.
type Poster interface{ Post(m mail.Message) }

// Settings are what a reload of the configuration may change.
type Settings struct {
	Origin string // of the pages, for links in mail
	Staff  string // address that is mailed when a customer writes; empty: nobody is
}

// Office is where tickets are opened, answered and closed. Its methods may be called from several goroutines and on
// several nodes.
type Office struct {
	store    Store
	poster   Poster
	settings func() Settings
	now      func() time.Time
}

// Options are the choices of NewOffice; the zero value is the default.
type Options struct {
	// Now is the clock. Default time.Now.
	Now func() time.Time
}

// NewOffice returns an office. poster may be nil: then nobody is mailed. opts may be nil.
func NewOffice(store Store, poster Poster, settings func() Settings, opts *Options) *Office {
	o := &Office{store: store, poster: poster, settings: settings, now: time.Now}
	if opts != nil && opts.Now != nil {
		o.now = opts.Now
	}
	return o
}

// clock returns the time to the millisecond, which is what the store keeps.
func (o *Office) clock() time.Time { return o.now().UTC().Truncate(time.Millisecond) }

// customer is how messages and the audit log name the owner of an account.
const customer = "owner"

// Begin opens a ticket for a customer.
func (o *Office) Begin(ctx context.Context, a *account.Account, kind Kind, subject, text string) (*Ticket, error) {
	if !slices.Contains(ForCustomers(), kind) {
		return nil, fault.New(fault.Invalid, "Choose what your message is about.").At("kind")
	}
	m, first, err := o.newTicket(a, kind, subject, text)
	if err != nil {
		return nil, err
	}
	m.Waits, m.MailedAt = Support, m.OpenedAt
	first.From, first.Author = Customer, customer
	err = o.open(ctx, m, first, func(h Holding) error {
		switch {
		case h.Open >= mostOpen:
			return fault.New(fault.RateLimited, "You have %d open conversations, which is the limit. Please answer in one of them.", h.Open)
		case h.New >= mostNew:
			return fault.New(fault.RateLimited, "You have opened %d conversations today, which is the limit. Please answer in one of them.", h.New)
		}
		return h.writes()
	})
	if err != nil {
		return nil, err
	}
	o.mailStaff(m, text)
	return m, nil
}

// Write opens a ticket for support: a message to the customer.
func (o *Office) Write(ctx context.Context, actor string, a *account.Account, kind Kind, subject, text string) (*Ticket, error) {
	if !slices.Contains(ForCustomers(), kind) {
		return nil, fault.New(fault.Invalid, "a message to a customer has the kind restore, downgrade, billing, inquiry or other").At("kind")
	}
	m, first, err := o.newTicket(a, kind, subject, text)
	if err != nil {
		return nil, err
	}
	m.Waits, m.Unread, m.Assignee = Customer, true, actor
	first.From, first.Author = Support, actor
	if err := o.open(ctx, m, first, func(Holding) error { return nil }); err != nil {
		return nil, err
	}
	o.mailCustomer(m, text)
	return m, nil
}

// newTicket returns a ticket of an account with its first message, without what depends on who opens it.
func (o *Office) newTicket(a *account.Account, kind Kind, subject, text string) (*Ticket, Message, error) {
	subject, wrongSubject := parseSubject(subject)
	text, wrongText := parseText(text)
	if err := errors.Join(wrongSubject, wrongText); err != nil {
		return nil, Message{}, err
	}
	now := o.clock()
	return &Ticket{
		ID: "mat_" + rand.Text(), AccountID: a.ID, Email: a.Email, Kind: kind, Subject: subject, State: Open,
		OpenedAt: now, Since: now, ChangedAt: now, Messages: 1, Version: 1,
	}, Message{Number: 1, At: now, Text: text}, nil
}

// open stores a new ticket in the name of whoever wrote its first message, if check permits it.
func (o *Office) open(ctx context.Context, m *Ticket, first Message, check func(Holding) error) error {
	entry := account.Entry{At: m.OpenedAt, Actor: first.Author, Action: "matter.open", AccountID: m.AccountID, Detail: m.ID + ", " + string(m.Kind)}
	return o.store.OpenTicket(ctx, m, first, entry, mostKept, check)
}

// writes checks that the customer may write one more message.
func (h Holding) writes() error {
	if h.Written >= mostWritten {
		return fault.New(fault.RateLimited, "You have written %d messages within 24 hours, which is the limit. Please wait for an answer.", h.Written)
	}
	return nil
}

// Reply adds a customer's message to a thread of the account. It wakes and opens it again if need be.
func (o *Office) Reply(ctx context.Context, accountID, id, text string) (*Ticket, error) {
	text, err := parseText(text)
	if err != nil {
		return nil, err
	}
	mailed := false
	m, err := o.change(ctx, id, func(c *Change, now time.Time) error {
		// To a customer, somebody else's thread does not exist, and neither does a ticket without a message.
		if c.AccountID != accountID || c.Messages == 0 {
			return noTicket()
		}
		if err := c.writes(); err != nil {
			return err
		}
		if c.Ticket.State == Closed && c.Holding.Open >= mostOpen {
			return fault.New(fault.RateLimited, "You have %d open conversations, which is the limit. Please answer in one of them.", c.Holding.Open)
		}
		if err := c.say(Message{At: now, From: Customer, Author: customer, Text: text}); err != nil {
			return err
		}
		if c.Waits != Support || c.State == Closed {
			c.Waits, c.Since = Support, now
		}
		c.State, c.SnoozedUntil, c.Unread = Open, time.Time{}, false
		if mailed = now.Sub(c.MailedAt) >= mailPause; mailed {
			c.MailedAt = now
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if mailed {
		o.mailStaff(m, text)
	}
	return m, nil
}

// Resolve closes a thread for the customer, who needs no answer any more. A message opens it again.
func (o *Office) Resolve(ctx context.Context, accountID, id string) (*Ticket, error) {
	return o.change(ctx, id, func(c *Change, now time.Time) error {
		if c.AccountID != accountID || c.Messages == 0 {
			return noTicket()
		}
		if c.State != Closed {
			c.note(customer, "matter.close", "by the customer", "", now)
		}
		c.close(now)
		c.Unread = false
		return nil
	})
}

// say adds a message to the thread.
func (c *Change) say(m Message) error {
	if c.Messages >= MostMessages {
		return fault.New(fault.Conflict, "This conversation has %d messages, which is the limit. Please begin a new one.", c.Messages)
	}
	c.Messages++
	m.Number = c.Messages
	c.Say = m
	return nil
}

// Threads returns an account's threads, the last opened first.
func (o *Office) Threads(ctx context.Context, accountID string, limit int) ([]Ticket, error) {
	return o.store.TicketsOf(ctx, accountID, true, Place{}, limit)
}

// Of returns a page of an account's tickets for support, the last opened first, and the place of the next one, which is
// zero after the last.
func (o *Office) Of(ctx context.Context, accountID string, after Place, limit int) ([]Ticket, Place, error) {
	if limit < 1 || limit > MostListed {
		limit = MostListed
	}
	list, err := o.store.TicketsOf(ctx, accountID, false, after, limit+1)
	list, next := pageOf(list, limit, func(m *Ticket) time.Time { return m.OpenedAt })
	return list, next, err
}

// pageOf returns the first tickets of a list that was read with one more than the limit, and the place of the next page.
// at returns the time that the list is ordered by.
func pageOf(list []Ticket, limit int, at func(*Ticket) time.Time) ([]Ticket, Place) {
	if len(list) <= limit {
		return list, Place{}
	}
	last := &list[limit-1]
	return list[:limit], Place{at(last), last.ID}
}

// Thread returns a thread of an account with its messages, and notes that the customer has seen it.
func (o *Office) Thread(ctx context.Context, accountID, id string) (*Ticket, []Message, error) {
	m, list, err := o.Show(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	if m.AccountID != accountID || m.Messages == 0 {
		return nil, nil, noTicket()
	}
	if m.Unread {
		err = o.store.ReadTicket(ctx, accountID, id)
	}
	return m, list, err
}

// Messages returns the messages of a ticket, oldest first.
func (o *Office) Messages(ctx context.Context, id string) ([]Message, error) {
	return o.store.TicketMessages(ctx, id, MostMessages)
}

// Unread returns in how many threads of an account support has written something new.
func (o *Office) Unread(ctx context.Context, accountID string) (int, error) {
	return o.store.UnreadTickets(ctx, accountID)
}

// ReadAll notes that the customer has seen all threads of an account.
func (o *Office) ReadAll(ctx context.Context, accountID string) error {
	return o.store.ReadTicket(ctx, accountID, "")
}

// Show returns a ticket with its messages.
func (o *Office) Show(ctx context.Context, id string) (*Ticket, []Message, error) {
	m, err := o.store.Ticket(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	list, err := o.Messages(ctx, id)
	return m, list, err
}

// change applies a change to a ticket at the present time.
func (o *Office) change(ctx context.Context, id string, change func(*Change, time.Time) error) (*Ticket, error) {
	// A caller who hangs up must not leave a message stored and not mailed.
	ctx = context.WithoutCancel(ctx)
	now := o.clock()
	return o.store.ChangeTicket(ctx, id, now.Add(-24*time.Hour), func(c *Change) error {
		if err := change(c, now); err != nil {
			return err
		}
		c.ChangedAt = now
		c.Version++
		return nil
	})
}

// noTicket is the fault for a ticket that the caller may not see or that does not exist.
func noTicket() error { return fault.New(fault.NotFound, "There is no such conversation.") }

// mailStaff tells staff that a customer has written.
func (o *Office) mailStaff(m *Ticket, text string) {
	s := o.settings()
	if o.poster == nil || s.Staff == "" {
		return
	}
	where := "sluice ticket answer " + m.ID
	if s.Origin != "" {
		where = s.Origin + "/support/queue/" + m.ID + "\nor with: " + where
	}
	o.poster.Post(mail.Message{
		To: s.Staff, Subject: "[" + m.Kind.Title() + "] " + m.Subject,
		Text: fmt.Sprintf("%s (%s) writes:\n\n%s\n\nAnswer: %s\n", m.Email, m.AccountID, text, where),
	})
}

// mailCustomer tells a customer that support has written.
func (o *Office) mailCustomer(m *Ticket, text string) {
	if o.poster == nil || m.Email == "" {
		return
	}
	o.poster.Post(mail.Message{
		To: m.Email, Subject: m.Subject,
		Text: fmt.Sprintf("%s\n\nAnswer at %s/dashboard/messages/%s\n", text, o.settings().Origin, m.ID),
	})
}

// parseText checks the text of a message and returns it without surrounding space.
func parseText(text string) (string, error) {
	text = strings.TrimSpace(clean(text, true))
	if text == "" || utf8.RuneCountInString(text) > MostText {
		return "", fault.New(fault.Invalid, "Write a message of 1 to %d characters.", MostText).At("text")
	}
	return text, nil
}

// parseSubject checks a subject. It becomes the subject of a mail, so it is one line.
func parseSubject(text string) (string, error) {
	text = strings.TrimSpace(clean(text, false))
	if text == "" || utf8.RuneCountInString(text) > MostSubject {
		return "", fault.New(fault.Invalid, "Write a subject of 1 to %d characters.", MostSubject).At("subject")
	}
	return text, nil
}

// parseReason checks a reason for the audit log.
func parseReason(text string) (string, error) {
	text = strings.TrimSpace(clean(text, false))
	if utf8.RuneCountInString(text) > mostReason {
		return "", fault.New(fault.Invalid, "a reason has at most %d characters", mostReason).At("reason")
	}
	return text, nil
}

// clean removes what a text cannot hold: bytes that are no UTF-8, control characters and, unless it may have lines,
// line breaks.
func clean(text string, lines bool) string {
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' && lines, r == '\t':
			return r
		case r == '\n':
			return ' '
		case unicode.IsControl(r):
			return -1
		}
		return r
	}, text)
}
