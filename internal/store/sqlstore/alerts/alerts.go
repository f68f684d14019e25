// Package alerts stores events, the endpoints that get them, and their deliveries.
//
// Store implements the interfaces of package alert. Other parts add events to the transaction of what they are about with
// Add.
package alerts

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/operate/alert"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/accounts"
)

// The columns of alerts, in the order in which they are written and scanned.
const (
	endpointColumns = `id, account_id, kind, address, types, secret, created_at, stopped_at, stopped_why`
	eventColumns    = `id, at, account_id, type, title, body`
	deliveryColumns = `id, event_id, endpoint_id, account_id, type, title, body, created_at, state, attempts, due_at, finished_at, status, problem, replayed_at`
)

// endpointsAtOnce is how many deliveries of an event for everybody are made in one transaction.
const endpointsAtOnce = 200

// Store is the part of a database with the alerts.
type Store struct{ db *sqlstore.Store }

// New returns the part of a database.
func New(db *sqlstore.Store) *Store { return &Store{db} }

// Expiring returns what expires.
func (s *Store) Expiring() []sqlstore.Expiring {
	return []sqlstore.Expiring{{What: "alerts", Drop: s.dropAlerts, AtOnce: sqlstore.DropSmall}}
}

// AddEndpoint stores a customer's endpoint with its secret sealed.
// entry is what the audit log gets; most bounds the webhooks of the account. The account's row is locked first, so that
// two requests at the same time cannot both take the last place.
func (s *Store) AddEndpoint(ctx context.Context, e *alert.Endpoint, most int, entry account.Entry) error {
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		if _, err := accounts.Lock(tx, e.AccountID); err != nil {
			return err
		}
		have, err := sqlstore.Value[int](tx, `SELECT COUNT(*) FROM alert_endpoints WHERE account_id = $1 AND kind = $2`, e.AccountID, string(e.Kind))
		if err != nil {
			return err
		}
		if have >= most {
			return fault.New(fault.Conflict, "You have %d of %d webhooks. Delete one to create another.", have, most)
		}
		s.insertEndpoint(tx, e)
		return accounts.AuditIfAny(tx, entry)
	})
}

// insertEndpoint stores an endpoint with its secret sealed.
func (s *Store) insertEndpoint(tx *sqlstore.Conn, e *alert.Endpoint) {
	types := make([]string, len(e.Types))
	for i, t := range e.Types {
		types[i] = string(t)
	}
	tx.Do(sqlstore.Insert("alert_endpoints", endpointColumns),
		e.ID, e.AccountID, string(e.Kind), e.To, strings.Join(types, ","), s.db.Seal("webhook", e.ID, []byte(e.Secret.Reveal())), e.CreatedAt, e.StoppedAt, e.StoppedWhy)
}

// Endpoints returns an account's endpoints, oldest first.
func (s *Store) Endpoints(ctx context.Context, accountID string) ([]alert.Endpoint, error) {
	return s.endpointsOf(s.db.Read(ctx), accountID)
}

// endpointsOf is Endpoints on a connection that may be inside a transaction.
func (s *Store) endpointsOf(c *sqlstore.Conn, accountID string) ([]alert.Endpoint, error) {
	return s.selectEndpoints(c, `WHERE account_id = $1 ORDER BY created_at, id`, accountID)
}

