package redisledger

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// longest is the number of operations that the queue holds. It is far more than a node ends in the time
	// that Redis may take; what does not fit is dropped, and heals when leases and windows run out.
	longest = 1 << 16
	// gather is how long the first of some ends waits for the others. Sent one by one, the end of a call
	// costs as much as its beginning: two goroutines that wake up, and two system calls.
	gather = 5 * time.Millisecond
	// batch is the number of scripts sent in one round trip.
	batch = 256
	// piece is the number of entries, or of slots, that one script is told. A script with this many takes a few
	// milliseconds, in which Redis answers nobody else.
	piece = 1000
	// heaviest is the weight of a batch, unless it has only one script. 256 ends of calls are lighter.
	heaviest = 4 * piece
)

// op is what the end of a call changes in Redis.
// The times name the entries in the windows that the amounts belong to; a time of 0 means no such
// entry.
type op struct {
	slot       uint64 // 0: none to free
	requestsAt int64
	requests   int64 // thousandths that come back
	tokensAt   int64
	tokens     int64 // tokens that come back; negative: taken beyond what was reserved
	units      bool  // nothing of the above: what Units has to say about the account
}

// queue holds operations until they are sent, by account.
//
// An operation is waiting, then flying, and then forgotten. Knowing what is flying lets a node
// that asks about an account wait until its own news has arrived.
type queue struct {
	mu      sync.Mutex
	waiting map[string][]op
	count   int // operations in waiting
	flying  map[string]*flight

	due     *time.Timer // fires when what waits is to be sent
	armed   atomic.Bool // due is running
	dropped atomic.Int64
}

// flight is what was sent for an account and has not been answered.
type flight struct {
	batches int           // guarded by the queue's mutex
	done    chan struct{} // closed when all of them have been answered or given up
}

func (q *queue) init() {
	q.waiting, q.flying = map[string][]op{}, map[string]*flight{}
	q.due = time.NewTimer(gather)
	q.armed.Store(true)
}

// put adds an operation and reports whether there was room. One about units is sent with the next end of a
// call, which follows at once.
func (q *queue) put(accountID string, o op) bool {
	q.mu.Lock()
	full := q.count >= longest
	if !full {
		q.waiting[accountID] = append(q.waiting[accountID], o)
		q.count++
	}
	q.mu.Unlock()
	if full {
		q.dropped.Add(1)
	}
	if !o.units {
		q.nudge()
	}
	return !full
}

// nudge makes what waits be sent once others have had the time to join it. It sets the timer of whoever sends, rather than wake
// it to do so: an end that comes alone costs one wake-up less.
func (q *queue) nudge() {
	if !q.armed.Swap(true) {
		q.due.Reset(gather)
	}
}

func nothing() {}

// grab takes everything that waits for an account. The caller sends it and then calls done. Others is what
// is already on its way for the account, or nil.
func (q *queue) grab(accountID string) (ops []op, others *flight, done func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	others = q.flying[accountID]
	if ops = q.waiting[accountID]; len(ops) == 0 {
		return nil, others, nothing
	}
	delete(q.waiting, accountID)
	q.count -= len(ops)
	q.takeOff(accountID)
	return ops, others, func() { q.land(accountID) }
}

// grabSome takes what waits for some accounts, about a batch. The caller sends it and then calls land for
// each account.
func (q *queue) grabSome() map[string][]op {
	q.mu.Lock()
	defer q.mu.Unlock()
	some, n := map[string][]op{}, 0
	for id, ops := range q.waiting {
		if n += len(ops); n > batch && len(some) > 0 {
			break
		}
		some[id] = ops
		delete(q.waiting, id)
		q.count -= len(ops)
		q.takeOff(id)
	}
	return some
}

// takeOff notes that something was sent for an account. The caller holds the lock.
func (q *queue) takeOff(accountID string) {
	f := q.flying[accountID]
	if f == nil {
		f = &flight{done: make(chan struct{})}
		q.flying[accountID] = f
	}
	f.batches++
}

// land notes that a batch for an account was answered or given up, and wakes those who wait once
// none is left.
func (q *queue) land(accountID string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f := q.flying[accountID]
	if f.batches--; f.batches == 0 {
		delete(q.flying, accountID)
		close(f.done)
	}
}

// put queues an operation.
// If the queue is full, what must not be lost is counted elsewhere: tokens on this node's share,
// and units in the list of what is resent.
func (l *Ledger) put(accountID string, o op) {
	if l.queue.put(accountID, o) {
		return
	}
	if o.tokens < 0 {
		l.owe(accountID, -o.tokens)
	}
	if o.units {
		l.units.lost(accountID)
	}
}

