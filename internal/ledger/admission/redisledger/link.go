package redisledger

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

var (
	// The texts are what operators read in State.Why and in the log.
	errNotConnected = errors.New("not connected to Redis yet")
	errApproximate  = errors.New("calls are not counted in Redis at the moment")
	errDataLost     = errors.New("the data in Redis was lost")
	errDistrusted   = errors.New("the connection to Redis was given up during a call")
	errClosed       = errors.New("the ledger was closed")
	errUnstable     = errors.New("the connection to Redis does not last")
)

// link is the connection to Redis, or to each node of a cluster. There is one to each: callers share it by
// pipelining, and their commands keep their order.
type link struct {
	dial    func() (transport, error)
	current atomic.Pointer[transport]
	mu      sync.Mutex // held while connecting and closing
	closed  bool

	// dials counts connections. It is more than verified when a connection is new, and then nobody has
	// checked yet that the server behind it is the one that we know.
	dials, verified atomic.Int64
}

// transport returns the transport, or nil before the first connection.
func (k *link) transport() transport {
	if c := k.current.Load(); c != nil {
		return *c
	}
	return nil
}

// connect returns the transport and connects if there is none. Once there is one, it reconnects by itself.
func (k *link) connect() (transport, error) {
	if c := k.transport(); c != nil {
		return c, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil, errClosed
	}
	if c := k.transport(); c != nil {
		return c, nil
	}
	c, err := k.dial()
	if err != nil {
		return nil, err
	}
	k.current.Store(&c)
	return c, nil
}

// close ends the connection for good: a later connect returns errClosed.
func (k *link) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	if c := k.transport(); c != nil {
		c.close()
	}
}

// suspect reports whether a connection is new and its server has not been checked.
func (k *link) suspect() bool { return k.dials.Load() != k.verified.Load() }

// clock is the time of a node, which goes in step with that of Redis: it is what Redis said last, and what has passed
// since on the node's monotonic clock, less an offset that never changes once it is known. All nodes that share a Redis
// therefore agree on its time within a few milliseconds, whatever their own clocks say.
//
// The offset is there because a node may start while Redis is away. It then admits calls before it knows the time of
// Redis, and their entries must neither expire nor lie in the future when it learns it. So everything in this process has
// the time of the node, and entries get that of Redis when Redis gets them; see shared.
type clock struct {
	fixed  func() time.Duration // of a test; nil otherwise
	start  time.Time
	ahead  atomic.Int64 // nanoseconds between the time since start and the time of the node
	offset atomic.Int64 // milliseconds between the time of the node and that of Redis
	synced bool         // the offset is known; only whoever beats uses this
}

// init starts the clock, with the time of this machine.
func (c *clock) init(fixed func() time.Duration) {
	c.fixed, c.start = fixed, time.Now()
	c.ahead.Store(c.start.UnixNano())
}

// now returns the time of the node. It never goes back.
func (c *clock) now() time.Duration {
	if c.fixed != nil {
		return c.fixed()
	}
	return time.Since(c.start) + time.Duration(c.ahead.Load())
}

func (c *clock) millis() int64 { return int64(c.now() / time.Millisecond) }

// number returns the time that scripts are told: -1, which is that of Redis, unless a test has its own.
func (c *clock) number() int64 {
	if c.fixed == nil {
		return -1
	}
	return c.millis()
}

// arg is the same for scripts that are told in decimal digits, where nothing is the time of Redis.
func (c *clock) arg() string {
	if c.fixed == nil {
		return ""
	}
	return itoa(c.millis())
}

// elapsed is the time since this process knows a time.
func (c *clock) elapsed() time.Duration { return time.Since(c.start) }

// shared returns the time in Redis of an entry that this node made on its own. Redis must have answered once.
func (c *clock) shared(at int64) int64 { return at + c.offset.Load() }

// adjust learns the time that Redis answered to a question sent at a time. The node's clock is not behind
// that of Redis, and ahead by the time that the question took to arrive, at most: what the node admits on its
// own counts in Redis for a minute or a little longer. It only moves forward, because a window's entries must be in the
// order of their time. The first answer decides on the offset, so it moves the clock by less than a millisecond.
func (c *clock) adjust(millis int64, sent time.Duration) {
	if c.fixed != nil {
		return // Redis has the same
	}
	millis++ // the millisecond may be almost over
	if !c.synced {
		here := time.Duration(c.ahead.Load()) + sent
		c.offset.Store(millis - int64((here+time.Millisecond-1)/time.Millisecond))
		c.synced = true
	}
	if ahead := (millis-c.offset.Load())*int64(time.Millisecond) - int64(sent); ahead > c.ahead.Load() {
		c.ahead.Store(ahead)
	}
}
