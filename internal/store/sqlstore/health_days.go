package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sluice/internal/operate/overview"
)

// AddDays adds what sums returns to the days, in one transaction; see overview.DayStore. The row of the counter is
// locked first, so that of two nodes the second sees what the first has added.
func (s *Store) AddDays(ctx context.Context, before int64, sums func(from time.Time) ([]overview.HealthDay, time.Time)) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		var from int64
		if err := tx.QueryRowContext(ctx, `UPDATE counters SET value = value WHERE name = 'health_days' RETURNING value`).Scan(&from); err != nil {
			return err
		}
		days, to := sums(time.Unix(from, 0).UTC())
		for i := range days {
			d := &days[i]
			var content string
			err := tx.QueryRowContext(ctx, `SELECT content FROM health_days WHERE day = $1 AND kind = $2 AND name = $3`, d.Day, d.Kind, d.Name).Scan(&content)
			if err == nil {
				var sum overview.Span
				if err := json.Unmarshal([]byte(content), &sum); err != nil {
					return fmt.Errorf("the day of %s %s: %w", d.Kind, d.Name, err)
				}
				d.Span.Merge(&sum)
			} else if !errors.Is(err, sql.ErrNoRows) {
				return err
			}
			text, err := json.Marshal(&d.Span)
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `INSERT INTO health_days (day, kind, name, content) VALUES ($1, $2, $3, $4)
				ON CONFLICT (day, kind, name) DO UPDATE SET content = excluded.content`, d.Day, d.Kind, d.Name, string(text)); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM health_days WHERE day < $1`, before); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `UPDATE counters SET value = $1 WHERE name = 'health_days'`, to.Unix())
		return err
	})
}

// Days calls yield for all days from one on, and returns the time from which on minutes are not added yet. The counter is
// read first: a minute that is added in between counts twice for half a minute rather than not at all.
func (s *Store) Days(ctx context.Context, from int64, yield func(overview.HealthDay)) (time.Time, error) {
	var added int64
	if err := s.read.QueryRowContext(ctx, `SELECT value FROM counters WHERE name = 'health_days'`).Scan(&added); err != nil {
		return time.Time{}, unavailable(err)
	}
	err := each(ctx, s.read, func(rows *sql.Rows) error {
		var d overview.HealthDay
		var content string
		if err := rows.Scan(&d.Day, &d.Kind, &d.Name, &content); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(content), &d.Span); err != nil {
			return fmt.Errorf("the day of %s %s: %w", d.Kind, d.Name, err)
		}
		yield(d)
		return nil
	}, `SELECT day, kind, name, content FROM health_days WHERE day >= $1`, from)
	return time.Unix(added, 0).UTC(), unavailable(err)
}
