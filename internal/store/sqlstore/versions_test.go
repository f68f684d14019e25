package sqlstore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/internal/ledger/usage"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/store/sqlstore/storetest"
	"sluice/internal/testkit/pgtest"
)

// additiveFrom is the number of the first migration that may only add. From there on, servers of the version before
// go on while those of the next one start on the same database.
const additiveFrom = 18

// allowed are the migrations that do more than add, each with the reason why the version before works all the same.
var allowed = map[string]string{
	"00039_request_ids.sql": "no version before has a query that needs the index",
}

var (
	comment  = regexp.MustCompile(`--[^\n]*`)
	created  = regexp.MustCompile(`(?i)CREATE TABLE (?:IF NOT EXISTS )?(\w+)`)
	uniqueOn = regexp.MustCompile(`(?i)CREATE UNIQUE INDEX .* ON (\w+)`)
	narrows  = regexp.MustCompile(`(?i)\b(DROP|RENAME|TRUNCATE|DELETE FROM|ALTER COLUMN|SET NOT NULL|ADD CONSTRAINT|ADD CHECK)\b`)
	column   = regexp.MustCompile(`(?is)ALTER TABLE .* ADD (?:COLUMN )?`)
	notNull  = regexp.MustCompile(`(?i)\bNOT NULL\b`)
	fallback = regexp.MustCompile(`(?i)\bDEFAULT\b`)
)

// narrowing returns what in a migration a program of the version before could stumble over.
func narrowing(text string) (found []string) {
	text = comment.ReplaceAllString(text, "")
	own := map[string]bool{} // nobody else knows the tables that it creates
	for _, m := range created.FindAllStringSubmatch(text, -1) {
		own[m[1]] = true
	}
	for statement := range strings.SplitSeq(text, ";") {
		statement = strings.Join(strings.Fields(statement), " ")
		if m := narrows.FindString(statement); m != "" {
			found = append(found, strings.ToUpper(m))
		}
		if column.MatchString(statement) && notNull.MatchString(statement) && !fallback.MatchString(statement) {
			found = append(found, "a new column that is NOT NULL without a DEFAULT")
		}
		if m := uniqueOn.FindStringSubmatch(statement); m != nil && !own[m[1]] {
			found = append(found, "a new rule for rows of "+m[1])
		}
	}
	return found
}

