package sqlstore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/store/sqlstore/storetest"
	"sluice/internal/testkit/pgtest"
)

func open(t testing.TB, database, dir string) *alltest.Store {
	t.Helper()
	return alltest.In(t, database, dir)
}

// kernel opens a database for what concerns all of it.
func kernel(t testing.TB, database, dir string) *sqlstore.Store {
	t.Helper()
	return open(t, database, dir).Kernel()
}

// unlocked is the store as the service uses it, with its secrets sealed.
func unlocked(t testing.TB, s *alltest.Store) *alltest.Store {
	t.Helper()
	if err := s.Unlock(t.Context(), first); err != nil {
		t.Fatalf("Unlock = %v", err)
	}
	return s
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	open(t, "sqlite", empty).Close()
	storetest.Run(t, func(t testing.TB) func() *alltest.Store {
		dir := copied(t, empty)
		return func() *alltest.Store { return unlocked(t, open(t, "sqlite", dir)) }
	})
}

// copied returns a folder with a copy of a database: hundreds of stores need not migrate.
func copied(t testing.TB, from string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	empty := pgtest.URL(t) // skips the whole suite, by name, where there is no server
	open(t, empty, "").Close()
	storetest.Run(t, func(t testing.TB) func() *alltest.Store {
		url := pgtest.Copy(t, empty)
		return func() *alltest.Store { return unlocked(t, open(t, url, "")) }
	})
}

// Several nodes may start on one PostgreSQL at once; a SQLite file is under the data folder's lock.
func TestPostgreSQLMigratesUnderALock(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s, err := alltest.Open(t.Context(), url, "")
			if err != nil {
				t.Errorf("Open = %v", err)
				return
			}
			defer s.Close()
			if _, err := s.Accounts(t.Context(), "", 1); err != nil {
				t.Errorf("Accounts = %v", err)
			}
		})
	}
	wg.Wait()
}

func TestOpenRefusesNewerDatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, "sqlite", dir)
	if err := sqlstore.SetVersion(s.Kernel(), 9999); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if _, err := alltest.Open(t.Context(), "sqlite", dir); err == nil || !strings.Contains(err.Error(), "use a newer sluice") {
		t.Errorf("Open of a newer database = %v, want advice to use a newer sluice", err)
	}
	in, err := sqlstore.Inspect(t.Context(), "sqlite", dir)
	if err != nil || in.Version != 9999 || in.Known >= 9999 {
		t.Errorf("Inspect = %+v, %v, want version 9999 and fewer known", in, err)
	}
}

// Accounts that were terminated or closed by an older program stay so, unless it reopened them.
func TestTerminatedBefore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old, err := sqlstore.OpenAt(t.Context(), "sqlite", dir, 16)
	if err != nil {
		t.Fatal(err)
	}
	seq := 0
	final := map[string]bool{}
	for _, tt := range []struct {
		id      string
		actions []string
		final   bool
	}{
		{"acct_terminated", []string{"account.terminate"}, true},
		{"acct_closed", []string{"account.suspend", "account.unsuspend", "account.close"}, true},
		{"acct_reopened", []string{"account.terminate", "account.unsuspend", "account.suspend"}, false},
		{"acct_suspended", []string{"account.suspend"}, false},
	} {
		final[tt.id] = tt.final
		statements := []string{fmt.Sprintf(`INSERT INTO accounts (id, email, plan, plan_granted, staff, suspended_at, created_at, version) VALUES ('%s', '%s', 'none', 0, 0, 1, 1, 1)`, tt.id, tt.id)}
		for _, action := range tt.actions {
			seq++
			statements = append(statements, fmt.Sprintf(`INSERT INTO audit_log (seq, at, actor, action, account_id, detail, reason) VALUES (%d, 1, 't', '%s', '%s', '', '')`, seq, action, tt.id))
		}
		if err := sqlstore.Execute(old, strings.Join(statements, ";")); err != nil {
			t.Fatal(err)
		}
	}
	old.Close()
	s := open(t, "sqlite", dir)
	for id, want := range final {
		if a, err := s.FindAccount(t.Context(), id); err != nil || a.Suspended == nil || a.Suspended.Final != want {
			t.Errorf("%s is suspended %+v, %v, want final %t", id, a.Suspended, err, want)
		}
	}
}

func TestOpenNeedsAFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := alltest.Open(t.Context(), "sqlite", dir); err == nil {
		t.Error("Open inside a file = nil, want an error")
	}
}

// The error of a failed connection must not contain the password.
func TestErrorsKeepThePassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres://u:canary7@127.0.0.1:1/db?connect_timeout=2", "postgres://u:canary7@127.0.0.1:notaport/db"} {
		_, err := alltest.Open(t.Context(), url, "")
		if err == nil {
			t.Fatalf("Open(%s) = nil, want an error", url)
		}
		if strings.Contains(err.Error(), "canary7") {
			t.Errorf("Open's error holds the password: %v", err)
		}
	}
}

// A statement whose error nobody checks must end its transaction.
func TestTxReturnsTheKeptError(t *testing.T) {
	t.Parallel()
	db := kernel(t, "sqlite", t.TempDir())
	err := db.Tx(t.Context(), func(tx *sqlstore.Conn) error {
		tx.Do(`INSERT INTO counters (name, value) VALUES ('kept', 1)`)
		tx.Do(`INSERT INTO nowhere (name) VALUES ('kept')`)
		if n := tx.Next("audit_log"); n != 0 {
			t.Errorf("Next after an error = %d, want 0", n)
		}
		if n, err := sqlstore.Value[int](tx, `SELECT COUNT(*) FROM counters`); err == nil {
			t.Errorf("Value after an error = %d, nil, want an error", n)
		}
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("Tx = %v, want the error of the second statement", err)
	}
	if n, err := sqlstore.Value[int](db.Read(t.Context()), `SELECT COUNT(*) FROM counters WHERE name = 'kept'`); n != 0 || err != nil {
		t.Errorf("%d rows of the transaction are stored, %v, want none", n, err)
	}
}
