package kept

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"sluice/internal/api/responses"
	"sluice/internal/store/sqlstore"
)

// errThere means that a response with the same id is stored already, and errFull that responses would exceed the bound of an
// account.
var (
	errThere = errors.New("a response with this id is stored already")
	errFull  = errors.New("the account has no room for this response")
)

// quick holds the statements that store responses on SQLite, for the connection that they were prepared on. Preparing
// them would cost more than running them. Only who has the connection uses it.
type quick struct {
	conn       driver.Conn
	count, row driver.StmtExecContext
}

// keepQuickly is KeepResponses on SQLite for the usual case: the ids are new, and there is room. Otherwise it returns
// errThere or errFull and has stored nothing.
//
// The transaction survives the death of the process, but is not synced to the disk on its own: the next one that is, at
// most a second later that of the settlements, takes it along. So a response is as durable as the settlement of its call
// (docs/accounting.md#the-path-of-a-settlement), and a caller that asks for one after the other does not wait for the disk
// each time.
func (s *Store) keepQuickly(ctx context.Context, all []*responses.Record, most responses.Bound) error {
	return s.db.Relaxed(ctx, func(ctx context.Context, conn driver.Conn) error {
		k, err := s.quickOn(conn)
		if err != nil {
			return err
		}
		// A statement that watched the context would cost a goroutine. There is nothing here to wait for.
		bare := context.WithoutCancel(ctx)
		for some := all; len(some) > 0; {
			have, n := usesOf(some)
			if err := execOne(bare, k.count, errFull, have.accountID, have.entries, have.bytes, most.Entries, most.Bytes); err != nil {
				return err
			}
			some = some[n:]
		}
		for _, r := range all {
			if err := execOne(bare, k.row, errThere, r.ID, r.AccountID, r.Previous, int64(len(r.Sealed)), sqlstore.Millis(r.ExpiresAt), r.Sealed); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
}

// quickOn returns the statements of a connection.
func (s *Store) quickOn(conn driver.Conn) (*quick, error) {
	if s.quick.conn == conn {
		return &s.quick, nil
	}
	// An account without responses has no row; one that would exceed the bound keeps what it has.
	count, err := conn.Prepare(`INSERT INTO response_sizes (account_id, entries, bytes) SELECT ?1, ?2, ?3 WHERE ?2 <= ?4 AND ?3 <= ?5
		ON CONFLICT (account_id) DO UPDATE SET entries = entries + excluded.entries, bytes = bytes + excluded.bytes
		WHERE entries + excluded.entries <= ?4 AND bytes + excluded.bytes <= ?5`)
	if err != nil {
		return nil, err
	}
	row, err := conn.Prepare(`INSERT INTO responses (id, account_id, previous, size, expires_at, sealed) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`)
	if err != nil {
		return nil, err
	}
	k := quick{conn: conn}
	var ok, too bool
	k.count, ok = count.(driver.StmtExecContext)
	if k.row, too = row.(driver.StmtExecContext); !ok || !too {
		return nil, fmt.Errorf("a %T cannot be executed", row)
	}
	s.quick = k
	return &s.quick, nil
}

// execOne runs a statement that changes one row. If it changes none, the error is none.
func execOne(ctx context.Context, stmt driver.StmtExecContext, none error, values ...driver.Value) error {
	args := make([]driver.NamedValue, len(values))
	for i, v := range values {
		args[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	res, err := stmt.ExecContext(ctx, args)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 1 {
		return err
	}
	return none
}
