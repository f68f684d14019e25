package usage_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/ledger/usage"
)

// heir is a database in memory.
type heir struct {
	stored   map[string]usage.Settlement
	accounts []string
	dropped  time.Time
}

func (h *heir) RecordSettlements(_ context.Context, batch []usage.Settlement) error {
	for _, s := range batch {
		h.stored[s.ID] = s
	}
	return nil
}

func (h *heir) HasSettlements(_ context.Context, list []usage.Settlement) (map[string]bool, error) {
	have := map[string]bool{}
	for _, s := range list {
		if _, ok := h.stored[s.ID]; ok {
			have[s.ID] = true
		}
	}
	return have, nil
}

func (h *heir) SettlementsDropped(context.Context) (time.Time, error) { return h.dropped, nil }

func (h *heir) MissingAccounts(_ context.Context, ids []string) ([]string, error) {
	return slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(h.accounts, id) }), nil
}

// journalOf writes a journal of several files and lets its process die.
func journalOf(t *testing.T, records int) string {
	t.Helper()
	dir := t.TempDir()
	opts := &usage.JournalOptions{SegmentBytes: 64 << 10}
	j := open(t, dir, opts)
	for n := range records {
		if j.Ready() != nil { // the next file is made by Run, which does not run here, or by opening
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			j = open(t, dir, opts)
		}
		appendAll(t, j, n, n+1)
	}
	return dir
}

// snapshot returns the names and contents of a folder.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[f.Name()] = string(text)
	}
	return out
}

func TestReplay(t *testing.T) {
	t.Parallel()
	dir := journalOf(t, 5000)
	before := snapshot(t, dir)
	h := &heir{stored: map[string]usage.Settlement{}, accounts: []string{"acct_1"}}
	for n := range 1000 { // the node had come so far
		s := settlement(n)
		h.stored[s.ID] = s
	}
	for _, tt := range []struct {
		name         string
		opts         *usage.ReplayOptions
		present, new int64
	}{
		{"looking", &usage.ReplayOptions{Dry: true}, 1000, 4000},
		{"first", nil, 1000, 4000},
		{"again", nil, 5000, 0},
	} {
		got, err := usage.Replay(t.Context(), dir, h, tt.opts)
		if err != nil || got.Records != 5000 || got.Present != tt.present || got.New != tt.new || got.Old != 0 || got.Files < 2 || len(got.Damaged) != 0 {
			t.Errorf("%s: Replay = %+v, %v, want 5000 records, %d there and %d new", tt.name, got, err, tt.present, tt.new)
		}
	}
	for n := range 5000 {
		want := settlement(n)
		if got := h.stored[want.ID]; !got.At.Equal(want.At) || got.Tokens != want.Tokens {
			t.Fatalf("settlement %d is stored as %+v, want %+v", n, got, want)
		}
	}
	if after := snapshot(t, dir); len(after) != len(before) {
		t.Errorf("the journal has %d files afterwards, want the %d of before", len(after), len(before))
	} else {
		for name, text := range before {
			if after[name] != text {
				t.Errorf("%s has changed", name)
			}
		}
	}
}

func TestReplayRefuses(t *testing.T) {
	t.Parallel()
	dir := journalOf(t, 100)
	h := &heir{stored: map[string]usage.Settlement{}}
	if _, err := usage.Replay(t.Context(), dir, h, nil); err == nil || !strings.Contains(err.Error(), "another installation") || len(h.stored) > 0 {
		t.Errorf("Replay for unknown accounts = %v with %d stored, want a refusal", err, len(h.stored))
	}
	got, err := usage.Replay(t.Context(), dir, h, &usage.ReplayOptions{KnownOnly: true})
	if err != nil || got.Unknown != 100 || got.New != 0 {
		t.Errorf("Replay of known accounts = %+v, %v, want 100 left out", got, err)
	}
	if _, err := usage.Replay(t.Context(), t.TempDir(), h, nil); err == nil || !strings.Contains(err.Error(), "there is no journal") {
		t.Errorf("Replay of an empty folder = %v, want an error", err)
	}
	// Of a time whose records were deleted, nobody knows whether they had been counted.
	h.accounts, h.dropped = []string{"acct_1"}, settlement(50).At
	if got, err = usage.Replay(t.Context(), dir, h, nil); err != nil || got.Old == 0 || got.Old+got.New != 100 {
		t.Errorf("Replay of old records = %+v, %v, want some left out", got, err)
	}
}

// What is unreadable is reported, and everything else is settled.
func TestReplayDamaged(t *testing.T) {
	t.Parallel()
	dir := journalOf(t, 100)
	files, err := filepath.Glob(filepath.Join(dir, "*.journal2"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(text), "request-000060")
	text[at] ^= 0xff
	if err := os.WriteFile(files[0], text, 0o600); err != nil {
		t.Fatal(err)
	}
	h := &heir{stored: map[string]usage.Settlement{}, accounts: []string{"acct_1"}}
	got, err := usage.Replay(t.Context(), dir, h, nil)
	if err != nil || got.New != 99 || got.Lost != 1 || got.AtMost || !slices.Equal(got.Damaged, files[:1]) {
		t.Errorf("Replay = %+v, %v, want 99 new, one lost, and one damaged file", got, err)
	}
}
