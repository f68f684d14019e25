package app

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"sluice/internal/admission"
	"sluice/internal/config"
	"sluice/internal/usage"
)

const (
	windowSpan = time.Minute
	noteFrom   = 10 // percent of the journal's bound from which it is worth a note
	dropEvery  = time.Hour
	dropAtOnce = 1000
)

// books is where calls are settled: the journal.
type books struct{ app *App }

// Ready implements admission.Accounts.
func (b *books) Ready() error { return b.app.facts.journal.Ready() }

// Record implements admission.Accounts. Room for it was made sure of when the call was admitted; if it
// cannot be written all the same, the log is the last place to keep it.
func (b *books) Record(s usage.Settlement) {
	if err := b.app.facts.journal.Append(&s); err != nil {
		b.app.log.Error("a settlement could not be written to the journal", "error", err.Error(), "settlement", fmt.Sprintf("%+v", s))
	}
	b.app.recent.Record(s)
}

// restoreWindows puts what was used in the last minute before this start back into the ledger.
func (a *App) restoreWindows() error {
	now := time.Now()
	recent, err := a.facts.journal.Since(now.Add(-windowSpan))
	if err != nil {
		return err
	}
	recent = slices.DeleteFunc(recent, func(s usage.Settlement) bool {
		return s.End == usage.EndFailed || s.At.Before(now.Add(-windowSpan)) || s.At.After(now)
	})
	slices.SortStableFunc(recent, func(x, y usage.Settlement) int { return x.At.Compare(y.At) })
	for _, s := range recent {
		a.ledger.Restore(s.AccountID, now.Sub(s.At), admission.Cost{RequestMilli: s.RequestMilli, Tokens: int64(s.Tokens.Total())})
	}
	return nil
}

// keepBooks syncs the journal, moves settlements into the database and drops old ones.
func (a *App) keepBooks(ctx context.Context) {
	var working sync.WaitGroup
	working.Go(func() { a.facts.committer.Run(ctx) })
	working.Go(func() { a.dropOldSettlements(ctx) })
	reported := time.Time{}
	a.facts.journal.Run(ctx, func(err error) {
		if time.Since(reported) > windowSpan { // the same trouble once a minute
			reported = time.Now()
			a.log.Error("the journal has trouble", "error", err.Error())
		}
	})
	working.Wait()
}

// backlogNote says when settlements pile up, long before the journal's bound.
func (a *App) backlogNote() string {
	b := a.facts.journal.Backlog()
	if b.Bytes*100 < b.Most*noteFrom {
		return ""
	}
	return fmt.Sprintf("%d settlements wait for the database: %d of %d MiB", b.Records, b.Bytes>>20, b.Most>>20)
}

// dropOldSettlements deletes the records of single calls that are older than the operator wants to
// keep, few at a time, so that nobody waits for it.
func (a *App) dropOldSettlements(ctx context.Context) {
	tick := time.NewTicker(dropEvery)
	defer tick.Stop()
	for {
		if note := a.backlogNote(); note != "" {
			a.log.Warn("accounting is behind", "note", note)
		}
		if days := a.settings.Load().config.Usage.KeepDays; days > 0 {
			before := usage.DayOf(time.Now()).AddDate(0, 0, -days)
			for n := int64(dropAtOnce); n == dropAtOnce && ctx.Err() == nil; {
				var err error
				if n, err = a.facts.store.DropSettlements(ctx, before, dropAtOnce); err != nil && ctx.Err() == nil {
					a.log.Warn("old settlements could not be deleted", "error", err.Error())
				}
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// UsageByDay implements admin.Books: what still waits in the journal is counted, too.
func (f *facts) UsageByDay(ctx context.Context, accountID string, from time.Time) ([]usage.Row, error) {
	if err := f.committer.Flush(ctx); err != nil {
		return nil, err
	}
	return f.store.UsageByDay(ctx, accountID, from)
}

// Audit implements admin.Books. What the journal still holds must be in the database, and what is
// there must agree with the sums.
func (f *facts) Audit(ctx context.Context) ([]usage.Difference, int, error) {
	if err := f.committer.Flush(ctx); err != nil {
		return nil, 0, err
	}
	held, err := f.journal.Since(time.Time{})
	if err != nil {
		return nil, 0, err
	}
	ids := make([]string, len(held))
	for i := range held {
		ids[i] = held[i].ID
	}
	if err := f.committer.Flush(ctx); err != nil { // what was settled since
		return nil, 0, err
	}
	stored, err := f.store.HasSettlements(ctx, ids)
	if err != nil {
		return nil, 0, err
	}
	differences, n, err := f.store.AuditUsage(ctx, usage.DayOf(time.Now()).AddDate(0, 0, -auditDays))
	if err != nil {
		return nil, 0, err
	}
	for i := range held {
		if !stored[held[i].ID] {
			d := usage.Difference{AccountID: held[i].AccountID, Day: usage.DayOf(held[i].At), What: "journal: " + held[i].ID + " is not in the database"}
			d.Rows.Add(&held[i])
			differences = append(differences, d)
		}
	}
	return differences, n, nil
}

// auditDays is how far an audit goes back: the records of single calls are kept at least that long by
// default.
const auditDays = 89

// Backup implements admin.Books.
func (f *facts) Backup(ctx context.Context, path string) error {
	if err := f.committer.Flush(ctx); err != nil {
		return err
	}
	return f.store.Backup(ctx, path)
}

// offlineBooks opens the journal for those who look into it; most commands have no use for it.
type offlineBooks struct {
	facts *facts
	cfg   *config.Config
}

func (o *offlineBooks) open() error { return o.facts.openJournal(o.cfg, slog.New(slog.DiscardHandler)) }

func (o *offlineBooks) UsageByDay(ctx context.Context, accountID string, from time.Time) ([]usage.Row, error) {
	if err := o.open(); err != nil {
		return nil, err
	}
	return o.facts.UsageByDay(ctx, accountID, from)
}

func (o *offlineBooks) Audit(ctx context.Context) ([]usage.Difference, int, error) {
	if err := o.open(); err != nil {
		return nil, 0, err
	}
	return o.facts.Audit(ctx)
}

func (o *offlineBooks) Backup(ctx context.Context, path string) error {
	if err := o.open(); err != nil {
		return err
	}
	return o.facts.Backup(ctx, path)
}
