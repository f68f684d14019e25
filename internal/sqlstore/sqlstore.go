// Package sqlstore keeps every fact of Sluice in SQLite or PostgreSQL.
//
// One set of SQL serves both engines. A method is one transaction named after what happened; the
// rules of what may happen stand with the capability whose Store interface it implements. On SQLite
// all writes go through a single connection and begin immediately, so that a transaction that reads
// before it writes cannot be overtaken; on PostgreSQL they lock the row they are about first.
package sqlstore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"sluice/internal/seal"
)

// File is the name of the SQLite database inside the data folder.
const File = "sluice.db"

//go:embed migrations/*.sql
var migrations embed.FS

// Store is one open database.
type Store struct {
	engine Engine
	path   string   // of the SQLite file
	key    seal.Key // that secrets are sealed under; see Unlock
	write  *sql.DB
	read   *sql.DB

	mu      sync.Mutex
	inserts map[int]*sql.Stmt // that store so many settlements at once
}

// Engine is which database is behind a Store.
type Engine string

const (
	SQLite   Engine = "SQLite"
	Postgres Engine = "PostgreSQL"
)

// Open opens the database and brings its tables up to date. The database is "sqlite", which lives in
// the folder dir, or a postgres:// URL.
func Open(ctx context.Context, database, dir string) (*Store, error) {
	s := &Store{}
	if err := s.connect(database, dir); err != nil {
		return nil, err
	}
	if err := s.migrate(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Engine tells which database this is.
func (s *Store) Engine() Engine { return s.engine }

// Close closes the database.
func (s *Store) Close() error {
	if s.read == s.write {
		return s.write.Close()
	}
	return errors.Join(s.read.Close(), s.write.Close())
}

// Ping reports whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	var one int
	return s.read.QueryRowContext(ctx, "SELECT 1").Scan(&one)
}

// Inspection is what can be told of a database without changing it.
type Inspection struct {
	Engine  Engine
	Version int64 // of its tables; 0: it has none
	Known   int64 // the newest version this program knows
	// Sealed is the sealed data key (see Opens); nil: nothing is sealed yet.
	Sealed []byte
}

// Inspect looks at a database without bringing it up to date.
func Inspect(ctx context.Context, database, dir string) (Inspection, error) {
	s := &Store{}
	if err := s.connect(database, dir); err != nil {
		return Inspection{}, err
	}
	defer s.Close()
	p, err := s.provider()
	if err != nil {
		return Inspection{}, err
	}
	in := Inspection{Engine: s.engine, Known: newest(p)}
	if err := s.read.PingContext(ctx); err != nil {
		return in, clean(err)
	}
	err = s.read.QueryRowContext(ctx, "SELECT MAX(version_id) FROM goose_db_version").Scan(&in.Version)
	if err != nil {
		in.Version = 0 // no such table: nothing has been set up
	}
	in.Sealed, _ = s.Sealed(ctx) // nor is there this table before its migration
	return in, nil
}

func (s *Store) connect(database, dir string) error {
	if database != "sqlite" {
		db, err := sql.Open("pgx", database)
		if err != nil {
			return errors.New("the database URL cannot be read; expected postgres://user:password@host:port/name")
		}
		db.SetMaxOpenConns(16)
		db.SetMaxIdleConns(4)
		db.SetConnMaxIdleTime(5 * time.Minute)
		s.engine, s.write, s.read = Postgres, db, db
		return nil
	}
	path := filepath.Join(dir, File)
	s.path = path
	// SQLite would make the file readable for everybody where the umask lets it. What it puts beside the file
	// gets the file's mode. O_EXCL: to close another descriptor of a database in use would drop its locks.
	if f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err == nil {
		f.Close()
	} // else it is there, or SQLite says what is wrong
	// FULL: what an operator or customer was told (a key, a plan) survives a power cut.
	pragmas := []string{"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "cache_size(-4000)"}
	var err error
	if s.write, err = sql.Open("sqlite", sqliteDSN(path, pragmas, "_txlock=immediate")); err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	s.write.SetMaxOpenConns(1)
	if s.read, err = sql.Open("sqlite", sqliteDSN(path, append(pragmas, "query_only(1)"))); err != nil {
		s.write.Close()
		return fmt.Errorf("open %s: %w", path, err)
	}
	s.read.SetMaxOpenConns(4)
	s.read.SetMaxIdleConns(1)
	s.engine = SQLite
	return nil
}

func sqliteDSN(path string, pragmas []string, params ...string) string {
	for _, p := range pragmas {
		params = append(params, "_pragma="+url.QueryEscape(p))
	}
	return (&url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path)}).String() + "?" + strings.Join(params, "&")
}

// provider reads the migrations, to be applied under a lock that keeps other processes out.
func (s *Store) provider() (*goose.Provider, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	dialect, opts := goose.DialectSQLite3, []goose.ProviderOption{}
	if s.engine == Postgres {
		dialect = goose.DialectPostgres
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 120)) // ask each second
		if err != nil {
			return nil, err
		}
		opts = append(opts, goose.WithSessionLocker(locker))
	}
	p, err := goose.NewProvider(dialect, s.write, files, opts...)
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	return p, nil
}

// newest is the number of the last migration.
func newest(p *goose.Provider) int64 {
	sources := p.ListSources()
	return sources[len(sources)-1].Version
}

// migrate applies what is missing.
func (s *Store) migrate(ctx context.Context) error {
	p, err := s.provider()
	if err != nil {
		return err
	}
	known := newest(p)
	if have, err := p.GetDBVersion(ctx); err != nil {
		return fmt.Errorf("open the %s database: %w", s.engine, clean(err))
	} else if have > known {
		return fmt.Errorf("the database is at version %d and this program knows versions up to %d: use a newer sluice", have, known)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("bring the %s database up to date: %w", s.engine, clean(err))
	}
	return nil
}

// tx runs work in one writing transaction.
func (s *Store) tx(ctx context.Context, work func(*sql.Tx) error) error {
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return unavailable(err)
	}
	defer tx.Rollback()
	if err := work(tx); err != nil {
		return unavailable(err)
	}
	return unavailable(tx.Commit())
}

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// each runs a query and reads its rows one by one. It is the only loop over rows, so that nobody takes
// rows that broke off for all there are: an error that ends them is returned.
func each(ctx context.Context, q querier, read func(*sql.Rows) error, query string, args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := read(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// millis and its inverse are how times are kept; zero is never.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

func yesNo(b bool) int {
	if b {
		return 1
	}
	return 0
}
