package storetest

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/ledger/usage"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/alltest"
)

// snapshot checks that a copy has everything as of one moment, and what follows is not in it. Backups rely on it.
func snapshot(t *testing.T, open func() *alltest.Store) {
	s := open()
	if has, err := s.HasAccounts(t.Context()); err != nil || has {
		t.Errorf("HasAccounts of an empty database = %t, %v", has, err)
	}
	want := create(t, s, 1)
	if has, err := s.HasAccounts(t.Context()); err != nil || !has {
		t.Errorf("HasAccounts = %t, %v, want true", has, err)
	}
	batch := []usage.Settlement{{ID: "one", At: base, AccountID: want.ID, KeyID: "k", ModelUsed: "m", End: usage.EndComplete}}
	if err := s.RecordSettlements(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, sqlstore.File)
	var told int64                        // rows of the tables that are copied
	report := func(p sqlstore.Progress) { // on SQLite there is nothing to report
		if told += p.Rows; p.AllRows != told || p.AllOf != 0 || p.Number < 1 || p.Number > p.Tables {
			t.Errorf("progress %+v, want %d rows of all tables, and that nobody knows how many there are", p, told)
		}
	}
	if err := s.Snapshot(t.Context(), path, filepath.Join(dir, "work"), report); err != nil {
		t.Fatalf("Snapshot = %v", err)
	}
	create(t, s, 2)
	copied, err := sqlstore.OpenBackup(t.Context(), path)
	if err != nil {
		t.Fatalf("OpenBackup = %v", err)
	}
	defer copied.Close()
	if diff := cmp.Diff(want, find(t, alltest.Over(copied), want.ID)); diff != "" {
		t.Errorf("FindAccount in the copy: -want +got\n%s", diff)
	}
	sums, err := copied.Digests(t.Context(), func(sqlstore.Progress) {})
	if err != nil {
		t.Fatalf("Digests = %v", err)
	}
	rows := map[string]int64{}
	for _, sum := range sums {
		rows[sum.Table] = sum.Rows
	}
	if rows["accounts"] != 1 || rows["settlements"] != 1 || rows["usage_days"] != 1 {
		t.Errorf("the copy has the rows %v, want one account, settlement and day", rows)
	}
	if differences, _, err := alltest.Over(copied).AuditUsage(t.Context()); err != nil || len(differences) > 0 {
		t.Errorf("AuditUsage of the copy = %v, %v, want none", differences, err)
	}
	if err := s.Snapshot(t.Context(), path, filepath.Join(dir, "work"), nil); err == nil {
		t.Error("Snapshot over a file = nil, want an error")
	}
}
