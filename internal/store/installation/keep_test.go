package installation

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"sluice/internal/ledger/usage"
)

func TestPrune(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 17, 3, 0, 0, 0, time.UTC)
	day := func(n int) string { return DatedName(now.AddDate(0, 0, -n)) }
	for _, test := range []struct {
		keep        int
		left, freed []string
	}{
		{1, []string{day(0)}, []string{day(3), day(2), day(1)}},
		{3, []string{day(0), day(1), day(2)}, []string{day(3)}},
		{9, []string{day(0), day(1), day(2), day(3)}, nil},
	} {
		folder := t.TempDir()
		// What is not a finished backup of this folder stays, whatever its age: a backup by another name, a folder
		// that only has such a name, and a backup that is being written.
		strange := []string{"monday", day(5), day(0) + partial}
		for _, name := range slices.Concat(strange, []string{day(0), day(1), day(2), day(3), day(4) + partial}) {
			if err := os.Mkdir(filepath.Join(folder, name), 0o700); err != nil {
				t.Fatal(err)
			}
			if name == day(5) {
				continue
			}
			if err := os.WriteFile(filepath.Join(folder, name, manifestFile), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		deleted, err := Prune(folder, test.keep, now)
		if want := append([]string{day(4) + partial}, test.freed...); err != nil || !slices.Equal(deleted, want) {
			t.Errorf("Prune(%d) = %q, %v, want %q", test.keep, deleted, err, want)
		}
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		var left []string
		for _, e := range entries {
			left = append(left, e.Name())
		}
		want := slices.Sorted(slices.Values(slices.Concat(strange, test.left)))
		if slices.Sort(left); !slices.Equal(left, want) {
			t.Errorf("after Prune(%d) there are %q, want %q", test.keep, left, want)
		}
	}
	if _, err := Prune(t.TempDir(), 0, now); err == nil {
		t.Error("Prune(0) = nil, want it refused")
	}
}

// shrinking is a journal of three files. The second is deleted while it is copied.
type shrinking struct{}

func (shrinking) Parts(context.Context) ([]usage.Part, error) {
	return []usage.Part{{Name: "1.log", Bytes: 5, Records: 2, Last: 2}, {Name: "2.log", Bytes: 5, Records: 3, Last: 5}, {Name: "3.log", Bytes: 2, Records: 1, Last: 6}}, nil
}

func (shrinking) Read(_ context.Context, name string, offset, most int64) ([]byte, error) {
	if name == "2.log" && offset > 0 {
		return nil, fmt.Errorf("gone: %w", fs.ErrNotExist)
	}
	return []byte("abcde")[offset : offset+min(2, most)], nil // pieces, as the socket sends them
}

func TestCopyJournal(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "journal")
	got, err := copyJournal(t.Context(), shrinking{}, folder)
	if want := (usage.Copied{Files: 2, Records: 3, Last: 6}); err != nil || got != want {
		t.Errorf("copyJournal = %+v, %v, want %+v", got, err, want)
	}
	for name, want := range map[string]string{"1.log": "abcde", "3.log": "ab"} {
		if text, err := os.ReadFile(filepath.Join(folder, name)); err != nil || string(text) != want {
			t.Errorf("%s = %q, %v, want %q", name, text, err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(folder, "2.log")); err == nil {
		t.Error("a file that was deleted meanwhile is in the copy")
	}
}
