package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// step is one statement of together.
type step struct {
	query   string
	args    []any
	row     []any  // where its one row goes; nil: it gives no rows
	changed *int64 // how many rows it has changed; may be nil
}

// together runs statements in one transaction. On PostgreSQL all of them are sent at once, and it takes one round trip with
// its begin and commit: calls wait for it. So no statement can have what an earlier one returned among its arguments;
// but it sees what the earlier ones have changed, and what others had committed when it began.
//
// If PostgreSQL is known not to answer, together fails at once; see state.away.
func (s *Store) together(ctx context.Context, steps []step) error {
	if s.engine == Postgres {
		if s.state.away(time.Now()) {
			return unanswered(errSilent)
		}
		return unavailable(s.write.send(ctx, steps))
	}
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for _, st := range steps {
			if err := st.run(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	})
}

// errSilent is the reason why PostgreSQL was not asked.
var errSilent = errors.New("it has not answered for a second, and was not asked again")

// run runs the statement in a transaction.
func (st *step) run(ctx context.Context, tx *sql.Tx) error {
	if st.row != nil {
		return tx.QueryRowContext(ctx, st.query, st.args...).Scan(st.row...)
	}
	res, err := tx.ExecContext(ctx, st.query, st.args...)
	if err != nil || st.changed == nil {
		return err
	}
	*st.changed, err = res.RowsAffected()
	return err
}

// read reads what became of the statement.
func (st *step) read(from pgx.BatchResults) error {
	if st.row != nil {
		return from.QueryRow().Scan(st.row...)
	}
	tag, err := from.Exec()
	if err == nil && st.changed != nil {
		*st.changed = tag.RowsAffected()
	}
	return err
}

// trimAtOnce is how many rows one trim looks at, and deletes at most. Only a row that is as large as hundreds of others needs
// another.
const trimAtOnce = 256

// shelf names a table of rows that have an id, an account_id, a size and an expires_at, and the table of their sums, which
// has a row for each account.
type shelf struct {
	rows, sums string
	over       string // of the sums: they exceed the bound, which is $2 and on
	doomed     string // of row number o.n, the oldest being 1, before which those have o.older bytes: the sums s exceed the bound without those
	others     string // which rows may go; its argument is $4
	entries    bool   // the sums have the number of rows, too
}

// trim returns the statements that delete the oldest rows of an account until its sums hold the bound, and where they note
// how many they have deleted. The sums may count rows that are about to be inserted. The transaction has locked the
// account's row of the sums by writing to it.
//
// The rows are marked first, with a time that no row has. So the same text serves both engines: SQLite cannot use the rows
// that a DELETE returns in another statement.
func (t *shelf) trim(deleted *int64, accountID string, args ...any) []step {
	marked := ` FROM ` + t.rows + ` WHERE account_id = $1 AND expires_at = 0`
	less := `bytes = bytes - (SELECT COALESCE(SUM(size), 0)` + marked + `)`
	if t.entries {
		less += `, entries = entries - (SELECT COUNT(*)` + marked + `)`
	}
	args = append([]any{accountID}, args...)
	return []step{
		{query: `UPDATE ` + t.rows + ` SET expires_at = 0 WHERE id IN (SELECT o.id FROM ` + t.sums + ` s, (
			SELECT id, ROW_NUMBER() OVER w AS n, CAST(SUM(size) OVER w AS BIGINT) - size AS older FROM (
				SELECT id, size, expires_at FROM ` + t.rows + ` WHERE account_id = $1 AND ` + t.others + `
				AND EXISTS (SELECT 1 FROM ` + t.sums + ` WHERE account_id = $1 AND (` + t.over + `)) ORDER BY expires_at LIMIT ` + strconv.Itoa(trimAtOnce) + `) AS oldest
			WINDOW w AS (ORDER BY expires_at, id)) AS o WHERE s.account_id = $1 AND (` + t.doomed + `))`, args: args},
		{query: `UPDATE ` + t.sums + ` SET ` + less + ` WHERE account_id = $1 AND EXISTS (SELECT 1` + marked + `)`, args: args[:1]},
		{query: `DELETE` + marked, args: args[:1], changed: deleted},
	}
}
