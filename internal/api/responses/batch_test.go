package responses

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/kit/seal"
)

// slowStore is a store whose transactions take half a second each. It counts them.
type slowStore struct {
	memory
	mu      sync.Mutex
	batches []int
	err     error // of the next transaction
}

func (s *slowStore) KeepResponses(_ context.Context, all []*Record, _ Bound) error {
	time.Sleep(time.Second / 2) // the bubble's clock
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches = append(s.batches, len(all))
	err := s.err
	s.err = nil
	return err
}

// keepMany keeps n responses at the same time, the first of them a moment earlier, and returns how many failed.
func keepMany(t *testing.T, s *Archive, n, size int) (failed int) {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range n {
		if i == 1 {
			synctest.Wait() // the first one is being written
		}
		all.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // callers may be gone
			if err := s.keep(ctx, &Record{ID: fmt.Append(nil, i), AccountID: "a", Sealed: make([]byte, size)}); err != nil {
				mu.Lock()
				failed++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return failed
}

func TestBatches(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		n, size int
		err     error
		want    string
		failed  int
	}{
		{"one", 1, 10, nil, "[1]", 0},
		{"those that come meanwhile", 21, 10, nil, "[1 20]", 0},
		{"more than a batch has", 100, 10, nil, "[1 64 35]", 0},
		{"large ones", 5, 3 << 20, nil, "[1 2 2]", 0},
		{"larger than a batch", 3, 9 << 20, nil, "[1 1 1]", 0},
		{"a transaction fails", 11, 10, errors.New("no"), "[1 10]", 1},
		// Nobody waits longer than for one transaction beyond its patience.
		{"too many", 1000, 10, nil, "[1 64 64 64]", 1000 - 193},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &slowStore{err: tt.err}
				s := NewArchive(store, &ArchiveOptions{Key: seal.NewKey()})
				failed := keepMany(t, s, tt.n, tt.size)
				if got := fmt.Sprint(store.batches); got != tt.want || failed != tt.failed {
					t.Errorf("batches of %s, of which %d failed, want %s and %d", got, failed, tt.want, tt.failed)
				}
				if s.writing || len(s.waiting) > 0 {
					t.Error("somebody is still waiting")
				}
			})
		})
	}
}

// panicStore panics at its first transaction.
type panicStore struct {
	slowStore
	calls int
}

func (s *panicStore) KeepResponses(ctx context.Context, all []*Record, most Bound) error {
	if s.calls++; s.calls == 1 {
		panic("broken")
	}
	return s.slowStore.KeepResponses(ctx, all, most)
}

// A store that panics does not leave the others waiting.
func TestBatchPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewArchive(&panicStore{}, nil)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic is lost")
				}
			}()
			_ = s.keep(t.Context(), &Record{})
		}()
		if failed := keepMany(t, s, 5, 1); failed != 0 {
			t.Errorf("%d of 5 failed after the panic", failed)
		}
	})
}

// deafStore never answers.
type deafStore struct{ slowStore }

func (*deafStore) KeepResponses(ctx context.Context, _ []*Record, _ Bound) error {
	<-ctx.Done()
	return ctx.Err()
}

// Nobody waits for more than two seconds for a store that does not answer, except for what takes long to send.
func TestKeepPatience(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		size int
		want time.Duration
	}{{0, 2 * time.Second}, {8 << 20, 3 * time.Second}, {32 << 20, 6 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			err := NewArchive(&deafStore{}, nil).keep(t.Context(), &Record{Sealed: make([]byte, tt.size)})
			if took := time.Since(began); took != tt.want || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a response of %d bytes: %v after %v, want a deadline after %v", tt.size, err, took, tt.want)
			}
		})
	}
}
