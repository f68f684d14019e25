package admin

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/account/signin"
	"sluice/internal/kit/fault"
	"sluice/internal/operate/notice"
)

// Note is the argument of account.note.
type Note struct {
	Actor   string `json:"actor"`
	Ref     string `json:"ref"`
	Note    string `json:"note"`
	Version int64  `json:"version,omitempty"`
}

// Credit is the argument of billing.credit. A negative amount takes credit back.
type Credit struct {
	Actor   string `json:"actor"`
	Ref     string `json:"ref"`
	Cents   int64  `json:"cents"`
	Reason  string `json:"reason,omitempty"`
	Version int64  `json:"version,omitempty"`
}

// Message is one thing that an account was told, and what its owner answered.
type Message struct {
	ID         string     `json:"id"`
	At         time.Time  `json:"at"`
	Kind       string     `json:"kind"`
	Title      string     `json:"title"`
	Body       string     `json:"body"`
	ReadAt     *time.Time `json:"read_at"`
	Answer     string     `json:"answer,omitempty"`
	AnsweredAt *time.Time `json:"answered_at"`
}

// needReason refuses a change without a reason. The operator at the socket may leave it out where the command lets them.
func needReason(ctx context.Context, reason string) error {
	if callerOf(ctx) == nil && reason == "" {
		return nil
	}
	if reason = strings.TrimSpace(reason); reason == "" || utf8.RuneCountInString(reason) > maxReason {
		return fault.New(fault.Invalid, "a reason of 1 to %d characters is required; it is kept in the audit log", maxReason).At("reason")
	}
	return nil
}

// maxReason is how long a reason may be, in characters.
const maxReason = 1000

// order writes to the audit log that staff orders something which is not a change of the account itself, and why. It
// checks the version that the order was decided on, so of two members who act on the same state one is refused before
// anything happens. An operator at the socket who gives neither a reason nor a version leaves no entry.
func (b *Backend) order(ctx context.Context, in Target, action, detail string) (*account.Account, error) {
	if callerOf(ctx) == nil && in.Reason == "" && in.Version == 0 {
		return b.Accounts.Find(ctx, in.Ref)
	}
	if err := needReason(ctx, in.Reason); err != nil {
		return nil, err
	}
	return b.under(in).Record(ctx, in.Actor, in.Ref, action, detail)
}

// tell tells the owner of an account what staff has done. Nobody is told if no server runs.
func (b *Backend) tell(ctx context.Context, accountID, title, format string, args ...any) {
	if b.Tell != nil {
		b.Tell(ctx, accountID, title, fmt.Sprintf(format, args...))
	}
}

// accountNote writes a note to the audit log, for the next member who looks at the account.
func (b *Backend) accountNote(ctx context.Context, in Note) (Account, error) {
	text := strings.TrimSpace(in.Note)
	if text == "" || utf8.RuneCountInString(text) > maxReason {
		return Account{}, fault.New(fault.Invalid, "a note has 1 to %d characters", maxReason).At("note")
	}
	return b.viewOf(b.Accounts.Under(account.Order{Version: in.Version}).Record(ctx, in.Actor, in.Ref, "account.note", text))
}

// accountSessions lists the browsers in which the owner of an account is signed in, the last seen first.
func (b *Backend) accountSessions(ctx context.Context, in AccountPage) (List[signin.Session], error) {
	list, err := about((*Backend).sessionsOf)(b, ctx, Target{Ref: in.Ref})
	return part(list, in.Cursor, func(s signin.Session) string { return s.ID }), err
}

// sessionsOf returns the sessions of an account, which are at most 50.
func (b *Backend) sessionsOf(ctx context.Context, a *account.Account) ([]signin.Session, error) {
	return b.Logins.Sessions(ctx, a.ID)
}

// accountSignOut ends every session and every pending link of an account.
func (b *Backend) accountSignOut(ctx context.Context, in Target) (Account, error) {
	a, err := b.enterable(ctx, in, "account.sign_out")
	if err != nil {
		return Account{}, err
	}
	if err := b.Logins.SignOutEverywhere(ctx, a.ID, ""); err != nil {
		return Account{}, err
	}
	b.tell(ctx, a.ID, "You were signed out everywhere", "Support has signed you out of all browsers. Sign in again with your password.")
	return b.accountShow(ctx, Target{Ref: a.ID})
}

