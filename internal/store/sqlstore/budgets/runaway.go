package budgets

import (
	"context"
	"time"

	"sluice/internal/ledger/price"
	"sluice/internal/ledger/runaway"
	"sluice/internal/operate/alert"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/alerts"
)

const (
	// mostSpent is how many calls of an account are added up to say what a key of it has spent: about thirty a second for the time that a
	// Watch looks at. Of an account with more, the newest are.
	mostSpent = 20_000
	// keepAlarms is how long it is known that people were told: longer than they are not told again.
	keepAlarms = 7 * 24 * time.Hour
)

// spentQuery adds up the newest calls of an account, by an index in their order.
const spentQuery = `SELECT CAST(COALESCE(SUM(CASE WHEN key_id = $2 AND cost_micro IS NOT NULL THEN cost_micro * 1000 + cost_nano + margin_nano ELSE 0 END), 0) AS BIGINT)
	FROM (SELECT key_id, cost_micro, cost_nano, margin_nano FROM settlements WHERE account_id = $1 AND at >= $3 ORDER BY at DESC LIMIT $4) AS newest`

// Spent returns what a key has spent; see runaway.Store.
func (s *Store) Spent(ctx context.Context, accountID, keyID string, since time.Time) (price.Nano, error) {
	return sqlstore.Value[price.Nano](s.db.Read(ctx), spentQuery, accountID, keyID, since, mostSpent)
}

// pastQuery returns the busiest hour and the first one, of a key and of its account. The primary key of the table
// has the hours of an account in their order, and an hour has as many rows as its keys have used models.
const pastQuery = `SELECT CAST(COALESCE(MAX(own), 0) AS BIGINT), CAST(COALESCE(MIN(CASE WHEN mine > 0 THEN start END), 0) AS BIGINT),
		CAST(COALESCE(MAX(total), 0) AS BIGINT), CAST(COALESCE(MIN(start), 0) AS BIGINT)
	FROM (SELECT start, SUM(CASE WHEN key_id = $2 THEN 1 ELSE 0 END) AS mine,
		SUM(CASE WHEN key_id = $2 THEN cost_micro * 1000 + cost_nano + margin_nano ELSE 0 END) AS own,
		SUM(cost_micro * 1000 + cost_nano + margin_nano) AS total
		FROM usage_hours WHERE account_id = $1 AND start >= $3 AND start < $4 GROUP BY start) AS hours`

// Past returns what a key and its account have spent before; see runaway.Store.
func (s *Store) Past(ctx context.Context, accountID, keyID string, from, until time.Time) (key, all runaway.Past, err error) {
	err = s.db.Read(ctx).Each(func(row sqlstore.Row) error {
		return row.Scan(&key.Busiest, &key.First, &all.Busiest, &all.First)
	}, pastQuery, accountID, keyID, from, until)
	return key, all, err
}

// NoteAlarm notes an alarm; see runaway.Store.
func (s *Store) NoteAlarm(ctx context.Context, a *runaway.Alarm, since time.Time) (bool, error) {
	return sqlstore.InTx(ctx, s.db, func(tx *sqlstore.Conn) (bool, error) {
		paused := int64(0)
		if a.Paused {
			paused = 1
		}
		n, err := tx.Changed(`INSERT INTO runaway_alarms (account_id, key_id, signal, at, paused) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (account_id, key_id, signal) DO UPDATE SET at = excluded.at, paused = excluded.paused
			WHERE runaway_alarms.at <= $6 OR excluded.paused > runaway_alarms.paused`, a.AccountID, a.Key.ID, string(a.Signal), a.At, paused, since)
		if err != nil || n == 0 {
			return false, err
		}
		alerts.Add(tx, alert.OfRunaway(a))
		return true, nil
	})
}

// dropAlarms deletes what people were told long ago.
func (s *Store) dropAlarms(ctx context.Context, _ time.Time, most int) (int, error) {
	return s.db.Prune(ctx, `DELETE FROM runaway_alarms WHERE (account_id, key_id, signal) IN
		(SELECT account_id, key_id, signal FROM runaway_alarms WHERE at < `+s.db.Clock()+` - $1 ORDER BY at LIMIT $2`+s.db.SkipLocked()+`)`, keepAlarms, most)
}
