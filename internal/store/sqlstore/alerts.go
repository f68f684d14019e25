package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/operate/alert"
)

// The columns of alerts, in the order in which they are written and scanned.
const (
	endpointColumns = `id, account_id, kind, address, types, secret, created_at, stopped_at, stopped_why`
	eventColumns    = `id, at, account_id, type, title, body`
	deliveryColumns = `id, event_id, endpoint_id, account_id, type, title, body, created_at, state, attempts, due_at, finished_at, status, problem, replayed_at`
)

// AddEndpoint stores a customer's endpoint with its secret sealed.
func (s *Store) AddEndpoint(ctx context.Context, e *alert.Endpoint, most int, entry account.Entry) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := lockAccount(ctx, tx, e.AccountID); err != nil {
			return err
		}
		var have int
		err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM alert_endpoints WHERE account_id = $1 AND kind = $2`, e.AccountID, string(e.Kind)).Scan(&have)
		if err != nil {
			return err
		}
		if have >= most {
			return fault.New(fault.Conflict, "You have %d of %d webhooks. Delete one to create another.", have, most)
		}
		types := make([]string, len(e.Types))
		for i, t := range e.Types {
			types[i] = string(t)
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO alert_endpoints (`+endpointColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
			e.ID, e.AccountID, string(e.Kind), e.To, strings.Join(types, ","), s.Seal("webhook", e.ID, []byte(e.Secret.Reveal())), millis(e.CreatedAt), millis(e.StoppedAt), e.StoppedWhy)
		if err != nil {
			return err
		}
		return auditIfAny(ctx, tx, entry)
	})
}

// lockAccount makes changes of one account run one after the other on PostgreSQL. On SQLite there is one writer.
func lockAccount(ctx context.Context, tx *sql.Tx, id string) error {
	_, err := tx.ExecContext(ctx, `UPDATE accounts SET version = version WHERE id = $1`, id)
	return err
}

// auditIfAny appends an entry that says something.
func auditIfAny(ctx context.Context, tx *sql.Tx, e account.Entry) error {
	if e.Action == "" {
		return nil
	}
	return appendAudit(ctx, tx, e)
}

// Endpoints returns an account's endpoints, oldest first.
func (s *Store) Endpoints(ctx context.Context, accountID string) ([]alert.Endpoint, error) {
	list, err := s.endpointsOf(ctx, s.read, accountID)
	return list, unavailable(err)
}

func (s *Store) endpointsOf(ctx context.Context, q querier, accountID string) (list []alert.Endpoint, err error) {
	err = each(ctx, q, func(rows *sql.Rows) error {
		var e alert.Endpoint
		var kind, types string
		var secret []byte
		var created, stopped int64
		if err := rows.Scan(&e.ID, &e.AccountID, &kind, &e.To, &types, &secret, &created, &stopped, &e.StoppedWhy); err != nil {
			return err
		}
		e.Kind, e.CreatedAt, e.StoppedAt = alert.Kind(kind), fromMillis(created), fromMillis(stopped)
		for t := range strings.SplitSeq(types, ",") {
			if t != "" {
				e.Types = append(e.Types, alert.Type(t))
			}
		}
		plain, err := s.Unseal("webhook", e.ID, secret)
		if err != nil {
			return err
		}
		e.Secret = alert.Secret(plain)
		list = append(list, e)
		return nil
	}, `SELECT `+endpointColumns+` FROM alert_endpoints WHERE account_id = $1 ORDER BY created_at, id`, accountID)
	return list, err
}

