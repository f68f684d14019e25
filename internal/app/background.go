package app

import (
	"context"
	"time"
)

const (
	keyUseEvery = time.Minute
	followEvery = 500 * time.Millisecond
)

// recordKeyUse writes down now and then, and once at the end, when keys were last used.
func (a *App) recordKeyUse(ctx context.Context) {
	tick := time.NewTicker(keyUseEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		if used := a.facts.index.UsedKeys(); len(used) > 0 {
			save, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			if err := a.facts.store.RecordKeyUse(save, used); err != nil {
				a.log.Warn("when keys were last used could not be stored", "keys", len(used), "error", err.Error())
			}
			cancel()
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// follow takes over what other processes on the same database changed. The audit log tells: every
// change of an account has an entry there, numbered in the order of commit.
func (a *App) follow(ctx context.Context) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	seen, healthy := a.followFrom, true
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		next, err := a.followOnce(ctx, seen)
		if err == nil {
			seen = next
		}
		if ctx.Err() == nil && healthy != (err == nil) {
			healthy = err == nil
			if healthy {
				a.log.Info("changes made by other nodes arrive again")
			} else {
				a.log.Warn("changes made by other nodes do not arrive", "error", err.Error())
			}
		}
	}
}

func (a *App) followOnce(ctx context.Context, seen int64) (int64, error) {
	ids, newest, err := a.facts.store.ChangedSince(ctx, seen)
	if err != nil {
		return seen, err
	}
	for _, id := range ids {
		changed, err := a.facts.store.FindAccount(ctx, id)
		if err != nil {
			return seen, err
		}
		a.facts.index.Put(changed)
	}
	return newest, nil
}
