package auth

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/pace"
)

const (
	keyUseEvery    = time.Minute      // how often the last use of keys is stored
	keyUsePatience = 10 * time.Second // how long storing it may take; a stop waits for it
	loadAtOnce     = 1000             // how many accounts one query reads
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
	record := func() {
		used := ix.UsedKeys()
		if len(used) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keyUsePatience)
		defer cancel()
		if err := store.RecordKeyUse(ctx, used); err != nil {
			log.Warn("the last use of keys could not be stored", "keys", len(used), "error", err.Error())
		}
	}
	for range pace.Every(ctx, keyUseEvery) {
		record()
	}
	record()
}

// CreateOwner creates the owner's account if the index, which Load has filled, knows no account. It returns the master
// key of the account, or "" if there was one.
func (ix *Index) CreateOwner(ctx context.Context, accounts *account.Accounts, store Pages) (string, error) {
	if ix.Accounts() > 0 {
		return "", nil
	}
	raw, err := accounts.CreateOwner(ctx)
	if err == nil && raw == "" { // another node created it after we had loaded the accounts
		err = ix.Load(ctx, store)
	}
	return raw, err
}
