package sqlstore_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"sluice/internal/store/sqlstore"
	"sluice/internal/testkit/pgtest"
)

// Every table is copied, or is known not to be. A migration that adds one adds it to tables.go.
func TestTransferKnowsEveryTable(t *testing.T) {
	t.Parallel()
	s := kernel(t, "sqlite", t.TempDir())
	strange, err := s.Strangers(t.Context())
	if err != nil || len(strange) > 0 {
		t.Errorf("Strangers = %v, %v, want none: add the tables to copied or notCopied in tables.go", strange, err)
	}
	if err := sqlstore.Execute(s, `CREATE TABLE forgotten (id TEXT PRIMARY KEY)`); err != nil {
		t.Fatal(err)
	}
	if strange, err = s.Strangers(t.Context()); err != nil || !slices.Equal(strange, []string{"forgotten"}) {
		t.Errorf("Strangers = %v, %v, want the new table", strange, err)
	}
	in, out := sqlstore.Names()
	for _, name := range slices.Concat(in, out) {
		if err := sqlstore.Execute(s, `SELECT 1 FROM `+name); err != nil {
			t.Errorf("%s is listed in tables.go: %v", name, err)
		}
	}
}

// source is a SQLite database with rows in every table.
func source(t testing.TB, rows int) (*sqlstore.Store, string) {
	t.Helper()
	dir := t.TempDir()
	s := unlocked(t, open(t, "sqlite", dir)).Kernel()
	if err := sqlstore.Fill(s, 0, rows, 1); err != nil {
		t.Fatalf("Fill = %v", err)
	}
	return s, dir
}

// transfer opens the target and prepares a Transfer.
func transfer(t testing.TB, from *sqlstore.Store, url string) (*sqlstore.Transfer, *sqlstore.Store) {
	t.Helper()
	to, err := sqlstore.OpenTarget(t.Context(), url)
	if err != nil {
		t.Fatalf("OpenTarget = %v", err)
	}
	t.Cleanup(func() { to.Close() })
	tr, err := sqlstore.NewTransfer(t.Context(), from, to)
	if err != nil {
		t.Fatalf("NewTransfer = %v", err)
	}
	return tr, to
}

// begin takes the step that must find the target in the state.
func begin(t testing.TB, tr *sqlstore.Transfer, want sqlstore.TransferState) {
	t.Helper()
	if got, err := tr.Begin(t.Context()); err != nil || got != want {
		t.Fatalf("Begin = %q, %v, want %q", got, err, want)
	}
}

// copyAll copies, and returns how many rows were written and erased.
func copyAll(t testing.TB, tr *sqlstore.Transfer) (written, erased int64) {
	t.Helper()
	changes, err := tr.Copy(t.Context(), func(sqlstore.Progress) {})
	if err != nil {
		t.Fatalf("Copy = %v", err)
	}
	for _, c := range changes {
		written += c.Written
		erased += c.Erased
	}
	return written, erased
}

// same checks that both sides hold the same rows, and that there are any.
func same(t testing.TB, tr *sqlstore.Transfer, least int64) {
	t.Helper()
	all, err := tr.Compare(t.Context(), func(sqlstore.Progress) {})
	if err != nil {
		t.Fatalf("Compare = %v", err)
	}
	for _, c := range all {
		if !c.Equal || c.Rows != c.TargetRows || c.Checksum != c.TargetChecksum || c.Rows < least {
			t.Errorf("%s: %d rows %s, then %d rows %s, equal %t, want the same and at least %d", c.Table, c.Rows, c.Checksum, c.TargetRows, c.TargetChecksum, c.Equal, least)
		}
	}
}

