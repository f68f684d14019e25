package usage_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/prompt/chat"
)

func settlement(n int) usage.Settlement {
	cost := price.Nano(n * 999)
	s := usage.Settlement{
		ID: fmt.Sprintf("request-%06d", n), At: time.Date(2026, 5, 1, 12, 0, n%60, 0, time.UTC), AccountID: "acct_1", KeyID: "key_1", Plan: "basic", Tier: "free",
		ModelAsked: "service/auto", ModelUsed: "lab/\"odd\"", Provider: "lab", Tokens: chat.Usage{Prompt: n, Cached: 1, Completion: 2, Reasoning: 3, CacheWrite5m: n % 3, CacheWrite1h: n % 2},
		Counted: n%2 == 0, RequestMilli: 1000, UnitMilli: 1500, Status: 200, End: usage.EndComplete, Latency: 1500 * time.Millisecond, FirstToken: 20 * time.Millisecond,
	}
	if n%3 == 0 {
		s.Cost, s.Terms.Version = &cost, "0123456789ab"
	}
	if n%5 == 0 {
		s.MCPCalls, s.MCPFailed = n, n/2
	}
	if n%7 == 0 {
		s.Door = usage.DoorMessages
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
		got, mark, err := again.Batch(nil, 1000)
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
		if got, _, _ := again.Batch(nil, 10); len(got) != 0 {
			t.Errorf("closes=%t: %d left after Commit, want none", closes, len(got))
		}
		if got, err := again.Since(time.Time{}); err != nil || len(got) != 100 {
			t.Errorf("closes=%t: Since() = %d, %v, want the 100 that are still in the file", closes, len(got), err)
		}
	}
}

func TestJournalSyncsEach(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want := appendAll(t, open(t, dir, &usage.JournalOptions{SyncEach: true}), 0, 3)
	got, _, err := open(t, dir, nil).Batch(nil, 100)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("Batch = %v, -want +got\n%s", err, diff)
	}
}

// Each settlement is synced before Append returns, if that is wanted, and all of them a second later otherwise. A sync that
// fails is told, and tried again.
func TestJournalSyncs(t *testing.T) {
	t.Parallel()
	for _, each := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var syncs atomic.Int64
			var fails atomic.Bool
			j := open(t, t.TempDir(), &usage.JournalOptions{SyncEach: each, Sync: func(f *os.File) error {
				syncs.Add(1)
				if fails.Swap(false) {
					return errors.New("the disk is tired")
				}
				return f.Sync()
			}})
			defer j.Close()
			troubles := 0
			defer running(t, j, func(error) { troubles++ })()
			appendAll(t, j, 0, 3)
			if each && syncs.Load() != 3 {
				t.Errorf("%d syncs for 3 settlements, want 3", syncs.Load())
			}
			time.Sleep(1100 * time.Millisecond)
			synctest.Wait()
			if syncs.Load() == 0 {
				t.Error("nothing was synced within a second")
			}
			before := syncs.Load()
			fails.Store(true)
			s := settlement(3)
			if err := j.Append(&s); (err != nil) != each {
				t.Errorf("Append with a sync that fails = %v, SyncEach %t", err, each)
			}
			time.Sleep(2200 * time.Millisecond)
			synctest.Wait()
			if n := syncs.Load() - before; n < 2 || !each && troubles == 0 {
				t.Errorf("%d syncs after one that failed, %d troubles told, want another one", n, troubles)
			}
			if got, _, err := j.Batch(nil, 100); err != nil || len(got) != 4 {
				t.Errorf("Batch = %d, %v, want all 4", len(got), err)
			}
		})
	}
}

// running runs the journal until the returned function is called.
func running(t *testing.T, j *usage.Journal, report func(error)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); j.Run(ctx, report) }()
	return func() { cancel(); <-done }
}

func noTrouble(t *testing.T) func(error) {
	return func(err error) { t.Errorf("Run: %v", err) }
}

func segments(t *testing.T, dir string) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.journal2"))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// commit takes batches until so many settlements have been committed.
func commit(t *testing.T, j *usage.Journal, n int) (got []usage.Settlement) {
	t.Helper()
	for len(got) < n {
		batch, mark, err := j.Batch(nil, min(7, n-len(got)))
		if err != nil || len(batch) == 0 {
			t.Fatalf("Batch = %d, %v", len(batch), err)
		}
		got = append(got, batch...)
		if err := j.Commit(mark); err != nil {
			t.Fatal(err)
		}
	}
	return got
}

