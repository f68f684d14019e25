package sqlstore_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"sluice/internal/store/sqlstore"
	"sluice/internal/testkit/pgtest"
)

// bothEngines returns an empty database of each engine, and a folder for it.
func bothEngines() map[string]func(t *testing.T) string {
	return map[string]func(t *testing.T) string{
		"SQLite":     func(*testing.T) string { return "sqlite" },
		"PostgreSQL": func(t *testing.T) string { return pgtest.URL(t) },
	}
}

// oldCalls fills a database of an early version with calls.
func oldCalls(t *testing.T, database, dir string, calls int) {
	t.Helper()
	old, err := sqlstore.OpenAt(t.Context(), database, dir, 32)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	// Of the last month, of 200 accounts with two models.
	err = sqlstore.Execute(old, fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		INSERT INTO settlements (id, at, account_id, key_id, plan, tier, model_asked, model, provider, prompt, cached, completion, reasoning,
			counted, request_milli, unit_milli, status, ending, latency_ms, first_token_ms)
		SELECT 'call-' || i, 1767225600000 + i * (2592000000 / %[1]d), 'acct_' || i %% 200, 'key_' || i %% 200, 'basic', 'free', 'm' || i %% 2, 'm' || i %% 2, 'p', 100, 0, 20, 0, 0, 1000, 1000, 200, 'complete', i %% 5000, i %% 500 FROM n`, calls))
	if err != nil {
		t.Fatal(err)
	}
}

// Migrations of a database that has data are told of, those of a new one are not.
func TestMigrationsAreReported(t *testing.T) {
	t.Parallel()
	for name, database := range bothEngines() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, url := t.TempDir(), database(t)
			oldCalls(t, url, dir, 10)
			in, err := sqlstore.Inspect(t.Context(), url, dir)
			if err != nil || in.Calls != 10 || in.Takes() <= 0 {
				t.Errorf("Inspect = %+v, %v, want 10 calls that take some time", in, err)
			}
			for i, want := range []bool{true, false} {
				var told []sqlstore.Migration
				s, err := sqlstore.Open(t.Context(), url, dir, func(m sqlstore.Migration) { told = append(told, m) })
				if err != nil {
					t.Fatal(err)
				}
				s.Close()
				if got := len(told) > 0 && told[len(told)-1].Version == sqlstore.Newest() && told[len(told)-1].Step == told[0].Of; got != want {
					t.Errorf("start %d told of %v, want all steps the first time", i+1, told)
				}
			}
			if in, err := sqlstore.Inspect(t.Context(), url, dir); err != nil || in.Takes() != 0 {
				t.Errorf("Inspect of tables that are up to date = %+v, %v, want nothing that takes time", in, err)
			}
		})
	}
	s, err := sqlstore.Open(t.Context(), "sqlite", t.TempDir(), func(m sqlstore.Migration) { t.Errorf("a new database: %v, want silence", m) })
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}

// A node waits for another one that migrates, however long that takes, and says so.
func TestMigrationOfAnotherNode(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	release, err := sqlstore.HoldMigrations(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	told := false
	s, err := sqlstore.Open(t.Context(), url, "", func(m sqlstore.Migration) {
		if strings.Contains(m.String(), "another node") {
			told = true
			release()
		}
	})
	if err != nil || !told {
		t.Fatalf("Open = %v, told %t, want it to wait and to say so", err, told)
	}
	s.Close()
}

// TestMigrationsTake measures how long the migrations of calls take, for Inspection.Takes.
func TestMigrationsTake(t *testing.T) {
	if os.Getenv("SLUICE_SOAK") == "" {
		t.Skip("set SLUICE_SOAK to migrate a million calls")
	}
	const calls = 1_000_000
	for name, database := range bothEngines() {
		t.Run(name, func(t *testing.T) {
			dir, url := t.TempDir(), database(t)
			oldCalls(t, url, dir, calls)
			began := time.Now()
			var told []string
			s, err := sqlstore.Open(t.Context(), url, dir, func(m sqlstore.Migration) { told = append(told, m.String()) })
			if err != nil {
				t.Fatal(err)
			}
			s.Close()
			t.Logf("soak: %s: migrating %d calls took %s; last: %s", name, calls, time.Since(began).Round(time.Second), told[len(told)-1])
		})
	}
}
