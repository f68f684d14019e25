package kept

import (
	"context"
	"math"
	"time"

	"sluice/internal/store/sqlstore"
	"sluice/internal/upstream/continuation"
)

// stateShelf is the table of states.
var stateTable = table{rows: "continuations", sums: "continuation_sizes", entries: true}

// KeepState stores a sealed state and replaces the one with the same id. If all states of the
// account would then exceed the bound, its oldest ones are deleted.
func (s *Store) KeepState(ctx context.Context, st *continuation.State, most continuation.Bound) error {
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		// The sums are read under the lock, so no other transaction can change them before they are
		// written back.
		have, err := stateTable.lock(tx, st.AccountID)
		if err != nil {
			return err
		}
		// A state that is replaced no longer counts.
		if _, err := stateTable.remove(tx, have, `id = $1`, st.ID); err != nil {
			return err
		}
		if err := tx.Exec(`INSERT INTO continuations (id, account_id, size, expires_at, sealed) VALUES ($1, $2, $3, $4, $5)`,
			st.ID, st.AccountID, len(st.Sealed), st.ExpiresAt, st.Sealed); err != nil {
			return err
		}
		have.entries++
		have.bytes += int64(len(st.Sealed))
		// Delete the oldest states until the bound holds, but never the new one: it may exceed the bound on its own.
		for more := true; more && (have.entries > int64(most.Entries) || have.bytes > most.Bytes); {
			more, err = stateTable.remove(tx, have, `id = (SELECT id FROM continuations WHERE account_id = $1 AND id <> $2 ORDER BY expires_at LIMIT 1)`, st.AccountID, st.ID)
			if err != nil {
				return err
			}
		}
		return stateTable.store(tx, have)
	})
}

// FindState returns the sealed state with the given id, or nil if there is none or it has expired.
func (s *Store) FindState(ctx context.Context, id []byte, now time.Time) ([]byte, error) {
	return sqlstore.Optional[[]byte](s.db.Read(ctx), `SELECT sealed FROM continuations WHERE id = $1 AND expires_at > $2`, id, now)
}

// DropStates deletes up to most expired states and returns how many it deleted.
func (s *Store) DropStates(ctx context.Context, now time.Time, most int) (int, error) {
	return s.dropExpired(ctx, &stateTable, now, most)
}

// TrimStates deletes up to atOnce states, the oldest of all accounts, if all states together take
// more than most bytes. It returns how many it deleted. The caller repeats it until that is zero.
func (s *Store) TrimStates(ctx context.Context, most int64, atOnce int) (int, error) {
	return sqlstore.InTx(ctx, s.db, func(tx *sqlstore.Conn) (int, error) {
		// The sums are kept per account, so this adds up few rows.
		all, err := sqlstore.Value[int64](tx, `SELECT COALESCE(SUM(bytes), 0) FROM continuation_sizes`)
		if err != nil || all <= most {
			return 0, err
		}
		return stateTable.drop(tx, int64(math.MaxInt64), `ORDER BY expires_at LIMIT $1`, atOnce)
	})
}
