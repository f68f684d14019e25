package usage_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/chat"
	"sluice/internal/usage"
)

func settlement(n int) usage.Settlement {
	cost := int64(n)
	s := usage.Settlement{
		ID: fmt.Sprintf("request-%06d", n), At: time.Date(2026, 5, 1, 12, 0, n%60, 0, time.UTC), AccountID: "acct_1", KeyID: "key_1", Plan: "basic", Tier: "free",
		ModelAsked: "service/auto", ModelUsed: "lab/\"odd\"", Provider: "lab", Tokens: chat.Usage{Prompt: n, Cached: 1, Completion: 2, Reasoning: 3},
		Counted: n%2 == 0, RequestMilli: 1000, UnitMilli: 1500, Status: 200, End: usage.EndComplete, Latency: 1500 * time.Millisecond, FirstToken: 20 * time.Millisecond,
	}
	if n%3 == 0 {
		s.CostMicro = &cost
	}
	return s
}

func open(t testing.TB, dir string, opts *usage.JournalOptions) *usage.Journal {
	t.Helper()
	j, err := usage.OpenJournal(dir, opts)
	if err != nil {
		t.Fatalf("OpenJournal = %v", err)
	}
	return j
}

func appendAll(t testing.TB, j *usage.Journal, from, to int) (want []usage.Settlement) {
	t.Helper()
	for n := from; n < to; n++ {
		s := settlement(n)
		if err := j.Append(&s); err != nil {
			t.Fatalf("Append(%d) = %v", n, err)
		}
		want = append(want, s)
	}
	return want
}

// What was appended is there for the next process, in order, whether this one closes or just dies.
func TestJournalSurvives(t *testing.T) {
	t.Parallel()
	for _, closes := range []bool{true, false} {
		dir := t.TempDir()
		j := open(t, dir, nil)
		want := appendAll(t, j, 0, 100)
		if closes {
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
		}
		again := open(t, dir, nil)
		got, mark, err := again.Batch(1000)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("closes=%t: -want +got\n%s", closes, diff)
		}
		if b := again.Backlog(); b.Records != 100 || b.Bytes == 0 {
			t.Errorf("closes=%t: Backlog() = %+v, want 100 records", closes, b)
		}
		if err := again.Commit(mark); err != nil {
			t.Fatal(err)
		}
		if got, _, _ := again.Batch(10); len(got) != 0 {
			t.Errorf("closes=%t: %d left after Commit, want none", closes, len(got))
		}
		if got, err := again.Since(time.Time{}); err != nil || len(got) != 100 {
			t.Errorf("closes=%t: Since() = %d, %v, want the 100 that are still in the file", closes, len(got), err)
		}
	}
}

// Many segments: batches cross them, committed ones are deleted, the mark survives.
func TestJournalSegments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	opts := &usage.JournalOptions{SegmentBytes: 4 << 10}
	j := open(t, dir, opts)
	run, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		j.Run(run, func(err error) { t.Errorf("Run: %v", err) })
	}()
	var want []usage.Settlement
	for n := 0; n < 60; {
		s := settlement(n)
		if j.Ready() != nil { // the spare is being made
			time.Sleep(time.Millisecond)
			continue
		}
		if err := j.Append(&s); err != nil {
			t.Fatal(err)
		}
		want = append(want, s)
		n++
	}
	cancel()
	<-done
	segments := func() int {
		files, _ := filepath.Glob(filepath.Join(dir, "*.journal"))
		return len(files)
	}
	before := segments()
	if before < 4 {
		t.Fatalf("%d segments, want several", before)
	}
	var got []usage.Settlement
	for len(got) < 50 {
		batch, mark, err := j.Batch(7)
		if err != nil || len(batch) == 0 {
			t.Fatalf("Batch = %d, %v", len(batch), err)
		}
		got = append(got, batch...)
		if err := j.Commit(mark); err != nil {
			t.Fatal(err)
		}
	}
	if after := segments(); after >= before {
		t.Errorf("%d segments after committing most, before %d", after, before)
	}
	rest, _, err := open(t, dir, opts).Batch(1000)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, append(got, rest...)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// A record that was cut by a crash, or damaged, ends the journal; what stands before it counts.