// FindEndpoint returns an endpoint of an account or of everybody, or nil.
func (s *Store) FindEndpoint(ctx context.Context, accountID, id string) (*alert.Endpoint, error) {
	list, err := s.selectEndpoints(s.db.Read(ctx), `WHERE account_id = $1 AND id = $2`, accountID, id)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

// selectEndpoints returns the endpoints that a clause selects. It opens the secrets, so what it returns must not reach a
// log or a page.
func (s *Store) selectEndpoints(c *sqlstore.Conn, where string, args ...any) ([]alert.Endpoint, error) {
	return sqlstore.All(c, func(row sqlstore.Row, e *alert.Endpoint) error {
		var types string
		var secret []byte
		if err := row.Scan(&e.ID, &e.AccountID, &e.Kind, &e.To, &types, &secret, &e.CreatedAt, &e.StoppedAt, &e.StoppedWhy); err != nil {
			return err
		}
		for t := range strings.SplitSeq(types, ",") {
			if t != "" {
				e.Types = append(e.Types, alert.Type(t))
			}
		}
		// The id is part of what is sealed: a secret that was copied to another row does not open.
		plain, err := s.db.Unseal("webhook", e.ID, secret)
		e.Secret = alert.Secret(plain)
		return err
	}, `SELECT `+endpointColumns+` FROM alert_endpoints `+where, args...)
}

// AddSubscriber stores an endpoint of everybody, unless it is there.
func (s *Store) AddSubscriber(ctx context.Context, e *alert.Endpoint, most int) error {
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		tx.Alone(sqlstore.SubscriberLocks, "") // so that two requests do not both take the last place
		have, err := countSubscribers(tx)
		if err != nil {
			return err
		}
		known, err := sqlstore.Value[int](tx, `SELECT COUNT(*) FROM alert_endpoints WHERE id = $1`, e.ID)
		if err != nil || known > 0 {
			return err
		}
		if have >= most {
			return fault.New(fault.Conflict, "This list is full: %d addresses have subscribed. Use the feed instead.", have)
		}
		s.insertEndpoint(tx, e)
		return nil
	})
}

// DropSubscriber deletes an endpoint of everybody and its deliveries.
func (s *Store) DropSubscriber(ctx context.Context, id string) error {
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		tx.Do(`DELETE FROM alert_endpoints WHERE account_id = $1 AND id = $2`, alert.Everybody, id)
		tx.Do(`DELETE FROM alert_deliveries WHERE account_id = $1 AND endpoint_id = $2`, alert.Everybody, id)
		return nil
	})
}

// CountSubscribers returns how many endpoints everybody has.
func (s *Store) CountSubscribers(ctx context.Context) (int, error) {
	return countSubscribers(s.db.Read(ctx))
}

func countSubscribers(c *sqlstore.Conn) (int, error) {
	return sqlstore.Value[int](c, `SELECT COUNT(*) FROM alert_endpoints WHERE account_id = $1`, alert.Everybody)
}

// DeleteEndpoint deletes an endpoint and its deliveries.
func (s *Store) DeleteEndpoint(ctx context.Context, accountID, id string, entry account.Entry) error {
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		n, err := tx.Changed(`DELETE FROM alert_endpoints WHERE account_id = $1 AND id = $2`, accountID, id)
		if err := changedOne(n, err, "There is no such webhook."); err != nil {
			return err
		}
		tx.Do(`DELETE FROM alert_deliveries WHERE account_id = $1 AND endpoint_id = $2`, accountID, id)
		return accounts.AuditIfAny(tx, entry)
	})
}

// changedOne returns a fault with the message if a statement has changed nothing.
func changedOne(n int64, err error, message string) error {
	if err == nil && n == 0 {
		return fault.New(fault.NotFound, "%s", message)
	}
	return err
}

// StopEndpoint notes since when and why an endpoint gets nothing more, or with a zero time that it does again.
func (s *Store) StopEndpoint(ctx context.Context, accountID, id string, at time.Time, why string) error {
	n, err := s.db.Changed(ctx, `UPDATE alert_endpoints SET stopped_at = $3, stopped_why = $4 WHERE account_id = $1 AND id = $2`, accountID, id, at, why)
	return changedOne(n, err, "There is no such webhook.")
}

// AddEvents stores events.
func (s *Store) AddEvents(ctx context.Context, events ...alert.Event) error {
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		Add(tx, events)
		return nil
	})
}

