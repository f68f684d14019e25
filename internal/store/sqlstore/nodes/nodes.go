// Package nodes stores which servers are on one database, and carries what they tell each other.
//
// Store implements the interfaces of package cluster.
package nodes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/internal/ledger/cluster"
	"sluice/internal/store/sqlstore"
)

const (
	// channel is where nodes send each other messages.
	channel = "sluice"
	// listenIdle is how long nothing may arrive before the connection is checked, and listenPatience how long
	// the check, like the connecting, may take.
	listenIdle, listenPatience = 5 * time.Second, 3 * time.Second
)

// Store is the part of a database that package cluster uses.
type Store struct{ db *sqlstore.Store }

// New returns the part of a database.
func New(db *sqlstore.Store) *Store { return &Store{db} }

// moment is the time of the database like Clock, but that at which the expression is evaluated: a statement may
// have waited for a lock before that, and a node must not be given a time that has passed.
func (s *Store) moment() string {
	if s.db.Engine() == sqlstore.Postgres {
		return `CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)`
	}
	return s.db.Clock()
}

// Beat notes that a node lives; see cluster.Store. It takes no lock but that of the node's own row, and holds
// it for one statement: a node that freezes here holds up nobody.
func (s *Store) Beat(ctx context.Context, id, life, address string, list int64) (cluster.State, bool, error) {
	beaten, err := s.held(ctx, `UPDATE cluster_nodes SET seen_at = `+s.moment()+`, list = $1, address = $2 WHERE id = $3 AND life = $4`, list, address, id, life)
	if err != nil || !beaten {
		return cluster.State{}, false, err
	}
	state, err := s.state(s.db.Vital(ctx))
	return state, err == nil, err
}

// state reads everything in one statement, so that the lists and the nodes are of one moment.
func (s *Store) state(c *sqlstore.Conn) (st cluster.State, err error) {
	err = c.Each(func(row sqlstore.Row) error {
		var n cluster.Node
		var now, since time.Time
		var base, next, former string
		var id, life, version, mode, host, address *string // no node: one row of NULLs
		var list *int64
		if err := row.Scan(&now, &st.List, &base, &next, &former, &since, &id, &life, &version, &mode, &n.StartedAt, &n.SeenAt, &list, &host, &address); err != nil {
			return err
		}
		// The clock is read for each row; the first one is before all others, and good enough.
		if st.Now.IsZero() {
			st.Now, st.Since = now, since
			st.Base, st.Next, st.Former = splitIDs(base), splitIDs(next), splitIDs(former)
		}
		if id != nil {
			n.ID, n.Life, n.Host, n.Address, n.Version, n.Mode, n.List = *id, *life, *host, *address, *version, cluster.Mode(*mode), *list
			st.Nodes = append(st.Nodes, n)
		}
		return nil
	}, `SELECT `+s.moment()+`, l.list, l.base, l.proposed, l.former, l.since, n.id, n.life, n.version, n.mode, n.started_at, n.seen_at, n.list, n.host, n.address
		FROM cluster_lists l LEFT JOIN cluster_nodes n ON l.id = 1 WHERE l.id = 1 ORDER BY n.id`)
	if err == nil && st.Now.IsZero() {
		err = errors.New("the table cluster_lists is empty")
	}
	// PostgreSQL may order text by language.
	slices.SortFunc(st.Nodes, func(a, b cluster.Node) int { return strings.Compare(a.ID, b.ID) })
	return st, err
}

// splitIDs is the inverse of joining with spaces. Nothing gives nil.
func splitIDs(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, " ")
}

// ChangeCluster applies a rule to the nodes and the lists; see cluster.Store. Writing to the row of the lists
// locks all of it.
func (s *Store) ChangeCluster(ctx context.Context, change func(*cluster.State) error) error {
	return s.db.VitalTx(ctx, func(tx *sqlstore.Conn) error {
		if s.db.Engine() == sqlstore.Postgres {
			// If this process freezes in between, the server must not wait for it: all other nodes would.
			tx.Do(`SET LOCAL idle_in_transaction_session_timeout = '3s'`)
		}
		tx.Do(`UPDATE cluster_lists SET list = list WHERE id = 1`)
		was, err := s.state(tx)
		if err != nil {
			return err
		}
		is := was
		is.Nodes = slices.Clone(was.Nodes)
		if err := change(&is); err != nil {
			return err
		}
		if is.List != was.List {
			tx.Do(`UPDATE cluster_lists SET list = $1, base = $2, proposed = $3, former = $4, since = $5 WHERE id = 1`,
				is.List, strings.Join(is.Base, " "), strings.Join(is.Next, " "), strings.Join(is.Former, " "), is.Since)
		}
		writeNodes(tx, was.Nodes, is.Nodes)
		return nil
	})
}

