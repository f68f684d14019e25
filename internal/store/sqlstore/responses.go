package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"sluice/internal/api/responses"
)

// responseShelf is the table of responses. Those that expire at $4 or later stay.
var responseShelf = shelf{
	rows: "responses", sums: "response_sizes", entries: true, others: "expires_at < $4",
	over: "entries > $2 OR bytes > $3", doomed: "s.entries - o.n >= $2 OR s.bytes - o.older > $3",
}

// KeepResponses stores sealed responses in one transaction, and replaces those with the same ids. If all responses of an
// account would then exceed the bound, its oldest ones are deleted.
func (s *Store) KeepResponses(ctx context.Context, all []*responses.Record, most responses.Bound) error {
	// Accounts are locked in the same order on all nodes, so that they cannot deadlock.
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b *responses.Record) int { return strings.Compare(a.AccountID, b.AccountID) })
	if s.engine == SQLite {
		if err := s.keepQuickly(ctx, all, most); !errors.Is(err, errThere) && !errors.Is(err, errFull) {
			return err
		}
	}
	err := s.insertResponses(ctx, all, most, false)
	if isUnique(err) {
		// The id of a response is that of its request, so this happens only if one is stored twice.
		err = s.insertResponses(ctx, last(all), most, true)
	}
	return err
}

// last returns the records without those whose id comes again.
func last(all []*responses.Record) (some []*responses.Record) {
	for i, r := range all {
		if !slices.ContainsFunc(all[i+1:], func(later *responses.Record) bool { return bytes.Equal(later.ID, r.ID) }) {
			some = append(some, r)
		}
	}
	return some
}

// insertResponses inserts responses, which are ordered by their accounts, and makes room for them. If replace is set, those
// with the same ids go first; otherwise they are the violation of a unique index.
func (s *Store) insertResponses(ctx context.Context, all []*responses.Record, most responses.Bound, replace bool) error {
	var steps []step
	var more []func() []step // what is left to trim for each account
	for some := all; len(some) > 0; {
		have, n, first := &responsesUse{accountID: some[0].AccountID}, 0, int64(math.MaxInt64)
		for ; n < len(some) && some[n].AccountID == have.accountID; n++ {
			have.add(some[n])
			first = min(first, millis(some[n].ExpiresAt))
		}
		steps = append(steps, have.count())
		if replace {
			for _, r := range some[:n] {
				steps = append(steps,
					step{query: `UPDATE response_sizes SET entries = entries - 1, bytes = bytes - (SELECT size FROM responses WHERE id = $2)
						WHERE account_id = $1 AND EXISTS (SELECT 1 FROM responses WHERE id = $2 AND account_id = $1)`, args: []any{have.accountID, r.ID}},
					step{query: `DELETE FROM responses WHERE id = $2 AND account_id = $1`, args: []any{have.accountID, r.ID}})
			}
		}
		deleted := new(int64)
		steps = append(steps, responseShelf.trim(deleted, have.accountID, most.Entries, most.Bytes, int64(math.MaxInt64))...)
		more = append(more, func() []step {
			if *deleted < trimAtOnce {
				return nil
			}
			lock := &responsesUse{accountID: have.accountID}
			return append([]step{lock.count()}, responseShelf.trim(deleted, have.accountID, most.Entries, most.Bytes, first)...)
		})
		some = some[n:]
	}
	for _, r := range all {
		steps = append(steps, step{
			query: `INSERT INTO responses (id, account_id, previous, size, expires_at, sealed) VALUES ($1, $2, $3, $4, $5, $6)`,
			args:  []any{r.ID, r.AccountID, r.Previous, int64(len(r.Sealed)), millis(r.ExpiresAt), r.Sealed},
		})
	}
	for len(steps) > 0 {
		if err := s.together(ctx, steps); err != nil {
			return err
		}
		steps = nil
		for _, left := range more {
			steps = append(steps, left()...)
		}
	}
	return nil
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
		slices.SortStableFunc(old, func(a, b expired) int { return strings.Compare(a.accountID, b.accountID) })
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

// count adds what u has to the sums of the account. Like lockResponses, it makes this transaction the only one that can
// change the account's responses.
func (u *responsesUse) count() step {
	return step{
		query: `INSERT INTO response_sizes (account_id, entries, bytes) VALUES ($1, $2, $3)
		ON CONFLICT (account_id) DO UPDATE SET entries = response_sizes.entries + excluded.entries, bytes = response_sizes.bytes + excluded.bytes`,
		args: []any{u.accountID, u.Entries, u.Bytes},
	}
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
