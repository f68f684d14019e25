package admin

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/abuse"
	"sluice/internal/operate/notice"
	"sluice/internal/operate/ticket"
)

// TimelineKind is a part of the timeline of an account.
type TimelineKind string

const (
	TimelinePlan     TimelineKind = "plan"     // plans and payments
	TimelineTickets  TimelineKind = "tickets"  // what customers and support settle
	TimelineMessages TimelineKind = "messages" // what the customer was told
	TimelineKeys     TimelineKind = "keys"     // made, changed, deleted, off, on
	TimelineAccess   TimelineKind = "access"   // the sign-up, suspensions, how the owner signs in
	TimelineLimits   TimelineKind = "limits"   // overrides, aliases, budgets
	TimelineUsage    TimelineKind = "usage"    // what abuse control and the watch over programs have noticed
)

// TimelineKinds returns the kinds in the order of the page.
func TimelineKinds() []TimelineKind {
	return []TimelineKind{TimelinePlan, TimelineTickets, TimelineMessages, TimelineKeys, TimelineAccess, TimelineLimits, TimelineUsage}
}

// TimelineQuery asks for a page of the timeline of an account, newest first.
type TimelineQuery struct {
	Ref  string
	Kind TimelineKind // empty: all
	Cursor
}

// Happening is one entry of a timeline.
type Happening struct {
	At   time.Time
	Kind TimelineKind
	// Name is what happened: the action of the audit log, or a name of the part that noted it.
	Name   string
	Text   string // what it was about
	Plan   string // that it was about; empty: none
	Reason string
	Actor  string
	Cents  int64       // of a payment; 0: no money moved
	Ticket string      // the id of the ticket that it is about; empty: none
	State  string      // of that ticket
	Seq    int64       // of the entry in the audit log; 0: it is not in the log
	Told   *time.Time  // when the customer read it; nil: not yet, or it is no message
	after  func(*spot) // notes that the page has the entry
}

// mostHappenings is how many entries a page of the timeline has at most, and its default.
const mostHappenings = 100

// inLog are the actions of the audit log that belong to a kind, as patterns of LIKE.
var inLog = map[TimelineKind][]string{
	TimelinePlan:    {"account.set_plan", "billing.refund", "billing.credit", "billing.downgrade", "billing.release"},
	TimelineTickets: {"matter.%"},
	TimelineKeys:    {"key.%", "keys.%"},
	TimelineAccess:  {"account.create", "account.suspend", "account.unsuspend", "account.terminate%", "account.close", "account.sign%", "account.reset%", "account.set_email", "account.set_staff", "totp.%", "passkey.%"},
	TimelineLimits:  {"account.set_limits", "account.clear_limits", "account.set_aliases", "budget.%"},
	TimelineUsage:   {"account.review", "budget.runaway", "key.pause", "key.resume"},
}

// notInLog returns the actions that the timeline takes from elsewhere: billing notes each change of a plan in its ledger, with
// the amount, and tickets are read with their subjects.
func notInLog() []string {
	list := []string{"matter.open"}
	for _, what := range []billing.What{billing.ChoseFree, billing.Started, billing.Upgraded, billing.Renewed, billing.Ended, billing.Lapsed, billing.Revoked, billing.Superseded} {
		list = append(list, "billing."+string(what))
	}
	return list
}

// spot is where a page of the timeline ended in each of its sources.
type spot struct {
	log, ledger, event int64
	notice, ticket     ticket.Place
}

// String returns the spot as a cursor.
func (p *spot) String() string {
	return fmt.Sprintf("%d~%d~%d~%s~%s", p.log, p.ledger, p.event, p.notice, p.ticket)
}

