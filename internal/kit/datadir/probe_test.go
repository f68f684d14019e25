package datadir_test

import (
	"os"
	"path/filepath"
	"testing"
)

func TestProbe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data")
	d := open(t, path)
	if err := d.Probe(); err != nil {
		t.Errorf("Probe = %v", err)
	}
	entries, err := os.ReadDir(path)
	if err != nil || len(entries) != 1 { // the lock
		t.Errorf("Probe left %v, %v", entries, err)
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if err := d.Probe(); err == nil {
		t.Error("Probe of a folder that is gone = nil")
	}
}