// DeleteEndpoint deletes an endpoint and its deliveries.
func (s *Store) DeleteEndpoint(ctx context.Context, accountID, id string, entry account.Entry) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `DELETE FROM alert_endpoints WHERE account_id = $1 AND id = $2`, accountID, id)
		if err := changedOne(res, err, "There is no such webhook."); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM alert_deliveries WHERE account_id = $1 AND endpoint_id = $2`, accountID, id); err != nil {
			return err
		}
		return auditIfAny(ctx, tx, entry)
	})
}

// changedOne returns a fault with the message if a statement has changed nothing.
func changedOne(res sql.Result, err error, message string) error {
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n > 0 {
		return err
	}
	return fault.New(fault.NotFound, "%s", message)
}

// StopEndpoint notes since when and why an endpoint gets nothing more, or with a zero time that it does again.
func (s *Store) StopEndpoint(ctx context.Context, accountID, id string, at time.Time, why string) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `UPDATE alert_endpoints SET stopped_at = $3, stopped_why = $4 WHERE account_id = $1 AND id = $2`, accountID, id, millis(at), why)
		return changedOne(res, err, "There is no such webhook.")
	})
}

// AddEvents stores events.
func (s *Store) AddEvents(ctx context.Context, events ...alert.Event) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error { return addAlerts(ctx, tx, events) })
}

// addAlerts stores events in the transaction of what they are about. An event that nobody gets is not stored, and one
// that is there already stays as it is.
func addAlerts(ctx context.Context, tx *sql.Tx, events []alert.Event) error {
	for _, e := range events {
		_, err := tx.ExecContext(ctx, `INSERT INTO alert_events (`+eventColumns+`, made)
			SELECT CAST($1 AS TEXT), CAST($2 AS BIGINT), CAST($3 AS TEXT), CAST($4 AS TEXT), CAST($5 AS TEXT), CAST($6 AS TEXT), 0 WHERE $3 = '' OR EXISTS (SELECT 1 FROM alert_endpoints WHERE account_id = $3)
			ON CONFLICT (id) DO NOTHING`, e.ID, millis(e.At), e.AccountID, string(e.Type), e.Title, e.Body)
		if err != nil {
			return fmt.Errorf("add an alert: %w", err)
		}
	}
	return nil
}

// Events returns the operator's events, newest first.
func (s *Store) Events(ctx context.Context, p alert.Page) ([]alert.Event, error) {
	at, err := s.placeOf(ctx, `SELECT at FROM alert_events WHERE id = $1`, p)
	if err != nil {
		return nil, err
	}
	list, err := eventsOf(ctx, s.read, `WHERE made = 1 AND account_id = '' AND (at < $1 OR at = $1 AND id < $2) ORDER BY at DESC, id DESC LIMIT $3`, at, p.Before, p.Limit)
	return list, unavailable(err)
}

// placeOf returns the time of the last entry of the page before, or one after all times.
func (s *Store) placeOf(ctx context.Context, query string, p alert.Page) (at int64, err error) {
	if p.Before == "" {
		return 1 << 62, nil
	}
	err = s.read.QueryRowContext(ctx, query, p.Before).Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, fault.New(fault.NotFound, "There is no entry %q to continue after; start again without it.", p.Before)
	}
	return at, unavailable(err)
}

func eventsOf(ctx context.Context, q querier, where string, args ...any) (list []alert.Event, err error) {
	err = each(ctx, q, func(rows *sql.Rows) error {
		var e alert.Event
		var at int64
		var kind string
		if err := rows.Scan(&e.ID, &at, &e.AccountID, &kind, &e.Title, &e.Body); err != nil {
			return err
		}
		e.At, e.Type = fromMillis(at), alert.Type(kind)
		list = append(list, e)
		return nil
	}, `SELECT `+eventColumns+` FROM alert_events `+where, args...)
	return list, err
}

// FanOut makes deliveries of the oldest events that have none.
func (s *Store) FanOut(ctx context.Context, now time.Time, most int, route func(e *alert.Event, endpoints []alert.Endpoint) []alert.Delivery) (int, error) {
	const where = `WHERE made = 0 ORDER BY at, id LIMIT $1`
	// Nothing is to do most of the time, and a writer would keep others waiting for that.
	events, err := eventsOf(ctx, s.read, where, most)
	if err != nil || len(events) == 0 {
		return 0, unavailable(err)
	}
	lock := ``
	if s.engine == Postgres {
		lock = ` FOR UPDATE SKIP LOCKED`
	}
	err = s.tx(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		if events, err = eventsOf(ctx, tx, where+lock, most); err != nil {
			return err
		}
		waiting := map[string]int{} // by account
		for i := range events {
			if err := s.fanOut(ctx, tx, &events[i], now, route, waiting); err != nil {
				return err
			}
		}
		for accountID := range waiting {
			if err := trimDeliveries(ctx, tx, accountID); err != nil {
				return err
			}
		}
		return nil
	})
	return len(events), err
}

// fanOut makes the deliveries of one event. waiting is what is known of how many wait.
func (s *Store) fanOut(ctx context.Context, tx *sql.Tx, e *alert.Event, now time.Time, route func(e *alert.Event, endpoints []alert.Endpoint) []alert.Delivery, waiting map[string]int) error {
	var endpoints []alert.Endpoint
	var err error
	done := `UPDATE alert_events SET made = 1 WHERE id = $1`
	if e.AccountID != "" {
		if endpoints, err = s.endpointsOf(ctx, tx, e.AccountID); err != nil {
			return err
		}
		done = `DELETE FROM alert_events WHERE id = $1`
	}
	for _, d := range route(e, endpoints) {
		n, known := waiting[e.AccountID]
		if !known {
			if n, err = waitingOf(ctx, tx, e.AccountID); err != nil {
				return err
			}
		}
		if n >= alert.MaxWaiting {
			d.State, d.FinishedAt, d.Problem = alert.Dead, now, fmt.Sprintf("%d other messages were waiting", n)
		} else {
			n++
		}
		waiting[e.AccountID] = n
		if err := insertDelivery(ctx, tx, &d); err != nil {
			return err
		}
	}
	_, err = tx.ExecContext(ctx, done, e.ID)
	return err
}

// waitingOf returns how many deliveries of an account wait.
func waitingOf(ctx context.Context, tx *sql.Tx, accountID string) (n int, err error) {
	err = tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM alert_deliveries WHERE account_id = $1 AND state = 'waiting'`, accountID).Scan(&n)
	return n, err
}

