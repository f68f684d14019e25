package routing

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// newest is the share of the last call in a moving average.
	newest = 0.3
	// tooMany is the error rate at which a target is left alone: three failures in a row, or most of
	// the last calls.
	tooMany = 0.6

	firstRest   = time.Second
	longestRest = 5 * time.Second
	// longestWait bounds what an upstream may ask for with Retry-After.
	longestWait = 5 * time.Minute
)

// State is that of a target's breaker.
type State uint8

const (
	Closed   State = iota // it is asked
	Open                  // it is left alone
	HalfOpen              // one call is let through, to see whether it is well again
)

var stateNames = [...]string{"closed", "open", "half_open"}

func (s State) String() string { return stateNames[s] }

// MarshalText writes the state as its name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the name of a state.
func (s *State) UnmarshalText(text []byte) error {
	i := slices.Index(stateNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("%q is no state", text)
	}
	*s = State(i)
	return nil
}

// Health is what is known of a target from its calls: a circuit breaker, and how many failed and how
// long the others took to begin. It lives in memory alone.
type Health struct {
	mu      sync.Mutex
	open    bool
	until   time.Time     // while open: when a call may be let through
	rest    time.Duration // what the last opening was for
	probing bool          // a call that was let through is under way
	held    bool          // open because the upstream said so: it is not asked before, whatever happens
	denied  bool          // held because of its key: only people can mend that
	epoch   uint32        // of opening and closing: a call from an earlier one says nothing any more

	errorRate float64
	latency   time.Duration // to the first content
}

// permit lets a call through that was begun with it.
type permit struct {
	epoch uint32
	probe bool
}

// need is how much a request depends on a target.
type need uint8

const (
	wanted need = iota // there may be others
	sought             // there is nobody else: it is asked, unless it asked to be left alone
	dire               // the model has no other target, and this request has not asked it yet: it is asked in any case
)

// begin asks for a permit. Whoever gets one hands it to end in the end. In need a target is asked that
// seems to be ill: better a doubtful answer than none.
func (h *Health) begin(now time.Time, n need) (permit, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.open:
		return permit{epoch: h.epoch}, true
	case !h.probing && !now.Before(h.until):
		h.probing = true
		return permit{epoch: h.epoch, probe: true}, true
	}
	return permit{epoch: h.epoch}, n == dire || n == sought && !h.held
}

// answered notes the first content of a call, which is what closes the breaker again: the end of a
// reply may be minutes away.
func (h *Health) answered(p *permit, took time.Duration) (closed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.latency == 0 {
		h.latency = took
	} else {
		h.latency += time.Duration(newest * float64(took-h.latency))
	}
	if !h.open || p.epoch != h.epoch {
		return false
	}
	h.open, h.probing, h.held, h.denied, h.rest, h.errorRate = false, false, false, false, 0, 0
	h.epoch++
	*p = permit{epoch: h.epoch}
	return true
}

// outcome is how a call ended, as far as its target is concerned.
type outcome uint8

const (
	neither outcome = iota // its caller left, or is at fault
	good
	bad
	refused // for now and for everybody: no need to try a third time
	denied  // the key is not good
)

// end notes how a call ended. After is what the upstream asked us to wait, where it did.
func (h *Health) end(p permit, how outcome, now time.Time, after time.Duration) (opened bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p.epoch != h.epoch {
		return false
	}
	if p.probe {
		h.probing = false
	}
	switch how {
	case neither:
		return false
	case good:
		h.errorRate -= newest * h.errorRate
		return false
	default:
		h.errorRate += newest * (1 - h.errorRate)
	}
	switch {
	case how >= refused, p.probe:
	case h.open, h.errorRate < tooMany:
		return false
	}
	opened = !h.open
	h.open, h.held, h.denied, h.probing = true, how >= refused, how == denied, false
	h.epoch++
	if how == refused && after > 0 {
		h.until = now.Add(min(after, longestWait)) // it knows best how long
		return opened
	}
	h.rest = min(max(2*h.rest, firstRest), longestRest)
	h.until = now.Add(max(h.rest, min(after, longestWait)))
	return opened
}

// wait is how long it takes until a call may be let through in need, and whether that is worth waiting
// for.
func (h *Health) wait(now time.Time) (time.Duration, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.open || !h.held {
		return 0, true
	}
	return max(0, h.until.Sub(now)), !h.denied
}

// look fills in what is told of the target.
func (h *Health) look(now time.Time, to *Standing) {
	h.mu.Lock()
	defer h.mu.Unlock()
	to.ErrorRate, to.Latency = h.errorRate, h.latency
	switch {
	case !h.open:
		to.State = Closed
	case h.probing || !now.Before(h.until):
		to.State = HalfOpen
	default:
		to.State = Open
	}
}
