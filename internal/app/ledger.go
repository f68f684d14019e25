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

// topicAccounts is what nodes tell each other about changed accounts.
const topicAccounts = "accounts"

// announce tells other nodes that an account has changed, before the change is confirmed: through Redis, so that
// every node that reaches it reads the account before its next decision, and by a message, for those that do
// not. Nodes that get neither read the changes twice a second.
func (a *App) announce(accountID string) {
	if a.redis != nil {
		if _, err := a.redis.Revoke(context.Background(), accountID); err != nil {
			a.log.Warn("Redis could not be told that an account has changed; other nodes read it from the database", "account_id", accountID, "error", err.Error())
		}
	}
	if err := a.cluster.Publish(context.Background(), topicAccounts, accountID); err != nil {
		a.log.Warn("other nodes could not be told that an account has changed; they notice within a second", "account_id", accountID, "error", err.Error())
	}
}

// revokeOnce returns what an offline command does after it has changed an account: tell the nodes of the
// installation through their Redis.
func revokeOnce(cfg *config.Config) func(accountID string) {
	return func(accountID string) {
		if err := redisledger.Revoke(context.Background(), cfg.Redis.Reveal(), accountID); err != nil {
			slog.Warn("Redis could not be told that the account has changed; running servers see the change within two seconds", "error", err.Error())
		}
	}
}

// counterOnce returns the totals of units that running servers share, for an offline command. It is nil if
// nobody shares them.
func counterOnce(cfg *config.Config, f *facts) abuse.Counter {
	if cfg.Redis == "" || f.alone() {
		return nil
	}
	return redisledger.Visit(cfg.Redis.Reveal())
}

// followAccounts makes what keeps the index true while other processes change accounts. No other process can
// use a SQLite database.
func (a *App) followAccounts(_ context.Context, cfg *config.Config) error {
	if a.facts.store.Engine() != sqlstore.Postgres {
		return nil
	}
	opts := &auth.FollowerOptions{Shared: a.isShared(cfg), Log: a.log}
	if a.redis != nil {
		opts.Epoch = func(accountID string) (int64, bool) {
			s := a.redis.Peek(accountID, account.Limits{})
			return s.Epoch, s.Deactivated
		}
	}
	a.follower = auth.NewFollower(a.facts.index, a.facts.stores.accounts, opts)
	if opts.Shared {
		a.facts.revoke = a.announce
		a.cluster.Subscribe(topicAccounts, func(string) { a.follower.Nudge() }, a.follower.Nudge)
	}
	return nil
}

// isShared reports whether other nodes may serve the same accounts.
func (a *App) isShared(cfg *config.Config) bool {
	return !a.facts.alone() && (cfg.Redis != "" || cfg.Cluster != "")
}

// currentFacts returns what admission confirms its decisions by, or nil if nobody else changes accounts.
func (a *App) currentFacts(cfg *config.Config) admission.Facts {
	if a.follower == nil || !a.isShared(cfg) {
		return nil
	}
	return a.follower
}
