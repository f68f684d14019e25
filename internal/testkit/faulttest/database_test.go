package faulttest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/internal/testkit/pgtest"
	"sluice/internal/testkit/wiretest"
)

// database is a PostgreSQL behind a wire, as a server sees it: with a role of its own, which is not the superuser.
type database struct {
	t     *testing.T
	wire  *wiretest.Wire
	url   string // through the wire, as the role
	role  string
	admin *pgx.Conn // the superuser, past the wire
}

func newDatabase(t *testing.T) *database {
	t.Helper()
	role := strings.ToLower(fmt.Sprintf("test_%x", rand.Uint64()))
	// Cleanups run in reverse order: a role can be dropped once its database is.
	var drop func()
	t.Cleanup(func() {
		if drop != nil {
			drop()
		}
	})
	address := pgtest.URL(t)
	d := &database{t: t, role: role, admin: connect(t, address)}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	server := *u
	server.Path = "/postgres"
	d.exec(`CREATE ROLE ` + role + ` LOGIN`)
	drop = func() {
		conn, err := pgx.Connect(context.Background(), server.String())
		if err == nil {
			_, err = conn.Exec(context.Background(), `DROP ROLE `+role)
			_ = conn.Close(context.Background())
		}
		if err != nil {
			t.Errorf("dropping the role: %v", err)
		}
	}
	d.exec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I OWNER TO ` + role + `', current_database()); END $$`)
	u.User = url.User(role)
	d.wire, d.url = wiretest.To(t, u.String())
	return d
}

// connect returns a connection that ends with the test.
func connect(t *testing.T, address string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// exec runs a statement of the superuser.
func (d *database) exec(statement string) {
	d.t.Helper()
	if _, err := d.admin.Exec(context.Background(), statement); err != nil {
		d.t.Fatalf("%s: %v", statement, err)
	}
}

// TestDatabase does to PostgreSQL, under a load of calls, what networks and administrators do. Calls go on in every case,
// and all of them are in the books once when it is over.
func TestDatabase(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	u := newOrdinary(t)
	s := configure(t, fmt.Sprintf("database: %q\n", d.url)+u.model())
	s.start()
	calls := func(t *testing.T, n int) {
		t.Helper()
		together(n, func(int) {
			if c := s.chat("m", "Go."); c.end != complete {
				t.Errorf("a call ended as %s %d %.200s, want complete", c.end, c.status, c.body)
			}
		})
	}
	for _, fault := range []struct {
		name    string
		trouble func(t *testing.T)
		mend    func()
	}{
		{"slow by two seconds", func(t *testing.T) {
			t.Helper()
			d.wire.Delay(time.Duration(scaled(500, 2000)) * time.Millisecond)
			calls(t, scaled(20, 700)) // more than one transaction of a slow database can store
			// What is late is not lost: also a database that stays slow gets all settlements.
			within(t, 3*patience, "settlements in the slow database", func() bool { return s.gauge("sluice_journal_records") == 0 }, func() string { return "" })
		}, func() { d.wire.Delay(0) }},
		{"out of connections", func(t *testing.T) {
			t.Helper()
			d.exec(`ALTER ROLE ` + d.role + ` CONNECTION LIMIT 0`)
			for range scaled(3, 20) {
				d.exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '` + d.role + `'`)
				calls(t, 10)
			}
			if s.gauge("sluice_journal_records") == 0 {
				t.Error("no settlement waits, although there is no connection")
			}
		}, func() { d.exec(`ALTER ROLE ` + d.role + ` CONNECTION LIMIT -1`) }},
		{"cut in the middle of transactions", func(t *testing.T) {
			t.Helper()
			for range scaled(20, 300) {
				d.wire.BreakAfterRequest(rand.Int64N(4000))
				d.wire.BreakAfterReply(rand.Int64N(400))
				calls(t, 5)
			}
		}, func() { d.wire.BreakAfterRequest(-1); d.wire.BreakAfterReply(-1) }},
	} {
		t.Run(fault.name, func(t *testing.T) {
			s.begin(t)
			before := s.atRest()
			fault.trouble(t)
			fault.mend()
			mended := time.Now()
			eventually(t, "an empty journal", func() bool { return s.gauge("sluice_journal_records") == 0 }, func() string { return "" })
			recovery := time.Since(mended)
			n := s.balance()
			s.calm(before)
			report(t, "PostgreSQL "+fault.name, n, recovery)
		})
	}
	s.t = t
	s.kill(syscall.SIGTERM)
}
