package app

import (
	"context"
	"log/slog"

	"sluice/internal/account"
	"sluice/internal/account/auth"
	"sluice/internal/app/config"
	"sluice/internal/ledger/abuse"
	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/admission/redisledger"
	"sluice/internal/ledger/cluster"
	"sluice/internal/store/sqlstore"
)

// ledger counts what accounts are using: in memory, by all of each limit or by a part, or in the Redis that
// all nodes share.
type ledger interface {
	admission.Ledger
	// Running returns the number of calls of this process that hold a slot.
	Running() int64
}

// openLedger opens the ledger. A Redis that does not answer does not stop the start: this node then goes
// by its share of the limits.
func (a *App) openLedger(ctx context.Context, cfg *config.Config) (err error) {
	if cfg.Redis == "" || a.facts.alone() {
		a.memory = admission.NewMemory(nil)
		a.ledger = a.memory
		if a.cluster.Mode() == cluster.Approximate {
			a.ledger = admission.NewDivided(a.memory, a.cluster.Views)
		}
		return nil
	}
	// A database that does not answer now ends the start, as it does in the steps before.
	a.redis, err = redisledger.Open(ctx, cfg.Redis.Reveal(), a.cluster, a.facts.stores.nodes, &redisledger.Options{Log: a.log})
	if err != nil {
		return err
	}
	a.ledger = a.redis
	return nil
}

// visitRedis returns what an offline command shares with running servers: how it tells them that it has changed an
// account, and the totals of units. Both are nil without a Redis.
func visitRedis(cfg *config.Config, f *facts) (revoke func(accountID string), units abuse.Totals) {
	if cfg.Redis == "" || f.alone() {
		return nil, nil
	}
	return redisledger.Revoker(cfg.Redis.Reveal(), slog.Default()), redisledger.Visit(cfg.Redis.Reveal())
}

// followAccounts makes what keeps the index current while other processes change accounts. No other process can
// use a SQLite database.
func (a *App) followAccounts(context.Context, *config.Config) error {
	if a.facts.store.Engine() != sqlstore.Postgres {
		return nil
	}
	opts := &auth.FollowerOptions{Shared: a.cluster.Shared(), Log: a.log, Publish: a.tellNodes(auth.Topic)}
	if a.redis != nil {
		opts.Revoke = func(ctx context.Context, accountID string) error {
			_, err := a.redis.Revoke(ctx, accountID)
			return err
		}
		opts.Epoch = func(accountID string) (int64, bool) {
			s := a.redis.Peek(accountID, account.Limits{})
			return s.Epoch, s.Deactivated
		}
	}
	a.follower = auth.NewFollower(a.facts.index, a.facts.stores.accounts, opts)
	if opts.Shared {
		a.facts.revoke = a.follower.Announce
		a.cluster.Subscribe(auth.Topic, func(string) { a.follower.Nudge() }, a.follower.Nudge)
	}
	return nil
}

// currentFacts returns what admission confirms its decisions by, or nil if nobody else changes accounts.
func (a *App) currentFacts() admission.Facts {
	if a.follower == nil || !a.cluster.Shared() {
		return nil
	}
	return a.follower
}