// parseSpot reads a cursor. An empty one is the beginning.
func parseSpot(text string) (p spot, err error) {
	if text == "" {
		return p, nil
	}
	wrong := fault.New(fault.Invalid, "this is not a cursor of the timeline; use next from the previous page").At("after")
	parts := strings.Split(text, "~")
	if len(parts) != 5 || len(text) > 300 {
		return p, wrong
	}
	for i, to := range []*int64{&p.log, &p.ledger, &p.event} {
		if *to, err = strconv.ParseInt(parts[i], 10, 64); err != nil || *to < 0 {
			return p, wrong
		}
	}
	for i, to := range []*ticket.Place{&p.notice, &p.ticket} {
		if *to, err = ticket.ParsePlace(parts[3+i]); err != nil {
			return p, wrong
		}
	}
	return p, nil
}

// accountTimeline returns what happened to an account, newest first: one read of each source, of no more entries than the page
// has.
func (b *Backend) accountTimeline(ctx context.Context, in TimelineQuery) (List[Happening], error) {
	if in.Kind != "" && !slices.Contains(TimelineKinds(), in.Kind) {
		return List[Happening]{}, fault.New(fault.Invalid, "a timeline has no kind %q", in.Kind).At("kind")
	}
	at, err := parseSpot(in.After)
	if err != nil {
		return List[Happening]{}, err
	}
	a, err := b.Accounts.Find(ctx, in.Ref)
	if err != nil {
		return List[Happening]{}, err
	}
	limit := min(in.limit(), mostHappenings)
	sources := []struct {
		kinds []TimelineKind // the kinds that it has entries of
		read  func(context.Context, *account.Account, TimelineKind, *spot, int) ([]Happening, error)
	}{
		{[]TimelineKind{TimelinePlan, TimelineTickets, TimelineKeys, TimelineAccess, TimelineLimits, TimelineUsage}, b.happenedInLog},
		{[]TimelineKind{TimelinePlan}, b.happenedInLedger},
		{[]TimelineKind{TimelineMessages}, b.happenedInMessages},
		{[]TimelineKind{TimelineTickets}, b.happenedInTickets},
		{[]TimelineKind{TimelineUsage}, b.happenedInUsage},
	}
	lists := make([][]Happening, len(sources))
	g, reading := errgroup.WithContext(ctx)
	for i, s := range sources {
		if in.Kind == "" || slices.Contains(s.kinds, in.Kind) {
			g.Go(func() (err error) {
				lists[i], err = s.read(reading, a, in.Kind, &at, limit+1) // one more says that there is another page
				return err
			})
		}
	}
	if err := g.Wait(); err != nil {
		return List[Happening]{}, err
	}
	all := slices.Concat(lists...)
	// Stable: entries of one source stay in its order, which the cursor relies on.
	slices.SortStableFunc(all, func(x, y Happening) int { return y.At.Compare(x.At) })
	out := List[Happening]{Data: all[:min(len(all), limit)]}
	if len(all) > limit {
		next := at
		for i := range out.Data {
			out.Data[i].after(&next)
		}
		out.Next = next.String()
	}
	return out, nil
}

// happenedInLog reads the audit log.
func (b *Backend) happenedInLog(ctx context.Context, a *account.Account, kind TimelineKind, at *spot, limit int) ([]Happening, error) {
	log, err := b.Accounts.HistoryOf(ctx, a.ID, account.Actions{Of: inLog[kind], Not: notInLog()}, at.log, limit)
	return views(log, func(e *account.Entry) Happening {
		h := Happening{At: e.At, Kind: kindOf(e.Action), Name: e.Action, Text: e.Detail, Reason: e.Reason, Actor: e.Actor, Seq: e.Seq, after: func(p *spot) { p.log = e.Seq }}
		if h.Kind == TimelineTickets { // every detail begins with the ticket
			h.Ticket, h.Text, _ = strings.Cut(e.Detail, ", ")
		}
		return h
	}), err
}

// LogKinds returns the kinds that the audit log has entries of.
func LogKinds() []TimelineKind {
	return slices.DeleteFunc(TimelineKinds(), func(kind TimelineKind) bool { return inLog[kind] == nil })
}

