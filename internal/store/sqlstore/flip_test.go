package sqlstore_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/alltest"
)

// booksOf returns what accounts have used on each day, in the settlements and in both tables of sums. What cannot be
// read is an error.
func booksOf(t *testing.T, dir string) (string, error) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, sqlstore.File)+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var books strings.Builder
	for _, query := range []string{
		`SELECT account_id || ' ' || at / 86400000 || ' ' || COUNT(*) || ' ' || SUM(request_milli) || ' ' || SUM(unit_milli) || ' ' || SUM(completion) || ' ' || SUM(cost_micro * 1000 + cost_nano) FROM settlements GROUP BY account_id, at / 86400000 ORDER BY 1`,
		`SELECT account_id || ' ' || start / 86400000 || ' ' || SUM(requests) || ' ' || SUM(request_milli) || ' ' || SUM(unit_milli) || ' ' || SUM(completion) || ' ' || SUM(cost_micro * 1000 + cost_nano) FROM usage_hours GROUP BY account_id, start / 86400000 ORDER BY 1`,
		`SELECT account_id || ' ' || start / 86400000 || ' ' || SUM(requests) || ' ' || SUM(request_milli) || ' ' || SUM(unit_milli) || ' ' || SUM(completion) || ' ' || SUM(cost_micro * 1000 + cost_nano) FROM usage_days GROUP BY account_id, start / 86400000 ORDER BY 1`,
	} {
		rows, err := db.QueryContext(t.Context(), query)
		if err != nil {
			return "", err
		}
		for rows.Next() {
			var line sql.NullString
			if err := rows.Scan(&line); err != nil {
				rows.Close()
				return "", err
			}
			books.WriteString(line.String + "\n")
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return "", err
		}
	}
	return books.String(), nil
}

// A bit that has flipped in a page of the database never makes the books wrong without notice: the start refuses the
// database, or sluice doctor finds the page, or sluice audit the difference. What none of them notices has changed no sum.
func TestFlippedBitInPage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := alltest.Open(t.Context(), "sqlite", dir)
	if err != nil {
		t.Fatal(err)
	}
	var batch []usage.Settlement
	for i := range 600 {
		cost := price.Nano(i + 1)
		batch = append(batch, usage.Settlement{
			ID: fmt.Sprintf("call-%04d", i), AccountID: fmt.Sprint("acct_", i%3), KeyID: "key", ModelUsed: "m", End: "complete", At: time.Date(2026, 3, 1+i%5, i%24, 0, 0, 0, time.UTC),
			RequestMilli: 1000, UnitMilli: int64(1000 + i), Cost: &cost,
		})
	}
	if err := errors.Join(s.RecordSettlements(t.Context(), batch), s.Close()); err != nil {
		t.Fatal(err)
	}
	books, err := booksOf(t, dir)
	if err != nil || strings.Count(books, "\n") != 3*15 {
		t.Fatalf("the books = %q, %v", books, err)
	}
	whole, err := os.ReadFile(filepath.Join(dir, sqlstore.File))
	if err != nil {
		t.Fatal(err)
	}
	flips := 60
	if os.Getenv("SLUICE_SOAK") != "" {
		flips = 3000
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 21))
	found := map[string]int{}
	for range flips {
		at, bit := random.IntN(len(whole)), random.IntN(8)
		if random.IntN(2) == 0 { // where the settlements are
			if near := bytes.Index(whole[at:], []byte("call-")); near >= 0 {
				at += near + random.IntN(100)
			}
		}
		at = min(at, len(whole)-1)
		damaged := append([]byte{}, whole...)
		damaged[at] ^= 1 << bit
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, sqlstore.File), damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		who := noticed(t, folder)
		found[who]++
		if now, err := booksOf(t, folder); who == "" && (err != nil || now != books) {
			t.Errorf("seed %d: bit %d of byte %d flipped, nobody noticed, and the books are %q, %v, want %q", seed, bit, at, now, err, books)
		}
		if err := os.RemoveAll(folder); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("soak: %d bits flipped in %d pages of SQLite: %d found by the start, %d by the doctor, %d by the audit; %d changed no sum", flips, len(whole)/4096, found["start"], found["doctor"], found["audit"], found[""])
	if found["start"] == 0 {
		t.Error("the start has refused none of the damaged databases")
	}
}

// noticed returns who notices that a database is damaged: the start, the doctor, the audit, or nobody.
func noticed(t *testing.T, dir string) string {
	t.Helper()
	_, unfit := sqlstore.CheckPages(t.Context(), dir, time.Minute)
	if unfit != nil && (!errors.Is(unfit, sqlstore.ErrDamaged) || !strings.Contains(unfit.Error(), "sluice restore BACKUP")) {
		t.Errorf("CheckPages = %v, want what to do about the damage", unfit)
	}
	s, err := alltest.Open(t.Context(), "sqlite", dir)
	switch {
	case err != nil:
		return "start"
	case unfit != nil:
		s.Close()
		return "doctor"
	}
	defer s.Close()
	differences, _, err := s.AuditUsage(context.Background())
	if err != nil || len(differences) > 0 {
		return "audit"
	}
	return ""
}

// A page that is damaged while a server works on it makes the server not ready: it stores nothing, and calls wait in the
// journal.
func TestLookAtDamaged(t *testing.T) {
	t.Parallel()
	s := open(t, "sqlite", t.TempDir())
	if f := s.Look(t.Context()); f.Failed {
		t.Fatalf("Look = %+v of a whole database", f)
	}
	if err := sqlstore.Execute(s.Kernel(), `PRAGMA writable_schema = 1; UPDATE sqlite_schema SET rootpage = 1000000 WHERE name = 'usage_days'; PRAGMA writable_schema = RESET`); err != nil {
		t.Fatal(err)
	}
	if err := s.RecordSettlements(t.Context(), settlements(1)); err == nil {
		t.Error("RecordSettlements into a damaged table = nil")
	}
	if f := s.Look(t.Context()); !f.Failed || !strings.HasPrefix(f.Message, "it stores nothing") {
		t.Errorf("Look = %+v of a damaged database, want that it stores nothing", f)
	}
}
