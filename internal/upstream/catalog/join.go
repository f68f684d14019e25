package catalog

import (
	"context"
	"time"
)

// joinPatience is how long Join waits for the database. A reload waits for it.
const joinPatience = 5 * time.Second

// Store remembers the catalog between starts.
type Store interface {
	// RecordCatalog lets record change the state, and stores it with the changes that record returns.
	RecordCatalog(ctx context.Context, record func(*State) []Change) error
}

// Join records the catalog in the store. It returns the catalog with the date on which each model joined, and its
// revision. See State.Record.
func (c *Catalog) Join(ctx context.Context, store Store, by Process) (dated *Catalog, revision string, err error) {
	ctx, cancel := context.WithTimeout(ctx, joinPatience)
	defer cancel()
	err = store.RecordCatalog(ctx, func(state *State) (changes []Change) {
		dated, revision, changes = state.Record(c, by, time.Now())
		return changes
	})
	return dated, revision, err
}

// DatedLike returns the catalog with the dates of the old one. Models that are not in it get the date now. It stands
// in for Join while the database is away.
func (c *Catalog) DatedLike(old *Catalog, now time.Time) *Catalog {
	return c.Dated(func(id string) time.Time {
		if m, ok := old.Lookup(id); ok {
			return time.Unix(m.Created, 0)
		}
		return now
	})
}
