package redisledger

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

var (
	errRefused = errors.New("connection refused")
	errReset   = errors.New("connection reset")
)

// simNet is the network between the simulated nodes and Redis, and the switch of that Redis. It runs in a
// bubble of package synctest, so its delays take no time.
type simNet struct {
	redis *simRedis

	mu    sync.Mutex // guards the fields below; never held while waiting
	down  bool       // Redis is not running
	slow  bool       // replies take longer than a node waits
	wires map[*simWire]bool
}

// stop stops Redis and breaks all connections.
func (n *simNet) stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = true
	for w := range n.wires {
		w.breakLocked()
	}
}

func (n *simNet) start() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = false
}

func (n *simNet) setSlow(slow bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.slow = slow
}

// simWire is the transport of one node.
type simWire struct {
	net    *simNet
	dialed func()
	random *rand.Rand // guarded by net.mu

	dialing chan struct{} // has a value while somebody connects
	// Guarded by net.mu:
	conn   *simConn
	cut    bool // packets get lost
	silent bool // only those of replies
	dead   bool // the node is
	// taken is when Redis admitted a slot whose reply is on its way. The simulation's own record of the time.
	taken map[string]time.Time
}

// simConn is one connection. Requests on it arrive in their order, and so do replies.
type simConn struct {
	broken     chan struct{} // closed when it is
	sent, back time.Time     // when the last request and the last reply arrive
}

func newSimWire(n *simNet, random *rand.Rand, dialed func()) *simWire {
	w := &simWire{net: n, dialed: dialed, random: random, dialing: make(chan struct{}, 1), taken: map[string]time.Time{}}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wires[w] = true
	return w
}

func (w *simWire) load(context.Context) {}

// close is the end of the node. Nothing that it sends arrives any more.
func (w *simWire) close() {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	w.dead = true
	w.breakLocked()
	delete(w.net.wires, w)
}

// setCut cuts the node off from Redis, in both directions or only for replies.
func (w *simWire) setCut(cut, silent bool) {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	w.cut, w.silent = cut, silent
}

// breakLocked breaks the connection. The caller holds net.mu.
func (w *simWire) breakLocked() {
	if w.conn != nil {
		close(w.conn.broken)
		w.conn = nil
	}
}

func (w *simWire) run(ctx context.Context, orders []order, answers []answer) {
	ctx, cancel := timed(ctx)
	defer cancel()
	if err := w.roundTrip(ctx, orders, answers); err != nil {
		for i := range answers {
			answers[i] = answer{err: err}
		}
	}
}

func (w *simWire) roundTrip(ctx context.Context, orders []order, answers []answer) error {
	conn, err := w.connect(ctx)
	if err != nil {
		return err
	}
	done := make(chan []answer, 1)
	arrival := w.schedule(conn, &conn.sent)
	// The request goes its way whether or not somebody still waits for the reply.
	go w.deliver(conn, arrival, orders, done)
	select {
	case got := <-done:
		copy(answers, got)
		return nil
	case <-conn.broken:
		return errReset
	case <-ctx.Done():
		return ctx.Err()
	}
}

// schedule returns when the next message in one direction arrives.
func (w *simWire) schedule(conn *simConn, last *time.Time) time.Time {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	delay := 50*time.Microsecond + time.Duration(w.random.ExpFloat64()*float64(time.Millisecond))
	delay = min(delay, 60*time.Millisecond)
	if w.net.slow && last == &conn.back {
		delay += time.Duration(w.random.Int64N(int64(2 * time.Second)))
	}
	at := time.Now().Add(delay)
	if !at.After(*last) {
		at = last.Add(1)
	}
	*last = at
	return at
}

// deliver brings a request to Redis and the reply back.
func (w *simWire) deliver(conn *simConn, arrival time.Time, orders []order, done chan<- []answer) {
	time.Sleep(time.Until(arrival)) // the bubble's clock
	if !w.passes(conn, func() bool { return w.cut }) {
		return
	}
	answers := make([]answer, len(orders))
	for i, o := range orders {
		answers[i] = w.net.redis.run(o)
		if o.script == takeScript {
			if r, err := readReply(answers[i]); err == nil && r.code == 0 {
				w.net.mu.Lock()
				w.taken[o.args[1]] = time.Now()
				w.net.mu.Unlock()
			}
		}
	}
	time.Sleep(time.Until(w.schedule(conn, &conn.back))) // the bubble's clock
	if w.passes(conn, func() bool { return w.cut || w.silent }) {
		done <- answers
	}
}

// passes waits while messages are held up, as TCP does, which sends them again. It reports false if the
// connection is given up before.
func (w *simWire) passes(conn *simConn, held func() bool) bool {
	for range 20 {
		w.net.mu.Lock()
		alive, wait := w.conn == conn, held()
		w.net.mu.Unlock()
		if !alive || !wait {
			return alive
		}
		time.Sleep(50 * time.Millisecond) // the bubble's clock
	}
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	if w.conn == conn {
		w.breakLocked()
	}
	return false
}

// connect returns the connection and makes one if necessary.
func (w *simWire) connect(ctx context.Context) (*simConn, error) {
	select {
	case w.dialing <- struct{}{}:
		defer func() { <-w.dialing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	w.net.mu.Lock()
	conn, dead := w.conn, w.dead
	w.net.mu.Unlock()
	if dead {
		return nil, errReset
	}
	if conn != nil {
		return conn, nil
	}
	w.dialed()
	time.Sleep(200 * time.Microsecond) // the bubble's clock
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	switch {
	case w.dead:
		return nil, errReset
	case w.cut || w.silent:
		w.net.mu.Unlock()
		<-ctx.Done() // no answer at all
		w.net.mu.Lock()
		return nil, ctx.Err()
	case w.net.down:
		return nil, errRefused
	}
	w.conn = &simConn{broken: make(chan struct{})}
	return w.conn, nil
}

// admittedAt returns when Redis admitted a slot, and forgets it.
func (w *simWire) admittedAt(slot string) time.Time {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	at := w.taken[slot]
	delete(w.taken, slot)
	return at
}
