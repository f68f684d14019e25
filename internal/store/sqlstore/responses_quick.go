package sqlstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"sluice/internal/api/responses"
)

// errThere means that a response with the same id is stored already, and errFull that responses would exceed the bound of an
// account.
var (
	errThere = errors.New("a response with this id is stored already")
	errFull  = errors.New("the account has no room for this response")
)

// keeping holds the statements that store responses on SQLite, for the connection that they were prepared on. Preparing
// them would cost more than running them. Only who has the connection uses it.
type keeping struct {
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
	return unavailable(s.write.relaxed(ctx, func(ctx context.Context, conn driver.Conn) error {
		k, err := s.keepingOn(conn)
		if err != nil {
			return err
		}
		// A statement that watched the context would cost a goroutine. There is nothing here to wait for.
		bare := context.WithoutCancel(ctx)
		for some := all; len(some) > 0; {
			have, n := &responsesUse{accountID: some[0].AccountID}, 0
			for n < len(some) && some[n].AccountID == have.accountID {
				have.add(some[n])
				n++
			}
			if err := execOne(bare, k.count, errFull, have.accountID, have.Entries, have.Bytes, most.Entries, most.Bytes); err != nil {
				return err
			}
			some = some[n:]
		}
		for _, r := range all {
			if err := execOne(bare, k.row, errThere, r.ID, r.AccountID, r.Previous, int64(len(r.Sealed)), millis(r.ExpiresAt), r.Sealed); err != nil {
				return err
			}
		}
		return ctx.Err()
	}))
}

// keepingOn returns the statements of a connection.
func (s *Store) keepingOn(conn driver.Conn) (*keeping, error) {
	if s.keeping.conn == conn {
		return &s.keeping, nil
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
	k := keeping{conn: conn}
	var ok, too bool
	k.count, ok = count.(driver.StmtExecContext)
	if k.row, too = row.(driver.StmtExecContext); !ok || !too {
		return nil, fmt.Errorf("a %T cannot be executed", row)
	}
	s.keeping = k
	return &s.keeping, nil
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

// relaxed is driverTx on SQLite without a sync of its own; see keepQuickly.
func (p *pool) relaxed(ctx context.Context, work func(ctx context.Context, conn driver.Conn) error) (err error) {
	ctx, cancel := within(ctx, p.patience.call)
	defer cancel()
	defer func() {
		p.note(err)
		p.wrote(err)
	}()
	conn, err := p.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Raw(func(c any) (err error) {
		sqlite, ok := c.(interface {
			driver.Conn
			driver.ConnBeginTx
			driver.ExecerContext
		})
		if !ok {
			return fmt.Errorf("a %T has no transactions", c)
		}
		bare := context.WithoutCancel(ctx)
		if _, err := sqlite.ExecContext(bare, "PRAGMA synchronous = NORMAL", nil); err != nil {
			return err
		}
		defer func() {
			// A connection that keeps being lax would be one for keys and plans, too.
			if _, failed := sqlite.ExecContext(bare, "PRAGMA synchronous = FULL", nil); failed != nil {
				err = errors.Join(err, driver.ErrBadConn, failed)
			}
		}()
		tx, err := sqlite.BeginTx(ctx, driver.TxOptions{})
		if err != nil {
			return err
		}
		if err := work(ctx, sqlite); err != nil {
			if failed := tx.Rollback(); failed != nil {
				err = errors.Join(err, driver.ErrBadConn, failed)
			}
			return err
		}
		return tx.Commit()
	})
}