// Many segments: batches cross them, the mark survives, and what was committed stays for a minute: a
// start rebuilds the windows from it.
func TestJournalSegments(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		opts := &usage.JournalOptions{SegmentBytes: 1 << 10}
		j := open(t, dir, opts)
		stop := running(t, j, noTrouble(t))
		var want []usage.Settlement
		for n := range 60 {
			want = append(want, appendAll(t, j, n, n+1)...)
			synctest.Wait() // the next segment is made meanwhile
		}
		before := segments(t, dir)
		if before < 4 {
			t.Fatalf("%d segments, want several", before)
		}
		got := commit(t, j, 50)
		time.Sleep(59 * time.Second)
		if after := segments(t, dir); after != before {
			t.Errorf("%d segments within the minute, want all %d", after, before)
		}
		if recent, err := j.Since(time.Time{}); err != nil || len(recent) != 60 {
			t.Errorf("Since within the minute = %d, %v, want all 60", len(recent), err)
		}
		time.Sleep(3 * time.Second)
		if after := segments(t, dir); after >= before {
			t.Errorf("%d segments a minute later, before %d, want those that were committed gone", after, before)
		}
		stop()
		again := open(t, dir, opts)
		defer again.Close()
		rest, _, err := again.Batch(nil, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, append(got, rest...)); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	})
}

// What the database has does not stay in the journal for days: rows that were dropped there must not
// come back. Numbers are never used again, since the mark remembers one.
func TestJournalAges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		j := open(t, dir, nil)
		stop := running(t, j, noTrouble(t))
		appendAll(t, j, 0, 10)
		commit(t, j, 9)
		time.Sleep(2 * time.Hour)
		if held, err := j.Since(time.Time{}); err != nil || len(held) != 10 {
			t.Errorf("Since = %d, %v, want all as long as one is not in the database", len(held), err)
		}
		commit(t, j, 1)
		time.Sleep(2 * time.Minute)
		if held, err := j.Since(time.Time{}); err != nil || len(held) != 0 {
			t.Errorf("Since = %d, %v, want none two hours later", len(held), err)
		}
		stop()
		for n := range 3 { // starts that die before they commit anything
			j := open(t, dir, nil)
			appendAll(t, j, 100+10*n, 110+10*n)
			if got := j.Backlog().Records; got != int64(10*n+10) {
				t.Errorf("start %d: Backlog().Records = %d, want %d", n, got, 10*n+10)
			}
		}
	})
}

// The disk is full, here: the folder is away. What was admitted is settled in the room that was taken
// before; then nothing is admitted; what comes all the same waits in memory. It mends itself.
func TestJournalWithoutRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "journal")
		j := open(t, dir, &usage.JournalOptions{SegmentBytes: 1 << 10})
		defer j.Close()
		troubles := 0
		defer running(t, j, func(error) { troubles++ })()
		if err := os.Rename(dir, dir+".away"); err != nil {
			t.Fatal(err)
		}
		n := 0
		for ; j.Ready() == nil; n++ {
			appendAll(t, j, n, n+1)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if n < 10 || troubles == 0 {
			t.Errorf("%d were admitted and %d troubles reported, want a segment and a half and several", n, troubles)
		}
		if err := j.Ready(); !strings.Contains(err.Error(), "the journal cannot grow: ") || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("Ready() = %v, want that the journal cannot grow, and why", err)
		}
		var failed error
		for ; failed == nil; n++ { // those that were under way
			s := settlement(n)
			failed = j.Append(&s)
		}
		if err := j.Ready(); err == nil || !strings.Contains(err.Error(), "1 settlements wait for the disk") {
			t.Errorf("Ready() = %v, want that a settlement waits", err)
		}
		if got := j.Backlog().Records; got != int64(n) {
			t.Errorf("Backlog().Records = %d, want %d", got, n)
		}
		if err := os.Rename(dir+".away", dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1100 * time.Millisecond)
		if err := j.Ready(); err != nil {
			t.Errorf("Ready() once there is room = %v", err)
		}
		got, _, err := j.Batch(nil, 1000)
		if err != nil || len(got) != n {
			t.Errorf("Batch = %d, %v, want all %d", len(got), err, n)
		}
	})
}

func TestJournalIsClosed(t *testing.T) {
	t.Parallel()
	j := open(t, t.TempDir(), nil)
	if err := errors.Join(j.Close(), j.Close()); err != nil {
		t.Errorf("Close twice = %v", err)
	}
	s := settlement(1)
	if err := j.Append(&s); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Append after Close = %v, want os.ErrClosed", err)
	}
}

