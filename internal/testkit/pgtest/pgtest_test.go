package pgtest

import (
	"context"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestMajorVersion(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		want int
	}{
		{"postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)\n", 15},
		{"postgres (PostgreSQL) 18beta1\n", 18},
		{"postgres (PostgreSQL) 9.6.24\n", 9},
		{"psql (PostgreSQL) 15.13\n", 0},
		{"", 0},
	} {
		if got := majorVersion(tt.text); got != tt.want {
			t.Errorf("majorVersion(%q) = %d, want %d", tt.text, got, tt.want)
		}
	}
}

func TestServerRestart(t *testing.T) {
	t.Parallel()
	s := Own(t)
	if got := query(t, s.URL(), "CREATE TABLE kept AS SELECT 7 AS n; SELECT n FROM kept"); got != 7 {
		t.Fatalf("first reading = %d, want 7", got)
	}

	if err := s.Stop(); err != nil {
		t.Fatalf("Stop() = %v", err)
	}
	if conn, err := pgx.Connect(t.Context(), s.URL()); err == nil {
		conn.Close(t.Context())
		t.Fatal("a stopped server takes connections")
	}
	if err := s.Stop(); err != nil {
		t.Fatalf("second Stop() = %v, want nil", err)
	}

	before := s.URL()
	if err := s.Restart(); err != nil {
		t.Fatalf("Restart() = %v", err)
	}
	if s.URL() != before {
		t.Errorf("URL after Restart = %s, want %s", s.URL(), before)
	}
	if got := query(t, s.URL(), "SELECT n FROM kept"); got != 7 {
		t.Errorf("reading after Restart = %d, want 7", got)
	}
}

// Not parallel: it names a server of its own in the environment.
func TestURL(t *testing.T) {
	s := Own(t, "max_connections=20")
	t.Setenv(Env, s.URL())
	if got := query(t, s.URL(), "SELECT current_setting('max_connections')::int"); got != 20 {
		t.Errorf("max_connections = %d, want the setting given to Own, 20", got)
	}
	const databases = "SELECT count(*)::int FROM pg_database WHERE datname LIKE 'test_%'"

	t.Run("fresh", func(t *testing.T) {
		one, two := URL(t), URL(t)
		if one == two {
			t.Fatalf("URL twice = %s both times, want two databases", one)
		}
		for _, u := range []string{one, two} {
			if got := query(t, u, "CREATE TABLE mine (n int); SELECT count(*)::int FROM mine"); got != 0 {
				t.Errorf("rows in a new table of %s = %d, want 0", u, got)
			}
		}
		if got := query(t, s.URL(), databases); got != 2 {
			t.Errorf("databases during the test = %d, want 2", got)
		}
	})
	if got := query(t, s.URL(), databases); got != 0 {
		t.Errorf("databases after the test = %d, want 0", got)
	}
}

// query runs statements and returns the integer that the last one selects.
func query(t *testing.T, url, statements string) int {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	results, err := conn.PgConn().Exec(ctx, statements).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", statements, err)
	}
	n, err := strconv.Atoi(string(results[len(results)-1].Rows[0][0]))
	if err != nil {
		t.Fatalf("%s: %v", statements, err)
	}
	return n
}
