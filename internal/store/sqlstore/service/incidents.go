package service

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"sluice/internal/operate/incident"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/accounts"
	"sluice/internal/store/sqlstore/alerts"
)

// incidentsCounter is the counter with the number of the last change of an incident.
const incidentsCounter = "incidents"

// IncidentsVersion returns the number of the last change of an incident.
func (s *Store) IncidentsVersion(ctx context.Context) (int64, error) {
	return s.db.Read(ctx).Counter(incidentsCounter)
}

// Incidents returns incidents, those that began last first.
func (s *Store) Incidents(ctx context.Context, q incident.Query) ([]incident.Incident, error) {
	c := s.db.Read(ctx)
	from, until := sqlstore.Millis(q.From), int64(1<<62)
	if !q.Until.IsZero() {
		until = sqlstore.Millis(q.Until)
	}
	at := until
	if q.After != "" {
		var err error
		if at, err = sqlstore.Optional[int64](c, `SELECT from_at FROM incidents WHERE id = $1`, q.After); err != nil {
			return nil, err
		}
	}
	return incidentsOf(c, `WHERE from_at >= $1 AND from_at < $2 AND ($3 = '' OR id = $3) AND (from_at < $4 OR from_at = $4 AND id < $5) AND (until_at = 0 OR until_at > $6)
		ORDER BY from_at DESC, id DESC LIMIT $7`, from, until, q.ID, at, q.After, q.EndedAfter, q.Limit)
}

// incidentsOf returns the incidents that a clause selects.
func incidentsOf(c *sqlstore.Conn, where string, args ...any) ([]incident.Incident, error) {
	list, err := sqlstore.All(c, func(row sqlstore.Row, i *incident.Incident) error {
		var id, content string
		if err := row.Scan(&id, &content); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(content), i); err != nil {
			return fmt.Errorf("incident %s: %w", id, err)
		}
		return nil
	}, `SELECT id, content FROM incidents `+where, args...)
	if list == nil {
		list = []incident.Incident{}
	}
	return list, err
}

// ChangeIncident changes an incident, with the audit entry and the events. The lock on the counter's row keeps other
// changes out.
func (s *Store) ChangeIncident(ctx context.Context, id string, now time.Time, change func(have *incident.Incident, open int) (incident.Change, error)) error {
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		tx.Next(incidentsCounter)
		list, err := incidentsOf(tx, `WHERE id = $1`, id)
		if err != nil {
			return err
		}
		open, err := sqlstore.Value[int](tx, `SELECT COUNT(*) FROM incidents WHERE until_at = 0 OR until_at > $1`, now)
		if err != nil {
			return err
		}
		var have *incident.Incident
		if len(list) > 0 {
			have = &list[0]
		}
		c, err := change(have, open)
		if err != nil {
			return err
		}
		tx.Do(`DELETE FROM incidents WHERE id = $1`, id)
		if c.Next != nil {
			content, err := json.Marshal(c.Next)
			if err != nil {
				return err
			}
			tx.Do(`INSERT INTO incidents (id, from_at, until_at, content) VALUES ($1, $2, $3, $4)`, c.Next.ID, c.Next.From, c.Next.Until, string(content))
		}
		alerts.Add(tx, c.Events)
		return accounts.Audit(tx, c.Entry)
	})
}