func TestJournalDamage(t *testing.T) {
	t.Parallel()
	whole := t.TempDir()
	j := open(t, whole, &usage.JournalOptions{SegmentBytes: 8 << 10})
	want := appendAll(t, j, 0, 5)
	path := filepath.Join(whole, "000000000001.journal")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	end := len(bytes.TrimRight(raw, "\x00"))
	for cut := 0; cut <= end; cut += 13 {
		for name, damaged := range map[string][]byte{
			"zeroed":  append(bytes.Clone(raw[:cut]), make([]byte, len(raw)-cut)...),
			"cut":     raw[:cut],
			"flipped": append(append(bytes.Clone(raw[:cut]), raw[cut]^0xff), raw[cut+1:]...),
		} {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "000000000001.journal"), damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			again := open(t, dir, &usage.JournalOptions{SegmentBytes: 8 << 10})
			got, _, err := again.Batch(100)
			if err != nil {
				t.Fatalf("%s at %d: Batch = %v", name, cut, err)
			}
			if len(got) > 0 && !cmp.Equal(got, want[:len(got)]) {
				t.Errorf("%s at %d: the records before the damage differ", name, cut)
			}
			appendAll(t, again, 100, 101) // it goes on behind what is whole
			got, _, _ = again.Batch(100)
			if n := len(got); n == 0 || got[n-1].ID != settlement(100).ID {
				t.Errorf("%s at %d: what was appended after the damage is not there", name, cut)
			}
		}
	}
}

func TestJournalBounds(t *testing.T) {
	t.Parallel()
	j := open(t, t.TempDir(), &usage.JournalOptions{MaxBytes: 2000, SegmentBytes: 64 << 10})
	if err := j.Ready(); err != nil {
		t.Fatalf("Ready() of an empty journal = %v", err)
	}
	appendAll(t, j, 0, 10)
	if err := j.Ready(); err == nil {
		t.Error("Ready() beyond the bound = nil, want an error")
	}
	_, mark, _ := j.Batch(9)
	if err := j.Commit(mark); err != nil {
		t.Fatal(err)
	}
	if err := j.Ready(); err != nil {
		t.Errorf("Ready() after committing = %v", err)
	}
}

func TestJournalInParallel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := open(t, dir, nil)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for n := range 100 {
				s := settlement(g*100 + n)
				if err := j.Append(&s); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got, _, err := open(t, dir, nil).Batch(10_000)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, s := range got {
		ids[s.ID] = true
	}
	if len(got) != 800 || len(ids) != 800 {
		t.Errorf("%d records with %d ids, want 800", len(got), len(ids))
	}
}

// fickle is a store that fails when told to, and remembers what it was given.
type fickle struct {
	mu    sync.Mutex
	fails int
	have  map[string]int
}

func (f *fickle) RecordSettlements(_ context.Context, batch []usage.Settlement) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fails > 0 {
		f.fails--
		return errors.New("the database is away")
	}
	for _, s := range batch {
		f.have[s.ID]++
	}
	return nil
}

func TestCommitter(t *testing.T) {
	t.Parallel()
	j := open(t, t.TempDir(), nil)
	store := &fickle{fails: 3, have: map[string]int{}}
	c := usage.NewCommitter(j, store, slog.New(slog.DiscardHandler))
	appendAll(t, j, 0, 1200)
	if err := c.Flush(t.Context()); err == nil {
		t.Error("Flush with the database away = nil, want its error")
	}
	if b := j.Backlog(); b.Records != 1200 {
		t.Errorf("Backlog() = %+v, want all of it", b)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	for j.Backlog().Records > 0 {
		time.Sleep(5 * time.Millisecond)
	}
	appendAll(t, j, 1200, 1210) // what comes last is taken along when it stops
	cancel()
	<-done
	if len(store.have) != 1210 {
		t.Errorf("the store has %d settlements, want 1210", len(store.have))
	}
	for id, n := range store.have {
		if n != 1 {
			t.Errorf("%s was stored %d times", id, n)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	j := open(b, b.TempDir(), &usage.JournalOptions{SegmentBytes: 1 << 30})
	s := settlement(1)
	b.ReportAllocs()
	for b.Loop() {
		if err := j.Append(&s); err != nil {
			b.Fatal(err)
		}
	}
}
