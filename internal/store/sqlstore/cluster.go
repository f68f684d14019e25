package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/internal/kit/order"
	"sluice/internal/ledger/cluster"
)

const (
	// channel is where nodes send each other messages.
	channel = "sluice"
	// listenIdle is how long nothing may arrive before the connection is checked, and listenPatience how long
	// the check, like the connecting, may take.
	listenIdle, listenPatience = 5 * time.Second, 3 * time.Second
)

// moment is the time of the database like clock, but that at which the expression is evaluated: a statement may
// have waited for a lock before that, and a node must not be given a time that has passed.
func (s *Store) moment() string {
	if s.engine == Postgres {
		return `CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)`
	}
	return s.Clock()
}

// Beat notes that a node lives; see cluster.Store. It takes no lock but that of the node's own row, and holds
// it for one statement: a node that freezes here holds up nobody.
func (s *Store) Beat(ctx context.Context, id, life string, list int64) (cluster.State, bool, error) {
	done, err := s.vital.ExecContext(ctx, `UPDATE cluster_nodes SET seen_at = `+s.moment()+`, list = $1 WHERE id = $2 AND life = $3`, list, id, life)
	if err != nil {
		return cluster.State{}, false, unavailable(err)
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return cluster.State{}, false, unavailable(err)
	}
	state, err := s.clusterState(ctx, s.vital)
	return state, err == nil, unavailable(err)
}

// clusterState reads everything in one statement, so that the lists and the nodes are of one moment.
func (s *Store) clusterState(ctx context.Context, q querier) (st cluster.State, err error) {
	err = each(ctx, q, func(rows *sql.Rows) error {
		var now, since int64
		var base, next string
		var id, life, version, mode, host sql.NullString // no node: one row of NULLs
		var started, seen, list sql.NullInt64
		if err := rows.Scan(&now, &st.List, &base, &next, &since, &id, &life, &version, &mode, &started, &seen, &list, &host); err != nil {
			return err
		}
		// The clock is read for each row; the first one is before all others, and good enough.
		if st.Now.IsZero() {
			st.Now, st.Since = fromMillis(now), fromMillis(since)
			st.Base, st.Next = splitIDs(base), splitIDs(next)
		}
		if id.Valid {
			st.Nodes = append(st.Nodes, cluster.Node{
				ID: id.String, Life: life.String, Host: host.String, Version: version.String, Mode: cluster.Mode(mode.String),
				StartedAt: fromMillis(started.Int64), SeenAt: fromMillis(seen.Int64), List: list.Int64,
			})
		}
		return nil
	}, `SELECT `+s.moment()+`, l.list, l.base, l.proposed, l.since, n.id, n.life, n.version, n.mode, n.started_at, n.seen_at, n.list, n.host
		FROM cluster_lists l LEFT JOIN cluster_nodes n ON l.id = 1 WHERE l.id = 1 ORDER BY n.id`)
	if err == nil && st.Now.IsZero() {
		err = errors.New("the table cluster_lists is empty")
	}
	// PostgreSQL may order text by language.
	order.By(st.Nodes, func(a, b cluster.Node) int { return strings.Compare(a.ID, b.ID) })
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
	return unavailable(s.vital.tx(ctx, s.patience.call, nil, func(ctx context.Context, tx *sql.Tx) error {
		if s.engine == Postgres {
			// If this process freezes in between, the server must not wait for it: all other nodes would.
			if _, err := tx.ExecContext(ctx, `SET LOCAL idle_in_transaction_session_timeout = '3s'`); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, `UPDATE cluster_lists SET list = list WHERE id = 1`); err != nil {
			return err
		}
		was, err := s.clusterState(ctx, tx)
		if err != nil {
			return err
		}
		is := was
		is.Nodes = slices.Clone(was.Nodes)
		if err := change(&is); err != nil {
			return err
		}
		if is.List != was.List {
			if _, err := tx.ExecContext(ctx, `UPDATE cluster_lists SET list = $1, base = $2, proposed = $3, since = $4 WHERE id = 1`,
				is.List, strings.Join(is.Base, " "), strings.Join(is.Next, " "), millis(is.Since)); err != nil {
				return err
			}
		}
		return writeNodes(ctx, tx, was.Nodes, is.Nodes)
	}))
}

