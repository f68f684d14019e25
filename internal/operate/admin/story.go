package admin

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/internal/account"
	"sluice/internal/account/signin"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/signal"
	"sluice/internal/operate/ticket"
)

// StoryQuery asks for the story of an account.
type StoryQuery struct {
	Ref  string
	Days int // of usage
	Log  int // entries of the audit log, at most
	List int // entries of each other list, at most
}

// Story is all that support sees of an account. Lists have the newest entries first.
type Story struct {
	Account    Account
	Billing    Billing         // with a part of the ledger and the invoices
	Refundable []BillingRecord // invoices of which something can be given back
	Abuse      Abuse
	Signals    signal.Report
	Usage      Usage            // by day
	Models     []UsageRow       // those that are used most
	ByKey      map[string]int64 // requests by the id of the key
	Sessions   []signin.Session
	Tickets    []ticket.Ticket
	Messages   []Message
	Log        []account.Entry // of the audit log
	More       string          // the cursor of older entries of the log; empty: there are none
	Plans      []account.Entry // of the audit log, about the plan
}

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
		b.storyMoney, b.storyUsage, b.storyThreads, b.storyLog,
	} {
		g.Go(func() error { return read(ctx, a, in, &s) })
	}
	g.Go(func() (err error) { s.Abuse, err = b.abuseOf(ctx, a); return err })
	g.Go(func() (err error) { s.Signals, err = b.signalsOf(ctx, a); return err })
	g.Go(func() error {
		list, err := b.sessionsOf(ctx, a)
		s.Sessions = list[:min(len(list), in.List)]
		return err
	})
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

// storyUsage reads the usage once and divides it by day, model and key.
func (b *Backend) storyUsage(ctx context.Context, a *account.Account, in StoryQuery, s *Story) error {
	rows, err := b.Usage.UsageByDay(ctx, a.ID, usage.DayOf(time.Now()).AddDate(0, 0, 1-in.Days))
	if err != nil {
		return err
	}
	s.Usage = divide(rows, "day")
	models := divide(rows, "model").Rows
	slices.SortFunc(models, func(x, y UsageRow) int { return cmp.Compare(y.Requests, x.Requests) })
	s.Models = models[:min(len(models), in.List)]
	s.ByKey = map[string]int64{}
	for _, row := range divide(rows, "key").Rows {
		s.ByKey[row.Key] = row.Requests
	}
	return nil
}

// storyThreads reads what the account was told, and its tickets.
func (b *Backend) storyThreads(ctx context.Context, a *account.Account, in StoryQuery, s *Story) (err error) {
	if s.Messages, err = b.messagesOf(ctx, a.ID, in.List); err != nil {
		return err
	}
	tickets, err := b.ticketList(ctx, TicketQuery{Account: a.ID, Cursor: Cursor{Limit: in.List}})
	s.Tickets = tickets.Data
	return err
}

// storyLog reads the newest entries of the audit log, and those about the plan.
func (b *Backend) storyLog(ctx context.Context, a *account.Account, in StoryQuery, s *Story) error {
	log, err := b.Accounts.History(ctx, a.ID, 0, in.Log+1) // one more says that there is another page
	if err != nil {
		return err
	}
	s.Log = log[:min(len(log), in.Log)]
	if len(log) > in.Log {
		s.More = strconv.FormatInt(s.Log[in.Log-1].Seq, 10)
	}
	s.Plans, err = b.Accounts.PlanChanges(ctx, a.ID, in.List)
	return err
}