func TestJournalBounds(t *testing.T) {
	t.Parallel()
	j := open(t, t.TempDir(), &usage.JournalOptions{MaxBytes: 800, SegmentBytes: 64 << 10})
	if err := j.Ready(); err != nil {
		t.Fatalf("Ready() of an empty journal = %v", err)
	}
	appendAll(t, j, 0, 10)
	if err := j.Ready(); err == nil {
		t.Error("Ready() beyond the bound = nil, want an error")
	}
	_, mark, _ := j.Batch(nil, 9)
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
	got, _, err := open(t, dir, nil).Batch(nil, 10_000)
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

func (f *fickle) recover() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails = 0
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
	synctest.Test(t, func(t *testing.T) {
		j := open(t, t.TempDir(), nil)
		defer j.Close()
		store := &fickle{fails: 1 << 30, have: map[string]int{}}
		var log bytes.Buffer
		c := usage.NewCommitter(j, store, slog.New(slog.NewTextHandler(&log, nil)))
		appendAll(t, j, 0, 1200)
		if err := c.Flush(t.Context()); err == nil {
			t.Error("Flush with the database away = nil, want its error")
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); c.Run(ctx) }()
		time.Sleep(3*time.Minute + 30*time.Second)
		synctest.Wait()
		if b := j.Backlog(); b.Records != 1200 {
			t.Errorf("Backlog() = %+v, want all of it", b)
		}
		if n := strings.Count(log.String(), "the database does not accept them"); n < 3 || n > 4 {
			t.Errorf("the log tells %d times in three minutes that the database is away, want about once a minute", n)
		}
		store.recover()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if b := j.Backlog(); b.Records != 0 || !strings.Contains(log.String(), "accepts settlements again") {
			t.Errorf("Backlog() = %+v once the database is back, want none, and a word in the log", b)
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
	})
}

// sluggish is a store that takes a while for each reply, and gives up a transaction that takes too long. A statement stores
// 500 settlements; six more are always sent.
type sluggish struct {
	reply time.Duration
	sizes []int // of the batches that were stored
}

func (s *sluggish) RecordSettlements(ctx context.Context, batch []usage.Settlement) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	select {
	case <-time.After(s.reply * time.Duration(6+(len(batch)+499)/500)):
		s.sizes = append(s.sizes, len(batch))
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A database that takes two seconds for each reply gets smaller batches, which it can store in time. Once it is quick again,
// they grow.
func TestCommitterToSluggishDatabase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := open(t, t.TempDir(), nil)
		defer j.Close()
		store := &sluggish{reply: 2 * time.Second}
		c := usage.NewCommitter(j, store, slog.New(slog.DiscardHandler))
		appendAll(t, j, 0, 2500)
		began := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); c.Run(ctx) }()
		for j.Backlog().Records > 0 && time.Since(began) < time.Hour {
			time.Sleep(time.Second)
		}
		if b := j.Backlog(); b.Records > 0 {
			t.Fatalf("Backlog() = %+v after an hour, want none; batches %v", b, store.sizes)
		}
		t.Logf("2500 settlements were stored within %v, in batches of %v", time.Since(began), store.sizes)
		cancel()
		<-done
		store.reply, store.sizes = time.Millisecond, nil
		appendAll(t, j, 2500, 9000)
		if err := c.Flush(t.Context()); err != nil || !slices.Contains(store.sizes, 2000) {
			t.Errorf("Flush = %v with batches of %v, want that they grow to 2000", err, store.sizes)
		}
	})
}

// silent is a store that answers only when the context of the caller ends.
type silent struct{ asked chan struct{} }

func (s silent) RecordSettlements(ctx context.Context, _ []usage.Settlement) error {
	s.asked <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}

// Whoever waits for the committer waits no longer than its own time, also while the committer waits for a database
// that does not answer.
func TestCommitterWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := open(t, t.TempDir(), nil)
		defer j.Close()
		store := silent{make(chan struct{}, 10)}
		c := usage.NewCommitter(j, store, slog.New(slog.DiscardHandler))
		if lag := c.Lag(time.Now().Add(time.Hour)); lag != 0 {
			t.Errorf("Lag() of an empty journal = %v", lag)
		}
		appendAll(t, j, 0, 3)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); c.Run(ctx) }()
		<-store.asked
		began := time.Now()
		page, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer stop()
		if err := c.Flush(page); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 100*time.Millisecond {
			t.Errorf("Flush beside a committer that waits = %v after %v, want its own deadline", err, time.Since(began))
		}
		time.Sleep(time.Minute)
		if lag := c.Lag(time.Now()); lag < time.Minute || lag > 2*time.Minute {
			t.Errorf("Lag() = %v after a minute", lag)
		}
		cancel()
		<-done
	})
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
