package app

import (
	"context"
	"time"
)

const (
	expireEvery  = 10 * time.Minute
	expireAtOnce = 50 // they may have a MiB each
)

// dropExpiredReplies deletes the stored replies whose time is over, few at a time, so that nobody waits
// for it.
func (a *App) dropExpiredReplies(ctx context.Context) {
	tick := time.NewTicker(expireEvery)
	defer tick.Stop()
	for {
		for n := expireAtOnce; n == expireAtOnce && ctx.Err() == nil; {
			var err error
			if n, err = a.facts.store.DropReplies(ctx, time.Now(), expireAtOnce); err != nil && ctx.Err() == nil {
				a.log.Warn("expired replies could not be deleted", "error", err.Error())
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
