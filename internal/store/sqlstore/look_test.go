package sqlstore_test

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/internal/kit/health"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/testkit/pgtest"
)

// A database that answers and cannot be used has failed; one that does not answer is away.
func TestLook(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) string{
		"SQLite":     func(*testing.T) string { return "sqlite" },
		"PostgreSQL": func(t *testing.T) string { return pgtest.URL(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := alltest.Open(t.Context(), open(t), t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			look(t, s, false, "")
			execute(t, s, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, TRUE)`)
			look(t, s, false, "a newer program has migrated the tables")
			execute(t, s, `DELETE FROM goose_db_version WHERE version_id > 5`)
			look(t, s, true, "the tables are older than this program")
			execute(t, s, `DROP TABLE goose_db_version`)
			look(t, s, true, "the tables cannot be read")
			s.Close()
			look(t, s, false, "no answer for ")
		})
	}
}

func look(t *testing.T, s *alltest.Store, failed bool, message string) health.Finding {
	t.Helper()
	f := s.Look(t.Context())
	if f.Failed != failed || !strings.HasPrefix(f.Message, message) || message == "" && f.Message != "" || failed && f.Err == nil {
		t.Errorf("Look = %+v, want failed %v with %q", f, failed, message)
	}
	return f
}

func execute(t *testing.T, s *alltest.Store, statement string) {
	t.Helper()
	if err := sqlstore.Execute(s.Kernel(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// A PostgreSQL that has become read-only, as a standby is, is told.
func TestLookAtReadOnly(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	s, err := alltest.Open(t.Context(), address, "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(u.Path, "/")
	u.Path = "/postgres"
	conn, err := pgx.Connect(t.Context(), u.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	for _, mode := range []struct {
		value  string
		failed bool
	}{{"on", true}, {"off", false}} {
		// The setting is that of new connections, so the old ones go.
		for _, statement := range []string{
			`ALTER DATABASE "` + name + `" SET default_transaction_read_only = ` + mode.value,
			`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '` + name + `'`,
		} {
			if _, err := conn.Exec(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		var f health.Finding
		for end := time.Now().Add(enough); time.Now().Before(end); {
			if f = s.Look(t.Context()); f.Failed == mode.failed {
				break
			}
		}
		if f.Failed != mode.failed || mode.failed != strings.HasPrefix(f.Message, "read-only") {
			t.Errorf("Look with default_transaction_read_only = %s: %+v", mode.value, f)
		}
		if s.Writable() == mode.failed {
			t.Errorf("Writable with default_transaction_read_only = %s: %v", mode.value, s.Writable())
		}
	}
}

// A full database is told until it takes something again.
func TestLookAtFull(t *testing.T) {
	t.Parallel()
	s, err := alltest.Open(t.Context(), "sqlite", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	execute(t, s, `PRAGMA max_page_count = 1`) // not less than it has
	if err := s.RecordSettlements(t.Context(), settlements(1000)); err == nil {
		t.Fatal("a full database stored a thousand settlements")
	}
	look(t, s, true, "it stores nothing")
	execute(t, s, `PRAGMA max_page_count = 1000000`)
	if err := s.RecordSettlements(t.Context(), settlements(1000)); err != nil {
		t.Fatal(err)
	}
	look(t, s, false, "")
}
