package routing

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// newest is the weight of the last call in a moving average.
	newest = 0.3
	// tooMany is the error rate at which the breaker opens: three failures in a row, or most of the last
	// calls.
	tooMany = 0.6

	// A breaker opens for firstRest, and for twice as long each time a probe fails, up to longestRest. The
	// bound is low because a probe is cheap and an idle upstream is not.
	firstRest   = time.Second
	longestRest = 5 * time.Second
	// longestWait is the longest Retry-After that is obeyed: a mistake of the upstream must not take it out
	// for a day.
	longestWait = 5 * time.Minute
	// lively is how long after its last answer a target whose breaker is open may still be called in need. It fails
	// often, but it is there: refusing everybody for a second would be worse than what it does.
	lively = 2 * time.Second
)

const (
	// A target is down when the moving average of failures reaches tooMany, three failures in a row, and up again below
	// wellAgain, five successes in a row. In between it stays what it was.
	wellAgain = 0.2
	// unheard is how long nothing may be heard of a target before somebody tries to connect to it. One of which the last
	// news were bad is tried at each turn.
	unheard = 15 * time.Second
	// forgotten is how long a failed call outweighs connections: an upstream that answers every call with an error takes
	// connections all the same.
	forgotten = 5 * time.Minute
)

// State is the state of a target's circuit breaker.
type State uint8

const (
	Closed   State = iota // calls go through
	Open                  // no call goes through
	HalfOpen              // one call goes through, a probe, to see whether the target works again
)

var stateNames = [...]string{"closed", "open", "half_open"}

func (s State) String() string { return stateNames[s] }

// MarshalText returns the name of the state.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText sets the state by its name.
func (s *State) UnmarshalText(text []byte) error {
	i := slices.Index(stateNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("%q is no state", text)
	}
	*s = State(i)
	return nil
}

// Health is what the calls of a target tell about it: a circuit breaker, the share of calls that failed,
// and how long the others took to begin. It is kept in memory only: after a restart every target counts as
// healthy.
//
// The breaker opens when too many calls have failed, or at once when the upstream refuses everybody. While
// it is open, requests use other targets. When its time is over, one call goes through as a probe: its
// first content closes the breaker, its failure opens it again for longer. Everybody else is refused, also
// those who have no other target: calls that are going to fail help nobody, and keep an upstream from
// recovering. Only a target that answered a moment ago may be called in need, see lively.
type Health struct {
	mu      sync.Mutex    // guards all fields except running
	open    bool          // the breaker is open, or half open
	until   time.Time     // while open: when the next probe may go through
	rest    time.Duration // how long the breaker was opened for the last time
	probing bool          // a probe is running
	held    bool          // open because the upstream asked for it: no call goes through before until
	denied  bool          // held because the key was refused: only people can fix that
	epoch   uint32        // incremented when the breaker opens or closes; the result of an older call is ignored

	alive     time.Time     // when the last reply began
	errorRate float64       // a moving average, 0 to 1
	latency   time.Duration // to the first content, a moving average

	// What people are told. The breaker opens and closes within seconds, to find out by calls whether the target works;
	// down follows calls and connection attempts more slowly, and also while nobody calls (docs/providers/routing.md#down).
	down   bool
	ill    float64   // a moving average of what calls and connection attempts came to, 0 to 1
	heard  time.Time // when one of them last said something
	hidden time.Time // when a call last failed in a way that a connection attempt cannot see; zero: none since the last answer

	answers, failures int64         // sums since the start
	waited            time.Duration // the sum of the times to the first content

	running atomic.Int64 // calls under way; read without mu, for each call
}

// permit lets one call through. Hand it to end when the call ends.
type permit struct {
	epoch uint32 // of the breaker when the call began
	probe bool
}

// need is how much a request depends on a target.
type need uint8

const (
	wanted need = iota // another target may answer: an open breaker is respected
	sought             // no healthy target is left: a target that answered a moment ago is called, unless it asked us to wait
)

// begin returns a permit, or reports false if the call must not be made.
func (h *Health) begin(now time.Time, n need) (permit, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.open:
		h.running.Add(1)
		return permit{epoch: h.epoch}, true
	case !h.probing && !now.Before(h.until): // half open: this call is the probe
		h.probing = true
		h.running.Add(1)
		return permit{epoch: h.epoch, probe: true}, true
	case n == sought && h.lives(now):
		h.running.Add(1)
		return permit{epoch: h.epoch}, true
	}
	return permit{epoch: h.epoch}, false
}

