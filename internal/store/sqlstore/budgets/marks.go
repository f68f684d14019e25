package budgets

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/price"
	"sluice/internal/operate/alert"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/alerts"
)

// lookedCounter is the name of the counter that has when somebody last looked at the marks.
const lookedCounter = "budget_marks"

// Looked returns when somebody last looked; see budget.WatchStore.
func (s *Store) Looked(ctx context.Context) (time.Time, error) {
	ms, err := s.db.Read(ctx).Counter(lookedCounter)
	return sqlstore.Time(ms), err
}

// SetLooked notes when somebody looked.
func (s *Store) SetLooked(ctx context.Context, at time.Time) error {
	return s.db.Exec(ctx, `UPDATE counters SET value = $2 WHERE name = $1`, lookedCounter, at)
}

// Used returns counts that were used; see budget.WatchStore.
func (s *Store) Used(ctx context.Context, after budget.Use, until time.Time, most int) ([]budget.Use, error) {
	return sqlstore.All(s.db.Read(ctx), func(row sqlstore.Row, u *budget.Use) error { return row.Scan(&u.Count, &u.AccountID, &u.At) },
		`SELECT count, account_id, touched_at FROM budget_counts WHERE touched_at >= $1 AND touched_at <= $3 AND (touched_at > $1 OR count > $2)
			ORDER BY touched_at, count LIMIT $4`, after.At, after.Count, until, most)
}

// Told returns the marks of which people were told; see budget.WatchStore.
func (s *Store) Told(ctx context.Context, keys []budget.Key) (map[budget.Key][]budget.Told, error) {
	all := map[budget.Key][]budget.Told{}
	for part := range slices.Chunk(keys, asksAtOnce) {
		terms, args := make([]string, len(part)), make([]any, 0, 2*len(part))
		for i, k := range part {
			terms[i] = fmt.Sprintf(`count = $%d AND period = $%d`, len(args)+1, len(args)+2)
			args = append(args, k.Count, k.Period)
		}
		err := s.db.Read(ctx).Each(func(row sqlstore.Row) error {
			var k budget.Key
			var t budget.Told
			if err := row.Scan(&k.Count, &k.Period, &t.Percent, &t.At); err != nil {
				return err
			}
			all[k] = append(all[k], t)
			return nil
		}, `SELECT count, period, percent, at FROM budget_marks WHERE `+strings.Join(terms, ` OR `), args...)
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// NewestPart returns how the newest part of a window that rolls began; see budget.WatchStore.
func (s *Store) NewestPart(ctx context.Context, count string, span time.Duration) (part time.Time, before price.Nano, err error) {
	err = s.db.Read(ctx).Each(func(row sqlstore.Row) error { return row.Scan(&part, &before) },
		`SELECT n.period, CAST(COALESCE((SELECT SUM(s.spent) FROM budget_spent s WHERE s.count = $1 AND s.period > n.period - $2 AND s.period < n.period), 0) AS BIGINT)
			FROM (SELECT period FROM budget_spent WHERE count = $1 ORDER BY period DESC LIMIT 1) n`, count, span)
	return part, before, err
}

// Pass notes which marks of a count were passed and which hold no longer; see budget.WatchStore.
func (s *Store) Pass(ctx context.Context, key budget.Key, over []budget.Told, passed []budget.Passed) ([]budget.Passed, error) {
	return sqlstore.InTx(ctx, s.db, func(tx *sqlstore.Conn) (first []budget.Passed, err error) {
		for _, t := range over {
			// Not one that somebody else has told meanwhile.
			tx.Do(`DELETE FROM budget_marks WHERE count = $1 AND period = $2 AND percent = $3 AND at = $4`, key.Count, key.Period, t.Percent, t.At)
		}
		for i := range passed {
			p := &passed[i]
			n, err := tx.Changed(`INSERT INTO budget_marks (count, period, percent, at) VALUES ($1, $2, $3, $4) ON CONFLICT (count, period, percent) DO NOTHING`,
				key.Count, key.Period, p.Percent, p.At)
			if err != nil {
				return nil, err
			}
			if n > 0 {
				alerts.Add(tx, alert.OfBudget(p))
				first = append(first, *p)
			}
		}
		return first, nil
	})
}

// dropMarks deletes what people were told long ago. Of a window that never ends it stays as long as the count.
func (s *Store) dropMarks(ctx context.Context, _ time.Time, most int) (int, error) {
	return s.db.Prune(ctx, `DELETE FROM budget_marks WHERE (count, period, percent) IN
		(SELECT count, period, percent FROM budget_marks WHERE period <> 0 AND at < `+s.db.Clock()+` - $1 ORDER BY at LIMIT $2`+s.db.SkipLocked()+`)`, keepSpent, most)
}
