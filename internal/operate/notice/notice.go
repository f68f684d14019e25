// Package notice tells accounts what they must know: warnings, inquiries, failed payments, suspensions.
//
// A notice is stored for the pages and mailed to the account's owner. An inquiry becomes a thread in which the owner
// answers; see package ticket.
// Letters words the notices about suspensions, abuse and payments. Whether such a thing happens is decided elsewhere:
// in packages account, abuse and billing.
package notice

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"sluice/internal/account/mail"
	"sluice/internal/kit/fault"
)

// Kind is what a notice is about.
type Kind string

const (
	Warning     Kind = "warning"     // the abuse score climbs
	Inquiry     Kind = "inquiry"     // support would like an answer
	Payment     Kind = "payment"     // a charge failed
	Budget      Kind = "budget"      // a part of a budget is spent, or a program runs away
	Suspended   Kind = "suspended"   // requests are refused
	Deactivated Kind = "deactivated" // the keys are off
	Restored    Kind = "restored"    // the account is open again, or its keys work again
	Support     Kind = "support"     // support has changed something
)

// Notice is one thing that an account was told.
type Notice struct {
	ID        string
	AccountID string
	At        time.Time
	Kind      Kind
	Title     string
	Body      string
	ReadAt    time.Time // zero: not yet
	// Answer is what the owner answered to an inquiry. Inquiries of earlier versions have it; it is in their thread, too.
	Answer     string
	AnsweredAt time.Time // zero: not yet
	// Joined says that an inquiry is a thread, where its answers are.
	Joined bool
}

// Store keeps notices.
type Store interface {
	// AddNotice stores a new notice.
	AddNotice(ctx context.Context, n *Notice) error
	// Notices returns an account's newest notices.
	Notices(ctx context.Context, accountID string, limit int) ([]Notice, error)
	// OlderNotices returns those after a place of that list; the zero time is its beginning.
	OlderNotices(ctx context.Context, accountID string, at time.Time, id string, limit int) ([]Notice, error)
	// UnreadNotices counts the notices that an account has not seen, without inquiries that are threads.
	UnreadNotices(ctx context.Context, accountID string) (int, error)
	// Notice returns a notice of an account, or nil if it has none with this id.
	Notice(ctx context.Context, accountID, id string) (*Notice, error)
	// ReadNotices marks a notice of an account as seen, or all of them if id is empty.
	ReadNotices(ctx context.Context, accountID, id string, at time.Time) error
}

// Poster sends mail, sooner or later. *mail.Outbox implements it.
type Poster interface{ Post(m mail.Message) }

// Notices stores notices, mails them, and returns them to pages.
type Notices struct {
	store  Store
	poster Poster
	origin func() string
	now    func() time.Time
	// support may be nil; see Options.
	support func() string
}

// Options are the choices of NewBoard; the zero value is the default.
type Options struct {
	// Now is the clock. Default time.Now.
	Now func() time.Time
	// Support returns how customers reach support besides the pages, or "". Default: nothing is said.
	Support func() string
}

// NewBoard returns a board. origin returns the origin of the pages, for links in mail; it is a
// function because a reload can change it. opts may be nil.
func New(store Store, poster Poster, origin func() string, opts *Options) *Notices {
	b := &Notices{store: store, poster: poster, origin: origin, now: time.Now}
	if opts != nil && opts.Now != nil {
		b.now = opts.Now
	}
	if opts != nil {
		b.support = opts.Support
	}
	return b
}

// Tell stores a notice and mails it to the account's owner. If it cannot be stored, it is not mailed
// either: a mail refers to the page with the notice.
func (b *Notices) Tell(ctx context.Context, accountID, email string, kind Kind, title, body string) error {
	n := Notice{ID: "note_" + rand.Text(), AccountID: accountID, At: b.clock(), Kind: kind, Title: title, Body: body}
	if err := b.store.AddNotice(ctx, &n); err != nil {
		return fmt.Errorf("tell %s: %w", accountID, err)
	}
	text := body + "\n\nYour messages: " + b.origin() + "/dashboard/messages\n"
	if b.support != nil && b.support() != "" {
		text += "Support: " + b.support() + "\n"
	}
	b.poster.Post(mail.Message{To: email, Subject: title, Text: text})
	return nil
}

// List returns an account's newest notices.
func (b *Notices) List(ctx context.Context, accountID string, limit int) ([]Notice, error) {
	return b.store.Notices(ctx, accountID, limit)
}

// Older returns those after the notice of a time and an id; the zero time is the beginning of the list.
func (b *Notices) Older(ctx context.Context, accountID string, at time.Time, id string, limit int) ([]Notice, error) {
	return b.store.OlderNotices(ctx, accountID, at, id, limit)
}

// Unread returns how many notices an account has not seen.
func (b *Notices) Unread(ctx context.Context, accountID string) (int, error) {
	return b.store.UnreadNotices(ctx, accountID)
}

// Notice returns a notice of an account, or fault.NotFound.
func (b *Notices) Notice(ctx context.Context, accountID, id string) (*Notice, error) {
	n, err := b.store.Notice(ctx, accountID, id)
	if err == nil && n == nil {
		err = fault.New(fault.NotFound, "There is no such notice.")
	}
	return n, err
}

// Read marks a notice of an account as seen, or all of them if id is empty.
func (b *Notices) Read(ctx context.Context, accountID, id string) error {
	return b.store.ReadNotices(ctx, accountID, id, b.clock())
}

// clock returns the time to the millisecond, which is what the store keeps.
func (b *Notices) clock() time.Time { return b.now().UTC().Truncate(time.Millisecond) }
