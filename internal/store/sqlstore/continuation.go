package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"sluice/internal/upstream/continuation"
)

// KeepState stores a sealed state and replaces the one with the same id. If all states of the
// account would then exceed the bound, its oldest ones are deleted.
func (s *Store) KeepState(ctx context.Context, st *continuation.State, most continuation.Bound) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		// The sums are read under the lock, so no other transaction can change them before they are
		// written back.
		have, err := lockStates(ctx, tx, st.AccountID)
		if err != nil {
			return err
		}
		// A state that is replaced no longer counts.
		if err := have.remove(tx.QueryRowContext(ctx, `DELETE FROM continuations WHERE id = $1 RETURNING account_id, size`, st.ID)); err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO continuations (id, account_id, size, expires_at, sealed) VALUES ($1, $2, $3, $4, $5)`,
			st.ID, st.AccountID, len(st.Sealed), millis(st.ExpiresAt), st.Sealed); err != nil {
			return err
		}
		have.Entries++
		have.Bytes += int64(len(st.Sealed))
		// Delete the oldest states until the bound holds, but never the new one.
		for have.Entries > most.Entries || have.Bytes > most.Bytes {
			err := have.remove(tx.QueryRowContext(ctx, `DELETE FROM continuations WHERE id = (SELECT id FROM continuations
				WHERE account_id = $1 AND id <> $2 ORDER BY expires_at LIMIT 1) RETURNING account_id, size`, st.AccountID, st.ID))
			if errors.Is(err, sql.ErrNoRows) {
				break // only the new one is left, and it exceeds the bound on its own
			}
			if err != nil {
				return err
			}
		}
		return setStates(ctx, tx, st.AccountID, have.Bound)
	})
}

// FindState returns the sealed state with the given id, or nil if there is none or it has expired.
func (s *Store) FindState(ctx context.Context, id []byte, now time.Time) ([]byte, error) {
	return s.findSealed(ctx, `SELECT sealed FROM continuations WHERE id = $1 AND expires_at > $2`, id, now)
}

// DropStates deletes up to most expired states and returns how many it deleted.
func (s *Store) DropStates(ctx context.Context, now time.Time, most int) (dropped int, err error) {
	err = s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		dropped, err = dropStates(ctx, tx, `SELECT account_id, id FROM continuations WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2`, millis(now), most)
		return err
	})
	return dropped, err
}

// TrimStates deletes up to atOnce states, the oldest of all accounts, if all states together take
// more than most bytes. It returns how many it deleted. The caller repeats it until that is zero.
func (s *Store) TrimStates(ctx context.Context, most int64, atOnce int) (dropped int, err error) {
	err = s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		// The sums are kept per account, so this adds up few rows.
		var all int64
		if err := tx.QueryRowContext(ctx, `SELECT COALESCE(SUM(bytes), 0) FROM continuation_sizes`).Scan(&all); err != nil || all <= most {
			return err
		}
		dropped, err = dropStates(ctx, tx, `SELECT account_id, id FROM continuations ORDER BY expires_at LIMIT $1`, atOnce)
		return err
	})
	return dropped, err
}

// statesUse is the number and size of an account's states.
type statesUse struct {
	accountID string
	continuation.Bound
}

// remove subtracts a deleted row. Rows that were stored before the sums existed have no account and
// were never added.
func (u *statesUse) remove(deleted *sql.Row) error {
	var accountID string
	var size int64
	if err := deleted.Scan(&accountID, &size); err != nil {
		return err
	}
	// Only rows of this account are in these sums.
	if accountID == u.accountID && accountID != "" {
		u.Entries--
		u.Bytes -= size
	}
	return nil
}

// lockStates makes this transaction the only one that can change the account's states, and returns
// how much they take. The upsert takes the lock and creates the row if it is missing.
func lockStates(ctx context.Context, tx *sql.Tx, accountID string) (*statesUse, error) {
	u := &statesUse{accountID: accountID}
	err := tx.QueryRowContext(ctx, `INSERT INTO continuation_sizes (account_id, entries, bytes) VALUES ($1, 0, 0)
		ON CONFLICT (account_id) DO UPDATE SET bytes = continuation_sizes.bytes RETURNING entries, bytes`, accountID).Scan(&u.Entries, &u.Bytes)
	return u, err
}

// setStates stores the sums. An account without states has no row.
func setStates(ctx context.Context, tx *sql.Tx, accountID string, now continuation.Bound) error {
	if now.Entries == 0 {
		_, err := tx.ExecContext(ctx, `DELETE FROM continuation_sizes WHERE account_id = $1`, accountID)
		return err
	}
	_, err := tx.ExecContext(ctx, `UPDATE continuation_sizes SET entries = $2, bytes = $3 WHERE account_id = $1`, accountID, now.Entries, now.Bytes)
	return err
}

// dropStates deletes the states that a query selects and returns how many it deleted.
func dropStates(ctx context.Context, tx *sql.Tx, query string, args ...any) (dropped int, err error) {
	// Read all ids before deleting: on PostgreSQL a connection cannot run statements while rows are
	// open.
	found, err := stateIDs(ctx, tx, query, args...)
	if err != nil {
		return 0, err
	}
	// Lock the accounts in the same order on all nodes, so that they cannot deadlock.
	slices.SortStableFunc(found, func(a, b stateID) int { return strings.Compare(a.accountID, b.accountID) })
	for len(found) > 0 {
		have, err := lockStates(ctx, tx, found[0].accountID)
		if err != nil {
			return 0, err
		}
		// All states of one account, under one lock.
		for ; len(found) > 0 && found[0].accountID == have.accountID; found = found[1:] {
			err := have.remove(tx.QueryRowContext(ctx, `DELETE FROM continuations WHERE id = $1 RETURNING account_id, size`, found[0].id))
			if errors.Is(err, sql.ErrNoRows) {
				continue // another node has deleted it already
			}
			if err != nil {
				return 0, err
			}
			dropped++
		}
		if err := setStates(ctx, tx, have.accountID, have.Bound); err != nil {
			return 0, err
		}
	}
	return dropped, nil
}

// stateID identifies a state and its account.
type stateID struct {
	accountID string
	id        []byte
}

// stateIDs returns the rows of a query that selects account_id and id.
func stateIDs(ctx context.Context, tx *sql.Tx, query string, args ...any) ([]stateID, error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []stateID
	for rows.Next() {
		var r stateID
		if err := rows.Scan(&r.accountID, &r.id); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, rows.Err()
}
