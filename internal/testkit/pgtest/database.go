package pgtest

import (
	"context"
	"crypto/rand"
	"fmt"
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
	// template0 has no connections, so that tests can create databases at the same time;
	// template1 may have some.
	return create(t, "template0")
}

// Copy returns the URL of a copy of a database of URL, to which nobody may be connected. A copy takes less time than
// migrations do.
func Copy(t testing.TB, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return create(t, strings.TrimPrefix(u.Path, "/"))
}

// create returns the URL of a database that is dropped when the test ends.
func create(t testing.TB, template string) string {
	t.Helper()
	server := os.Getenv(Env)
	if server == "" {
		t.Skip("needs PostgreSQL: run make test, or set " + Env)
	}
	address, drop, err := createFrom(server, template)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := drop(); err != nil {
			t.Fatal(err)
		}
	})
	return address
}

// Create creates a fresh, empty database on a server. It returns its URL and what drops it.
func Create(server string) (address string, drop func() error, err error) {
	return createFrom(server, "template0")
}

func createFrom(server, template string) (address string, drop func() error, err error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme == "" || u.Host == "" {
		return "", nil, fmt.Errorf("%s must be a URL such as postgres://user@127.0.0.1:5432/postgres, not %q", Env, server)
	}
	name := "test_" + strings.ToLower(rand.Text())
	if err := execute(server, `CREATE DATABASE "`+name+`" TEMPLATE "`+template+`"`); err != nil {
		return "", nil, err
	}
	u.Path = "/" + name
	// FORCE: a test that leaks a connection should fail for that reason and not here.
	return u.String(), func() error { return execute(server, `DROP DATABASE IF EXISTS "`+name+`" WITH (FORCE)`) }, nil
}

// execute runs one statement on its own connection.
func execute(server, statement string) error {
	// The context of a test is canceled before its cleanups run.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return fmt.Errorf("connecting to the server of %s: %w", Env, err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}