// writeNodes writes what has changed. A row that stays is not touched: its node may be beating.
func writeNodes(tx *sqlstore.Conn, was, is []cluster.Node) {
	for _, n := range was {
		if !slices.Contains(is, n) {
			tx.Do(`DELETE FROM cluster_nodes WHERE id = $1`, n.ID)
		}
	}
	for _, n := range is {
		if !slices.Contains(was, n) {
			tx.Do(`INSERT INTO cluster_nodes (id, life, version, mode, started_at, seen_at, list, host, address) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
				n.ID, n.Life, n.Version, string(n.Mode), n.StartedAt, n.SeenAt, n.List, n.Host, n.Address)
		}
	}
}

// ledgerRow is the row of cluster_lists whose base is the name of the data in Redis. The row with the lists
// by which nodes divide limits is 1.
const ledgerRow = 2

// LedgerTable returns the name of the data in Redis that the servers on this database used last, or "" if there was
// none; see redisledger.Memory. A server that starts learns by it that Redis has lost its data.
func (s *Store) LedgerTable(ctx context.Context) (string, error) {
	return sqlstore.Optional[string](s.db.Vital(ctx), `SELECT base FROM cluster_lists WHERE id = $1`, ledgerRow)
}

// KeepLedgerTable stores the name of the data in Redis.
func (s *Store) KeepLedgerTable(ctx context.Context, table string) error {
	return s.db.Vital(ctx).Exec(`INSERT INTO cluster_lists (id, list, base, proposed, since) VALUES ($1, 0, $2, '', `+s.moment()+`)
		ON CONFLICT (id) DO UPDATE SET base = excluded.base, since = excluded.since`, ledgerRow, table)
}

// ClaimJob claims a job that is due; see cluster.JobStore.
func (s *Store) ClaimJob(ctx context.Context, job, holder string, lease time.Duration) (claimed bool, wait time.Duration, err error) {
	now := s.moment()
	claimed, err = s.held(ctx, `INSERT INTO cluster_jobs (name, holder, began, until, due) VALUES ($1, $2, `+now+`, `+now+` + $3, 0)
		ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, began = excluded.began, until = excluded.until
		WHERE cluster_jobs.until <= `+now+` AND cluster_jobs.due <= `+now, job, holder, lease)
	if err != nil || claimed {
		return claimed, 0, err
	}
	var at, until, due int64
	_, err = sqlstore.One(s.db.Vital(ctx), func(row sqlstore.Row, _ *struct{}) error { return row.Scan(&at, &until, &due) },
		`SELECT `+now+`, until, due FROM cluster_jobs WHERE name = $1`, job)
	return false, time.Duration(max(until, due, at)-at) * time.Millisecond, err
}

// RenewJob extends the lease of a job; see cluster.JobStore.
func (s *Store) RenewJob(ctx context.Context, job, holder string, lease time.Duration) (bool, error) {
	now := s.moment()
	return s.held(ctx, `UPDATE cluster_jobs SET until = `+now+` + $1 WHERE name = $2 AND holder = $3 AND until > `+now, lease, job, holder)
}

// EndJob gives a job back; see cluster.JobStore.
func (s *Store) EndJob(ctx context.Context, job, holder string, every time.Duration) error {
	query := `UPDATE cluster_jobs SET holder = '', until = 0, due = began + $1 WHERE name = $2 AND holder = $3`
	if every == 0 {
		query = `UPDATE cluster_jobs SET holder = '', until = 0, due = $1 WHERE name = $2 AND holder = $3`
	}
	_, err := s.held(ctx, query, every, job, holder)
	return err
}

// held runs a statement about the row of a job and reports whether there was one.
func (s *Store) held(ctx context.Context, query string, args ...any) (bool, error) {
	n, err := s.db.Vital(ctx).Changed(query, args...)
	return n > 0, err
}

// errNoBus says that SQLite carries no messages. Nobody asks for it: no other process can listen.
var errNoBus = errors.New("SQLite has no notifications")

// Notify sends a message to all that listen; see cluster.BusStore.
func (s *Store) Notify(ctx context.Context, message string) error {
	if s.db.Engine() != sqlstore.Postgres {
		return errNoBus
	}
	return s.db.Vital(ctx).Exec(`SELECT pg_notify($1, $2)`, channel, message)
}

// Listen receives messages on a connection of its own, until it breaks or ctx ends; see cluster.BusStore.
func (s *Store) Listen(ctx context.Context, ready func(), got func(message string)) error {
	if s.db.Engine() != sqlstore.Postgres {
		return errNoBus
	}
	conn, err := s.listen(ctx)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), listenPatience)
		defer cancel()
		_ = conn.Close(closing)
	}()
	ready()
	for ctx.Err() == nil {
		waiting, cancel := context.WithTimeout(ctx, listenIdle)
		n, err := conn.WaitForNotification(waiting)
		cancel()
		switch {
		case err == nil:
			got(n.Payload)
			continue
		// Only the wait has ended; the driver keeps the connection then.
		case waiting.Err() != nil && !conn.IsClosed():
		default:
			return sqlstore.Clean(err)
		}
		// Nothing arrived: is there still somebody at the other end? Subscribing again changes nothing, and
		// whoever looks at the sessions of the database sees what this one is for.
		asking, cancel := context.WithTimeout(ctx, listenPatience)
		_, err = conn.Exec(asking, `LISTEN `+channel)
		cancel()
		if err != nil {
			return fmt.Errorf("the connection for messages does not answer: %w", sqlstore.Clean(err))
		}
	}
	return ctx.Err()
}

// listen connects and subscribes.
func (s *Store) listen(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, listenPatience)
	defer cancel()
	conn, err := s.db.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, `LISTEN `+channel); err != nil {
		_ = conn.Close(ctx)
		return nil, sqlstore.Clean(err)
	}
	return conn, nil
}