// insertDelivery stores a new delivery.
func insertDelivery(ctx context.Context, tx *sql.Tx, d *alert.Delivery) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO alert_deliveries (`+deliveryColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
		ON CONFLICT (id) DO NOTHING`,
		d.ID, d.EventID, d.EndpointID, d.AccountID, string(d.Type), d.Title, d.Body, millis(d.CreatedAt), string(d.State), d.Attempts, millis(d.DueAt),
		millis(d.FinishedAt), d.Status, d.Problem, millis(d.ReplayedAt))
	return err
}

// trimDeliveries deletes the oldest deliveries of an account that have ended, if there are too many.
func trimDeliveries(ctx context.Context, tx *sql.Tx, accountID string) error {
	// SQLite requires a LIMIT with an OFFSET. What is beyond it is deleted the next time.
	_, err := tx.ExecContext(ctx, `DELETE FROM alert_deliveries WHERE id IN
		(SELECT id FROM alert_deliveries WHERE account_id = $1 AND state <> 'waiting' ORDER BY created_at DESC, id DESC LIMIT 1000 OFFSET $2)`, accountID, alert.MaxKept)
	return err
}

// AddTest stores the delivery of a test.
func (s *Store) AddTest(ctx context.Context, d *alert.Delivery, since time.Time, most int) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := lockAccount(ctx, tx, d.AccountID); err != nil {
			return err
		}
		var had int
		err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM alert_deliveries
			WHERE account_id = $1 AND type = 'test' AND created_at > $2 AND (account_id <> '' OR endpoint_id = $3)`, d.AccountID, millis(since), d.EndpointID).Scan(&had)
		if err != nil {
			return err
		}
		if had >= most {
			return fault.New(fault.RateLimited, "There were %d tests in the last hour, which is the most. Wait a while.", had)
		}
		if err := hasRoom(ctx, tx, d.AccountID); err != nil {
			return err
		}
		if err := insertDelivery(ctx, tx, d); err != nil {
			return err
		}
		return trimDeliveries(ctx, tx, d.AccountID)
	})
}

// hasRoom returns a fault if no more deliveries of an account may wait.
func hasRoom(ctx context.Context, tx *sql.Tx, accountID string) error {
	waiting, err := waitingOf(ctx, tx, accountID)
	if err == nil && waiting >= alert.MaxWaiting {
		err = fault.New(fault.RateLimited, "%d messages are waiting, which is the most.", waiting)
	}
	return err
}

// ClaimDeliveries returns deliveries that are due, and moves their next attempt to until.
func (s *Store) ClaimDeliveries(ctx context.Context, now, until time.Time, operator bool, most int, without []string) ([]alert.Delivery, error) {
	where, args := `state = 'waiting' AND account_id <> ''`, []any{millis(now), most}
	if operator {
		where = `state = 'waiting' AND account_id = ''`
	}
	where += ` AND due_at <= $1`
	if len(without) > 0 {
		var in string
		in, args = among(without, args...)
		where += ` AND endpoint_id NOT IN ` + in + ` AND account_id NOT IN ` + in
	}
	where += ` ORDER BY due_at, id LIMIT $2`
	// Nothing is due most of the time; see FanOut.
	list, err := deliveriesOf(ctx, s.read, where, args...)
	if err != nil || len(list) == 0 {
		return nil, unavailable(err)
	}
	if s.engine == Postgres {
		where += ` FOR UPDATE SKIP LOCKED`
	}
	err = s.tx(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		if list, err = deliveriesOf(ctx, tx, where, args...); err != nil {
			return err
		}
		for _, d := range list {
			if _, err := tx.ExecContext(ctx, `UPDATE alert_deliveries SET due_at = $2 WHERE id = $1`, d.ID, millis(until)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

func deliveriesOf(ctx context.Context, q querier, where string, args ...any) (list []alert.Delivery, err error) {
	err = each(ctx, q, func(rows *sql.Rows) error {
		var d alert.Delivery
		var kind, state string
		var created, due, finished, replayed int64
		err := rows.Scan(&d.ID, &d.EventID, &d.EndpointID, &d.AccountID, &kind, &d.Title, &d.Body, &created, &state, &d.Attempts, &due, &finished, &d.Status, &d.Problem, &replayed)
		if err != nil {
			return err
		}
		d.Type, d.State = alert.Type(kind), alert.State(state)
		d.CreatedAt, d.DueAt, d.FinishedAt, d.ReplayedAt = fromMillis(created), fromMillis(due), fromMillis(finished), fromMillis(replayed)
		list = append(list, d)
		return nil
	}, `SELECT `+deliveryColumns+` FROM alert_deliveries WHERE `+where, args...)
	return list, err
}

// EndAttempt stores how far a delivery that waits has come.
func (s *Store) EndAttempt(ctx context.Context, d *alert.Delivery) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE alert_deliveries SET state = $2, attempts = $3, due_at = $4, finished_at = $5, status = $6, problem = $7
			WHERE id = $1 AND state = 'waiting'`, d.ID, string(d.State), d.Attempts, millis(d.DueAt), millis(d.FinishedAt), d.Status, d.Problem)
		return err
	})
}

