package admin

import (
	"context"
	"strings"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/operate/matter"
)

// Matter is one matter between a customer and support, without its messages.
type Matter struct {
	ID      string `json:"id"`
	Account string `json:"account"`
	Email   string `json:"email"`
	Kind    string `json:"kind"`
	Subject string `json:"subject"`
	// State is "open", "snoozed" or "closed".
	State string `json:"state"`
	// WaitsFor is "support" or "customer".
	WaitsFor     string     `json:"waits_for"`
	Assignee     string     `json:"assignee,omitempty"`
	OpenedAt     time.Time  `json:"opened_at"`
	Since        time.Time  `json:"since"`
	SnoozedUntil *time.Time `json:"snoozed_until,omitempty"`
	Messages     int        `json:"messages"`
	Version      int64      `json:"version"`
}

// MatterMessage is one message of a thread. From is "support" or "customer".
type MatterMessage struct {
	At     time.Time `json:"at"`
	From   string    `json:"from"`
	Author string    `json:"author"`
	Text   string    `json:"text"`
}

// MatterThread is a matter with its messages, oldest first.
type MatterThread struct {
	Matter
	Thread []MatterMessage `json:"thread"`
}

// MatterQuery is the argument of matter.list. With Account, it asks for the matters of one account, newest first, and
// View, Kind and Assignee are not used.
type MatterQuery struct {
	// View is "waiting" (the default), "answered", "snoozed" or "closed".
	View string `json:"view,omitempty"`
	Kind string `json:"kind,omitempty"`
	// Assignee is a member of staff, or "-" for matters that nobody has.
	Assignee string `json:"assignee,omitempty"`
	Account  string `json:"account,omitempty"`
	Cursor          // at most 200 of a page
}

// MatterRef names a matter.
type MatterRef struct {
	ID string `json:"id"`
}

