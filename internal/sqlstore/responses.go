package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/internal/order"
	"sluice/internal/responses"
)

// errThere means that a response with the same id is stored already.
var errThere = errors.New("a response with this id is stored already")

// KeepResponses stores sealed responses in one transaction, and replaces those with the same ids. If all responses of an
// account would then exceed the bound, its oldest ones are deleted.
func (s *Store) KeepResponses(ctx context.Context, all []*responses.Record, most responses.Bound) error {
	// Accounts are locked in the same order on all nodes, so that they cannot deadlock.
	all = slices.Clone(all)
	order.StablyBy(all, func(a, b *responses.Record) int { return strings.Compare(a.AccountID, b.AccountID) })
	if s.engine == SQLite {
		if err := s.keepQuickly(ctx, all, most); !errors.Is(err, errThere) && !errors.Is(err, errFull) {
			return err
		}
	}
	err := s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for some := all; len(some) > 0; {
			have, n := &responsesUse{accountID: some[0].AccountID}, 0
			for n < len(some) && some[n].AccountID == have.accountID {
				have.add(some[n])
				n++
			}
			if err := have.count(ctx, tx, most); err != nil {
				return err
			}
			some = some[n:]
		}
		return insertResponses(ctx, tx, all)
	})
	if !errors.Is(err, errThere) {
		return err
	}
	// The id of a response is that of its request, so this happens only if one is stored twice.
	for _, r := range all {
		if err := s.replaceResponse(ctx, r, most); err != nil {
			return err
		}
	}
	return nil
}

// insertResponses inserts responses. It returns errThere if one of them is there.
func insertResponses(ctx context.Context, tx *sql.Tx, all []*responses.Record) error {
	args := make([]any, 0, 6*len(all))
	for _, r := range all {
		args = append(args, r.ID, r.AccountID, r.Previous, len(r.Sealed), millis(r.ExpiresAt), r.Sealed)
	}
	res, err := tx.ExecContext(ctx, `INSERT INTO responses (id, account_id, previous, size, expires_at, sealed) VALUES `+placeholders(len(all), 6)+` ON CONFLICT (id) DO NOTHING`, args...)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == int64(len(all)) {
		return err
	}
	return errThere
}

// replaceResponse stores one response and replaces the one with its id.
func (s *Store) replaceResponse(ctx context.Context, r *responses.Record, most responses.Bound) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		have, err := lockResponses(ctx, tx, r.AccountID)
		if err != nil {
			return err
		}
		if err := have.remove(tx.QueryRowContext(ctx, `DELETE FROM responses WHERE id = $1 RETURNING size`, r.ID)); err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		have.add(r)
		if err := have.trim(ctx, tx, most); err != nil {
			return err
		}
		if err := have.store(ctx, tx); err != nil {
			return err
		}
		return insertResponses(ctx, tx, []*responses.Record{r})
	})
}

// FindResponses returns the sealed responses with the ids, in their order. One that is not there, or has expired, is nil.
func (s *Store) FindResponses(ctx context.Context, ids [][]byte, now time.Time) ([][]byte, error) {
	return responseColumn[[]byte](ctx, s, "sealed", ids, now)
}

// SizeResponses returns the sizes of the sealed responses with the ids, in their order. One that is not there, or has
// expired, is 0.
func (s *Store) SizeResponses(ctx context.Context, ids [][]byte, now time.Time) ([]int64, error) {
	return responseColumn[int64](ctx, s, "size", ids, now)
}

// responseColumn returns a column of the responses with the ids, in their order, and the zero value for those that are not
// there or have expired.
func responseColumn[T any](ctx context.Context, s *Store, column string, ids [][]byte, now time.Time) ([]T, error) {
	found := make(map[string]T, len(ids))
	for some := range slices.Chunk(ids, 200) {
		args := []any{millis(now)}
		var marks []string
		for _, id := range some {
			args = append(args, id)
			marks = append(marks, fmt.Sprintf("$%d", len(args)))
		}
		err := each(ctx, s.read, func(rows *sql.Rows) error {
			var id []byte
			var v T
			if err := rows.Scan(&id, &v); err != nil {
				return err
			}
			found[string(id)] = v
			return nil
		}, `SELECT id, `+column+` FROM responses WHERE expires_at > $1 AND id IN (`+strings.Join(marks, ", ")+`)`, args...)
		if err != nil {
			return nil, unavailable(err)
		}
	}
	out := make([]T, len(ids))
	for i, id := range ids {
		out[i] = found[string(id)]
	}
	return out, nil
}

// FollowResponses returns a response and those before it, the newest first, at most most of them. It ends before one that
// is not there or has expired.
func (s *Store) FollowResponses(ctx context.Context, id []byte, now time.Time, most int) (links []responses.Link, err error) {
	err = each(ctx, s.read, func(rows *sql.Rows) error {
		var l responses.Link
		var depth int
		if err := rows.Scan(&l.ID, &l.Previous, &l.Size, &depth); err != nil {
			return err
		}
		links = append(links, l)
		return nil
	}, `WITH RECURSIVE chain (id, previous, size, depth) AS (
			SELECT id, previous, size, 1 FROM responses WHERE id = $1 AND expires_at > $2
			UNION ALL
			SELECT r.id, r.previous, r.size, c.depth + 1 FROM responses r JOIN chain c ON r.id = c.previous WHERE r.expires_at > $2 AND c.depth < $3
		) SELECT id, previous, size, depth FROM chain ORDER BY depth`, id, millis(now), most)
	return links, unavailable(err)
}

