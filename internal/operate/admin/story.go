package admin

import (
	"cmp"
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/internal/account"
	"sluice/internal/account/signin"
	"sluice/internal/ledger/refusal"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/signal"
	"sluice/internal/operate/ticket"
)

// StoryQuery asks for the story of an account.
type StoryQuery struct {
	Ref  string
	Days int // of usage
	List int // entries of each list, at most
}

// Story is what support decides by. Lists have the newest entries first. What happened to the account is in its timeline.
type Story struct {
	Account    Account
	Billing    Billing         // with a part of the ledger and the invoices
	Refundable []BillingRecord // invoices of which something can be given back
	Abuse      Abuse
	Signals    signal.Report
	Usage      Usage            // by day
	Models     []UsageRow       // those that are used most
	ByKey      map[string]int64 // requests by the id of the key
	Refused    []RefusedSum     // of the last 7 days, by status, the most first
	Sessions   []signin.Session // all of them, which are at most 50
	Tickets    []ticket.Ticket
	Decisions  []account.Entry // of the audit log: what was decided about the account
	Last       int64           // the number of the newest entry of the audit log
}

// RefusedSum is how many calls were refused with a status.
type RefusedSum struct {
	Status int
	Calls  int64
}

// decided are the actions by which people decide about an account.
var decided = account.Actions{Of: []string{
	"matter.clear", "matter.warn", "matter.restore", "matter.suspend", "account.suspend", "account.unsuspend", "account.terminate", "account.set_plan", "account.set_limits",
	"account.note", "keys.%", "billing.refund", "billing.credit", "billing.downgrade", "billing.release",
}}

// accountStory reads everything about an account at the same time, and of each list no more than was asked for.
func (b *Backend) accountStory(ctx context.Context, in StoryQuery) (Story, error) {
	a, err := b.Accounts.Find(ctx, in.Ref)
	if err != nil {
		return Story{}, err
	}
	s := Story{Account: b.view(a)}
	// Each function fills fields of its own, so they need no lock.
	g, ctx := errgroup.WithContext(ctx)
	for _, read := range []func(context.Context, *account.Account, StoryQuery, *Story) error{
		b.storyMoney, b.storyUsage, b.storyRefused, b.storyLog,
	} {
		g.Go(func() error { return read(ctx, a, in, &s) })
	}
	g.Go(func() (err error) { s.Abuse, err = b.abuseOf(ctx, a); return err })
	g.Go(func() (err error) { s.Signals, err = b.signalsOf(ctx, a); return err })
	g.Go(func() error {
		tickets, err := b.ticketList(ctx, TicketQuery{Account: a.ID, Cursor: Cursor{Limit: in.List}})
		s.Tickets = tickets.Data
		return err
	})
	g.Go(func() (err error) { s.Sessions, err = b.sessionsOf(ctx, a); return err })
	err = g.Wait()
	return s, err
}

// storyMoney reads the subscription, the last payments, and which of them can be refunded.
func (b *Backend) storyMoney(ctx context.Context, a *account.Account, in StoryQuery, s *Story) error {
	v, err := b.Billing.Show(ctx, a.ID)
	if err != nil {
		return err
	}
	if s.Billing, err = b.billingWith(ctx, v, in.List); err != nil {
		return err
	}
	refundable, err := b.Billing.Refundable(ctx, a.ID, in.List)
	s.Refundable = views(refundable, recordView)
	return err
}

// storyUsage reads the usage by day, by model and by key. The database adds it up: a busy account has thousands of sums in a
// month.
func (b *Backend) storyUsage(ctx context.Context, a *account.Account, in StoryQuery, s *Story) error {
	if err := b.Usage.Flush(ctx); err != nil {
		return err
	}
	sums := map[usage.By]Usage{}
	for by, name := range map[usage.By]string{usage.ByDay: "day", usage.ByModel: "model", usage.ByKey: "key"} {
		rows, err := b.Evidence.UsageBy(ctx, usage.Query{AccountID: a.ID, From: usage.DayOf(time.Now()).AddDate(0, 0, 1-in.Days), By: by})
		if err != nil {
			return err
		}
		sums[by] = divide(rows, name)
	}
	s.Usage = sums[usage.ByDay]
	models := sums[usage.ByModel].Rows
	slices.SortFunc(models, func(x, y UsageRow) int { return cmp.Compare(y.Requests, x.Requests) })
	s.Models = models[:min(len(models), in.List)]
	s.ByKey = map[string]int64{}
	for _, row := range sums[usage.ByKey].Rows {
		s.ByKey[row.Key] = row.Requests
	}
	return nil
}

// storyRefused adds up the refused calls by status.
func (b *Backend) storyRefused(ctx context.Context, a *account.Account, _ StoryQuery, s *Story) error {
	parts, err := b.Refusals.RefusedMinutes(ctx, a.ID, time.Now().Add(-refusal.KeepMinutes), 24*time.Hour)
	for _, p := range parts {
		i := slices.IndexFunc(s.Refused, func(sum RefusedSum) bool { return sum.Status == p.Status })
		if i < 0 {
			i, s.Refused = len(s.Refused), append(s.Refused, RefusedSum{Status: p.Status})
		}
		s.Refused[i].Calls += p.Calls
	}
	slices.SortFunc(s.Refused, func(x, y RefusedSum) int { return cmp.Compare(y.Calls, x.Calls) })
	return err
}

// storyLog reads what was decided, and the number of the newest entry of the audit log.
func (b *Backend) storyLog(ctx context.Context, a *account.Account, in StoryQuery, s *Story) error {
	newest, err := b.Accounts.History(ctx, a.ID, 0, 1)
	if err != nil {
		return err
	}
	for _, e := range newest {
		s.Last = e.Seq
	}
	s.Decisions, err = b.Accounts.HistoryOf(ctx, a.ID, decided, 0, in.List)
	return err
}