func TestTransfer(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	from, dir := source(t, 40)
	if got, err := sqlstore.Examine(t.Context(), from, url); err != nil || got != sqlstore.Empty {
		t.Fatalf("Examine = %q, %v, want an empty target", got, err)
	}
	tr, to := transfer(t, from, url)
	begin(t, tr, sqlstore.Empty)
	// Ids and numbers are the program's. A sequence of the database would have to be set after a copy.
	if err := sqlstore.Query(t.Context(), to, `SELECT 1 / (CASE WHEN COUNT(*) = 0 THEN 1 ELSE 0 END) FROM information_schema.columns
		WHERE table_schema = current_schema() AND table_name <> 'goose_db_version' AND (is_identity = 'YES' OR column_default LIKE 'nextval%')`); err != nil {
		t.Errorf("a column numbers itself (%v): Finish must set its sequence", err)
	}
	in, _ := sqlstore.Names()
	written, erased := copyAll(t, tr)
	if int(written) < 40*len(in) || erased > 10 { // the counters that migrations begin
		t.Errorf("Copy wrote %d rows and erased %d, want all of %d tables and next to none", written, erased, len(in))
	}
	same(t, tr, 40)

	// Half a copy is not served, and a second program does not write to it.
	if _, err := sqlstore.Open(t.Context(), url, "", nil); err == nil || !strings.Contains(err.Error(), "unfinished copy") {
		t.Errorf("Open of an unfinished copy = %v, want a refusal", err)
	}
	if _, err := sqlstore.NewTransfer(t.Context(), from, to); err == nil || !strings.Contains(err.Error(), "another") {
		t.Errorf("a second NewTransfer = %v, want a refusal", err)
	}
	if got, err := sqlstore.Examine(t.Context(), from, url); err != nil || got != sqlstore.Incomplete {
		t.Errorf("Examine = %q, %v, want incomplete", got, err)
	}

	// The source goes on: rows are new, changed in every column, and gone.
	if err := sqlstore.Fill(from, 30, 50, 2); err != nil {
		t.Fatal(err)
	}
	for _, name := range in {
		if name == "accounts" { // rows of others refer to it
			continue
		}
		if err := sqlstore.Execute(from, `DELETE FROM `+name+` WHERE rowid IN (SELECT rowid FROM `+name+` ORDER BY rowid LIMIT 3)`); err != nil {
			t.Fatal(err)
		}
	}
	tr.Close()
	tr, _ = transfer(t, from, url)
	begin(t, tr, sqlstore.Incomplete)
	if written, erased := copyAll(t, tr); written > int64(len(in)*21) || erased < int64(len(in)-1)*3 {
		t.Errorf("the second Copy wrote %d rows and erased %d, want only what has changed", written, erased)
	}
	same(t, tr, 40)
	if written, erased := copyAll(t, tr); written != 0 || erased != 0 {
		t.Errorf("the third Copy wrote %d rows and erased %d, want none", written, erased)
	}
	finish(t, tr, from, to, dir, url)
}

// finish completes the move and checks that each side knows its part.
func finish(t *testing.T, tr *sqlstore.Transfer, from, to *sqlstore.Store, dir, url string) {
	t.Helper()
	if err := tr.Finish(t.Context()); err != nil {
		t.Fatalf("Finish = %v", err)
	}
	begin(t, tr, sqlstore.Complete)
	if err := tr.Finish(t.Context()); err != nil {
		t.Errorf("the second Finish = %v", err)
	}
	tr.Close()
	// The foreign keys are back.
	if err := sqlstore.Execute(to, `INSERT INTO api_keys (id, account_id, master, name, hash, last_four, created_at) VALUES ('k', 'nobody', 0, '', '', '', 0)`); err == nil {
		t.Error("a key of an account that does not exist was stored, want the foreign key back")
	}
	served := kernel(t, url, "")
	if err := served.Unlock(t.Context(), first); err != nil {
		t.Errorf("Unlock of the target with the source's secret = %v", err)
	}
	_, err := sqlstore.Open(t.Context(), "sqlite", dir, nil)
	if err == nil || !strings.Contains(err.Error(), "was moved to PostgreSQL") {
		t.Errorf("Open of the source = %v, want that it was moved", err)
	}
	if in, err := sqlstore.Inspect(t.Context(), "sqlite", dir); err != nil || in.Unserved == nil {
		t.Errorf("Inspect of the source = %+v, %v, want that it is not served", in, err)
	}
	want, err := from.Totals(t.Context())
	if err != nil || want.Settlements == 0 {
		t.Errorf("Totals of the source = %+v, %v", want, err)
	}
	if got, err := to.Totals(t.Context()); err != nil || got != want {
		t.Errorf("Totals of the target = %+v, %v, want %+v", got, err, want)
	}
	if was, err := from.CancelTransfer(t.Context()); err != nil || !was {
		t.Errorf("CancelTransfer = %t, %v, want that it was moved", was, err)
	}
	kernel(t, "sqlite", dir)
}

