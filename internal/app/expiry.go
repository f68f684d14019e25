package app

import (
	"context"
	"time"
)

const expireEvery = 10 * time.Minute

// dropExpired deletes what has expired, and tells the database that our catalog is still in use.
func (a *App) dropExpired(ctx context.Context) {
	failed := func(what string, err error) {
		if ctx.Err() == nil {
			a.log.Warn("what has expired could not be deleted", "what", what, "error", err.Error())
		}
	}
	tick := time.NewTicker(expireEvery)
	defer tick.Stop()
	for {
		a.facts.store.DropExpired(ctx, failed)
		if err := a.desk.DropExpired(ctx); err != nil {
			failed("sessions and links", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		a.keepCatalog()
	}
}
