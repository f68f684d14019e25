// Package service stores what the service knows of itself: its catalog and how it changed, what staff has decided about
// it, what callers say of its answers, by which API providers want their models to be asked, which prices it has had, how it has
// been doing, and how its settlements compare with what vendors charge.
//
// Store implements the interfaces of packages catalog, steering, feedback, overview, price, openai and admin.
package service

import (
	"bytes"
	"context"
	"maps"
	"time"

	"sluice/internal/store/sqlstore"
	"sluice/internal/upstream/catalog"
)

// Store is the part of a database about the service itself.
type Store struct{ db *sqlstore.Store }

// New returns the part of a database.
func New(db *sqlstore.Store) *Store { return &Store{db} }

// Expiring returns what expires.
func (s *Store) Expiring() []sqlstore.Expiring {
	return []sqlstore.Expiring{
		{What: "changes of the catalog", Drop: s.DropChanges, AtOnce: sqlstore.DropLarge},
		{What: "votes about answers", Drop: s.dropVotes, AtOnce: sqlstore.DropSmall},
		{What: "feedback", Drop: s.dropFeedback, AtOnce: sqlstore.DropSmall},
	}
}

// lastChange is the counter with the number of the last change of the catalog.
const lastChange = "catalog_changes"

// The columns of the catalog, in the order in which they are written and scanned.
const (
	changeColumns = `number, at, type, model, was, is_now`
	modelColumns  = `joined_at, listing, fixed, seen_at, changed_at` // after the id
)

// RecordCatalog loads the catalog's state, lets record modify it, and stores the result together
// with the changes that record returns. The lock on the counter's row keeps other nodes out. So two
// nodes never log the same change, and a reader who has seen a number has seen all changes up to
// it.
func (s *Store) RecordCatalog(ctx context.Context, record func(*catalog.State) []catalog.Change) error {
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		number, err := tx.Hold(lastChange)
		if err != nil {
			return err
		}
		state, err := catalogState(tx)
		if err != nil {
			return err
		}
		// record modifies the maps, so compare with copies.
		models, revisions := maps.Clone(state.Models), maps.Clone(state.Revisions)
		changes := record(state)
		storeModels(tx, models, state.Models)
		storeRevisions(tx, revisions, state.Revisions)
		// The usual case: nothing was logged, so the counter stays.
		if len(changes) == 0 {
			return nil
		}
		for i := range changes {
			c := &changes[i]
			number++
			tx.Do(sqlstore.Insert("catalog_changes", changeColumns), number, c.At, string(c.Type), c.Model, sqlstore.OrNull(c.Before), sqlstore.OrNull(c.After))
		}
		return tx.SetCounter(lastChange, number)
	})
}

// catalogState reads the state that all nodes share.
func catalogState(tx *sqlstore.Conn) (*catalog.State, error) {
	models, err := sqlstore.Map(tx, func(row sqlstore.Row, id *string, k *catalog.Kept) error {
		return row.Scan(id, &k.Joined, &k.Listing, &k.Fixed, &k.Seen, &k.ChangedAt)
	}, `SELECT id, `+modelColumns+` FROM catalog_models`)
	if err != nil {
		return nil, err
	}
	revisions, err := sqlstore.Map(tx, func(row sqlstore.Row, hash *string, r *catalog.Revision) error {
		return row.Scan(hash, &r.Since, &r.Seen)
	},
		`SELECT hash, since, seen_at FROM catalog_revisions`)
	return &catalog.State{Models: models, Revisions: revisions}, err
}

// storeModels writes the models that differ. Most calls change nothing and then write nothing.
func storeModels(tx *sqlstore.Conn, old, next map[string]catalog.Kept) {
	for id, k := range next {
		// Listings are compared as bytes. They are encoded in the same way every time.
		was, there := old[id]
		if there && k.Joined.Equal(was.Joined) && bytes.Equal(k.Listing, was.Listing) && k.Fixed == was.Fixed && k.Seen.Equal(was.Seen) && k.ChangedAt.Equal(was.ChangedAt) {
			continue
		}
		tx.Do(sqlstore.Upsert("catalog_models", "id, "+modelColumns, "id", modelColumns), id, k.Joined, sqlstore.OrNull(k.Listing), k.Fixed, k.Seen, k.ChangedAt)
	}
	forget(tx, old, next, `DELETE FROM catalog_models WHERE id = $1`)
}

// storeRevisions writes all revisions, of which there are few, and deletes those that are gone: of configurations that no
// process runs any more.
func storeRevisions(tx *sqlstore.Conn, old, next map[string]catalog.Revision) {
	for hash, r := range next {
		tx.Do(sqlstore.Upsert("catalog_revisions", "hash, since, seen_at", "hash", "since, seen_at"), hash, r.Since, r.Seen)
	}
	forget(tx, old, next, `DELETE FROM catalog_revisions WHERE hash = $1`)
}

// forget deletes what is in old and no longer in next.
func forget[T any](tx *sqlstore.Conn, old, next map[string]T, statement string) {
	for key := range old {
		if _, stays := next[key]; !stays {
			tx.Do(statement, key)
		}
	}
}

// CatalogChanges returns up to most changes after the one with the given number, oldest first.
// Known reports whether that change exists, which is always true for 0, the position before the
// first one. If it is false, the change has been dropped, and the reader may have missed others.
func (s *Store) CatalogChanges(ctx context.Context, after int64, most int) (changes []catalog.Change, known bool, err error) {
	// Use one statement, so that the given change cannot be dropped between two. It is the first
	// row.
	known = after == 0
	changes, err = sqlstore.All(s.db.Read(ctx), func(row sqlstore.Row, c *catalog.Change) error {
		return row.Scan(&c.Number, &c.At, &c.Type, &c.Model, &c.Before, &c.After)
	}, `SELECT `+changeColumns+` FROM catalog_changes WHERE number >= $1 ORDER BY number LIMIT $2`, after, most+1)
	if err != nil {
		return nil, false, err
	}
	// The change that the reader has seen already. It only proves that no other was dropped.
	if len(changes) > 0 && changes[0].Number == after {
		changes, known = changes[1:], true
	}
	return changes[:min(len(changes), most)], known, nil
}

// DropChanges deletes up to most changes that are too old or too many, and returns how many it
// deleted. The newest one always stays, because readers continue from it.
func (s *Store) DropChanges(ctx context.Context, now time.Time, most int) (int, error) {
	return sqlstore.InTx(ctx, s.db, func(tx *sqlstore.Conn) (int, error) {
		// The number of the newest change, which must stay.
		last, err := tx.Counter(lastChange)
		if err != nil {
			return 0, err
		}
		// Too old by time, or too far behind the newest one by number.
		n, err := tx.Changed(`DELETE FROM catalog_changes WHERE number IN
			(SELECT number FROM catalog_changes WHERE number < $1 AND (at <= $2 OR number <= $3) ORDER BY number LIMIT $4)`,
			last, now.Add(-catalog.KeepChanges), last-catalog.MostChanges, most)
		return int(n), err
	})
}