// A target that belongs to somebody else is not touched.
func TestTransferRefusesForeignTargets(t *testing.T) {
	t.Parallel()
	from, _ := source(t, 1)
	other := pgtest.URL(t)
	unlocked(t, open(t, other, "")).Kernel() // it has a data key: a server was started on it
	if _, err := sqlstore.Examine(t.Context(), from, other); err == nil || !strings.Contains(err.Error(), "another installation") {
		t.Errorf("Examine of another installation = %v, want a refusal", err)
	}
	newer := pgtest.URL(t)
	if err := sqlstore.SetVersion(kernel(t, newer, ""), 9999); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlstore.Examine(t.Context(), from, newer); err == nil || !strings.Contains(err.Error(), "use a newer sluice") {
		t.Errorf("Examine of a newer target = %v, want a refusal", err)
	}
	mixed := pgtest.URL(t)
	if err := sqlstore.Execute(kernel(t, mixed, ""), `CREATE TABLE theirs (id TEXT)`); err != nil {
		t.Fatal(err)
	}
	to := kernel(t, mixed, "")
	if _, err := sqlstore.NewTransfer(t.Context(), from, to); err == nil || !strings.Contains(err.Error(), "theirs") {
		t.Errorf("NewTransfer beside a strange table = %v, want its name", err)
	}
}

// What PostgreSQL cannot store in a text is replaced and counted; in a key it is an error.
func TestTransferMendsTexts(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	from, _ := source(t, 2)
	if err := sqlstore.Execute(from, `UPDATE notices SET title = 'a' || char(0) || 'b', body = CAST(x'41ff42' AS TEXT) WHERE account_id = 'acct_000001'`); err != nil {
		t.Fatal(err)
	}
	tr, to := transfer(t, from, url)
	defer tr.Close()
	begin(t, tr, sqlstore.Empty)
	copyAll(t, tr)
	if tr.Mended != 2 {
		t.Errorf("Mended = %d, want 2", tr.Mended)
	}
	same(t, tr, 2)
	if err := sqlstore.Query(t.Context(), to, "SELECT 1/COUNT(*) FROM notices WHERE title = 'a\uFFFDb' AND body = 'A\uFFFDB'"); err != nil {
		t.Errorf("the notice is not as it should be: %v", err)
	}
	if err := sqlstore.Execute(from, `UPDATE notices SET id = 'a' || char(0) || 'b' WHERE account_id = 'acct_000001'`); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Copy(t.Context(), func(sqlstore.Progress) {}); err == nil || !strings.Contains(err.Error(), "cannot store") {
		t.Errorf("Copy with a bad key = %v, want an error", err)
	}
}

// A copy that is cut off anywhere is completed by the next one: between two tables, or with a part of one.
func TestTransferResumes(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	from, _ := source(t, 60)
	for _, cut := range []string{"accounts", "abuse_events", "settlements"} {
		ctx, cancel := context.WithCancel(t.Context())
		tr, to := transfer(t, from, url)
		if _, err := tr.Begin(ctx); err != nil {
			t.Fatalf("Begin = %v", err)
		}
		_, err := tr.Copy(ctx, func(p sqlstore.Progress) {
			if p.Table == cut && p.Rows == p.Of {
				cancel()
			}
		})
		if err == nil || !errors.Is(ctx.Err(), context.Canceled) {
			t.Errorf("Copy cut off after %s = %v, want an error", cut, err)
		}
		cancel()
		// As if the batches in the middle had not been written.
		if err := sqlstore.Execute(to, `DELETE FROM `+cut+` WHERE ctid IN (SELECT ctid FROM `+cut+` LIMIT 40 OFFSET 10)`); err != nil {
			t.Fatal(err)
		}
		tr.Close()
	}
	tr, _ := transfer(t, from, url)
	defer tr.Close()
	begin(t, tr, sqlstore.Incomplete)
	if written, erased := copyAll(t, tr); written < 40 || written > 4*60 || erased > 10 {
		t.Errorf("the last Copy wrote %d rows and erased %d, want what was missing", written, erased)
	}
	same(t, tr, 60)
}
