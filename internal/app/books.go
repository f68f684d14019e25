package app

import (
	"context"
	"time"

	"sluice/internal/abuse"
	"sluice/internal/account"
	"sluice/internal/admission"
	"sluice/internal/config"
	"sluice/internal/installation"
	"sluice/internal/refusal"
	"sluice/internal/usage"
	"sluice/internal/video"
)

// openBooks opens the journal, and makes the gate that settles calls there.
func (a *App) openBooks(_ context.Context, cfg *config.Config) error {
	a.books = usage.NewBooks(a.facts.dir.Join(installation.JournalFolder), watchedStore{a.facts.store, a.board}, &usage.BooksOptions{
		SyncEach: cfg.Usage.SyncEach, Log: a.log,
		Recorded: func(s usage.Settlement) {
			a.abuse.Settled(&s) // set by resumeScores, before the first call
			a.metrics.Called(called(&s))
		},
		Running:  a.ledger.Running,
		KeepDays: func() int { return a.settings.Load().Config.Usage.KeepDays },
	})
	a.refusals = refusal.New(a.facts.store, a.log)
	a.gate = admission.New(a.ledger, a.books, a.currentFacts(cfg))
	return a.books.Open()
}

// restoreWindows puts what was used in the last minute before this start back into the ledger, so
// that a restart does not reset the rate limits. Video jobs are never in the journal; the store has
// them.
func (a *App) restoreWindows(ctx context.Context, _ *config.Config) error {
	if a.memory == nil {
		return nil // Redis has not forgotten it
	}
	now := time.Now() // one time for all: the ledger needs how long ago each call was
	videos, err := video.Recent(ctx, a.facts.store, now.Add(-time.Minute))
	if err != nil {
		return err
	}
	recent, err := a.books.LastMinute(now, videos...)
	if err != nil {
		return err
	}
	restore(a.memory, recent, now)
	return nil
}

// restore counts settlements in the ledger. They must be in the order of their time.
func restore(ledger *admission.Memory, recent []usage.Settlement, now time.Time) {
	for _, s := range recent {
		ledger.Restore(s.AccountID, now.Sub(s.At), admission.Cost{RequestMilli: s.RequestMilli, Tokens: int64(s.Tokens.Total())})
	}
}

// resumeScores starts abuse control with the counts of this month. It flushes the journal first, so
// that the counts are complete. The start fails if the database does not answer.
func (a *App) resumeScores(ctx context.Context, cfg *config.Config) error {
	opts := abuse.Options{
		Plans:    func() account.Plans { return a.settings.Load().Plans },
		Accounts: a.facts.accounts, Lock: a.facts.index.Lock, Unlock: a.facts.index.Unlock,
		Flush: a.books.Flush, Tell: a.letters.Abuse, Log: a.log, Shared: a.isShared(cfg),
	}
	if a.redis != nil {
		opts.Counter = a.redis.Units()
	}
	a.abuse = abuse.New(a.facts.store, opts)
	return a.abuse.Resume(ctx)
}