// lives reports whether an open breaker may be passed in need. The caller holds mu.
func (h *Health) lives(now time.Time) bool { return !h.held && now.Sub(h.alive) < lively }

// answered records the first content of a call, and reports whether that closed the breaker. It does not
// wait for the end of the reply, which may be minutes away. It renews the permit.
func (h *Health) answered(p *permit, now time.Time, took time.Duration) (closed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.alive = now
	h.answers++
	h.hidden = time.Time{}
	h.hear(true, now)
	h.waited += took
	if h.latency == 0 { // the first call
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

// outcome is what the end of a call says about its target. The order counts: unreached and above are failures,
// refused and above open the breaker at once.
type outcome uint8

const (
	neither outcome = iota // nothing: the caller hung up or made a mistake
	good
	unreached // there was no connection
	bad
	refused // the upstream refuses everybody for a while
	denied  // the upstream does not accept the key
)

// end records how a call ended, and reports whether that opened the breaker. After is how long the upstream
// asked us to wait; 0: it did not say.
func (h *Health) end(p permit, how outcome, now time.Time, after time.Duration) (opened bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running.Add(-1)
	if how >= unreached {
		h.failures++
		if how > unreached {
			h.hidden = now
		}
		if how == denied {
			h.ill = 1 // every other call would be refused, too
		}
		h.hear(false, now)
	}
	// A call that began before the breaker last changed says nothing about the target now.
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
	// A refusal and a failed probe open the breaker at once; other failures only when there are too many.
	// While it is open, calls in need may fail without making it any more open.
	switch {
	case how >= refused, p.probe:
	case h.open, h.errorRate < tooMany:
		return false
	}
	opened = !h.open
	h.open, h.held, h.denied, h.probing = true, how >= refused, how == denied, false
	h.epoch++
	if how == refused && after > 0 {
		h.until = now.Add(min(after, longestWait)) // as the upstream says, not by our own back-off
		return opened
	}
	h.rest = min(max(2*h.rest, firstRest), longestRest)
	h.until = now.Add(max(h.rest, min(after, longestWait)))
	return opened
}

// hear takes account of a success or a failure. The caller holds mu.
func (h *Health) hear(good bool, now time.Time) {
	h.heard = now
	if good {
		h.ill -= newest * h.ill
		h.down = h.down && h.ill >= wellAgain
		return
	}
	h.ill += newest * (1 - h.ill)
	h.down = h.down || h.ill >= tooMany
}

// reached takes account of an attempt to connect; err is nil if it succeeded.
func (h *Health) reached(now time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err != nil:
		h.hidden = time.Time{} // from now on connections show what is wrong
		h.hear(false, now)
	case h.hidden.IsZero() || now.Sub(h.hidden) >= forgotten:
		h.hear(true, now)
	}
}

// due reports whether it is time to try to connect.
func (h *Health) due(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.down || h.ill > newest/2 || now.Sub(h.heard) >= unheard
}

// wait returns how long it takes until a call may go through; open says that it is the breaker that is waited
// for, and asked that the upstream has asked for it.
func (h *Health) wait(now time.Time) (d time.Duration, open, asked bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.open || h.lives(now) {
		return 0, false, false
	}
	return max(0, h.until.Sub(now)), true, h.held && !h.denied
}

// hindrance returns why no call goes through; present: one may.
func (h *Health) hindrance() absence {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.open && h.held && !h.denied:
		return outOfQuota
	case h.open:
		return unhealthy
	}
	return present
}

// look fills in the state and the averages of a target.
func (h *Health) look(now time.Time, to *TargetHealth) {
	h.mu.Lock()
	defer h.mu.Unlock()
	to.ErrorRate, to.Latency = h.errorRate, h.latency
	to.Down = h.down || h.open && h.held && now.Before(h.until)
	to.Running, to.Answered, to.Failed, to.Waited = h.running.Load(), h.answers, h.failures, h.waited
	switch {
	case !h.open:
		to.State = Closed
	case h.probing || !now.Before(h.until):
		to.State = HalfOpen
	default:
		to.State = Open
	}
}