// accountLog returns a page of the audit log of an account, of all kinds or of one, newest first.
func (b *Backend) accountLog(ctx context.Context, in TimelineQuery) (List[account.Entry], error) {
	if in.Kind != "" && inLog[in.Kind] == nil {
		return List[account.Entry]{}, fault.New(fault.Invalid, "an audit log has no kind %q", in.Kind).At("kind")
	}
	before, err := in.number()
	if err != nil {
		return List[account.Entry]{}, err
	}
	a, err := b.Accounts.Find(ctx, in.Ref)
	if err != nil {
		return List[account.Entry]{}, err
	}
	log, err := b.Accounts.HistoryOf(ctx, a.ID, account.Actions{Of: inLog[in.Kind]}, before, in.limit())
	return entries(log, in.limit()), err
}

// kindOf returns the kind of an action of the audit log; empty: none of them.
func kindOf(action string) TimelineKind {
	for _, kind := range TimelineKinds() {
		if slices.ContainsFunc(inLog[kind], func(pattern string) bool {
			prefix, open := strings.CutSuffix(pattern, "%")
			return action == pattern || open && strings.HasPrefix(action, prefix)
		}) {
			return kind
		}
	}
	return ""
}

// happenedInLedger reads the ledger of billing.
func (b *Backend) happenedInLedger(ctx context.Context, a *account.Account, _ TimelineKind, at *spot, limit int) ([]Happening, error) {
	entries, err := b.Billing.LedgerBefore(ctx, a.ID, at.ledger, limit)
	return views(entries, func(e *billing.Entry) Happening {
		return Happening{At: e.At, Kind: TimelinePlan, Name: "ledger." + string(e.What), Text: e.Detail, Plan: e.Plan.String(), Actor: e.Actor, Cents: e.AmountCents, after: func(p *spot) { p.ledger = e.Seq }}
	}), err
}

// happenedInMessages reads what the account was told.
func (b *Backend) happenedInMessages(ctx context.Context, a *account.Account, _ TimelineKind, at *spot, limit int) ([]Happening, error) {
	list, err := b.Messages.Older(ctx, a.ID, at.notice.At, at.notice.ID, limit)
	return views(list, func(n *notice.Notice) Happening {
		h := Happening{At: n.At, Kind: TimelineMessages, Name: "told." + string(n.Kind), Text: n.Title, Reason: n.Body, after: func(p *spot) { p.notice = ticket.Place{At: n.At, ID: n.ID} }}
		if !n.ReadAt.IsZero() {
			h.Told = &n.ReadAt
		}
		return h
	}), err
}

// happenedInTickets reads when tickets were opened. What was done with them is in the audit log.
func (b *Backend) happenedInTickets(ctx context.Context, a *account.Account, _ TimelineKind, at *spot, limit int) ([]Happening, error) {
	list, _, err := b.Tickets.Of(ctx, a.ID, at.ticket, limit)
	return views(list, func(t *ticket.Ticket) Happening {
		h := Happening{At: t.OpenedAt, Kind: TimelineTickets, Name: "matter.open", Text: t.Subject, Ticket: t.ID, State: string(t.State), after: func(p *spot) { p.ticket = ticket.Place{At: t.OpenedAt, ID: t.ID} }}
		if t.Cause != "" {
			h.Name = "matter.raised"
		}
		return h
	}), err
}

// happenedInUsage reads the events of abuse control, of which an account has a few in a month.
func (b *Backend) happenedInUsage(ctx context.Context, a *account.Account, _ TimelineKind, at *spot, limit int) ([]Happening, error) {
	_, _, events, err := b.Scores.Score(ctx, a)
	if at.event > 0 {
		events = slices.DeleteFunc(slices.Clone(events), func(e abuse.Event) bool { return e.Seq >= at.event })
	}
	return views(events[:min(len(events), limit)], func(e *abuse.Event) Happening {
		return Happening{At: e.At, Kind: TimelineUsage, Name: "score." + string(e.Kind), Text: fmt.Sprintf("%s; the score is %d", e.Why, e.Score), Actor: e.Actor, after: func(p *spot) { p.event = e.Seq }}
	}), err
}
