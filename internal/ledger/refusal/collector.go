package refusal

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/kit/pace"
	"sluice/internal/kit/telemetry"
)

const (
	// flushEvery is how long a refusal waits for the database at most, if the database works.
	flushEvery = 5 * time.Second
	// maxCalls and maxCounts bound what waits, over all accounts: about 6 MB. Half of either makes Run write at
	// once. Beyond maxCalls a call is only counted, and beyond maxCounts it is dropped.
	maxCalls  = 20_000
	maxCounts = 20_000
	// atOnce is how many calls and counts one transaction stores at most, unless a single account has more: a larger
	// one would hold up settlements.
	atOnce = 1000
	// lastPatience is how long Run spends at its end on what waits.
	lastPatience = 2 * time.Second
	// remindEvery is the least time between log lines about trouble that lasts.
	remindEvery = time.Minute
)

// Store stores refusals.
type Store interface {
	// RecordRefusals stores calls and adds the counts, in one transaction. It keeps the newest Kept calls of each
	// account. The accounts are in ascending order in both lists.
	RecordRefusals(ctx context.Context, calls []Call, minutes []Minute) error
}

// Collector collects refusals. It is safe for concurrent use.
type Collector struct {
	store Store
	log   *slog.Logger
	full  chan struct{} // has a token when so much waits that it should be written now
	turn  chan struct{} // holds a token while Flush writes, so that calls are written in order; those who wait have deadlines

	// mu guards what waits, by account, and how much that is.
	mu            sync.Mutex
	waiting       map[string]*entry
	calls, counts int

	dropped atomic.Int64
}

// entry is what waits of one account.
type entry struct {
	// calls are the newest ones, at most Kept. Once there are as many, a new one replaces that at next, the oldest.
	calls  []Call
	next   int
	counts map[slot]int64
}

// slot is what the calls of an account are counted by.
type slot struct {
	minute int64 // Unix time divided by 60
	status int
}

// inOrder returns the calls of the entry, oldest first.
func (e *entry) inOrder() []Call { return slices.Concat(e.calls[e.next:], e.calls[:e.next]) }

// New returns a collector that writes to the store while Run runs.
func New(store Store, log *slog.Logger) *Collector {
	return &Collector{store: store, log: log, full: make(chan struct{}, 1), turn: make(chan struct{}, 1), waiting: map[string]*entry{}}
}

// Note remembers a refused call. It never waits for the database.
func (k *Collector) Note(c Call) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.entry(c.AccountID)
	k.count(e, slot{c.At.Unix() / 60, c.Status}, 1)
	switch {
	case len(e.calls) == Kept:
		e.calls[e.next] = c
		e.next = (e.next + 1) % Kept
	case k.calls < maxCalls:
		e.calls = append(e.calls, c)
		k.calls++
	}
	if k.calls >= maxCalls/2 || k.counts >= maxCounts/2 {
		pace.Wake(k.full)
	}
}

// entry returns the entry of an account. The caller holds mu. An account that has no room for a count gets one
// that is not kept.
func (k *Collector) entry(accountID string) *entry {
	e := k.waiting[accountID]
	if e == nil {
		e = &entry{counts: map[slot]int64{}}
		if k.counts < maxCounts {
			k.waiting[accountID] = e
		}
	}
	return e
}

// count adds n calls to a slot. The caller holds mu.
func (k *Collector) count(e *entry, at slot, n int64) {
	if _, ok := e.counts[at]; !ok {
		if k.counts == maxCounts {
			k.dropped.Add(n)
			return
		}
		k.counts++
	}
	e.counts[at] += n
}

// Dropped returns how many calls were not even counted, because too many waited for the database.
func (k *Collector) Dropped() int64 { return k.dropped.Load() }

// AddMetrics adds the metric of what was dropped.
func (k *Collector) AddMetrics(m *telemetry.Metrics) {
	m.Counter("sluice_refused_calls_dropped_total", "Refused calls that were not counted for their account, because too many waited for the database.", k.Dropped)
}

// Run writes what waits every few seconds until ctx ends, and then once more.
func (k *Collector) Run(ctx context.Context) {
	var warned time.Time
	for range pace.Woken(ctx, flushEvery, k.full) {
		if err := k.Flush(ctx); err != nil && ctx.Err() == nil && time.Since(warned) >= remindEvery {
			k.log.Warn("refused calls stay in memory: the database does not accept them", "error", err.Error())
			warned = time.Now()
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastPatience)
	defer cancel()
	_ = k.Flush(last) // what cannot be written is lost; see the package
}

// Flush writes what waits. What cannot be written keeps waiting.
func (k *Collector) Flush(ctx context.Context) error {
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	k.mu.Lock()
	waiting := k.waiting
	k.waiting, k.calls, k.counts = map[string]*entry{}, 0, 0
	k.mu.Unlock()

	accounts := slices.Sorted(maps.Keys(waiting))
	for len(accounts) > 0 {
		var calls []Call
		var minutes []Minute
		n := 0
		for _, id := range accounts {
			e := waiting[id]
			if n > 0 && (len(calls)+len(e.calls) > atOnce || len(minutes)+len(e.counts) > atOnce) {
				break
			}
			calls = append(calls, e.inOrder()...)
			for at, count := range e.counts {
				minutes = append(minutes, Minute{id, time.Unix(at.minute*60, 0).UTC(), at.status, count})
			}
			// All nodes write the counts in the same order, so that they cannot deadlock.
			slices.SortFunc(minutes[len(minutes)-len(e.counts):], func(a, b Minute) int {
				return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Status, b.Status))
			})
			n++
		}
		if err := k.store.RecordRefusals(ctx, calls, minutes); err != nil {
			for _, id := range accounts {
				k.putBack(id, waiting[id])
			}
			return err
		}
		accounts = accounts[n:]
	}
	return nil
}

// putBack adds what could not be written to what has come since, within the bounds.
func (k *Collector) putBack(accountID string, old *entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.entry(accountID)
	for at, n := range old.counts {
		k.count(e, at, n)
	}
	all := append(old.inOrder(), e.inOrder()...)
	all = all[max(0, len(all)-Kept):]
	if more := len(all) - len(e.calls); k.calls+more <= maxCalls {
		e.calls, e.next, k.calls = all, 0, k.calls+more
	}
}
