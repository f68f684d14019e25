package app

import (
	"context"
	"time"

	"sluice/internal/app/config"
	"sluice/internal/ledger/abuse"
	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/cluster"
	"sluice/internal/ledger/refusal"
	"sluice/internal/ledger/usage"
	"sluice/internal/store/installation"
	"sluice/internal/video"
)

// openBooks opens the journal, and makes the gate that settles calls there.
func (a *App) openBooks(_ context.Context, cfg *config.Config) error {
	a.books = usage.NewBooks(a.facts.dir.Join(installation.JournalFolder), a.board.Watch(a.facts.stores.calls), &usage.BooksOptions{
		SyncEach: cfg.Usage.SyncEach, Log: a.log,
		Recorded: func(s *usage.Settlement) {
			a.abuse.Settled(s) // set by resumeScores, before the first call
			a.metrics.Called(s.Call())
		},
		Running:  a.ledger.Running,
		KeepDays: func() int { return a.settings.Load().Config.Usage.KeepDays },
		Notary:   a.notary,
	})
	a.refusals = refusal.New(a.facts.stores.calls, a.log)
	a.gate = admission.New(a.ledger, entrance{a.books, a.cluster}, a.currentFacts())
	a.quota = a.newQuota()
	a.gate.CountUnits(a.quota)
	return a.books.Open()
}

// newQuota returns what counts the units of keys with a monthly limit. What is in the journal counts as well.
func (a *App) newQuota() *admission.Quota {
	opts := &admission.QuotaOptions{Log: a.log}
	switch {
	case a.redis != nil:
		opts.Shared, opts.Nodes = a.redis, func() int { return a.redis.State().Nodes }
	case a.cluster.Mode() == cluster.Approximate:
		opts.Nodes = func() int {
			_, nodes := a.cluster.Share()
			return nodes
		}
	}
	return admission.NewQuota(func(ctx context.Context, accountID, keyID string, month time.Time) (int64, error) {
		if err := a.books.Flush(ctx); err != nil {
			return 0, err
		}
		return a.facts.stores.calls.KeyUnits(ctx, accountID, keyID, month)
	}, opts)
}

// restoreWindows puts what was used in the last minute before this start back into the ledger, so
// that a restart does not reset the rate limits. Video jobs are never in the journal; the store has
// them.
func (a *App) restoreWindows(ctx context.Context, _ *config.Config) error {
	if a.memory == nil {
		return nil // Redis has not forgotten it
	}
	now := time.Now() // one time for all: the ledger needs how long ago each call was
	videos, err := video.Recent(ctx, a.facts.stores.videos, now.Add(-time.Minute))
	if err != nil {
		return err
	}
	recent, err := a.books.LastMinute(now, videos...)
	if err != nil {
		return err
	}
	a.memory.RestoreCalls(recent, now, a.facts.index.Counts)
	return nil
}

// resumeScores starts abuse control with the counts of this month. It flushes the journal first, so
// that the counts are complete. The start fails if the database does not answer.
func (a *App) resumeScores(ctx context.Context, _ *config.Config) error {
	opts := abuse.Options{
		Plans:    a.plans,
		Accounts: a.facts.accounts, Lock: a.facts.index.Lock, Unlock: a.facts.index.Unlock,
		Flush: a.books.Flush, Tell: a.letters.Abuse, Log: a.log, Shared: a.cluster.Shared(),
	}
	if a.redis != nil {
		opts.Counter = a.redis.Units()
	}
	a.abuse = abuse.New(a.facts.stores.calls, opts)
	return a.abuse.Resume(ctx)
}