// Add stores events in the transaction of what they are about. An event that nobody gets is not stored, and one
// that is there already stays as it is.
func Add(tx *sqlstore.Conn, events []alert.Event) {
	for _, e := range events {
		tx.Do(`INSERT INTO alert_events (`+eventColumns+`, made)
			SELECT CAST($1 AS TEXT), CAST($2 AS BIGINT), CAST($3 AS TEXT), CAST($4 AS TEXT), CAST($5 AS TEXT), CAST($6 AS TEXT), 0 WHERE $3 = '' OR EXISTS (SELECT 1 FROM alert_endpoints WHERE account_id = $3 OR $3 = '`+alert.Everybody+`')
			ON CONFLICT (id) DO NOTHING`, e.ID, e.At, e.AccountID, string(e.Type), e.Title, e.Body)
	}
}

// Events returns the operator's events, newest first.
func (s *Store) Events(ctx context.Context, p alert.Page) ([]alert.Event, error) {
	at, err := s.placeOf(ctx, `SELECT at FROM alert_events WHERE id = $1`, p)
	if err != nil {
		return nil, err
	}
	return eventsOf(s.db.Read(ctx), `WHERE made = 1 AND account_id = '' AND (at < $1 OR at = $1 AND id < $2) ORDER BY at DESC, id DESC LIMIT $3`, at, p.Before, p.Limit)
}

// placeOf returns the time of the last entry of the page before, or one after all times.
func (s *Store) placeOf(ctx context.Context, query string, p alert.Page) (int64, error) {
	if p.Before == "" {
		return 1 << 62, nil
	}
	missing := fault.New(fault.NotFound, "There is no entry %q to continue after; start again without it.", p.Before)
	at, err := sqlstore.Need(s.db.Read(ctx), missing, sqlstore.Column[int64], query, p.Before)
	if err != nil {
		return 0, err
	}
	return *at, nil
}

// eventsOf returns the events that a clause selects, which may have a lock at its end.
func eventsOf(c *sqlstore.Conn, where string, args ...any) ([]alert.Event, error) {
	return sqlstore.All(c, func(row sqlstore.Row, e *alert.Event) error {
		return row.Scan(&e.ID, &e.At, &e.AccountID, &e.Type, &e.Title, &e.Body)
	}, `SELECT `+eventColumns+` FROM alert_events `+where, args...)
}

// FanOut makes deliveries of the oldest events that have none.
func (s *Store) FanOut(ctx context.Context, now time.Time, most int, route func(e *alert.Event, endpoints []alert.Endpoint) []alert.Delivery) (int, error) {
	const where = `WHERE made = 0 ORDER BY at, id LIMIT $1`
	// Most of the time there is nothing to do, and a writer would keep others waiting for that.
	events, err := eventsOf(s.db.Read(ctx), where, most)
	if err != nil || len(events) == 0 {
		return 0, err
	}
	// Another node may have taken the same events since they were read, so they are read again under a lock. Locked ones
	// are skipped: that node makes their deliveries.
	err = s.db.Tx(ctx, func(tx *sqlstore.Conn) (err error) {
		if events, err = eventsOf(tx, where+s.db.SkipLocked(), most); err != nil {
			return err
		}
		waiting := map[string]int{} // by account
		for i := range events {
			if err := s.fanOut(tx, &events[i], now, route, waiting); err != nil {
				return err
			}
		}
		for accountID := range waiting {
			if err := trimDeliveries(tx, accountID); err != nil {
				return err
			}
		}
		return nil
	})
	return len(events), err
}

