package sqlstore_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/ledger/usage"
	"sluice/internal/store/sqlstore"
	"sluice/internal/testkit/pgtest"
)

// A backup made while calls are settled is consistent and private.
func TestBackup(t *testing.T) {
	t.Parallel()
	s := open(t, "sqlite", t.TempDir())
	begun, enough := make(chan struct{}), make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-enough:
				return
			default:
			}
			r := usage.Settlement{ID: fmt.Sprint("request-", n), At: time.UnixMilli(1_767_225_600_000), AccountID: "acct_1", KeyID: "k", ModelUsed: "m", End: usage.EndComplete}
			if err := s.RecordSettlements(t.Context(), []usage.Settlement{r}); err != nil {
				t.Errorf("RecordSettlements = %v", err)
			}
			if n == 20 {
				close(begun)
			}
		}
	})
	<-begun
	file := filepath.Join(t.TempDir(), "backup.db")
	err := s.Backup(t.Context(), file)
	close(enough)
	writing.Wait()
	if err != nil {
		t.Fatalf("Backup = %v", err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup = %v, %v, want it readable by its owner alone", info.Mode(), err)
	}
	if err := s.Backup(t.Context(), file); !fault.Is(err, fault.Conflict) {
		t.Errorf("Backup over a file = %v, want a conflict", err)
	}

	dir := t.TempDir()
	if err := sqlstore.Restore(t.Context(), file, dir); err != nil {
		t.Fatalf("Restore = %v", err)
	}
	again := open(t, "sqlite", dir)
	rows, err := again.UsageByDay(t.Context(), "acct_1", time.Time{})
	if err != nil || len(rows) != 1 || rows[0].Requests < 21 {
		t.Errorf("UsageByDay of the restored = %+v, %v, want at least 21 requests", rows, err)
	}
	if differences, _, err := again.AuditUsage(t.Context()); err != nil || len(differences) != 0 {
		t.Errorf("AuditUsage of the restored = %+v, %v, want no difference", differences, err)
	}
}

func TestBackupRefused(t *testing.T) {
	t.Parallel()
	s := open(t, "sqlite", t.TempDir())
	if err := s.Backup(t.Context(), filepath.Join(t.TempDir(), "none", "backup.db")); !fault.Is(err, fault.Invalid) {
		t.Errorf("Backup into a folder that is not there = %v, want it invalid", err)
	}
	s.Close()
	file := filepath.Join(t.TempDir(), "backup.db")
	moved := open(t, "sqlite", t.TempDir())
	if err := sqlstore.Execute(moved.Kernel(), "DROP TABLE settlements"); err != nil {
		t.Fatal(err)
	}
	if err := moved.Backup(t.Context(), file); err != nil { // whole or not is not its question
		t.Errorf("Backup = %v", err)
	}
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		if err := open(t, pgtest.URL(t), "").Backup(t.Context(), file+".2"); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "Snapshot") {
			t.Errorf("Backup of PostgreSQL = %v, want the advice to use Snapshot", err)
		}
	})
}

func TestRestoreRefused(t *testing.T) {
	t.Parallel()
	s := open(t, "sqlite", t.TempDir())
	good := filepath.Join(t.TempDir(), "backup.db")
	if err := s.Backup(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	damaged := append([]byte{}, whole...)
	for i := 4096; i < len(damaged); i++ {
		damaged[i] ^= 0x55
	}
	other := filepath.Join(t.TempDir(), "other.db")
	if err := sqlstore.Execute(s.Kernel(), "DROP TABLE api_keys; DROP TABLE accounts"); err != nil {
		t.Fatal(err)
	}
	if err := s.Backup(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	file := func(data []byte) string {
		path := filepath.Join(t.TempDir(), "file.db")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, tt := range map[string]struct {
		backup string
		there  string // a file that is in the folder already
		says   string
	}{
		"a database is there":    {good, sqlstore.File, "holds a database already"},
		"the rest of one is":     {good, sqlstore.File + "-wal", "holds leftovers of another database"},
		"no file":                {good + ".none", "", "read the backup"},
		"a text":                 {file([]byte(strings.Repeat("not a database\n", 1000))), "", "damaged, or is not a backup"},
		"cut off":                {file(whole[:len(whole)/2]), "", "damaged, or is not a backup"},
		"damaged":                {file(damaged), "", "damaged, or is not a backup"},
		"empty":                  {file(nil), "", "not a backup of sluice"},
		"a database of others'":  {other, "", "not a backup of sluice"},
		"a folder":               {t.TempDir(), "", "backup"},
		"and a good one at last": {good, "", ""},
	} {
		dir := t.TempDir()
		if tt.there != "" {
			if err := os.WriteFile(filepath.Join(dir, tt.there), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := sqlstore.Restore(t.Context(), tt.backup, dir)
		if (tt.says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: Restore = %v, want an error saying %q", name, err, tt.says)
		}
		left, listErr := os.ReadDir(dir)
		want := 0
		if tt.there != "" || tt.says == "" {
			want = 1
		}
		if listErr != nil || len(left) != want {
			t.Errorf("%s: the folder holds %v, %v afterwards, want %d files", name, left, listErr, want)
		}
		if _, err := os.Stat(filepath.Join(dir, sqlstore.File)); tt.says != "" && tt.there != sqlstore.File && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: there is a database after all: %v", name, err)
		}
	}
}
