package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"sluice/internal/operate/overview"
)

// StoreMinutes stores minutes of a node, over those that it has stored before, and deletes minutes of all nodes that are
// older than before.
func (s *Store) StoreMinutes(ctx context.Context, node string, minutes []overview.Minute, before time.Time) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for i := range minutes {
			content, err := json.Marshal(&minutes[i])
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `INSERT INTO overview_minutes (at, node, content) VALUES ($1, $2, $3)
				ON CONFLICT (at, node) DO UPDATE SET content = excluded.content`, millis(minutes[i].At), node, string(content)); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM overview_minutes WHERE at < $1`, millis(before))
		return err
	})
}

// Minutes calls yield for the minutes that other nodes have stored, from a time on.
func (s *Store) Minutes(ctx context.Context, except string, from time.Time, yield func(node string, m overview.Minute)) error {
	return unavailable(each(ctx, s.read, func(rows *sql.Rows) error {
		var node, content string
		if err := rows.Scan(&node, &content); err != nil {
			return err
		}
		var m overview.Minute
		if err := json.Unmarshal([]byte(content), &m); err != nil {
			return fmt.Errorf("a minute of node %s: %w", node, err)
		}
		yield(node, m)
		return nil
	}, `SELECT node, content FROM overview_minutes WHERE at >= $1 AND node <> $2`, millis(from), except))
}

// Revenue returns what was paid on each day (UTC) from a time on, without what was refunded of it, by the number of the
// day since 1970.
func (s *Store) Revenue(ctx context.Context, from time.Time) (map[int64]overview.Income, error) {
	days := map[int64]overview.Income{}
	err := each(ctx, s.read, func(rows *sql.Rows) error {
		var day int64
		var in overview.Income
		if err := rows.Scan(&day, &in.Payments, &in.Cents); err != nil {
			return err
		}
		days[day] = in
		return nil
	}, revenueQuery, millis(from))
	return days, unavailable(err)
}

const revenueQuery = `SELECT paid_at / 86400000, COUNT(*), SUM(amount_cents - refunded_cents) FROM billing_payments
	WHERE paid_at > 0 AND paid_at >= $1 GROUP BY paid_at / 86400000`