// fanOut makes the deliveries of one event. waiting is what is known of how many wait.
func (s *Store) fanOut(tx *sqlstore.Conn, e *alert.Event, now time.Time, route func(e *alert.Event, endpoints []alert.Endpoint) []alert.Delivery, waiting map[string]int) error {
	var endpoints []alert.Endpoint
	var err error
	done, args := `UPDATE alert_events SET made = 1 WHERE id = $1`, []any{e.ID}
	switch e.AccountID {
	case "":
	case alert.Everybody:
		place, err := sqlstore.Value[string](tx, `SELECT place FROM alert_events WHERE id = $1`, e.ID)
		if err != nil {
			return err
		}
		if endpoints, err = s.selectEndpoints(tx, `WHERE id > $1 AND account_id <> '' ORDER BY id LIMIT $2`, place, endpointsAtOnce); err != nil {
			return err
		}
		done = `DELETE FROM alert_events WHERE id = $1`
		if len(endpoints) == endpointsAtOnce { // there may be more
			done, args = `UPDATE alert_events SET place = $2 WHERE id = $1`, []any{e.ID, endpoints[len(endpoints)-1].ID}
		}
	default:
		if endpoints, err = s.endpointsOf(tx, e.AccountID); err != nil {
			return err
		}
		// An operator's event stays, as an entry of the operator's list. A customer has only the deliveries.
		done = `DELETE FROM alert_events WHERE id = $1`
	}
	for _, d := range route(e, endpoints) {
		n, known := waiting[d.AccountID]
		if !known {
			if n, err = waitingOf(tx, d.AccountID); err != nil {
				return err
			}
		}
		// A delivery beyond the bound is stored all the same, as dead, so that its owner sees what was lost. Those of
		// everybody are bounded by how many subscribe.
		if n >= alert.MaxWaiting && d.AccountID != alert.Everybody {
			d.State, d.FinishedAt, d.Problem = alert.Dead, now, fmt.Sprintf("%d other messages were waiting", n)
		} else {
			n++
		}
		waiting[d.AccountID] = n
		insertDelivery(tx, &d)
	}
	return tx.Exec(done, args...)
}

// waitingOf returns how many deliveries of an account wait.
func waitingOf(tx *sqlstore.Conn, accountID string) (int, error) {
	return sqlstore.Value[int](tx, `SELECT COUNT(*) FROM alert_deliveries WHERE account_id = $1 AND state = 'waiting'`, accountID)
}

// insertDelivery stores a new delivery.
func insertDelivery(tx *sqlstore.Conn, d *alert.Delivery) {
	tx.Do(sqlstore.Insert("alert_deliveries", deliveryColumns)+` ON CONFLICT (id) DO NOTHING`,
		d.ID, d.EventID, d.EndpointID, d.AccountID, string(d.Type), d.Title, d.Body, d.CreatedAt, string(d.State), d.Attempts, d.DueAt,
		d.FinishedAt, d.Status, d.Problem, d.ReplayedAt)
}

// trimDeliveries deletes the oldest deliveries of an account that have ended, if there are too many.
func trimDeliveries(tx *sqlstore.Conn, accountID string) error {
	// SQLite requires a LIMIT with an OFFSET. What is beyond it is deleted the next time.
	return tx.Exec(`DELETE FROM alert_deliveries WHERE id IN
		(SELECT id FROM alert_deliveries WHERE account_id = $1 AND state <> 'waiting' ORDER BY created_at DESC, id DESC LIMIT 1000 OFFSET $2)`, accountID, alert.MaxKept)
}

// AddTest stores the delivery of a test.
func (s *Store) AddTest(ctx context.Context, d *alert.Delivery, since time.Time, most int) error {
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		if _, err := accounts.Lock(tx, d.AccountID); err != nil {
			return err
		}
		had, err := sqlstore.Value[int](tx, `SELECT COUNT(*) FROM alert_deliveries
			WHERE account_id = $1 AND type = 'test' AND created_at > $2 AND (account_id <> '' OR endpoint_id = $3)`, d.AccountID, since, d.EndpointID)
		if err != nil {
			return err
		}
		if had >= most {
			return fault.New(fault.RateLimited, "There were %d tests in the last hour, which is the limit. Wait a while.", had)
		}
		if err := hasRoom(tx, d.AccountID); err != nil {
			return err
		}
		insertDelivery(tx, d)
		return trimDeliveries(tx, d.AccountID)
	})
}