// DropResponse deletes a response of an account, and reports whether it was there.
func (s *Store) DropResponse(ctx context.Context, accountID string, id []byte) (dropped bool, err error) {
	err = s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		have, err := lockResponses(ctx, tx, accountID)
		if err != nil {
			return err
		}
		err = have.remove(tx.QueryRowContext(ctx, `DELETE FROM responses WHERE id = $1 AND account_id = $2 RETURNING size`, id, accountID))
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		dropped = err == nil
		return have.store(ctx, tx)
	})
	return dropped, err
}

// ForgetResponses deletes all responses of an account.
func (s *Store) ForgetResponses(ctx context.Context, accountID string) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := lockResponses(ctx, tx, accountID); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM responses WHERE account_id = $1`, accountID); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM response_sizes WHERE account_id = $1`, accountID)
		return err
	})
}

// DropResponses deletes up to most expired responses and returns how many it deleted.
func (s *Store) DropResponses(ctx context.Context, now time.Time, most int) (dropped int, err error) {
	err = s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		type expired struct {
			accountID string
			id        []byte
		}
		// Read all ids before deleting: on PostgreSQL a connection cannot run statements while rows are
		// open.
		var old []expired
		if err := each(ctx, tx, func(rows *sql.Rows) error {
			var e expired
			if err := rows.Scan(&e.accountID, &e.id); err != nil {
				return err
			}
			old = append(old, e)
			return nil
		}, `SELECT account_id, id FROM responses WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2`, millis(now), most); err != nil {
			return err
		}
		// Lock the accounts in the same order on all nodes, so that they cannot deadlock.
		order.StablyBy(old, func(a, b expired) int { return strings.Compare(a.accountID, b.accountID) })
		for len(old) > 0 {
			have, err := lockResponses(ctx, tx, old[0].accountID)
			if err != nil {
				return err
			}
			for ; len(old) > 0 && old[0].accountID == have.accountID; old = old[1:] {
				err := have.remove(tx.QueryRowContext(ctx, `DELETE FROM responses WHERE id = $1 RETURNING size`, old[0].id))
				if errors.Is(err, sql.ErrNoRows) {
					continue // another node has deleted it already
				}
				if err != nil {
					return err
				}
				dropped++
			}
			if err := have.store(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	})
	return dropped, err
}

// responsesUse is the number and size of an account's responses.
type responsesUse struct {
	accountID string
	responses.Bound
}

// lockResponses makes this transaction the only one that can change the account's responses, and returns how much they
// take. The upsert takes the lock and creates the row if it is missing.
func lockResponses(ctx context.Context, tx *sql.Tx, accountID string) (*responsesUse, error) {
	u := &responsesUse{accountID: accountID}
	err := tx.QueryRowContext(ctx, `INSERT INTO response_sizes (account_id, entries, bytes) VALUES ($1, 0, 0)
		ON CONFLICT (account_id) DO UPDATE SET bytes = response_sizes.bytes RETURNING entries, bytes`, accountID).Scan(&u.Entries, &u.Bytes)
	return u, err
}

// add counts a response.
func (u *responsesUse) add(r *responses.Record) {
	u.Entries++
	u.Bytes += int64(len(r.Sealed))
}

// count adds what u has to the sums of the account, and makes room for it. Like lockResponses, it makes this transaction
// the only one that can change the account's responses.
func (u *responsesUse) count(ctx context.Context, tx *sql.Tx, most responses.Bound) error {
	err := tx.QueryRowContext(ctx, `INSERT INTO response_sizes (account_id, entries, bytes) VALUES ($1, $2, $3)
		ON CONFLICT (account_id) DO UPDATE SET entries = response_sizes.entries + excluded.entries, bytes = response_sizes.bytes + excluded.bytes
		RETURNING entries, bytes`, u.accountID, u.Entries, u.Bytes).Scan(&u.Entries, &u.Bytes)
	if err != nil {
		return err
	}
	was := u.Bound
	if err := u.trim(ctx, tx, most); err != nil || u.Bound == was {
		return err
	}
	return u.store(ctx, tx)
}

// trim deletes the oldest responses until the bound holds. Those that are about to be stored are counted, but not there
// yet, so they stay.
func (u *responsesUse) trim(ctx context.Context, tx *sql.Tx, most responses.Bound) error {
	for u.Entries > most.Entries || u.Bytes > most.Bytes {
		err := u.remove(tx.QueryRowContext(ctx, `DELETE FROM responses WHERE id = (SELECT id FROM responses
			WHERE account_id = $1 ORDER BY expires_at LIMIT 1) RETURNING size`, u.accountID))
		if errors.Is(err, sql.ErrNoRows) {
			return nil // only new ones are left, and they exceed the bound on their own
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// remove subtracts a row of the account that was deleted.
func (u *responsesUse) remove(deleted *sql.Row) error {
	var size int64
	if err := deleted.Scan(&size); err != nil {
		return err
	}
	u.Entries--
	u.Bytes -= size
	return nil
}

// store stores the sums. An account without responses has no row.
func (u *responsesUse) store(ctx context.Context, tx *sql.Tx) error {
	if u.Entries == 0 {
		_, err := tx.ExecContext(ctx, `DELETE FROM response_sizes WHERE account_id = $1`, u.accountID)
		return err
	}
	_, err := tx.ExecContext(ctx, `UPDATE response_sizes SET entries = $2, bytes = $3 WHERE account_id = $1`, u.accountID, u.Entries, u.Bytes)
	return err
}