// accountResetFactor turns the second factor off for somebody who has lost it.
func (b *Backend) accountResetFactor(ctx context.Context, in Target) (Account, error) {
	a, err := b.enterable(ctx, in, "account.reset_second_factor")
	if err != nil {
		return Account{}, err
	}
	if err := b.Logins.ResetTOTP(ctx, a); err != nil {
		return Account{}, err
	}
	return b.accountShow(ctx, Target{Ref: a.ID})
}

// enterable orders a change to how the owner of an account signs in.
func (b *Backend) enterable(ctx context.Context, in Target, action string) (*account.Account, error) {
	a, err := b.Accounts.Find(ctx, in.Ref)
	if err != nil {
		return nil, err
	}
	if err := mayEnter(ctx, a); err != nil {
		return nil, err
	}
	if err := needReason(ctx, in.Reason); err != nil {
		return nil, err
	}
	return b.under(in).Record(ctx, in.Actor, in.Ref, action, "")
}

// mostMessages is how many messages are read of an account. Older ones are in its export.
const mostMessages = 1000

// accountMessages lists what an account was told, newest first.
func (b *Backend) accountMessages(ctx context.Context, in AccountPage) (List[Message], error) {
	a, err := b.Accounts.Find(ctx, in.Ref)
	if err != nil {
		return List[Message]{}, err
	}
	most := mostMessages
	if in.After == "" {
		most = min(in.limit()+1, mostMessages) // one more says that there is another page
	}
	list, err := b.messagesOf(ctx, a.ID, most)
	return part(list, in.Cursor, func(m Message) string { return m.ID }), err
}

// messagesOf returns the newest messages to an account.
func (b *Backend) messagesOf(ctx context.Context, accountID string, limit int) ([]Message, error) {
	all, err := b.Messages.List(ctx, accountID, limit)
	return views(all, func(n *notice.Notice) Message {
		m := Message{ID: n.ID, At: n.At, Kind: string(n.Kind), Title: n.Title, Body: n.Body, Answer: n.Answer}
		if !n.ReadAt.IsZero() {
			m.ReadAt = &n.ReadAt
		}
		if !n.AnsweredAt.IsZero() {
			m.AnsweredAt = &n.AnsweredAt
		}
		return m
	}), err
}

// billingCredit changes an account's credit, which lowers the next renewals.
func (b *Backend) billingCredit(ctx context.Context, in Credit) (Billing, error) {
	if strings.TrimSpace(in.Reason) == "" {
		return Billing{}, fault.New(fault.Invalid, "a credit needs a reason; it is kept in the ledger").At("reason")
	}
	a, err := b.order(ctx, Target{Actor: in.Actor, Ref: in.Ref, Reason: in.Reason, Version: in.Version}, "billing.credit", billing.Dollars(in.Cents))
	if err != nil {
		return Billing{}, err
	}
	if err := b.Billing.Credit(ctx, in.Actor, a.ID, in.Cents, in.Reason); err != nil {
		return Billing{}, err
	}
	out, err := b.billingShow(ctx, Target{Ref: a.ID})
	if err == nil {
		b.tell(ctx, a.ID, "You have a credit of "+billing.Dollars(out.CreditCents), "Support has changed your credit by %s. It lowers the next renewals of your plan.", billing.Dollars(in.Cents))
	}
	return out, err
}

// limitsText returns limits in words.
func limitsText(l account.Limits) string {
	text := func(l account.Limit) string {
		if l == account.Unlimited {
			return "unlimited"
		}
		return strconv.FormatInt(int64(l), 10)
	}
	return fmt.Sprintf("requests per minute: %s, concurrent requests: %s, tokens per minute: %s", text(l.RequestsPerMinute), text(l.Concurrent), text(l.TokensPerMinute))
}
