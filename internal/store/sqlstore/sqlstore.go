// Package sqlstore is the kernel of everything that Sluice stores in SQLite or PostgreSQL: opening, pools of connections,
// deadlines, transactions, statements and their rows, secrets, migrations, and copies of a whole database.
//
// What is stored is in the packages below it, one for each noun. They have one set of SQL for both engines, and use a
// Conn. A method of theirs is one transaction, named after what happened. The rules about what may happen belong to the
// package whose Store interface the method implements.
//
// On SQLite all writes use a single connection and start with BEGIN IMMEDIATE, so no other writer
// can get in between a read and a write of the same transaction. On PostgreSQL, a transaction first
// locks the row that it is about by writing to it. Transactions that lock several rows do so in the
// same order everywhere, so that they cannot deadlock.
//
// Times are stored as Unix milliseconds, booleans as 0 and 1, money in cents or micro-dollars, and
// request and unit counts in thousandths, so both engines only ever compare and add integers.
//
// Start reading with Store, Conn and Store.Tx; pool has the deadlines, and errors.go decides which
// errors a caller may retry.
package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"sluice/internal/kit/seal"
)

// File is the name of the SQLite database inside the data folder.
const File = "sluice.db"

// Store is an open database. It is safe for concurrent use.
// The fields are set while it is opened and not changed afterwards, except for the atomics and,
// before it is shared, the key.
type Store struct {
	engine Engine
	path   string   // path of the SQLite file; empty for PostgreSQL
	key    seal.Key // the data key that secrets are sealed under; zero before Unlock
	// write and read are the same pool on PostgreSQL. On SQLite, write has one connection and read
	// has several that cannot write; in WAL mode readers never block the writer.
	write *pool
	read  *pool
	// vital is what nodes show with that they live. On PostgreSQL it is a small pool of its own: if all other
	// connections are busy, this node must not look dead. On SQLite it is write.
	vital    *pool
	patience patience     // of all three
	late     atomic.Int32 // how often the patience with settlements is doubled
	state    state
	known    int64           // the version of the tables that this program needs
	config   *pgx.ConnConfig // of PostgreSQL; nil for SQLite
	report   func(Migration) // may be nil
}

// Engine is the kind of database behind a Store.
type Engine string

const (
	SQLite   Engine = "SQLite"
	Postgres Engine = "PostgreSQL"
)

// Open opens the database and applies missing migrations. The database is "sqlite", for a file in
// the folder dir, or a postgres:// URL. A database that was moved away, or that holds half a copy, is
// refused; see Transfer. report is called with each migration when it begins, and every ten seconds until it ends; it may
// be nil.
func Open(ctx context.Context, database, dir string, report func(Migration)) (*Store, error) {
	return open(ctx, database, dir, (*Store).refuseDamaged, func(s *Store, ctx context.Context) error {
		s.report = report
		return s.migrate(ctx)
	}, (*Store).refuseTransfer)
}

// OpenAsIs is Open without migrations: a PostgreSQL that others may be using is refused unless it is at
// the version of this program. A database without tables gets them, and so does SQLite, which nobody
// else can be using.
func OpenAsIs(ctx context.Context, database, dir string) (*Store, error) {
	return open(ctx, database, dir, (*Store).refuseOlder, (*Store).migrate, (*Store).refuseTransfer)
}

// open connects to a database and takes the steps in order.
// The functions that open a database differ in nothing but their steps. ErrAway is added here, for
// callers that wait until PostgreSQL is there.
func open(ctx context.Context, database, dir string, steps ...func(*Store, context.Context) error) (*Store, error) {
	s := &Store{}
	if err := s.connect(database, dir); err != nil {
		return nil, err
	}
	for _, step := range steps {
		if err := step(s, ctx); err != nil {
			s.Close()
			if s.engine == Postgres && isAway(err) {
				err = fmt.Errorf("%w: %w", ErrAway, err)
			}
			return nil, err
		}
	}
	return s, nil
}

// Engine returns the kind of database.
func (s *Store) Engine() Engine { return s.engine }

// Close closes the database. Transactions in progress fail.
func (s *Store) Close() error {
	// On PostgreSQL, reading and writing is one pool.
	if s.read == s.write {
		return errors.Join(s.vital.db.Close(), s.write.db.Close())
	}
	return errors.Join(s.read.db.Close(), s.write.db.Close())
}

// Ping reports, with a nil error, that the database answers.
func (s *Store) Ping(ctx context.Context) error {
	var one int
	return s.read.scan(ctx, "SELECT 1", &one)
}

