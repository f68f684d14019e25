package calls

import (
	"context"
	"time"

	"sluice/internal/ledger/refusal"
	"sluice/internal/store/sqlstore"
)

// refusalColumns are in the order of RecordRefusals and refusals.
const refusalColumns = `account_id, at, id, request_id, key_id, status, kind, param, path, model, address, message`

// RecordRefusals stores refused calls, adds to the counts by minute, and deletes the calls of these accounts beyond
// the newest that are kept.
func (s *Store) RecordRefusals(ctx context.Context, calls []refusal.Call, minutes []refusal.Minute) error {
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		err := tx.ExecEach(len(calls), func(i int) []any {
			c := &calls[i]
			return []any{c.AccountID, c.At, c.ID, c.RequestID, c.KeyID, c.Status, c.Kind, c.Param, c.Path, c.Model, c.Address, c.Message}
		}, sqlstore.Insert("refused_calls", refusalColumns)+` ON CONFLICT (account_id, at, id) DO NOTHING`)
		if err != nil {
			return err
		}
		for i := range calls {
			if i < len(calls)-1 && calls[i+1].AccountID == calls[i].AccountID {
				continue
			}
			// The last one of an account: its oldest calls go.
			tx.Do(`DELETE FROM refused_calls WHERE account_id = $1 AND (at, id) <=
				(SELECT at, id FROM refused_calls WHERE account_id = $1 ORDER BY at DESC, id DESC LIMIT 1 OFFSET $2)`, calls[i].AccountID, refusal.Kept)
		}
		return tx.ExecEach(len(minutes), func(i int) []any {
			m := &minutes[i]
			return []any{m.AccountID, m.Start, m.Status, m.Calls}
		}, `INSERT INTO refused_minutes (account_id, start, status, calls) VALUES ($1, $2, $3, $4)
			ON CONFLICT (account_id, start, status) DO UPDATE SET calls = refused_minutes.calls + excluded.calls`)
	})
}

// refusalsQuery pages as recentQuery does.
const refusalsQuery = `SELECT ` + refusalColumns + ` FROM refused_calls
	WHERE account_id = $1 AND at <= $2 AND (at < $2 OR id < $3) ORDER BY at DESC, id DESC LIMIT $4`

// Refusals returns an account's refused calls before a point, newest first.
func (s *Store) Refusals(ctx context.Context, accountID string, before refusal.Point, limit int) ([]refusal.Call, error) {
	return s.refusals(ctx, refusalsQuery, accountID, before.At, before.ID, limit)
}

const newestRefusalsQuery = `SELECT ` + refusalColumns + ` FROM refused_calls ORDER BY at DESC LIMIT $1`

// NewestRefusals returns the newest refused calls of all accounts, newest first.
func (s *Store) NewestRefusals(ctx context.Context, limit int) ([]refusal.Call, error) {
	return s.refusals(ctx, newestRefusalsQuery, limit)
}

func (s *Store) refusals(ctx context.Context, query string, args ...any) ([]refusal.Call, error) {
	return sqlstore.All(s.db.Read(ctx), func(row sqlstore.Row, c *refusal.Call) error {
		return row.Scan(&c.AccountID, &c.At, &c.ID, &c.RequestID, &c.KeyID, &c.Status, &c.Kind, &c.Param, &c.Path, &c.Model, &c.Address, &c.Message)
	}, query, args...)
}

// refusedMinutesQuery adds up the minutes of each bar of a chart.
const refusedMinutesQuery = `SELECT start / $3 * $3, status, SUM(calls) FROM refused_minutes
	WHERE account_id = $1 AND start >= $2 GROUP BY start / $3 * $3, status ORDER BY 1, 2`

// RefusedMinutes returns how many calls of an account were refused since a time, by status and by spans of this many
// minutes.
func (s *Store) RefusedMinutes(ctx context.Context, accountID string, from time.Time, span time.Duration) ([]refusal.Minute, error) {
	return sqlstore.All(s.db.Read(ctx), func(row sqlstore.Row, m *refusal.Minute) error {
		m.AccountID = accountID
		return row.Scan(&m.Start, &m.Status, &m.Calls)
	}, refusedMinutesQuery, accountID, from, max(span, time.Minute))
}

// dropRefusals deletes up to most refused calls that are too old.
func (s *Store) dropRefusals(ctx context.Context, now time.Time, most int) (int, error) {
	return s.db.Prune(ctx, `DELETE FROM refused_calls WHERE (account_id, at, id) IN
		(SELECT account_id, at, id FROM refused_calls WHERE at < $1 ORDER BY at LIMIT $2)`, now.Add(-refusal.KeepCalls), most)
}

// dropRefusedMinutes deletes up to most counts that are too old.
func (s *Store) dropRefusedMinutes(ctx context.Context, now time.Time, most int) (int, error) {
	return s.db.Prune(ctx, `DELETE FROM refused_minutes WHERE (account_id, start, status) IN
		(SELECT account_id, start, status FROM refused_minutes WHERE start < $1 ORDER BY start LIMIT $2)`, now.Add(-refusal.KeepMinutes), most)
}
