package refusal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// memory is a store in memory, which may fail.
type memory struct {
	mu      sync.Mutex
	calls   []Call
	minutes map[Minute]int64 // by everything but the count
	largest int
	err     error
}

func (m *memory) RecordRefusals(_ context.Context, calls []Call, minutes []Minute) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	m.calls, m.largest = append(m.calls, calls...), max(m.largest, len(calls))
	if m.minutes == nil {
		m.minutes = map[Minute]int64{}
	}
	for _, at := range minutes {
		n := at.Calls
		at.Calls = 0
		m.minutes[at] += n
	}
	return nil
}

func (m *memory) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

func (m *memory) total() (n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, calls := range m.minutes {
		n += calls
	}
	return n
}

func call(account string, i int) Call {
	return Call{ID: fmt.Sprint(i), AccountID: account, At: time.Unix(int64(i), 0), Status: 429}
}

func TestKeeper(t *testing.T) {
	t.Parallel()
	store := &memory{}
	k := New(store, slog.New(slog.DiscardHandler))
	for i := range Kept + 120 {
		k.Note(call("acct_1", i))
	}
	k.Note(call("acct_2", 7))
	if err := k.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The newest ones, in order; and all of them counted, by minute.
	if len(store.calls) != Kept+1 || store.calls[0].ID != "120" || store.calls[Kept-1].ID != fmt.Sprint(Kept+119) {
		t.Errorf("%d calls were stored, from %s on, want %d and 120", len(store.calls), store.calls[0].ID, Kept+1)
	}
	if n := store.total(); n != Kept+121 {
		t.Errorf("%d calls were counted, want %d", n, Kept+121)
	}
	if n := store.minutes[Minute{AccountID: "acct_1", Start: time.Unix(60, 0).UTC(), Status: 429}]; n != 60 {
		t.Errorf("the second minute has %d calls, want 60", n)
	}
	if err := k.Flush(t.Context()); err != nil || store.total() != Kept+121 {
		t.Errorf("a second Flush = %v, and %d calls are counted, want no change", err, store.total())
	}
}

// What cannot be written waits, behind nothing that came later.
func TestKeeperWithoutDatabase(t *testing.T) {
	t.Parallel()
	down := errors.New("down")
	store := &memory{err: down}
	k := New(store, slog.New(slog.DiscardHandler))
	for i := range 700 {
		k.Note(call("acct_1", i))
	}
	if err := k.Flush(t.Context()); !errors.Is(err, down) {
		t.Fatalf("Flush = %v, want the store's error", err)
	}
	for i := range 700 {
		k.Note(call("acct_1", 700+i))
	}
	if err := k.Flush(t.Context()); !errors.Is(err, down) {
		t.Fatalf("Flush = %v, want the store's error", err)
	}
	store.fail(nil)
	if err := k.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(store.calls) != Kept || store.calls[0].ID != "400" || store.calls[Kept-1].ID != "1399" || store.total() != 1400 {
		t.Errorf("%d calls were stored from %s to %s, and %d counted; want %d from 400 to 1399, and 1400", len(store.calls), store.calls[0].ID, store.calls[len(store.calls)-1].ID, store.total(), Kept)
	}
	if !slices.IsSortedFunc(store.calls, func(a, b Call) int { return a.At.Compare(b.At) }) {
		t.Error("the calls are not in order")
	}
}

// What waits is bounded, however many accounts there are. Transactions are, too.
func TestKeeperIsBounded(t *testing.T) {
	t.Parallel()
	store := &memory{err: errors.New("down")}
	k := New(store, slog.New(slog.DiscardHandler))
	const accounts = maxCounts + 500
	for i := range accounts {
		for n := range 2 {
			k.Note(call(fmt.Sprintf("acct_%06d", i), n))
		}
		if i%5000 == 0 {
			_ = k.Flush(t.Context())
		}
	}
	if k.calls > maxCalls || k.counts > maxCounts || len(k.waiting) > maxCounts {
		t.Errorf("%d calls and %d counts of %d accounts wait, want at most %d and %d", k.calls, k.counts, len(k.waiting), maxCalls, maxCounts)
	}
	if k.Dropped() != 1000 {
		t.Errorf("%d calls were dropped, want 1000", k.Dropped())
	}
	store.fail(nil)
	if err := k.Flush(t.Context()); err != nil || store.total() != 2*maxCounts || store.largest > atOnce {
		t.Errorf("Flush = %v, %d counted, %d calls in a transaction; want %d and at most %d", err, store.total(), store.largest, 2*maxCounts, atOnce)
	}
}

// Run writes every few seconds, at once if much waits, and at its end.
func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &memory{}
		k := New(store, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan struct{})
		go func() { k.Run(ctx); close(done) }()
		k.Note(call("acct_1", 1))
		synctest.Wait()
		if n := store.total(); n != 0 {
			t.Errorf("%d calls were stored at once, want none", n)
		}
		time.Sleep(flushEvery) // the bubble's clock
		synctest.Wait()
		if n := store.total(); n != 1 {
			t.Errorf("%d calls were stored after %s, want 1", n, flushEvery)
		}
		for i := range maxCounts / 2 {
			k.Note(call(fmt.Sprint("acct_", i), 1))
		}
		synctest.Wait()
		if n := store.total(); n != 1+maxCounts/2 {
			t.Errorf("%d calls were stored, want %d without a wait", n, 1+maxCounts/2)
		}
		k.Note(call("acct_1", 2))
		cancel()
		<-done
		if n := store.total(); n != 2+maxCounts/2 {
			t.Errorf("%d calls were stored in the end, want %d", n, 2+maxCounts/2)
		}
	})
}
