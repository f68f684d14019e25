package telemetry

import (
	"sync/atomic"
	"time"
)

// Wait adds up how long a request waited for others: for its caller's body, for upstreams, for tools,
// and for another request with the same Idempotency-Key.
// The rest of its time is what the gateway itself added.
//
// One goroutine calls Begin and End, in turns. Any goroutine may call Own: the pulse does when it sends
// the headers of a reply whose upstream has not answered yet.
type Wait struct {
	start int64        // when the request arrived; see at
	began atomic.Int64 // when the wait that is running began; 0: none is running
	total atomic.Int64 // of the waits that have ended, in nanoseconds
}

// epoch is what times are counted from, in nanoseconds: a Wait is part of every request, and a time.Time
// takes three words.
var epoch = time.Now().Add(-1)

func at(now time.Time) int64 { return int64(now.Sub(epoch)) }

// Arrived sets the time of the request's arrival. It is called first.
func (w *Wait) Arrived(now time.Time) { w.start = at(now) }

// Begin begins a wait, unless one is running.
func (w *Wait) Begin(now time.Time) {
	if w.began.Load() == 0 {
		w.began.Store(at(now))
	}
}

// End ends the wait that is running, if there is one.
func (w *Wait) End(now time.Time) {
	if began := w.began.Load(); began != 0 {
		w.total.Add(max(0, at(now)-began))
		w.began.Store(0)
	}
}

// Waiting reports whether a wait is running.
func (w *Wait) Waiting() bool { return w.began.Load() != 0 }

// Read says that the request's body was complete now. A body that came at once was no wait: the few
// microseconds before are our own. So the usual request reads the clock once for this, and not twice.
func (w *Wait) Read(now time.Time) {
	if took := at(now) - w.start; took > int64(atOnce) {
		w.total.Add(took)
	}
}

// Since says that the request waited from began until now. A moment is none: it is our own work.
func (w *Wait) Since(began, now time.Time) {
	if took := at(now) - at(began); took > int64(atOnce) {
		w.total.Add(took)
	}
}

// atOnce is how long a body may take without counting as a wait.
const atOnce = 500 * time.Microsecond

// Own returns what the gateway itself has added until now: all time that was not spent waiting.
func (w *Wait) Own(now time.Time) time.Duration {
	t := at(now)
	own := t - w.start - w.total.Load()
	if began := w.began.Load(); began != 0 {
		own -= max(0, t-began)
	}
	return time.Duration(max(0, own))
}
