package auth

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"sluice/internal/account"
)

const (
	keyUseEvery    = time.Minute
	keyUsePatience = 10 * time.Second
	followEvery    = 500 * time.Millisecond
	loadAtOnce     = 1000 // accounts
)

// Pages reads accounts in pages.
type Pages interface {
	// Accounts returns at most limit accounts whose ids come after an id, in the order of their ids.
	Accounts(ctx context.Context, after string, limit int) ([]*account.Account, error)
}

// Load puts every account of the store into the index.
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

// KeyUse stores when keys were last used.
type KeyUse interface {
	RecordKeyUse(ctx context.Context, used map[string]time.Time) error
}

// RecordKeyUse stores when keys were last used: once a minute, and once more when ctx ends.
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
				log.Warn("when keys were last used could not be stored", "keys", len(used), "error", err.Error())
			}
			cancel()
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// Changes is the audit log: every change of an account has an entry there, numbered in the order of commit.
type Changes interface {
	// ChangedSince returns the accounts that have entries after a number, and the newest number.
	ChangedSince(ctx context.Context, seq int64) (ids []string, newest int64, err error)
	FindAccount(ctx context.Context, ref string) (*account.Account, error)
}

// Follow puts the changes that other processes on the same database make into the index, until ctx ends. The index
// holds everything up to the audit entry with the number seen.
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

// followOnce returns the number of the newest entry that the index holds now.
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