// connect opens the connection pools and sets their engine. It does not check that the database
// answers.
func (s *Store) connect(database, dir string) error {
	s.patience = usual
	if database != "sqlite" {
		config, err := openPostgres(database)
		if err != nil {
			return err
		}
		// 16 connections for each node, and a few that are vital: PostgreSQL allows 100 by default,
		// and several nodes have to share them.
		db := s.connectPostgres(config, 16, 4)
		db.db.SetConnMaxIdleTime(5 * time.Minute)
		s.engine, s.config, s.write, s.read = Postgres, config, db, db
		s.vital = s.connectPostgres(config, 4, 2)
		return nil
	}
	path := filepath.Join(dir, File)
	s.path = path
	// SQLite would create the file with the mode that the umask allows; the files that it creates
	// next to it get the mode of this file. O_EXCL makes sure that only a new file is opened here:
	// on Unix, closing any other descriptor of a database in use would drop the process's locks on
	// it.
	if f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err == nil {
		f.Close()
	} // else it exists already, or SQLite will report what is wrong
	// synchronous=FULL: whatever an operator or customer was told (a key, a plan) survives a power
	// failure. cache_size is in KiB if negative: 4 MB for each connection.
	// busy_timeout is in milliseconds. WAL lets readers and the writer work at the same time.
	pragmas := []string{"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "cache_size(-4000)"}
	write, err := sql.Open("sqlite", sqliteDSN(path, pragmas, "_txlock=immediate"))
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	read, err := sql.Open("sqlite", sqliteDSN(path, append(pragmas, "query_only(1)")))
	if err != nil {
		write.Close()
		return fmt.Errorf("open %s: %w", path, err)
	}
	// One connection for all writes. Writers queue in this process instead of failing with
	// SQLITE_BUSY. Idle readers are closed, except for one: each has its own page cache.
	s.write, s.read = s.newPool(write, 1, 1), s.newPool(read, 4, 1)
	s.engine, s.vital = SQLite, s.write
	return nil
}

// sqliteDSN returns the data source name of a SQLite file. Pragmas are part of it so that they
// apply to every connection that the pool opens. The path is escaped, since it may contain ? or %.
func sqliteDSN(path string, pragmas []string, params ...string) string {
	for _, p := range pragmas {
		params = append(params, "_pragma="+url.QueryEscape(p))
	}
	return (&url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path)}).String() + "?" + strings.Join(params, "&")
}

// longTx is Tx for what may take hours; see long.
func (s *Store) longTx(ctx context.Context, work func(tx *Conn) error) error {
	return s.Long(ctx, func(ctx context.Context) error { return s.Tx(ctx, work) })
}

// querier is implemented by *pool and *sql.Tx.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// each runs a query and calls read for each row. Loops over rows belong here: it is easy to forget
// rows.Err, and then rows that broke off look like all there are. All rows must be read within the patience of a call.
//
// A query is run again only if no row has been read: read may have kept the others.
func each(ctx context.Context, q querier, read func(*sql.Rows) error, query string, args ...any) (err error) {
	run := func(ctx context.Context) (again bool, err error) {
		rows, err := q.QueryContext(ctx, query, args...)
		if err != nil {
			return true, err
		}
		defer rows.Close()
		begun := false
		for rows.Next() {
			begun = true
			if err := read(rows); err != nil {
				return false, err
			}
		}
		return !begun, rows.Err()
	}
	// A transaction has its deadline already.
	if p, ok := q.(*pool); ok {
		err = p.twice(ctx, query, run)
		p.note(err)
		return err
	}
	_, err = run(ctx)
	return err
}

// Millis converts a time to the form in which it is stored: Unix milliseconds, with 0 for the zero
// time, which means never.
func Millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Time is the inverse of Millis. The result is in UTC.
func Time(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// Clock returns the expression for the time of the database in Unix milliseconds. What several nodes
// compare uses it instead of the time of one of them. It is the same in all places of a statement.
func (s *Store) Clock() string {
	if s.engine == Postgres {
		return `(EXTRACT(EPOCH FROM statement_timestamp()) * 1000)::BIGINT`
	}
	return `CAST(unixepoch('subsec') * 1000 AS INTEGER)`
}

// yesNo converts a bool to the form in which it is stored. SQLite has no boolean type.
func yesNo(b bool) int {
	if b {
		return 1
	}
	return 0
}