// Deliveries returns an account's deliveries, newest first.
func (s *Store) Deliveries(ctx context.Context, accountID, endpointID string, state alert.State, p alert.Page) ([]alert.Delivery, error) {
	at, err := s.placeOf(ctx, `SELECT created_at FROM alert_deliveries WHERE id = $1`, p)
	if err != nil {
		return nil, err
	}
	list, err := deliveriesOf(ctx, s.read, `account_id = $1 AND (created_at < $2 OR created_at = $2 AND id < $3) AND ($4 = '' OR endpoint_id = $4) AND ($5 = '' OR state = $5)
		ORDER BY created_at DESC, id DESC LIMIT $6`, accountID, at, p.Before, endpointID, string(state), p.Limit)
	return list, unavailable(err)
}

// FindDelivery returns a delivery, whoever it is for.
func (s *Store) FindDelivery(ctx context.Context, id string) (*alert.Delivery, error) {
	list, err := deliveriesOf(ctx, s.read, `id = $1`, id)
	if err != nil {
		return nil, unavailable(err)
	}
	if len(list) == 0 {
		return nil, noDelivery()
	}
	return &list[0], nil
}

func noDelivery() error { return fault.New(fault.NotFound, "There is no such delivery.") }

// Replay makes a delivery that has ended wait again.
func (s *Store) Replay(ctx context.Context, accountID, id string, now, since time.Time, most int) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := lockAccount(ctx, tx, accountID); err != nil {
			return err
		}
		list, err := deliveriesOf(ctx, tx, `id = $1 AND account_id = $2`, id, accountID)
		switch {
		case err != nil:
			return err
		case len(list) == 0:
			return noDelivery()
		case list[0].State == alert.Waiting:
			return fault.New(fault.Conflict, "This delivery is still being tried.")
		}
		var had int
		if err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM alert_deliveries WHERE account_id = $1 AND replayed_at > $2`, accountID, millis(since)).Scan(&had); err != nil {
			return err
		}
		if had >= most {
			return fault.New(fault.RateLimited, "%d deliveries were sent again in the last hour, which is the most. Wait a while.", had)
		}
		if err := hasRoom(ctx, tx, accountID); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE alert_deliveries SET state = 'waiting', attempts = 0, due_at = $2, finished_at = 0, status = 0, problem = '', replayed_at = $2 WHERE id = $1`, id, millis(now))
		return err
	})
}

