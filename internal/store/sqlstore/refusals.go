package sqlstore

import (
	"context"
	"database/sql"
	"time"

	"sluice/internal/ledger/refusal"
)

// refusalColumns are in the order of RecordRefusals and refusals.
const refusalColumns = `account_id, at, id, request_id, key_id, status, kind, param, path, model, address, message`

// RecordRefusals stores refused calls, adds to the counts by minute, and deletes the calls of these accounts beyond
// the newest that are kept.
func (s *Store) RecordRefusals(ctx context.Context, calls []refusal.Call, minutes []refusal.Minute) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		insert, err := tx.PrepareContext(ctx, `INSERT INTO refused_calls (`+refusalColumns+`) VALUES `+placeholders(1, 12)+` ON CONFLICT (account_id, at, id) DO NOTHING`)
		if err != nil {
			return err
		}
		defer insert.Close()
		for i := range calls {
			c := &calls[i]
			if _, err := insert.ExecContext(ctx, c.AccountID, millis(c.At), c.ID, c.RequestID, c.KeyID, c.Status, c.Kind, c.Param, c.Path, c.Model, c.Address, c.Message); err != nil {
				return err
			}
			if i < len(calls)-1 && calls[i+1].AccountID == c.AccountID {
				continue
			}
			// The last one of an account: its oldest calls go.
			_, err := tx.ExecContext(ctx, `DELETE FROM refused_calls WHERE account_id = $1 AND (at, id) <=
				(SELECT at, id FROM refused_calls WHERE account_id = $1 ORDER BY at DESC, id DESC LIMIT 1 OFFSET $2)`, c.AccountID, refusal.Kept)
			if err != nil {
				return err
			}
		}
		add, err := tx.PrepareContext(ctx, `INSERT INTO refused_minutes (account_id, start, status, calls) VALUES ($1, $2, $3, $4)
			ON CONFLICT (account_id, start, status) DO UPDATE SET calls = refused_minutes.calls + excluded.calls`)
		if err != nil {
			return err
		}
		defer add.Close()
		for i := range minutes {
			m := &minutes[i]
			if _, err := add.ExecContext(ctx, m.AccountID, millis(m.Start), m.Status, m.Calls); err != nil {
				return err
			}
		}
		return nil
	})
}

// refusalsQuery pages as recentQuery does.
const refusalsQuery = `SELECT ` + refusalColumns + ` FROM refused_calls
	WHERE account_id = $1 AND at <= $2 AND (at < $2 OR id < $3) ORDER BY at DESC, id DESC LIMIT $4`

// Refusals returns an account's refused calls before a point, newest first.
func (s *Store) Refusals(ctx context.Context, accountID string, before refusal.Point, limit int) ([]refusal.Call, error) {
	return s.refusals(ctx, refusalsQuery, accountID, millis(before.At), before.ID, limit)
}

func (s *Store) refusals(ctx context.Context, query string, args ...any) (out []refusal.Call, err error) {
	err = each(ctx, s.read, func(rows *sql.Rows) error {
		var c refusal.Call
		var at int64
		err := rows.Scan(&c.AccountID, &at, &c.ID, &c.RequestID, &c.KeyID, &c.Status, &c.Kind, &c.Param, &c.Path, &c.Model, &c.Address, &c.Message)
		c.At = fromMillis(at)
		out = append(out, c)
		return err
	}, query, args...)
	return out, unavailable(err)
}

// refusedMinutesQuery adds up the minutes of each bar of a chart.
const refusedMinutesQuery = `SELECT start / $3 * $3, status, SUM(calls) FROM refused_minutes
	WHERE account_id = $1 AND start >= $2 GROUP BY start / $3 * $3, status ORDER BY 1, 2`

// RefusedMinutes returns how many calls of an account were refused since a time, by status and by spans of so many
// minutes.
func (s *Store) RefusedMinutes(ctx context.Context, accountID string, from time.Time, span time.Duration) ([]refusal.Minute, error) {
	var out []refusal.Minute
	err := each(ctx, s.read, func(rows *sql.Rows) error {
		m := refusal.Minute{AccountID: accountID}
		var start int64
		err := rows.Scan(&start, &m.Status, &m.Calls)
		m.Start = fromMillis(start)
		out = append(out, m)
		return err
	}, refusedMinutesQuery, accountID, millis(from), max(span, time.Minute).Milliseconds())
	return out, unavailable(err)
}

// dropRefusals deletes up to most refused calls that are too old.
func (s *Store) dropRefusals(ctx context.Context, now time.Time, most int) (int, error) {
	return s.dropSome(ctx, `DELETE FROM refused_calls WHERE (account_id, at, id) IN
		(SELECT account_id, at, id FROM refused_calls WHERE at < $1 ORDER BY at LIMIT $2)`, millis(now.Add(-refusal.KeepCalls)), most)
}

// dropRefusedMinutes deletes up to most counts that are too old.
func (s *Store) dropRefusedMinutes(ctx context.Context, now time.Time, most int) (int, error) {
	return s.dropSome(ctx, `DELETE FROM refused_minutes WHERE (account_id, start, status) IN
		(SELECT account_id, start, status FROM refused_minutes WHERE start < $1 ORDER BY start LIMIT $2)`, millis(now.Add(-refusal.KeepMinutes)), most)
}

// dropSome runs a statement that deletes, and returns how many rows it deleted.
func (s *Store) dropSome(ctx context.Context, query string, args ...any) (n int, err error) {
	err = s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, query, args...)
		if err != nil {
			return err
		}
		deleted, err := res.RowsAffected()
		n = int(deleted)
		return err
	})
	return n, err
}