func TestMigrationsOnlyAdd(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("migrations/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("Glob = %v, %v, want migrations", files, err)
	}
	seen := map[string]bool{}
	for _, path := range files {
		name := filepath.Base(path)
		seen[name] = true
		var number int
		if _, err := fmt.Sscanf(name, "%05d_", &number); err != nil {
			t.Errorf("%s has no number: %v", name, err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if found := narrowing(string(text)); number >= additiveFrom && len(found) > 0 && allowed[name] == "" {
			t.Errorf("%s has %s: a server of the version before may still run on this database; add only, or give the reason in allowed", name, strings.Join(found, ", "))
		}
	}
	for name := range allowed {
		if !seen[name] {
			t.Errorf("allowed names %s, which does not exist", name)
		}
	}
}

func TestNarrowing(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"CREATE TABLE a (id TEXT PRIMARY KEY, n BIGINT NOT NULL); CREATE UNIQUE INDEX a_n ON a (n)":   0,
		"ALTER TABLE accounts ADD COLUMN x TEXT NOT NULL DEFAULT ''":                                  0,
		"ALTER TABLE accounts ADD COLUMN x TEXT":                                                      0,
		"CREATE INDEX accounts_x ON accounts (x); INSERT INTO counters (name, value) VALUES ('x', 0)": 0,
		"-- DROP TABLE accounts":                           0,
		"ALTER TABLE accounts ADD COLUMN x TEXT NOT NULL":  1,
		"alter table accounts\n\tadd x text\n\tnot null":   1,
		"ALTER TABLE accounts DROP COLUMN x":               1,
		"DROP INDEX accounts_x":                            1,
		"ALTER TABLE accounts RENAME TO people":            1,
		"ALTER TABLE accounts ALTER COLUMN x SET NOT NULL": 1,
		"CREATE UNIQUE INDEX accounts_x ON accounts (x)":   1,
		"DELETE FROM sessions; DROP TABLE sessions":        2,
	} {
		if got := narrowing(text); len(got) != want {
			t.Errorf("narrowing(%q) = %q, want %d findings", text, got, want)
		}
	}
}

// A database with a migration between ours that we do not have was set up by another program.
func TestOpenRefusesUnknownMigrations(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := kernel(t, "sqlite", dir)
	if err := sqlstore.SetVersion(s, 14); err != nil { // this number was never used
		t.Fatal(err)
	}
	s.Close()
	if _, err := sqlstore.Open(t.Context(), "sqlite", dir, nil); err == nil || !strings.Contains(err.Error(), "does not know (14): use the sluice that set it up") {
		t.Errorf("Open = %v, want that migration 14 is not known", err)
	}
}

// Commands do not migrate a PostgreSQL that servers of an older version may be using. A new one they do.
func TestOpenAsIs(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	fresh, err := sqlstore.OpenAsIs(t.Context(), url, "")
	if err != nil {
		t.Fatalf("OpenAsIs of a new database = %v", err)
	}
	fresh.Close()
	old := pgtest.URL(t)
	s, err := sqlstore.OpenAt(t.Context(), old, "", 17)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if _, err := sqlstore.OpenAsIs(t.Context(), old, ""); err == nil || !strings.Contains(err.Error(), "is at version 17 and this program needs version") || !strings.Contains(err.Error(), "start a server of this version first") {
		t.Errorf("OpenAsIs of an older database = %v, want advice", err)
	}
	if in, err := sqlstore.Inspect(t.Context(), old, ""); err != nil || in.Version != 17 {
		t.Errorf("Inspect = %+v, %v, want the refused database as it was", in, err)
	}
	kernel(t, old, "") // a server migrates
	if s, err = sqlstore.OpenAsIs(t.Context(), old, ""); err != nil {
		t.Fatalf("OpenAsIs of a current database = %v", err)
	}
	s.Close()
}

// widen does to the tables what migrations of a later version may do.
func widen(t testing.TB, s *sqlstore.Store) {
	t.Helper()
	in, _ := sqlstore.Names()
	statements := []string{`CREATE TABLE added_later (id TEXT PRIMARY KEY)`}
	for _, name := range in {
		statements = append(statements, `ALTER TABLE `+name+` ADD COLUMN added_later TEXT NOT NULL DEFAULT 'later'`)
	}
	if err := sqlstore.Execute(s, strings.Join(statements, ";")); err != nil {
		t.Fatal(err)
	}
}

// This program works on the tables of a later version: it names its columns everywhere.
func TestLaterTables(t *testing.T) {
	t.Parallel()
	later := t.TempDir()
	first := kernel(t, "sqlite", later)
	widen(t, first)
	first.Close()
	storetest.Run(t, func(t testing.TB) func() *alltest.Store {
		dir := copied(t, later)
		return func() *alltest.Store { return unlocked(t, open(t, "sqlite", dir)) }
	})
}

// A server goes on while one of the next version migrates the database under it: connections that are open, with
// statements that are prepared, take no harm.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, next := unlocked(t, open(t, url, "")), kernel(t, url, "")
	ids := func(from, n int) (batch []usage.Settlement) {
		for i := range n {
			batch = append(batch, usage.Settlement{ID: fmt.Sprint("call-", from+i), At: time.UnixMilli(1e12), AccountID: "acct_1", KeyID: "k", ModelUsed: "m", UnitMilli: 1000, End: usage.EndComplete})
		}
		return batch
	}
	use := func(from int) {
		t.Helper()
		if err := s.RecordSettlements(t.Context(), ids(from, 120)); err != nil {
			t.Errorf("RecordSettlements = %v", err)
		}
		if recent, err := s.RecentSettlements(t.Context(), "acct_1", usage.Point{At: time.Now()}, 10); err != nil || len(recent) != 10 {
			t.Errorf("RecentSettlements = %d, %v, want 10", len(recent), err)
		}
		if _, err := s.Accounts(t.Context(), "", 10); err != nil {
			t.Errorf("Accounts = %v", err)
		}
	}
	use(0)
	widen(t, next)
	if err := sqlstore.SetVersion(next, 9999); err != nil {
		t.Fatal(err)
	}
	use(60)
	if have, err := s.HasSettlements(t.Context(), ids(0, 180)); err != nil || len(have) != 180 {
		t.Errorf("HasSettlements = %d, %v, want 180", len(have), err)
	}
	if differences, _, err := s.AuditUsage(t.Context()); err != nil || len(differences) > 0 {
		t.Errorf("AuditUsage = %v, %v, want none", differences, err)
	}
}

