package auth

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"sluice/internal/account"
)

const (
	keyUseEvery    = time.Minute            // how often the last use of keys is stored
	keyUsePatience = 10 * time.Second       // how long storing it may take; a stop waits for it
	followEvery    = 500 * time.Millisecond // about how long a change takes to reach another node
	loadAtOnce     = 1000                   // how many accounts one query reads
)

// Pages reads accounts page by page.
type Pages interface {
	// Accounts returns at most limit accounts whose id is greater than after, in order of id.
	Accounts(ctx context.Context, after string, limit int) ([]*account.Account, error)
}

// Load puts every account of the store into the index. It must return before the first request is
// served, because a key that is not in the index is refused. Loading again is harmless: Put ignores
// states that are not newer.
func (ix *Index) Load(ctx context.Context, store Pages) error {
	after := ""
	for {
		list, err := store.Accounts(ctx, after, loadAtOnce)
		if err != nil {
			return fmt.Errorf("load accounts: %w", err)
		}
		for _, a := range list {
			ix.Put(a)
		}
		if len(list) < loadAtOnce {
			return nil
		}
		after = list[len(list)-1].ID
	}
}

// KeyUse stores when keys were last used, by their ids.
type KeyUse interface {
	RecordKeyUse(ctx context.Context, used map[string]time.Time) error
}

// RecordKeyUse stores when keys were last used, once a minute and once more when ctx ends. What
// cannot be stored is not retried: the next use of the key brings a newer time.
func (ix *Index) RecordKeyUse(ctx context.Context, store KeyUse, log *slog.Logger) {
	tick := time.NewTicker(keyUseEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		if used := ix.UsedKeys(); len(used) > 0 {
			save, cancel := context.WithTimeout(context.WithoutCancel(ctx), keyUsePatience)
			if err := store.RecordKeyUse(save, used); err != nil {
				log.Warn("the last use of keys could not be stored", "keys", len(used), "error", err.Error())
			}
			cancel()
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// Changes reads the audit log. Every change of an account has an entry there, and the entries are
// numbered in the order of commit: whoever has seen a number has missed no entry before it.
type Changes interface {
	// ChangedSince returns the ids of the accounts that have entries after the number seq, and the
	// newest number.
	ChangedSince(ctx context.Context, seq int64) (ids []string, newest int64, err error)
	FindAccount(ctx context.Context, ref string) (*account.Account, error)
}

// Follow puts the changes that other processes on the same database make into the index, until ctx
// ends. seen is the number of an audit entry up to which the index is complete. While the database
// is down, the index keeps its last state, and Follow catches up afterwards.
func (ix *Index) Follow(ctx context.Context, store Changes, seen int64, log *slog.Logger) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	healthy := true
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		next, err := ix.followOnce(ctx, store, seen)
		if err == nil {
			seen = next
		}
		if ctx.Err() == nil && healthy != (err == nil) { // log only when it changes
			healthy = err == nil
			if healthy {
				log.Info("changes made by other nodes arrive again")
			} else {
				log.Warn("changes made by other nodes do not arrive", "error", err.Error())
			}
		}
	}
}

// followOnce reads the changes after the entry seen. It returns the number up to which the index is
// complete then. After an error that is still seen: the next try reads all of them again, and Put
// ignores those that have arrived.
func (ix *Index) followOnce(ctx context.Context, store Changes, seen int64) (int64, error) {
	ids, newest, err := store.ChangedSince(ctx, seen)
	if err != nil {
		return seen, err
	}
	for _, id := range ids {
		changed, err := store.FindAccount(ctx, id)
		if err != nil {
			return seen, err
		}
		ix.Put(changed)
	}
	return newest, nil
}
