package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"maps"
	"time"

	"sluice/internal/upstream/catalog"
)

// RecordCatalog loads the catalog's state, lets record modify it, and stores the result together
// with the changes that record returns. The lock on the counter's row keeps other nodes out. So two
// nodes never log the same change, and a reader who has seen a number has seen all changes up to
// it.
func (s *Store) RecordCatalog(ctx context.Context, record func(*catalog.State) []catalog.Change) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		// Writing the counter locks its row, even though its value stays the same.
		var number int64
		if err := tx.QueryRowContext(ctx, `UPDATE counters SET value = value WHERE name = 'catalog_changes' RETURNING value`).Scan(&number); err != nil {
			return err
		}
		state, err := catalogState(ctx, tx)
		if err != nil {
			return err
		}
		// record modifies the maps, so compare with copies.
		models, revisions := maps.Clone(state.Models), maps.Clone(state.Revisions)
		changes := record(state)
		if err := storeModels(ctx, tx, models, state.Models); err != nil {
			return err
		}
		if err := storeRevisions(ctx, tx, revisions, state.Revisions); err != nil {
			return err
		}
		for i := range changes {
			c := &changes[i]
			number++
			if _, err := tx.ExecContext(ctx, `INSERT INTO catalog_changes (number, at, type, model, was, is_now) VALUES ($1, $2, $3, $4, $5, $6)`,
				number, millis(c.At), string(c.Type), c.Model, orNull(c.Before), orNull(c.After)); err != nil {
				return err
			}
		}
		// The usual case: nothing was logged, so the counter stays.
		if len(changes) == 0 {
			return nil
		}
		_, err = tx.ExecContext(ctx, `UPDATE counters SET value = $1 WHERE name = 'catalog_changes'`, number)
		return err
	})
}

// catalogState reads the state that all nodes share.
func catalogState(ctx context.Context, tx *sql.Tx) (*catalog.State, error) {
	// The maps must not be nil: record writes to them.
	state := &catalog.State{Models: map[string]catalog.Kept{}, Revisions: map[string]catalog.Revision{}}
	rows, err := tx.QueryContext(ctx, `SELECT id, joined_at, listing, fixed, seen_at, changed_at FROM catalog_models`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		var k catalog.Kept
		var joined, seen, changed int64
		if err := rows.Scan(&id, &joined, &k.Listing, &k.Fixed, &seen, &changed); err != nil {
			return nil, err
		}
		k.Joined, k.Seen, k.ChangedAt = fromMillis(joined), fromMillis(seen), fromMillis(changed)
		state.Models[id] = k
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	rows, err = tx.QueryContext(ctx, `SELECT hash, since, seen_at FROM catalog_revisions`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var hash string
		var since, seen int64
		if err := rows.Scan(&hash, &since, &seen); err != nil {
			return nil, err
		}
		state.Revisions[hash] = catalog.Revision{Since: fromMillis(since), Seen: fromMillis(seen)}
	}
	return state, rows.Err()
}

// storeModels writes the models that differ. Most calls change nothing and then write nothing.
func storeModels(ctx context.Context, tx *sql.Tx, old, next map[string]catalog.Kept) error {
	for id, k := range next {
		// Listings are compared as bytes. They are encoded in the same way every time.
		was, there := old[id]
		if there && k.Joined.Equal(was.Joined) && bytes.Equal(k.Listing, was.Listing) && k.Fixed == was.Fixed && k.Seen.Equal(was.Seen) && k.ChangedAt.Equal(was.ChangedAt) {
			continue
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO catalog_models (id, joined_at, listing, fixed, seen_at, changed_at) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (id) DO UPDATE SET joined_at = excluded.joined_at, listing = excluded.listing, fixed = excluded.fixed, seen_at = excluded.seen_at, changed_at = excluded.changed_at`,
			id, millis(k.Joined), orNull(k.Listing), yesNo(k.Fixed), millis(k.Seen), millis(k.ChangedAt)); err != nil {
			return err
		}
	}
	// Models that were forgotten.
	for id := range old {
		if _, stays := next[id]; !stays {
			if _, err := tx.ExecContext(ctx, `DELETE FROM catalog_models WHERE id = $1`, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// orNull returns b as a query parameter, with nil as NULL. A nil slice itself would be an empty
// value to one engine and NULL to the other.
func orNull(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

// storeRevisions writes all revisions, of which there are few, and deletes those that are gone.
func storeRevisions(ctx context.Context, tx *sql.Tx, old, next map[string]catalog.Revision) error {
	for hash, r := range next {
		if _, err := tx.ExecContext(ctx, `INSERT INTO catalog_revisions (hash, since, seen_at) VALUES ($1, $2, $3)
			ON CONFLICT (hash) DO UPDATE SET since = excluded.since, seen_at = excluded.seen_at`, hash, millis(r.Since), millis(r.Seen)); err != nil {
			return err
		}
	}
	// Configurations that no process runs any more.
	for hash := range old {
		if _, stays := next[hash]; !stays {
			if _, err := tx.ExecContext(ctx, `DELETE FROM catalog_revisions WHERE hash = $1`, hash); err != nil {
				return err
			}
		}
	}
	return nil
}

// CatalogChanges returns up to most changes after the one with the given number, oldest first.
// Known reports whether that change exists, which is always true for 0, the position before the
// first one. If it is false, the change has been dropped, and the reader may have missed others.
func (s *Store) CatalogChanges(ctx context.Context, after int64, most int) (changes []catalog.Change, known bool, err error) {
	// Use one statement, so that the given change cannot be dropped between two. It is the first
	// row.
	known = after == 0
	err = each(ctx, s.read, func(rows *sql.Rows) error {
		var c catalog.Change
		var at int64
		if err := rows.Scan(&c.Number, &at, &c.Type, &c.Model, &c.Before, &c.After); err != nil {
			return err
		}
		// The change that the reader has seen already. It only proves that no other was dropped.
		if c.Number == after {
			known = true
			return nil
		}
		c.At = fromMillis(at)
		changes = append(changes, c)
		return nil
	}, `SELECT number, at, type, model, was, is_now FROM catalog_changes WHERE number >= $1 ORDER BY number LIMIT $2`, after, most+1)
	if err != nil {
		return nil, false, unavailable(err)
	}
	return changes[:min(len(changes), most)], known, nil
}

// DropChanges deletes up to most changes that are too old or too many, and returns how many it
// deleted. The newest one always stays, because readers continue from it.
func (s *Store) DropChanges(ctx context.Context, now time.Time, most int) (dropped int, err error) {
	err = s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		// The number of the newest change, which must stay.
		var last int64
		if err := tx.QueryRowContext(ctx, `SELECT value FROM counters WHERE name = 'catalog_changes'`).Scan(&last); err != nil {
			return err
		}
		// Too old by time, or too far behind the newest one by number.
		res, err := tx.ExecContext(ctx, `DELETE FROM catalog_changes WHERE number IN
			(SELECT number FROM catalog_changes WHERE number < $1 AND (at <= $2 OR number <= $3) ORDER BY number LIMIT $4)`,
			last, millis(now.Add(-catalog.KeepChanges)), last-catalog.MostChanges, most)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		dropped = int(n)
		return err
	})
	return dropped, err
}
