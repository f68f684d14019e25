package kept

import (
	"context"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"sluice/internal/store/sqlstore"
	"sluice/internal/upstream/continuation"
)

// stateShelf is the table of states.
var stateTable = table{rows: "continuations", sums: "continuation_sizes", entries: true}

// KeepState stores a sealed state and replaces the one with the same id. If all states of the
// account would then exceed the bound, those that were not used for the longest time are deleted.
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
		if err := tx.Exec(`INSERT INTO continuations (id, account_id, size, used_at, expires_at, sealed) VALUES ($1, $2, $3, $4, $5, $6)`,
			st.ID, st.AccountID, len(st.Sealed), st.UsedAt, st.ExpiresAt, st.Sealed); err != nil {
			return err
		}
		have.entries++
		have.bytes += int64(len(st.Sealed))
		// Delete the least recently used states until the bound holds, but never the new one: it may exceed the bound on its own.
		for more := true; more && (have.entries > int64(most.Entries) || have.bytes > most.Bytes); {
			more, err = stateTable.remove(tx, have, `id = (SELECT id FROM continuations WHERE account_id = $1 AND id <> $2 ORDER BY used_at, expires_at LIMIT 1)`, st.AccountID, st.ID)
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

// FindStates returns those of the states with the ids that have not expired.
func (s *Store) FindStates(ctx context.Context, ids [][]byte, now time.Time) ([]continuation.State, error) {
	in, args := among(ids, now)
	return sqlstore.All(s.db.Read(ctx), func(row sqlstore.Row, st *continuation.State) error {
		return row.Scan(&st.ID, &st.Sealed, &st.ExpiresAt)
	}, `SELECT id, sealed, expires_at FROM continuations WHERE expires_at > $1 AND id IN (`+in+`)`, args...)
}

// RenewStates sets when the states with the ids were used and when they expire. One that was deleted stays so.
func (s *Store) RenewStates(ctx context.Context, ids [][]byte, now, expires time.Time) error {
	in, args := among(ids, now, expires)
	return s.db.Write(ctx).Exec(`UPDATE continuations SET used_at = $1, expires_at = $2 WHERE id IN (`+in+`)`, args...)
}

// among returns a list of placeholders for the ids, and the arguments of a statement that has others before them. The list
// is as long as a power of two, with the last id again and again, so that databases see few different statements. There
// must be an id.
func among(ids [][]byte, others ...any) (in string, args []any) {
	var b strings.Builder
	args = others
	for i := range 1 << bits.Len(uint(len(ids)-1)) {
		if i > 0 {
			b.WriteString(", ")
		}
		args = append(args, ids[min(i, len(ids)-1)])
		b.WriteString("$" + strconv.Itoa(len(args)))
	}
	return b.String(), args
}

// DropStates deletes up to most expired states and returns how many it deleted.
func (s *Store) DropStates(ctx context.Context, now time.Time, most int) (int, error) {
	return s.dropExpired(ctx, &stateTable, now, most)
}

// TrimStates deletes up to atOnce states, the least recently used of all accounts, if all states together take
// more than most bytes. It returns how many it deleted. The caller repeats it until that is zero.
func (s *Store) TrimStates(ctx context.Context, most int64, atOnce int) (int, error) {
	return sqlstore.InTx(ctx, s.db, func(tx *sqlstore.Conn) (int, error) {
		// The sums are kept per account, so this adds up few rows.
		all, err := sqlstore.Value[int64](tx, `SELECT COALESCE(SUM(bytes), 0) FROM continuation_sizes`)
		if err != nil || all <= most {
			return 0, err
		}
		return stateTable.drop(tx, int64(math.MaxInt64), `ORDER BY used_at, expires_at LIMIT $1`, atOnce)
	})
}
