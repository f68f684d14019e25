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

	lastPatience = 2 * time.Second // for calls that were cut short at the end
)

// books is where calls are settled: the journal.
type books struct{ app *App }

// Ready implements admission.Accounts.
func (b *books) Ready() error { return b.app.facts.journal.Ready() }

// Record implements admission.Accounts. Room for it was made sure of when the call was admitted; if it
// cannot be written all the same, the journal tries again as long as the process lives, and the log has
// it for good.
func (b *books) Record(s usage.Settlement) {
	if err := b.app.facts.journal.Append(&s); err != nil {
		b.app.log.Error("a settlement could not be written to the journal", "error", err.Error(), "settlement", fmt.Sprintf("%+v", s))
	}
	b.app.abuse.Settled(&s)
}

// restoreWindows puts what was used in the last minute before this start back into the ledger: what the
// journal has, and videos.
func (a *App) restoreWindows(videos []usage.Settlement) error {
	now := time.Now()
	recent, err := a.facts.journal.Since(now.Add(-windowSpan))
	if err != nil {
		return err
	}
	for _, s := range lastMinute(append(recent, videos...), now) {
		a.ledger.Restore(s.AccountID, now.Sub(s.At), admission.Cost{RequestMilli: s.RequestMilli, Tokens: int64(s.Tokens.Total())})
	}
	return nil
}

// lastMinute are the settlements whose calls began within the last minute and count in its windows, in
// the order of their beginning. Where the clock was set back they are dated in the future: when they
// will be a minute old nobody can tell, so they count no more.
func lastMinute(all []usage.Settlement, now time.Time) []usage.Settlement {
	recent := slices.DeleteFunc(all, func(s usage.Settlement) bool {
		return s.RequestMilli == 0 && s.Tokens.Total() == 0 || !s.At.After(now.Add(-windowSpan)) || s.At.After(now)
	})
	slices.SortStableFunc(recent, func(x, y usage.Settlement) int { return x.At.Compare(y.At) })
	return recent
}

// keepBooks syncs the journal, moves settlements into the database and drops old ones. When ctx ends,
// nobody calls any more, but calls whose time to finish is over may still have to be settled.
func (a *App) keepBooks(ctx context.Context) {
	ending := ctx
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var working sync.WaitGroup
	working.Go(func() {
		<-ending.Done()
		for patience := lastPatience; a.ledger.Running() > 0 && patience > 0; patience -= time.Millisecond {
			<-time.After(time.Millisecond)
		}
		stop()
	})
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
	dropped, err := f.store.SettlementsDropped(ctx)
	if err != nil {
		return nil, 0, err
	}
	held = slices.DeleteFunc(held, func(s usage.Settlement) bool { return s.At.Before(dropped) })
	if err := f.committer.Flush(ctx); err != nil { // what was settled since
		return nil, 0, err
	}
	stored, err := f.store.HasSettlements(ctx, held)
	if err != nil {
		return nil, 0, err
	}
	differences, n, err := f.store.AuditUsage(ctx)
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
