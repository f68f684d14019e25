package app

import (
	"context"
	"time"

	"sluice/internal/kit/pace"
	"sluice/internal/store/sqlstore"
)

const (
	// expireEvery is how often expired rows are deleted.
	expireEvery = 10 * time.Minute
	// catalogEvery is how often the database is told which catalog this process has. Other nodes treat it
	// as gone after half an hour without a sign of it (see catalog.State.Record).
	catalogEvery = 10 * time.Minute
)

// dropExpired deletes what has expired. What could not be deleted is logged and tried again next time.
func (a *App) dropExpired(ctx context.Context) {
	failed := func(what string, err error) {
		if ctx.Err() == nil { // when the process stops, running queries are cut off
			a.log.Warn("expired rows could not be deleted", "what", what, "error", err.Error())
		}
	}
	sqlstore.DropExpired(ctx, failed, a.facts.stores.expiring()...)
	if err := a.desk.DropExpired(ctx); err != nil {
		failed("sessions, links and attempts", err)
	}
}

// keepCatalogs tells the database that the catalog of this process is still in use, until ctx ends. Each
// server has one of its own.
func (a *App) keepCatalogs(ctx context.Context) {
	// Not at the start: openCatalog has just done it
	for range pace.Every(ctx, catalogEvery) {
		a.keepCatalog()
	}
}