// lost deals with operations of which nobody knows whether Redis has seen them. To give something back
// twice would let too many calls in, so what comes back is not sent again, and stays taken until its minute
// is over. Tokens beyond a reservation are counted here, and told to Redis later: rather twice than not at
// all. Only a slot can be freed twice.
func (l *Ledger) lost(accountID string, ops []op) {
	for _, o := range ops {
		if o.units {
			l.units.lost(accountID)
		}
		if o.tokens < 0 {
			l.owe(accountID, -o.tokens)
		}
		if o.slot != 0 {
			l.queue.put(accountID, op{slot: o.slot})
		}
	}
}

// orders appends the scripts that operations of an account stand for.
// Each end of a call is one script. However many operations ask for units, one errand speaks for
// all of them, and it travels with the last end if there is one.
func (l *Ledger) orders(all []order, accountID string, ops []op) []order {
	begin := len(all)
	var e *errand
	for _, o := range ops {
		if !o.units {
			all = append(all, l.freeOrder(accountID, o))
		} else if e == nil { // one has everything
			e = l.units.errand(accountID)
		}
	}
	switch {
	case e == nil:
	case len(all) == begin:
		all = append(all, e.order())
	default:
		all[len(all)-1] = e.with(all[len(all)-1])
	}
	return all
}

// freeOrder returns the order that frees a slot and corrects the windows.
func (l *Ledger) freeOrder(accountID string, o op) order {
	return l.accountOrder(freeScript, accountID, o.slot, l.clock.number(), o.requestsAt, o.requests, o.tokensAt, o.tokens)
}

// Flush sends what is queued. It returns when the queue is empty, Redis does not answer, or ctx is done.
func (l *Ledger) Flush(ctx context.Context) {
	for l.state.exact() && ctx.Err() == nil {
		some := l.queue.grabSome()
		if len(some) == 0 {
			return
		}
		l.flushSome(ctx, some)
	}
}

// flushSome sends operations that were taken from the queue, and ends their flights. After an
// error nobody knows which of them have arrived, so all of them count as lost.
func (l *Ledger) flushSome(ctx context.Context, some map[string][]op) {
	var orders []order
	for id, ops := range some {
		defer l.queue.land(id)
		orders = l.orders(orders, id, ops)
	}
	_, err := l.sendAll(ctx, orders)
	if err == nil {
		return
	}
	l.state.failed(err)
	for id, ops := range some {
		l.lost(id, ops)
	}
}

// sendAll runs scripts in batches, whose replies do not matter unless they are errors. Each batch has the
// deadline of a call. It returns how many of the scripts have run for certain; they are the first ones.
func (l *Ledger) sendAll(ctx context.Context, orders []order) (sent int, err error) {
	for sent < len(orders) {
		n := nextBatch(orders[sent:])
		if err := l.sendBatch(ctx, orders[sent:sent+n]); err != nil {
			return sent, err
		}
		sent += n
	}
	return sent, nil
}

// nextBatch returns how many of the orders go in one round trip: those that Redis runs well within the
// deadline, and at least one.
func nextBatch(orders []order) (n int) {
	weight := 0
	for n < min(len(orders), batch) {
		if weight += orders[n].weight(); weight > heaviest && n > 0 {
			break
		}
		n++
	}
	return n
}

// sendBatch runs one batch. The first error of any script is the error of the batch. What is under way when ctx is done comes
// to its end, which the deadline of a call bounds.
func (l *Ledger) sendBatch(ctx context.Context, orders []order) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	until := time.Now().Add(l.opts.Deadline)
	if at, ok := ctx.Deadline(); ok && at.Before(until) {
		until = at
	}
	answers, err := l.send(bounded{until}, orders)
	if err != nil {
		return err
	}
	for _, a := range answers {
		if a.err != nil {
			return a.err
		}
	}
	return nil
}

// flushAccount sends what is queued for an account, or waits for what is on its way.
func (l *Ledger) flushAccount(accountID string) {
	ops, others, done := l.queue.grab(accountID)
	defer done()
	if len(ops) == 0 {
		if others != nil {
			l.await(others)
		}
		return
	}
	if err := l.sendBatch(context.Background(), l.orders(nil, accountID, ops)); err != nil {
		l.lost(accountID, ops)
		l.state.failed(err)
	}
}