// hasRoom returns a fault if no more deliveries of an account may wait.
func hasRoom(tx *sqlstore.Conn, accountID string) error {
	waiting, err := waitingOf(tx, accountID)
	if err == nil && waiting >= alert.MaxWaiting {
		err = fault.New(fault.RateLimited, "%d messages are waiting, which is the limit.", waiting)
	}
	return err
}

// ClaimDeliveries returns deliveries that are due, and moves their next attempt to until.
func (s *Store) ClaimDeliveries(ctx context.Context, now, until time.Time, operator bool, most int, without []string) ([]alert.Delivery, error) {
	where, args := `state = 'waiting' AND account_id <> ''`, []any{now, most}
	if operator {
		where = `state = 'waiting' AND account_id = ''`
	}
	where += ` AND due_at <= $1`
	if len(without) > 0 {
		var in string
		in, args = sqlstore.Among(without, args...)
		where += ` AND endpoint_id NOT IN ` + in + ` AND account_id NOT IN ` + in
	}
	where += ` ORDER BY due_at, id LIMIT $2`
	// Nothing is due most of the time; see FanOut.
	list, err := deliveriesOf(s.db.Read(ctx), where, args...)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	err = s.db.Tx(ctx, func(tx *sqlstore.Conn) (err error) {
		if list, err = deliveriesOf(tx, where+s.db.SkipLocked(), args...); err != nil {
			return err
		}
		return tx.ExecEach(len(list), func(i int) []any { return []any{list[i].ID, until} }, `UPDATE alert_deliveries SET due_at = $2 WHERE id = $1`)
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// deliveriesOf returns the deliveries that a condition selects.
func deliveriesOf(c *sqlstore.Conn, where string, args ...any) ([]alert.Delivery, error) {
	return sqlstore.All(c, scanDelivery, `SELECT `+deliveryColumns+` FROM alert_deliveries WHERE `+where, args...)
}

// scanDelivery reads a row of deliveryColumns.
func scanDelivery(row sqlstore.Row, d *alert.Delivery) error {
	return row.Scan(&d.ID, &d.EventID, &d.EndpointID, &d.AccountID, &d.Type, &d.Title, &d.Body, &d.CreatedAt, &d.State, &d.Attempts, &d.DueAt,
		&d.FinishedAt, &d.Status, &d.Problem, &d.ReplayedAt)
}

// EndAttempt stores how far a delivery that waits has come.
// One that has ended meanwhile is left as it is.
func (s *Store) EndAttempt(ctx context.Context, d *alert.Delivery) error {
	return s.db.Exec(ctx, `UPDATE alert_deliveries SET state = $2, attempts = $3, due_at = $4, finished_at = $5, status = $6, problem = $7
		WHERE id = $1 AND state = 'waiting'`, d.ID, string(d.State), d.Attempts, d.DueAt, d.FinishedAt, d.Status, d.Problem)
}

// Deliveries returns an account's deliveries, newest first.
func (s *Store) Deliveries(ctx context.Context, accountID, endpointID string, state alert.State, p alert.Page) ([]alert.Delivery, error) {
	at, err := s.placeOf(ctx, `SELECT created_at FROM alert_deliveries WHERE id = $1`, p)
	if err != nil {
		return nil, err
	}
	return deliveriesOf(s.db.Read(ctx), `account_id = $1 AND (created_at < $2 OR created_at = $2 AND id < $3) AND ($4 = '' OR endpoint_id = $4) AND ($5 = '' OR state = $5)
		ORDER BY created_at DESC, id DESC LIMIT $6`, accountID, at, p.Before, endpointID, string(state), p.Limit)
}

// FindDelivery returns a delivery, whoever it is for.
func (s *Store) FindDelivery(ctx context.Context, id string) (*alert.Delivery, error) {
	return deliveryOf(s.db.Read(ctx), `id = $1`, id)
}

// deliveryOf returns the delivery that a condition selects.
func deliveryOf(c *sqlstore.Conn, where string, args ...any) (*alert.Delivery, error) {
	return sqlstore.Need(c, fault.New(fault.NotFound, "There is no such delivery."), scanDelivery, `SELECT `+deliveryColumns+` FROM alert_deliveries WHERE `+where, args...)
}

// Replay makes a delivery that has ended wait again.
func (s *Store) Replay(ctx context.Context, accountID, id string, now, since time.Time, most int) error {
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		if _, err := accounts.Lock(tx, accountID); err != nil {
			return err
		}
		d, err := deliveryOf(tx, `id = $1 AND account_id = $2`, id, accountID)
		if err != nil {
			return err
		}
		if d.State == alert.Waiting {
			return fault.New(fault.Conflict, "This delivery is still being tried.")
		}
		had, err := sqlstore.Value[int](tx, `SELECT COUNT(*) FROM alert_deliveries WHERE account_id = $1 AND replayed_at > $2`, accountID, since)
		if err != nil {
			return err
		}
		if had >= most {
			return fault.New(fault.RateLimited, "%d deliveries were sent again in the last hour, which is the limit. Wait a while.", had)
		}
		if err := hasRoom(tx, accountID); err != nil {
			return err
		}
		return tx.Exec(`UPDATE alert_deliveries SET state = 'waiting', attempts = 0, due_at = $2, finished_at = 0, status = 0, problem = '', replayed_at = $2 WHERE id = $1`, id, now)
	})
}

// dropAlerts deletes deliveries that have ended and events of the operator, both after their time.
func (s *Store) dropAlerts(ctx context.Context, now time.Time, most int) (dropped int, err error) {
	for _, statement := range []string{
		`DELETE FROM alert_deliveries WHERE id IN (SELECT id FROM alert_deliveries WHERE state <> 'waiting' AND finished_at < $1 LIMIT $2)`,
		`DELETE FROM alert_events WHERE id IN (SELECT id FROM alert_events WHERE made = 1 AND at < $1 LIMIT $2)`,
	} {
		n, err := s.db.Write(ctx).Changed(statement, now.Add(-alert.Keep), most)
		if err != nil {
			return dropped, err
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
		n, err := sqlstore.Value[int](s.db.Read(ctx), `SELECT COUNT(*) FROM alert_conditions`)
		if err != nil || n == 0 {
			return err
		}
	}
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		// Whoever has the counter's row is alone, so that two nodes do not both make an event.
		tx.Next("alert_conditions")
		before, err := conditionsOf(tx)
		if err != nil {
			return err
		}
		tx.Do(`DELETE FROM alert_conditions WHERE node = $1 OR seen_at < $2`, node, stale)
		for _, c := range holding {
			tx.Do(sqlstore.Insert("alert_conditions", "name, node, since_at, seen_at, began, ended, title, end_title, data"),
				c.Key, node, c.Since, now, string(c.Began), string(c.Over), c.Title, c.OverTitle, c.Data)
			if _, known := before[c.Key]; !known {
				Add(tx, []alert.Event{c.Beginning(node)})
			}
		}
		after, err := conditionsOf(tx)
		if err != nil {
			return err
		}
		for key, c := range before {
			if _, holds := after[key]; !holds {
				Add(tx, []alert.Event{c.End(c.node, now)})
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
func conditionsOf(tx *sqlstore.Conn) (map[string]condition, error) {
	return sqlstore.Map(tx, func(row sqlstore.Row, key *string, c *condition) error {
		err := row.Scan(&c.Key, &c.node, &c.Since, &c.Began, &c.Over, &c.Title, &c.OverTitle, &c.Data)
		*key = c.Key
		return err
	}, `SELECT name, node, since_at, began, ended, title, end_title, data FROM alert_conditions ORDER BY name, node`)
}
