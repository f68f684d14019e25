package service

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"sluice/internal/operate/overview"
	"sluice/internal/store/sqlstore"
)

// StoreMinutes stores minutes of a node, over those that it has stored before, and deletes minutes of all nodes that are
// older than before.
func (s *Store) StoreMinutes(ctx context.Context, node string, minutes []overview.Minute, before time.Time) error {
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		for i := range minutes {
			content, err := json.Marshal(&minutes[i])
			if err != nil {
				return err
			}
			tx.Do(sqlstore.Upsert("overview_minutes", "at, node, content", "at, node", "content"), minutes[i].At, node, string(content))
		}
		return tx.Exec(`DELETE FROM overview_minutes WHERE at < $1`, before)
	})
}

// Minutes calls yield for the minutes that other nodes have stored, from a time on.
func (s *Store) Minutes(ctx context.Context, except string, from time.Time, yield func(node string, m overview.Minute)) error {
	return s.db.Read(ctx).Each(func(row sqlstore.Row) error {
		var node, content string
		if err := row.Scan(&node, &content); err != nil {
			return err
		}
		var m overview.Minute
		if err := json.Unmarshal([]byte(content), &m); err != nil {
			return fmt.Errorf("a minute of node %s: %w", node, err)
		}
		yield(node, m)
		return nil
	}, `SELECT node, content FROM overview_minutes WHERE at >= $1 AND node <> $2`, from, except)
}

// daysAdded is the counter with the second since which minutes have not been added to the days.
const daysAdded = "health_days"

// AddDays adds what sums returns to the days, in one transaction; see overview.DayStore. The row of the counter is
// locked first, so that of two nodes the second sees what the first has added.
func (s *Store) AddDays(ctx context.Context, before int64, sums func(from time.Time) ([]overview.HealthDay, time.Time)) error {
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		from, err := tx.Hold(daysAdded)
		if err != nil {
			return err
		}
		days, to := sums(time.Unix(from, 0).UTC())
		for i := range days {
			if err := addDay(tx, &days[i]); err != nil {
				return err
			}
		}
		tx.Do(`DELETE FROM health_days WHERE day < $1`, before)
		return tx.SetCounter(daysAdded, to.Unix())
	})
}

// addDay adds to a day.
func addDay(tx *sqlstore.Conn, d *overview.HealthDay) error {
	had, err := sqlstore.One(tx, scanDay, `SELECT day, kind, name, content FROM health_days WHERE day = $1 AND kind = $2 AND name = $3`, d.Day, d.Kind, d.Name)
	if err != nil {
		return err
	}
	if had != nil {
		d.Span.Merge(&had.Span)
	}
	content, err := json.Marshal(&d.Span)
	if err != nil {
		return err
	}
	return tx.Exec(sqlstore.Upsert("health_days", "day, kind, name, content", "day, kind, name", "content"), d.Day, d.Kind, d.Name, string(content))
}

// scanDay reads a row of health_days.
func scanDay(row sqlstore.Row, d *overview.HealthDay) error {
	var content string
	if err := row.Scan(&d.Day, &d.Kind, &d.Name, &content); err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(content), &d.Span); err != nil {
		return fmt.Errorf("the day of %s %s: %w", d.Kind, d.Name, err)
	}
	return nil
}

// Days calls yield for all days from one on, and returns the time since which minutes have not been added. The counter is
// read first: a minute that is added in between counts twice for half a minute rather than not at all.
func (s *Store) Days(ctx context.Context, from int64, yield func(overview.HealthDay)) (time.Time, error) {
	added, err := s.db.Read(ctx).Counter(daysAdded)
	if err != nil {
		return time.Time{}, err
	}
	err = s.db.Read(ctx).Each(func(row sqlstore.Row) error {
		var d overview.HealthDay
		if err := scanDay(row, &d); err != nil {
			return err
		}
		yield(d)
		return nil
	}, `SELECT day, kind, name, content FROM health_days WHERE day >= $1`, from)
	return time.Unix(added, 0).UTC(), err
}
