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

	"sluice/internal/ledger/usage"
	"sluice/internal/store/sqlstore"
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
	err := s.Snapshot(t.Context(), file, "", nil)
	close(enough)
	writing.Wait()
	if err != nil {
		t.Fatalf("Snapshot = %v", err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup = %v, %v, want it readable by its owner alone", info.Mode(), err)
	}
	if err := s.Snapshot(t.Context(), file, "", nil); !errors.Is(err, os.ErrExist) {
		t.Errorf("Snapshot over a file = %v, want that it exists", err)
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

func TestRestoreRefused(t *testing.T) {
	t.Parallel()
	s := open(t, "sqlite", t.TempDir())
	good := filepath.Join(t.TempDir(), "backup.db")
	if err := s.Snapshot(t.Context(), good, "", nil); err != nil {
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
	if err := s.Snapshot(t.Context(), other, "", nil); err != nil {
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
		backup, says string
	}{
		"no file":                {good + ".none", "read the backup"},
		"a text":                 {file([]byte(strings.Repeat("not a database\n", 1000))), "damaged, or is not a backup"},
		"cut off":                {file(whole[:len(whole)/2]), "damaged, or is not a backup"},
		"damaged":                {file(damaged), "damaged, or is not a backup"},
		"empty":                  {file(nil), "not a backup of sluice"},
		"a database of others'":  {other, "not a backup of sluice"},
		"a folder":               {t.TempDir(), "backup"},
		"and a good one at last": {good, ""},
	} {
		dir := t.TempDir()
		err := sqlstore.Restore(t.Context(), tt.backup, dir)
		if (tt.says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: Restore = %v, want an error saying %q", name, err, tt.says)
		}
	}
}
