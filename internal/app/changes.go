package app

import (
	"bytes"
	"context"
	"time"

	"sluice/internal/catalog"
	"sluice/internal/sqlstore"
)

// joinPatience is how long a reload waits for the database to take note of the catalog.
const joinPatience = 5 * time.Second

// join has the database take note of the catalog, and gives each model the date on which it joined. The
// changes against what the database knew are logged there. Old are the settings before; nil at the start.
func (s *settings) join(ctx context.Context, store *sqlstore.Store, old *settings) error {
	ctx, cancel := context.WithTimeout(ctx, joinPatience)
	defer cancel()
	by := catalog.Process{Alone: store.Engine() == sqlstore.SQLite} // its folder is locked
	if old != nil {
		by.Was = old.version
	}
	undated := s.catalog
	return store.RecordCatalog(ctx, func(state *catalog.State) (changes []catalog.Change) {
		s.catalog, s.version, changes = state.Record(undated, by, time.Now())
		return changes
	})
}

// joinCatalog is join for a reload, which does not depend on the database: while that is away, new models have
// the time of the reload, and keepCatalog makes up for it.
func (a *App) joinCatalog(old, s *settings) {
	undated := s.catalog
	if err := s.join(context.Background(), a.facts.store, old); err != nil {
		a.log.Warn("the changes of the catalog could not be stored; they will be soon", "error", err.Error())
		now := time.Now()
		s.version = old.version
		s.catalog = undated.Dated(func(id string) time.Time {
			if m, ok := old.catalog.Lookup(id); ok {
				return time.Unix(m.Created, 0)
			}
			return now
		})
	}
	s.route(old, a.log)
}

// keepCatalog tells the database now and then which catalog runs here, and logs what was held back: see
// catalog.State.Record.
func (a *App) keepCatalog() {
	a.reloadMu.Lock()
	defer a.reloadMu.Unlock()
	old := a.settings.Load()
	next := *old
	if err := next.join(context.Background(), a.facts.store, old); err != nil {
		a.log.Warn("the database was not told of the catalog", "error", err.Error())
		return
	}
	if next.version == old.version && bytes.Equal(next.catalog.JSON(true), old.catalog.JSON(true)) {
		return
	}
	next.route(old, a.log)
	a.apply(old, &next)
}
