package app

import (
	"context"
	"time"
)

// expireEvery is how often expired rows are deleted. Other nodes treat our catalog as gone after half
// an hour without a sign of it (see catalog.State.Record), so it must be well below that.
const expireEvery = 10 * time.Minute

// dropExpired deletes what has expired, and tells the database that the catalog of this process is
// still in use, until ctx ends. What could not be deleted is logged and tried again next time.
func (a *App) dropExpired(ctx context.Context) {
	failed := func(what string, err error) {
		if ctx.Err() == nil { // when the process stops, running queries are cut off
			a.log.Warn("expired rows could not be deleted", "what", what, "error", err.Error())
		}
	}
	tick := time.NewTicker(expireEvery)
	defer tick.Stop()
	for {
		a.facts.store.DropExpired(ctx, failed)
		if err := a.desk.DropExpired(ctx); err != nil {
			failed("sessions, links and attempts", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		a.keepCatalog() // not at the start: openCatalog has just done it
	}
}
