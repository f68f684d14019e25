package signin

import (
	"context"
	"sync"
	"time"
)

const (
	// sweepEvery is how often CountAttempts drops spans that have ended.
	sweepEvery  = time.Minute
	triesLooked = 8 // how many keys makeRoom chooses from
)

// memoryTries counts the attempts of this process. Its size is bounded; see makeRoom.
type memoryTries struct {
	now func() time.Time

	mu     sync.Mutex // guards the fields below
	tries  map[Key]tries
	swept  time.Time // when old tries were last dropped
	mostOf int       // how many keys tries may have
}

// tries is how many attempts one key has used in its current span.
type tries struct {
	count int
	ends  time.Time // when the span ends and the count starts again
}

// newMemoryTries returns counts that read the time from now.
func newMemoryTries(now func() time.Time) *memoryTries {
	return &memoryTries{now: now, tries: map[Key]tries{}, mostOf: maxTries}
}

// CountAttempts implements Tries. It never returns an error.
func (m *memoryTries) CountAttempts(_ context.Context, attempts []Attempt) (time.Duration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	// Sweeping here needs no goroutine, and without attempts there is nothing to sweep.
	if now.Sub(m.swept) >= sweepEvery {
		m.sweep(now)
	}
	for _, a := range attempts {
		if t := m.tries[a.Key]; t.ends.After(now) && t.count >= a.Most {
			return t.ends.Sub(now), nil
		}
	}
	for _, a := range attempts {
		t, known := m.tries[a.Key]
		if !known {
			m.makeRoom()
		}
		if !t.ends.After(now) {
			t = tries{ends: now.Add(a.Span)}
		}
		t.count++
		m.tries[a.Key] = t
	}
	return 0, nil
}

// sweep drops the spans that have ended. The caller holds mu.
func (m *memoryTries) sweep(now time.Time) {
	m.swept = now
	for k, t := range m.tries {
		if !t.ends.After(now) {
			delete(m.tries, k)
		}
	}
}

// makeRoom deletes one key if there is no room for another: the least used of a few. The caller
// holds mu. Refusing every new key would let a flood lock everybody out, and deleting the oldest
// would let a flood reset a count that protects an account. A flood of new keys has few attempts
// each, so it deletes its own.
func (m *memoryTries) makeRoom() {
	if len(m.tries) < m.mostOf {
		return
	}
	var least Key
	looked, fewest := 0, tries{}
	for k, t := range m.tries { // a map's order is random
		if looked == 0 || t.count < fewest.count || t.count == fewest.count && t.ends.Before(fewest.ends) {
			least, fewest = k, t
		}
		if looked++; looked == triesLooked {
			break
		}
	}
	delete(m.tries, least)
}

// ForgetAttempts implements Tries.
func (m *memoryTries) ForgetAttempts(_ context.Context, keys []Key) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range keys {
		delete(m.tries, k)
	}
	return nil
}

// DropAttempts implements Tries. Each attempt has kept the bound already, so nothing is left to do.
func (m *memoryTries) DropAttempts(context.Context, int) error { return nil }
