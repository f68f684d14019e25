package pgtest

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Env is the environment variable that holds the URL of the test run's server.
const Env = "SLUICE_TEST_POSTGRES"

// URL returns the URL of a fresh, empty database that is dropped when the test ends. It skips
// the test if the environment names no server.
func URL(t testing.TB) string {
	t.Helper()
	server := os.Getenv(Env)
	if server == "" {
		t.Skip("needs PostgreSQL: run make test, or set " + Env)
	}
	u, err := url.Parse(server)
	if err != nil || u.Scheme == "" || u.Host == "" {
		t.Fatalf("%s must be a URL such as postgres://user@127.0.0.1:5432/postgres, not %q", Env, server)
	}

	name := "test_" + strings.ToLower(rand.Text())
	// template0 has no connections, so that tests can create databases at the same time;
	// template1 may have some.
	execute(t, server, `CREATE DATABASE "`+name+`" TEMPLATE template0`)
	t.Cleanup(func() {
		// FORCE: a test that leaks a connection should fail for that reason and not here.
		execute(t, server, `DROP DATABASE IF EXISTS "`+name+`" WITH (FORCE)`)
	})
	u.Path = "/" + name
	return u.String()
}

// execute runs one statement on its own connection.
func execute(t testing.TB, server, statement string) {
	t.Helper()
	// The test's own context is canceled before its cleanups run.
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		t.Fatalf("connecting to the server of %s: %v", Env, err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}