// writeNodes writes what has changed. A row that stays is not touched: its node may be beating.
func writeNodes(ctx context.Context, tx *sql.Tx, was, is []cluster.Node) error {
	for _, n := range was {
		if slices.Contains(is, n) {
			continue
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM cluster_nodes WHERE id = $1`, n.ID); err != nil {
			return err
		}
	}
	for _, n := range is {
		if slices.Contains(was, n) {
			continue
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO cluster_nodes (id, life, version, mode, started_at, seen_at, list, host) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
			n.ID, n.Life, n.Version, string(n.Mode), millis(n.StartedAt), millis(n.SeenAt), n.List, n.Host); err != nil {
			return err
		}
	}
	return nil
}

// ledgerRow is the row of cluster_lists whose base is the name of the table of nodes in Redis. The row with the lists
// by which nodes divide limits is 1.
const ledgerRow = 2

// LedgerTable returns the table of nodes in Redis that the servers on this database used last, or "" if there was
// none. A server that starts learns by it that Redis has lost its data.
func (s *Store) LedgerTable(ctx context.Context) (table string, err error) {
	err = s.vital.QueryRowContext(ctx, `SELECT base FROM cluster_lists WHERE id = $1`, ledgerRow).Scan(&table)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return table, unavailable(err)
}

// KeepLedgerTable stores the table of nodes in Redis.
func (s *Store) KeepLedgerTable(ctx context.Context, table string) error {
	_, err := s.vital.ExecContext(ctx, `INSERT INTO cluster_lists (id, list, base, proposed, since) VALUES ($1, 0, $2, '', `+s.moment()+`)
		ON CONFLICT (id) DO UPDATE SET base = excluded.base, since = excluded.since`, ledgerRow, table)
	return unavailable(err)
}

// ClaimJob claims a job that is due; see cluster.JobStore.
func (s *Store) ClaimJob(ctx context.Context, job, holder string, lease time.Duration) (claimed bool, wait time.Duration, err error) {
	now := s.moment()
	done, err := s.vital.ExecContext(ctx, `INSERT INTO cluster_jobs (name, holder, began, until, due) VALUES ($1, $2, `+now+`, `+now+` + $3, 0)
		ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, began = excluded.began, until = excluded.until
		WHERE cluster_jobs.until <= `+now+` AND cluster_jobs.due <= `+now, job, holder, lease.Milliseconds())
	if err != nil {
		return false, 0, unavailable(err)
	}
	if n, err := done.RowsAffected(); err != nil || n > 0 {
		return n > 0, 0, unavailable(err)
	}
	var at, until, due int64
	err = s.vital.QueryRowContext(ctx, `SELECT `+now+`, until, due FROM cluster_jobs WHERE name = $1`, job).Scan(&at, &until, &due)
	return false, time.Duration(max(until, due, at)-at) * time.Millisecond, unavailable(err)
}

// RenewJob extends the lease of a job; see cluster.JobStore.
func (s *Store) RenewJob(ctx context.Context, job, holder string, lease time.Duration) (bool, error) {
	now := s.moment()
	return s.held(ctx, `UPDATE cluster_jobs SET until = `+now+` + $1 WHERE name = $2 AND holder = $3 AND until > `+now, lease.Milliseconds(), job, holder)
}

// EndJob gives a job back; see cluster.JobStore.
func (s *Store) EndJob(ctx context.Context, job, holder string, every time.Duration) error {
	query := `UPDATE cluster_jobs SET holder = '', until = 0, due = began + $1 WHERE name = $2 AND holder = $3`
	if every == 0 {
		query = `UPDATE cluster_jobs SET holder = '', until = 0, due = $1 WHERE name = $2 AND holder = $3`
	}
	_, err := s.held(ctx, query, every.Milliseconds(), job, holder)
	return err
}

// held runs a statement about the row of a job and reports whether there was one.
func (s *Store) held(ctx context.Context, query string, args ...any) (bool, error) {
	done, err := s.vital.ExecContext(ctx, query, args...)
	if err != nil {
		return false, unavailable(err)
	}
	n, err := done.RowsAffected()
	return n > 0, unavailable(err)
}

// errNoBus says that SQLite carries no messages. Nobody asks for it: no other process can listen.
var errNoBus = errors.New("SQLite has no notifications")

// Notify sends a message to all that listen; see cluster.BusStore.
func (s *Store) Notify(ctx context.Context, message string) error {
	if s.engine != Postgres {
		return errNoBus
	}
	_, err := s.vital.ExecContext(ctx, `SELECT pg_notify($1, $2)`, channel, message)
	return unavailable(err)
}

// Listen receives messages on a connection of its own, until it breaks or ctx ends; see cluster.BusStore.
func (s *Store) Listen(ctx context.Context, ready func(), got func(message string)) error {
	if s.engine != Postgres {
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
			return clean(err)
		}
		// Nothing arrived: is there still somebody at the other end? Subscribing again changes nothing, and
		// whoever looks at the sessions of the database sees what this one is for.
		asking, cancel := context.WithTimeout(ctx, listenPatience)
		_, err = conn.Exec(asking, `LISTEN `+channel)
		cancel()
		if err != nil {
			return fmt.Errorf("the connection for messages does not answer: %w", clean(err))
		}
	}
	return ctx.Err()
}

// listen connects and subscribes.
func (s *Store) listen(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, listenPatience)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, s.config)
	if err != nil {
		return nil, clean(err)
	}
	if _, err := conn.Exec(ctx, `LISTEN `+channel); err != nil {
		_ = conn.Close(ctx)
		return nil, clean(err)
	}
	return conn, nil
}
