package sqlstore

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// Step is one statement of Together.
// Row and Changed point to memory of the caller, which is valid only if Together returns no error.
type Step struct {
	Query   string
	Args    []any
	Row     []any  // where its one row goes; nil: it gives no rows
	Changed *int64 // how many rows it has changed; may be nil
}

// Together runs statements in one transaction. On PostgreSQL all of them are sent at once, and it takes one round trip with
// its begin and commit: calls wait for it. So no statement can have what an earlier one returned among its arguments;
// but it sees what the earlier ones have changed, and what others had committed when it began.
//
// If PostgreSQL is known not to answer, Together fails at once; see state.away.
func (s *Store) Together(ctx context.Context, steps []Step) error {
	if s.engine == Postgres {
		if s.state.away(time.Now()) {
			return unanswered(errSilent)
		}
		return unavailable(s.write.send(ctx, steps))
	}
	return s.Tx(ctx, func(tx *Conn) error {
		for _, st := range steps {
			if err := st.run(tx); err != nil {
				return err
			}
		}
		return nil
	})
}

// errSilent is the reason why PostgreSQL was not asked.
var errSilent = errors.New("it has not answered for a second, and was not asked again")

// run runs the statement in a transaction.
func (st *Step) run(tx *Conn) error {
	if st.Row != nil {
		return tx.first(func(row Row) error { return row.Scan(st.Row...) }, st.Query, st.Args)
	}
	n, err := tx.Changed(st.Query, st.Args...)
	if st.Changed != nil {
		*st.Changed = n
	}
	return err
}

// read reads what became of the statement.
func (st *Step) read(from pgx.BatchResults) error {
	if st.Row != nil {
		return from.QueryRow().Scan(st.Row...)
	}
	tag, err := from.Exec()
	if err == nil && st.Changed != nil {
		*st.Changed = tag.RowsAffected()
	}
	return err
}
