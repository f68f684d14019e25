package app

import (
	"context"
	"sync/atomic"
	"time"

	"sluice/internal/app/config"
	"sluice/internal/app/settings"
	"sluice/internal/ledger/receipt"
	"sluice/internal/ledger/usage"
)

// openReceipts reads the keys that receipts are signed with, and makes the first one of an installation.
func (a *App) openReceipts(ctx context.Context, _ *config.Config) error {
	ring := a.facts.stores.calls.Ring()
	a.notary = receipt.NewNotary(ring, a.issuer())
	if err := ring.Open(ctx); err != nil {
		return err
	}
	all, current := ring.All()
	for i := range all {
		if all[i].Damaged {
			a.log.Error("the private half of a key that signs receipts cannot be read; another key signs, and receipts of this one stay valid", "key", all[i].ID, "signs", current, "next", "sluice receipt keys list")
		}
	}
	return nil
}

// receiptPatience is how long a reader of receipts waits for what is in the journal. It is longer than that of pages: a busy
// database must not make a receipt look as if there were none, or a root lack its last receipts.
const receiptPatience = 5 * time.Second

// receipts returns what customers read of their receipts.
func (a *App) receipts() *receipt.Log {
	flush := func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, receiptPatience)
		defer cancel()
		_ = a.books.Flush(ctx) // a database that is down fails the query that follows, too
	}
	return receipt.NewLog(a.facts.stores.calls, flush, a.facts.stores.calls.Ring())
}

// issuer returns the origin of the service for receipts. It is asked for each of them, so it is worked out once for each
// configuration.
func (a *App) issuer() func() string {
	type known struct {
		of     *settings.Settings
		origin string
	}
	var last atomic.Pointer[known]
	return func() string {
		s := a.settings.Load()
		if k := last.Load(); k != nil && k.of == s {
			return k.origin
		}
		k := &known{s, a.origin(s.Config)}
		last.Store(k)
		return k.origin
	}
}

// attestVideo makes the receipt of a video, and signs it, because it goes into the database at once.
func (a *App) attestVideo(ctx context.Context, s *usage.Settlement) error {
	a.notary.Alone(s)
	return a.facts.stores.calls.Ring().SignAll(ctx, []usage.Settlement{*s})
}