// dropAlerts deletes deliveries that have ended and events of the operator, both after their time.
func (s *Store) dropAlerts(ctx context.Context, now time.Time, most int) (dropped int, err error) {
	before := millis(now.Add(-alert.Keep))
	for _, statement := range []string{
		`DELETE FROM alert_deliveries WHERE id IN (SELECT id FROM alert_deliveries WHERE state <> 'waiting' AND finished_at < $1 LIMIT $2)`,
		`DELETE FROM alert_events WHERE id IN (SELECT id FROM alert_events WHERE made = 1 AND at < $1 LIMIT $2)`,
	} {
		res, err := s.write.ExecContext(ctx, statement, before, most)
		if err != nil {
			return dropped, unavailable(err)
		}
		n, err := res.RowsAffected()
		if err != nil {
			return dropped, unavailable(err)
		}
		dropped = max(dropped, int(n))
	}
	return dropped, nil
}

// ReportConditions stores which conditions hold on a node, and makes the events of those that have begun or ended over
// all nodes.
func (s *Store) ReportConditions(ctx context.Context, node string, now, stale time.Time, holding []alert.Condition) error {
	if len(holding) == 0 {
		// Nothing holds anywhere most of the time.
		var n int
		if err := s.read.QueryRowContext(ctx, `SELECT COUNT(*) FROM alert_conditions`).Scan(&n); err != nil || n == 0 {
			return unavailable(err)
		}
	}
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		// Whoever has the counter's row is alone, so that two nodes do not both make an event.
		if _, err := tx.ExecContext(ctx, `UPDATE counters SET value = value + 1 WHERE name = 'alert_conditions'`); err != nil {
			return err
		}
		before, err := conditionsOf(ctx, tx)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM alert_conditions WHERE node = $1 OR seen_at < $2`, node, millis(stale)); err != nil {
			return err
		}
		for _, c := range holding {
			_, err := tx.ExecContext(ctx, `INSERT INTO alert_conditions (name, node, since_at, seen_at, began, ended, title, end_title, data) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
				c.Key, node, millis(c.Since), millis(now), string(c.Began), string(c.Over), c.Title, c.OverTitle, c.Data)
			if err != nil {
				return err
			}
			if _, known := before[c.Key]; !known {
				if err := addAlerts(ctx, tx, []alert.Event{c.Beginning(node)}); err != nil {
					return err
				}
			}
		}
		after, err := conditionsOf(ctx, tx)
		if err != nil {
			return err
		}
		for key, c := range before {
			if _, holds := after[key]; !holds {
				if err := addAlerts(ctx, tx, []alert.Event{c.End(c.node, now)}); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// condition is one that holds on a node.
type condition struct {
	alert.Condition
	node string
}

// conditionsOf returns what holds on any node, by its key.
func conditionsOf(ctx context.Context, tx *sql.Tx) (map[string]condition, error) {
	all := map[string]condition{}
	err := each(ctx, tx, func(rows *sql.Rows) error {
		var c condition
		var since int64
		var began, ended string
		if err := rows.Scan(&c.Key, &c.node, &since, &began, &ended, &c.Title, &c.OverTitle, &c.Data); err != nil {
			return err
		}
		c.Since, c.Began, c.Over = fromMillis(since), alert.Type(began), alert.Type(ended)
		all[c.Key] = c
		return nil
	}, `SELECT name, node, since_at, began, ended, title, end_title, data FROM alert_conditions ORDER BY name, node`)
	return all, err
}
