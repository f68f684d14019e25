package redisledger

import (
	"context"
	"sync"
	"time"
)

// trips makes the round trips of those who share one connection, one after the other. What is asked during a trip waits
// and goes together in the next one.
//
// So whoever finds nobody under way writes and reads on its own goroutine, where a pipeline would wake one to write, one to
// read, and then the caller; and calls that come at the same time share the system calls, ours and those of Redis. The price
// is that a busy node waits for up to one trip more. Orders keep their sequence, as in a pipeline.
type trips struct {
	travel func(ctx context.Context, orders []order, answers []answer)
	// patience is how long a trip may take at least, whatever the deadline of those who have waited for it: a trip that
	// stalls must not take the next one with it, whose first passenger has waited nearly as long.
	patience time.Duration

	mu      sync.Mutex
	busy    bool // somebody is under way
	waiting []*passenger
}

// passenger is somebody who waits for a trip.
type passenger struct {
	until   time.Time
	orders  []order
	answers []answer
	// leads gets a value: true if it is this one's turn to make the trip, and false if the answers are there.
	leads chan bool
}

// run runs orders in the next trip and fills in one answer for each. ctx needs a deadline.
func (t *trips) run(ctx context.Context, orders []order, answers []answer) {
	until, _ := ctx.Deadline()
	t.mu.Lock()
	if !t.busy {
		t.busy = true
		t.mu.Unlock()
		defer t.handOver()
		t.travel(bounded{until}, orders, answers)
		return
	}
	p := &passenger{until: until, orders: orders, answers: answers, leads: make(chan bool, 1)}
	t.waiting = append(t.waiting, p)
	t.mu.Unlock()
	if <-p.leads {
		t.lead()
	}
}

// lead makes a trip with those who wait, of whom the caller is the first.
func (t *trips) lead() {
	t.mu.Lock()
	n, size := 1, len(t.waiting[0].orders)
	for n < len(t.waiting) && size+len(t.waiting[n].orders) <= batch {
		size += len(t.waiting[n].orders)
		n++
	}
	here := t.waiting[:n:n]
	t.waiting = t.waiting[n:]
	t.mu.Unlock()
	defer func() {
		t.handOver() // first, so that nobody waits for those who only read their answers
		for _, p := range here[1:] {
			p.leads <- false
		}
	}()
	until := here[0].until // who came first has the first deadline, or nearly
	if least := time.Now().Add(t.patience); until.Before(least) {
		until = least
	}
	if n == 1 {
		t.travel(bounded{until}, here[0].orders, here[0].answers)
		return
	}
	orders, answers := make([]order, 0, size), make([]answer, size)
	for _, p := range here {
		orders = append(orders, p.orders...)
	}
	t.travel(bounded{until}, orders, answers)
	for _, p := range here {
		answers = answers[copy(p.answers, answers):]
	}
}

// handOver ends a trip: the first of those who wait makes the next one.
func (t *trips) handOver() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy = len(t.waiting) > 0; t.busy {
		t.waiting[0].leads <- true
	}
}

// bounded is a context with a deadline and no timer, for what sets the deadline on a connection: a timer for each call would be
// a fifth of what it allocates here. Whoever waits for anything else needs timed.
type bounded struct{ at time.Time }

func (b bounded) Deadline() (time.Time, bool) { return b.at, true }
func (bounded) Done() <-chan struct{}         { return nil }
func (bounded) Value(any) any                 { return nil }

func (b bounded) Err() error {
	if time.Now().Before(b.at) {
		return nil
	}
	return context.DeadlineExceeded
}

// timed returns a context that ends at the deadline of ctx, if it has one.
func timed(ctx context.Context) (context.Context, context.CancelFunc) {
	if at, ok := ctx.Deadline(); ok {
		return context.WithDeadline(ctx, at)
	}
	return context.WithCancel(ctx)
}