// MatterStep is a change of a matter. Version is that of the matter as the actor has seen it; if it has changed since,
// the step is refused. 0 skips the check. Which of the other fields are used depends on the operation.
type MatterStep struct {
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

// NewMatter is the argument of matter.open: a message of support to a customer.
type NewMatter struct {
	Actor   string `json:"actor"`
	Ref     string `json:"ref"`
	Kind    string `json:"kind"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
}

// matterList returns a page of the queue, or of the matters of an account. What needs support is gathered first, so that
// nothing that has just happened is missing.
func (b *Backend) matterList(ctx context.Context, in MatterQuery) (List[Matter], error) {
	after, err := matter.ParsePlace(in.After)
	if err != nil {
		return List[Matter]{}, err
	}
	if err := b.Matters.Gather(ctx); err != nil {
		return List[Matter]{}, err
	}
	var list []matter.Matter
	var next matter.Place
	if in.Account != "" {
		a, err := b.Accounts.Find(ctx, in.Account)
		if err != nil {
			return List[Matter]{}, err
		}
		list, next, err = b.Matters.Of(ctx, a.ID, after, in.Limit)
		if err != nil {
			return List[Matter]{}, err
		}
	} else {
		list, next, err = b.Matters.Queue(ctx, matter.Query{View: matter.View(in.View), Kind: matter.Kind(in.Kind), Assignee: in.Assignee, After: after, Limit: in.Limit})
		if err != nil {
			return List[Matter]{}, err
		}
	}
	return List[Matter]{Data: views(list, matterView), Next: next.String()}, nil
}

// MatterCounts is how many matters wait for support and for customers, and how many are snoozed.
type MatterCounts struct {
	Waiting  int `json:"waiting"`
	Answered int `json:"answered"`
	Snoozed  int `json:"snoozed"`
}

func (b *Backend) matterCounts(ctx context.Context, _ Empty) (MatterCounts, error) {
	n, err := b.Matters.Counts(ctx)
	return MatterCounts{n[matter.Waiting], n[matter.Answered], n[matter.Sleeping]}, err
}

func (b *Backend) matterShow(ctx context.Context, in MatterRef) (MatterThread, error) {
	m, messages, err := b.Matters.Show(ctx, in.ID)
	if err != nil {
		return MatterThread{}, err
	}
	return MatterThread{Matter: matterView(m), Thread: views(messages, func(x *matter.Message) MatterMessage {
		return MatterMessage{x.At, string(x.From), x.Author, x.Text}
	})}, nil
}

// matterOpen writes to a customer.
func (b *Backend) matterOpen(ctx context.Context, in NewMatter) (MatterThread, error) {
	a, err := b.Accounts.Find(ctx, in.Ref)
	if err != nil {
		return MatterThread{}, err
	}
	m, err := b.Matters.Write(ctx, in.Actor, a, matter.Kind(in.Kind), in.Subject, in.Text)
	return b.shown(ctx, m, err)
}

func (b *Backend) matterAnswer(ctx context.Context, in MatterStep) (MatterThread, error) {
	m, err := b.Matters.Answer(ctx, in.act(), in.Text)
	return b.shown(ctx, m, err)
}

func (b *Backend) matterAssign(ctx context.Context, in MatterStep) (MatterThread, error) {
	m, err := b.Matters.Assign(ctx, in.act(), in.To)
	return b.shown(ctx, m, err)
}

func (b *Backend) matterSnooze(ctx context.Context, in MatterStep) (MatterThread, error) {
	m, err := b.Matters.Snooze(ctx, in.act(), in.Until)
	return b.shown(ctx, m, err)
}

func (b *Backend) matterClose(ctx context.Context, in MatterStep) (MatterThread, error) {
	m, err := b.Matters.Close(ctx, in.act(), in.Reason)
	return b.shown(ctx, m, err)
}

func (b *Backend) matterReopen(ctx context.Context, in MatterStep) (MatterThread, error) {
	m, err := b.Matters.Reopen(ctx, in.act())
	return b.shown(ctx, m, err)
}

// matterDecide does what support has decided about the account of a matter, tells the customer, and closes the matter.
// The matter is first taken by the actor, so that of two members who decide at once the second is refused before
// anything happens to the account.
func (b *Backend) matterDecide(ctx context.Context, in MatterStep) (MatterThread, error) {
	if in.Reason = strings.TrimSpace(in.Reason); in.Reason == "" {
		return MatterThread{}, fault.New(fault.Invalid, "a decision needs a reason; it is kept in the audit log").At("reason")
	}
	act := b.decisions()[in.Decision]
	if act == nil {
		return MatterThread{}, fault.New(fault.Invalid, "there is no decision %q; choose clear, warn, restore or suspend", in.Decision).At("decision")
	}
	if in.Decision != "clear" && strings.TrimSpace(in.Text) == "" {
		return MatterThread{}, fault.New(fault.Invalid, "tell the customer what you decided").At("text")
	}
	m, err := b.Matters.Take(ctx, in.act())
	if err != nil {
		return MatterThread{}, err
	}
	if err := act(ctx, in.Actor, m.AccountID, in.Reason); err != nil {
		return MatterThread{}, err
	}
	step := in.act()
	step.Version = m.Version
	m, err = b.Matters.Decide(ctx, step, matter.Decision{Action: "matter." + in.Decision, Text: in.Text, Close: true, Reason: in.Reason})
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

func (in *MatterStep) act() matter.Act {
	return matter.Act{Actor: in.Actor, ID: in.ID, Version: in.Version}
}

// shown returns a matter after a change, with its messages.
func (b *Backend) shown(ctx context.Context, m *matter.Matter, err error) (MatterThread, error) {
	if err != nil {
		return MatterThread{}, err
	}
	return b.matterShow(ctx, MatterRef{ID: m.ID})
}

// matterView converts a matter.
func matterView(m *matter.Matter) Matter {
	v := Matter{
		ID: m.ID, Account: m.AccountID, Email: m.Email, Kind: string(m.Kind), Subject: m.Subject, State: string(m.State), WaitsFor: string(m.Waits),
		Assignee: m.Assignee, OpenedAt: m.OpenedAt, Since: m.Since, Messages: m.Messages, Version: m.Version,
	}
	if !m.SnoozedUntil.IsZero() {
		v.SnoozedUntil = &m.SnoozedUntil
	}
	return v
}
