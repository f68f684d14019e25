package app

import (
	"context"
	"time"
)

const (
	expireEvery  = 10 * time.Minute
	expireAtOnce = 50 // they may have a MiB each
)

// dropExpired deletes stored replies, states and changes of the catalog whose time is over, few at a time,
// so that nobody waits for it.
func (a *App) dropExpired(ctx context.Context) {
	tick := time.NewTicker(expireEvery)
	defer tick.Stop()
	for {
		a.dropSome(ctx, "replies", a.facts.store.DropReplies)
		a.dropSome(ctx, "states of tool calls", a.facts.store.DropStates)
		a.dropSome(ctx, "changes of the catalog", a.facts.store.DropChanges)
		if err := a.desk.DropExpired(ctx); err != nil && ctx.Err() == nil {
			a.log.Warn("what has expired could not be deleted", "what", "sessions and links", "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		a.keepCatalog()
	}
}

func (a *App) dropSome(ctx context.Context, what string, drop func(context.Context, time.Time, int) (int, error)) {
	for n := expireAtOnce; n == expireAtOnce && ctx.Err() == nil; {
		var err error
		if n, err = drop(ctx, time.Now(), expireAtOnce); err != nil && ctx.Err() == nil {
			a.log.Warn("what has expired could not be deleted", "what", what, "error", err.Error())
		}
	}
}