func TestNewest(t *testing.T) {
	t.Parallel()
	in, err := sqlstore.Inspect(t.Context(), "sqlite", t.TempDir())
	if err != nil || in.Known != sqlstore.Newest() {
		t.Errorf("Newest() = %d, want %d (%v)", sqlstore.Newest(), in.Known, err)
	}
}

// Ids of calls of earlier versions do not tell their time. They are found all the same.
func TestOldRequestsAreFound(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]func(t *testing.T) string{
		"SQLite":     func(*testing.T) string { return "sqlite" },
		"PostgreSQL": func(t *testing.T) string { return pgtest.URL(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, url := t.TempDir(), database(t)
			old, err := sqlstore.OpenAt(t.Context(), url, dir, 32)
			if err != nil {
				t.Fatal(err)
			}
			const id = "f00dfeedf00dfeedf00dfeedf00dfeed"
			err = sqlstore.Execute(old, `INSERT INTO settlements (id, at, account_id, key_id, plan, tier, model_asked, model, provider, prompt, cached, completion, reasoning,
				counted, request_milli, unit_milli, status, ending, latency_ms, first_token_ms)
				VALUES ('`+id+`', 1767225600000, 'acct_1', 'k', 'basic', 'free', 'm', 'm', 'p', 1, 0, 2, 0, 0, 1000, 1000, 200, 'complete', 5, 0)`)
			old.Close()
			if err != nil {
				t.Fatal(err)
			}
			found, err := open(t, url, dir).Requests(t.Context(), id, 10)
			if err != nil || len(found) != 1 || found[0].ID != id || found[0].Trace != nil {
				t.Errorf("Requests = %+v, %v, want the call of the earlier version", found, err)
			}
		})
	}
}

// Every migration has a number of its own in front of its name, and they come in that order.
func TestMigrationsAreNumbered(t *testing.T) {
	t.Parallel()
	var before int64
	for _, v := range sqlstore.Versions() {
		if v <= before {
			t.Errorf("version %d comes behind %d", v, before)
		}
		before = v
	}
	if before != sqlstore.Newest() {
		t.Errorf("Newest() = %d, want %d", sqlstore.Newest(), before)
	}
}

// A database that lacks a migration before its last one is refused, and not changed.
func TestLackingMigration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := sqlstore.OpenAt(t.Context(), "sqlite", dir, 20)
	if err != nil {
		t.Fatal(err)
	}
	if err := sqlstore.Execute(s, `DELETE FROM goose_db_version WHERE version_id = 12`); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if s, err = sqlstore.Open(t.Context(), "sqlite", dir, nil); err == nil {
		s.Close()
		t.Fatal("it was opened")
	}
	if want := "at version 20 but lacks version 12"; !strings.Contains(err.Error(), want) {
		t.Errorf("Open = %v, want %q in it", err, want)
	}
}

// The table of versions of 0.1.0 and 0.2.0, which wrote it without goose, is taken as it is.
func TestTableOfEarlierVersions(t *testing.T) {
	t.Parallel()
	tables := map[string]string{
		"SQLite":     `(id INTEGER PRIMARY KEY AUTOINCREMENT, version_id BIGINT NOT NULL, is_applied INTEGER NOT NULL, tstamp TIMESTAMP NOT NULL DEFAULT (datetime('now')))`,
		"PostgreSQL": `(id integer PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY, version_id BIGINT NOT NULL, is_applied boolean NOT NULL, tstamp TIMESTAMP NOT NULL DEFAULT now())`,
	}
	for name, database := range bothEngines() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, url := t.TempDir(), database(t)
			old, err := sqlstore.OpenAt(t.Context(), url, dir, 32)
			if err != nil {
				t.Fatal(err)
			}
			err = sqlstore.Execute(old, `ALTER TABLE goose_db_version RENAME TO made_now;
				CREATE TABLE goose_db_version `+tables[name]+`;
				INSERT INTO goose_db_version (version_id, is_applied) SELECT version_id, TRUE FROM made_now ORDER BY version_id;
				DROP TABLE made_now`)
			old.Close()
			if err != nil {
				t.Fatal(err)
			}
			open(t, url, dir).Close()
			if in, err := sqlstore.Inspect(t.Context(), url, dir); err != nil || in.Version != sqlstore.Newest() {
				t.Errorf("Inspect = %+v, %v, want version %d", in, err, sqlstore.Newest())
			}
		})
	}
}
