package app

import (
	"context"
	"time"

	"sluice/internal/account"
	"sluice/internal/admission"
	"sluice/internal/billing"
	"sluice/internal/notice"
	"sluice/internal/usage"
)

// Watched is how many streams the pulse watches now.
func (a *App) Watched() int { return a.pulse.Watched() }

// Billing is what the pages sell plans with.
func (a *App) Billing() *billing.Billing { return a.billing }

// BodiesInFlight is how many bytes of request bodies are held now.
func (a *App) BodiesInFlight() int64 { return a.api.BodiesInFlight() }

// Settlements returns the settlements that the journal still holds, oldest first, and how many there were
// in all.
func (a *App) Settlements() ([]usage.Settlement, int64) {
	ctx := context.Background()
	if err := a.books.Flush(ctx); err != nil {
		panic(err)
	}
	held, err := a.books.Held(time.Time{})
	if err != nil {
		panic(err)
	}
	accounts, err := a.facts.store.Accounts(ctx, "", 1000)
	if err != nil {
		panic(err)
	}
	var all usage.Sums
	for _, owner := range accounts {
		rows, err := a.facts.store.UsageByDay(ctx, owner.ID, time.Time{})
		if err != nil {
			panic(err)
		}
		for i := range rows {
			all.Merge(rows[i].Sums)
		}
	}
	return held, all.Requests
}

// RestoreWindows rebuilds a ledger's windows from a journal, as a start does.
func RestoreWindows(j *usage.Journal, l *admission.Memory) error {
	now := time.Now()
	held, err := j.Since(now.Add(-time.Minute))
	restore(l, usage.LastMinute(held, now), now)
	return err
}

// Notices are what an account was told, newest first.
func (a *App) Notices(accountID string) ([]notice.Notice, error) {
	return a.notices.List(context.Background(), accountID, 100)
}

// Used is what an account's windows hold now: thousandths of requests, and tokens.
func (a *App) Used(accountID string) (requestMilli, tokens int64) {
	standing := a.ledger.Peek(accountID, account.Limits{RequestsPerMinute: 1, TokensPerMinute: 1, Concurrent: 1})
	return standing.Requests.Used, standing.Tokens.Used
}

// SettledFor returns an account's settlements, newest first.
func (a *App) SettledFor(ctx context.Context, accountID string) ([]usage.Settlement, error) {
	if err := a.books.Flush(ctx); err != nil {
		return nil, err
	}
	return a.facts.store.RecentSettlements(ctx, accountID, usage.Point{At: time.Now().Add(time.Hour)}, 100)
}

// Running is how many calls run now.
func (a *App) Running() int64 { return a.ledger.Running() }
