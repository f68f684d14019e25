package sqlstore_test

import (
	"context"
	"crypto/tls"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"sluice/internal/kit/fault"
	"sluice/internal/ledger/usage"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/testkit/pgtest"
)

func kindOf(err error) fault.Kind { return fault.From(sqlstore.Classify(err)).Kind }

// A start waits for a PostgreSQL that may come, and not for one that refuses the configuration.
func TestAway(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{&net.OpError{Op: "dial", Err: errors.New("connection refused")}, true},
		{context.DeadlineExceeded, true},
		{&net.DNSError{Err: "no such host", IsNotFound: true}, true}, // names of a cluster come and go
		{&pgconn.PgError{Code: "57P03"}, true},                       // starting
		{&pgconn.PgError{Code: "53300"}, true},                       // too many connections
		{&pgconn.PgError{Code: "28P01"}, false},                      // wrong password
		{&pgconn.PgError{Code: "28000"}, false},                      // not allowed to connect
		{&pgconn.PgError{Code: "3D000"}, false},                      // no such database
		{&tls.CertificateVerificationError{Err: errors.New("expired")}, false},
		{errors.New("the database is at version 99"), false},
	} {
		if got := sqlstore.IsAway(fmt.Errorf("open: %w", tt.err)); got != tt.want {
			t.Errorf("isAway(%v) = %t, want %t", tt.err, got, tt.want)
		}
	}
}

// Errors that a retry may fix become 503. Everything else is a bug and becomes 500.
func TestErrorKinds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		want fault.Kind
	}{
		{context.DeadlineExceeded, fault.Unavailable},
		{fmt.Errorf("query: %w", context.Canceled), fault.Unavailable},
		{driver.ErrBadConn, fault.Unavailable},
		{sql.ErrConnDone, fault.Unavailable},
		{sql.ErrTxDone, fault.Unavailable},
		{io.ErrUnexpectedEOF, fault.Unavailable},
		{&net.OpError{Op: "read", Err: errors.New("connection reset by peer")}, fault.Unavailable},
		{&pgconn.ConnectError{}, fault.Unavailable},
		{sql.ErrNoRows, fault.Internal},
		{errors.New("sql: Scan error on column index 0"), fault.Internal},
		{errors.New(`"gold" is not a plan`), fault.Internal},
		{fault.New(fault.Conflict, "taken"), fault.Conflict},
	} {
		if got := kindOf(tt.err); got != tt.want {
			t.Errorf("a database's %v is %s, want %s", tt.err, got, tt.want)
		}
	}
	for code, want := range map[string]fault.Kind{
		"08006": fault.Unavailable, // connection failure
		"40001": fault.Unavailable, // serialization failure
		"40P01": fault.Unavailable, // deadlock
		"53100": fault.Unavailable, // disk full
		"53300": fault.Unavailable, // too many connections
		"57014": fault.Unavailable, // cancelled by a time-out
		"57P01": fault.Unavailable, // the server shuts down
		"58030": fault.Unavailable, // input or output error
		"25006": fault.Unavailable, // read only, as after a failover
		"55P03": fault.Unavailable, // lock not available
		"42601": fault.Internal,    // syntax error
		"42P01": fault.Internal,    // no such table
		"23505": fault.Internal,    // unique
		"23503": fault.Internal,    // foreign key
		"22003": fault.Internal,    // out of range
		"":      fault.Internal,
	} {
		if got := kindOf(&pgconn.PgError{Code: code}); got != want {
			t.Errorf("PostgreSQL's %s is %s, want %s", code, got, want)
		}
	}
}

// bugs are statements that no retry can fix, on both engines.
var bugs = map[string]string{
	"syntax":     `SELEKT 1`,
	"no table":   `SELECT id FROM nowhere`,
	"no column":  `SELECT nothing FROM accounts`,
	"constraint": `INSERT INTO counters (name, value) VALUES ('audit_log', 0)`,
	"not null":   `INSERT INTO counters (name, value) VALUES ('x', NULL)`,
	"reference":  `INSERT INTO api_keys (id, account_id, master, name, hash, last_four, created_at) VALUES ('k', 'nobody', 0, '', 'h', '', 0)`,
	"scan":       `SELECT name FROM counters`,
}

func TestBugsAreNotRetried(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, s *alltest.Store) {
		for name, statement := range bugs {
			err := sqlstore.Query(t.Context(), s.Kernel(), statement)
			if err == nil || fault.From(err).Kind != fault.Internal {
				t.Errorf("%s: %s = %v, want an error of our own", name, statement, err)
			}
		}
	}
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		check(t, open(t, "sqlite", t.TempDir()))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		check(t, open(t, pgtest.URL(t), ""))
	})
}

// A database that is locked, closed, slow or read-only is reported as temporarily unavailable.
func TestTroubleIsRetried(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, "sqlite", dir)
	expect := func(what string, err error) {
		t.Helper()
		if !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v, want unavailable", what, err)
		}
	}
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	expect("a deadline that has passed", sqlstore.Query(ctx, s.Kernel(), `SELECT 1`))

	db, err := sql.Open("sqlite", filepath.Join(dir, sqlstore.File))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	exec := func(statement string) error {
		_, err := db.ExecContext(t.Context(), statement)
		return sqlstore.Classify(err)
	}
	if err := sqlstore.Execute(s.Kernel(), `BEGIN IMMEDIATE`); err != nil {
		t.Fatal(err)
	}
	expect("locked", exec(`UPDATE counters SET value = value`))
	if err := sqlstore.Execute(s.Kernel(), `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	if err := exec(`PRAGMA query_only = 1`); err != nil {
		t.Fatal(err)
	}
	expect("read only", exec(`UPDATE counters SET value = value`))
	if err := errors.Join(exec(`PRAGMA query_only = 0`), exec(`PRAGMA max_page_count = 1`)); err != nil {
		t.Fatal(err)
	}
	expect("full", exec(`CREATE TABLE filler AS SELECT hex(randomblob(1000000)) AS x`))
	s.Close()
	expect("closed", sqlstore.Query(t.Context(), s.Kernel(), `SELECT 1`))
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	no, err := sql.Open("sqlite", filepath.Join(dir, "file", sqlstore.File))
	if err != nil {
		t.Fatal(err)
	}
	defer no.Close()
	expect("cannot be opened", sqlstore.Classify(no.PingContext(t.Context())))
}

// Rows that break off are reported as an error, not taken for all there are.
func TestRowsThatBreakOff(t *testing.T) {
	t.Parallel()
	s := open(t, "sqlite", t.TempDir())
	// A table whose second row cannot be read: the absolute value does not fit.
	err := sqlstore.Execute(s.Kernel(), strings.Join([]string{
		`DROP TABLE settlements`,
		`CREATE TABLE broken (at BIGINT, id TEXT, n BIGINT)`,
		`INSERT INTO broken VALUES (1, 'a', 0), (2, 'b', -9223372036854775808)`,
		`CREATE VIEW settlements AS SELECT at, CASE WHEN n = 0 THEN id ELSE abs(n) END AS id FROM broken`,
	}, ";"))
	if err != nil {
		t.Fatal(err)
	}
	have, err := s.HasSettlements(t.Context(), []usage.Settlement{{ID: "a", At: time.UnixMilli(1)}, {ID: "b", At: time.UnixMilli(2)}})
	if err == nil {
		t.Errorf("HasSettlements of rows that break off = %v, nil, want an error", have)
	}
}
