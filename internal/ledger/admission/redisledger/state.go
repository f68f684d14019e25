package redisledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/kit/health"
	"sluice/internal/kit/pace"
	"sluice/internal/kit/telemetry"
	"sluice/internal/ledger/admission"
)

// State is how the ledger works at the moment, for readiness, metrics and people.
type State struct {
	Exact bool      // limits are counted in Redis; otherwise this node goes by its shares
	Since time.Time // when that began
	Why   string    // what is wrong, if not exact
	Nodes int       // nodes that share the limits
	// Parts is the number of nodes by which this one divides limits while it is not exact. 0: it has no share, and
	// refuses every call of an account with limits. Then it is new, and the others may have used all of them.
	Parts int
	// Lost says that Redis answers and has lost its data less than a minute ago.
	Lost bool

	LocalCalls int64 // calls that this node has admitted on its shares since it started
	DroppedOps int64 // ends of calls that the queue had no room for
	QueuedOps  int   // ends of calls that wait for Redis
}

// State returns how the ledger works at the moment.
func (l *Ledger) State() State {
	s := &l.state
	s.mu.Lock()
	now := State{Exact: s.exact(), Since: s.since, Why: s.why}
	s.mu.Unlock()
	if views := l.views(); !admission.NoShare(views) {
		now.Parts = 1 // without a list there is one node
		for _, v := range views {
			now.Parts = max(now.Parts, v.Nodes)
		}
	}
	now.Lost = l.table.fresh.Load()
	now.Nodes, now.LocalCalls, now.DroppedOps = l.members.Live(), s.local.Load(), l.queue.dropped.Load()
	l.queue.mu.Lock()
	now.QueuedOps = l.queue.count
	l.queue.mu.Unlock()
	return now
}

// Look says by what the limits are counted. Without Redis this node goes by its share of them, and without a
// share it refuses calls.
func (l *Ledger) Look(context.Context) (f health.Finding) {
	s := l.State()
	if s.Exact {
		if s.Parts == 0 {
			f.Message = "this server has just joined the others: if Redis went away now, it would refuse calls"
		}
		return f
	}
	f.Age = time.Since(s.Since)
	since, until := fmt.Sprintf("away for %s", f.Age.Round(time.Second)), "Redis is back"
	if s.Lost {
		since, until = "Redis has lost its data less than a minute ago", "that minute is over"
	}
	if f.Failed = s.Parts == 0; f.Failed {
		f.Message = since + ": this server had just joined the others, has no share of the limits yet, and refuses calls until " + until
		f.Err = errors.New(f.Message)
		return f
	}
	f.Message = fmt.Sprintf("%s: this server admits its share of each limit, as one of %d", since, s.Parts)
	return f
}

// AddMetrics adds the metrics of the ledger.
func (l *Ledger) AddMetrics(m *telemetry.Metrics) {
	telemetry.Gauge(m, "sluice_ledger_exact", "1 while limits are counted in Redis, 0 while this node goes by its share of them.", func() int64 { return telemetry.Bit(l.State().Exact) })
	telemetry.Gauge(m, "sluice_ledger_nodes", "Nodes that share the limits.", func() int { return l.State().Nodes })
	telemetry.Gauge(m, "sluice_ledger_local_calls", "Calls that this node has admitted on its share since it started.", func() int64 { return l.State().LocalCalls })
	telemetry.Gauge(m, "sluice_ledger_queued", "Ends of calls that wait for Redis.", func() int { return l.State().QueuedOps })
	telemetry.Gauge(m, "sluice_ledger_dropped", "Ends of calls that Redis was never told; their slots come free when their leases end.", func() int64 { return l.State().DroppedOps })
}

// state is the circuit between calls and Redis. It opens after some failures in a row, and only the keeper
// closes it.
//
// exact is read by every call and is an atomic; the mutex guards what only people read, and makes
// open and close one step each.
type state struct {
	log      *slog.Logger
	closed   atomic.Bool // exact
	failures atomic.Int32
	local    atomic.Int64
	changed  chan struct{} // has a value after the circuit has opened

	mu    sync.Mutex
	since time.Time
	why   string
}

// init begins with an open circuit: nothing is exact before the first beat.
func (s *state) init(log *slog.Logger) {
	s.log, s.since, s.why = log, time.Now(), errNotConnected.Error()
	s.changed = make(chan struct{}, 1)
}

// exact reports whether calls are counted in Redis.
func (s *state) exact() bool { return s.closed.Load() }

// answered notes that Redis has answered.
func (s *state) answered() {
	if s.failures.Load() != 0 { // a store at every call would move the cache line between cores
		s.failures.Store(0)
	}
}

// failed notes that Redis has not answered, or not as it should. While it is away, the last reason counts.
func (s *state) failed(err error) {
	if s.failures.Add(1) >= tolerated || !s.exact() {
		s.open(err)
	}
}

// open makes the node go by its shares.
// Only the first opening is logged; later reasons replace the text that State returns.
func (s *state) open(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.why = why.Error()
	if !s.closed.Swap(false) {
		return
	}
	s.since = time.Now()
	s.log.Warn("limits are not counted in Redis: this node admits calls on its share of each limit", "error", s.why)
	pace.Wake(s.changed)
}

// close makes the node count in Redis again.
func (s *state) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	away := time.Since(s.since)
	s.since, s.why = time.Now(), ""
	s.failures.Store(0)
	s.closed.Store(true)
	s.log.Info("limits are counted in Redis", "after", away.Round(time.Millisecond).String())
}
