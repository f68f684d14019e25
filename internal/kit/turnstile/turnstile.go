// Package turnstile bounds how much of one account runs at once before anybody has paid for it.
//
// Reads cost no units: pages, lists, stored responses and exports are free. What bounds them is this: a few of an account
// run at a time, the next ones wait for their turn, and more than that are refused. A read that nobody reads keeps its place
// until its connection is closed, so an account that asks for much at once waits for itself and for nobody else
// (docs/bounds.md#what-each-route-costs). The same holds for large bodies while they are decoded, which takes several
// times their size, before a call is admitted. Bytes are counted elsewhere; see httpserver.
package turnstile

import (
	"context"
	"sync"
	"time"

	"sluice/internal/kit/fault"
)

const (
	// atOnce is how many reads of one account run at once.
	atOnce = 4
	// mostWaiting is how many more may wait for their turn, and patience how long they do. One who waits costs a connection
	// and a goroutine, so a program may list models from a few hundred goroutines at once.
	mostWaiting = 256
	patience    = 5 * time.Second
	// exportsAtOnce is how many exports of one account run at once. They are long, so nobody waits for one.
	exportsAtOnce = 1
	// decodedAtOnce is how many large bodies of one account are decoded at once. The others wait, as long as their
	// callers do: the memory for bodies bounds how many there are.
	decodedAtOnce = 1
)

// Gate counts the reads of all accounts, and what else is bounded. It is safe for concurrent use. A nil Gate bounds nothing.
type Gate struct {
	mu      sync.Mutex
	reads   map[string]*lane
	bodies  map[string]*lane
	exports map[string]*lane
}

// lane is what one account does at once.
type lane struct {
	places chan struct{} // has one element for each that runs
	inside int           // how many run or wait; guarded by Gate.mu
}

// New returns a gate.
func New() *Gate {
	return &Gate{reads: map[string]*lane{}, bodies: map[string]*lane{}, exports: map[string]*lane{}}
}

// Enter waits until a read of the account may run. The caller calls leave when the reply has been written. The error is a
// fault, or that of the context.
func (g *Gate) Enter(ctx context.Context, accountID string) (leave func(), err error) {
	if g == nil {
		return func() {}, nil
	}
	l := g.join(g.reads, accountID, atOnce, atOnce+mostWaiting)
	if l == nil {
		return nil, tooMany()
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	return g.wait(ctx, g.reads, accountID, l, timer.C)
}

// Decode waits until a large body of the account may be decoded. The caller calls leave when it is. The error is that of the
// context.
func (g *Gate) Decode(ctx context.Context, accountID string) (leave func(), err error) {
	if g == nil {
		return func() {}, nil
	}
	return g.wait(ctx, g.bodies, accountID, g.join(g.bodies, accountID, decodedAtOnce, 0), nil)
}

// join returns the lane of an account with this many places. It returns nil if most are in it already; 0: there is no such
// bound.
func (g *Gate) join(lanes map[string]*lane, accountID string, places, most int) *lane {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := lanes[accountID]
	if l == nil {
		l = &lane{places: make(chan struct{}, places)}
		lanes[accountID] = l
	}
	if most > 0 && l.inside == most {
		return nil
	}
	l.inside++
	return l
}

// wait waits for a place in a lane until it is late.
func (g *Gate) wait(ctx context.Context, lanes map[string]*lane, accountID string, l *lane, late <-chan time.Time) (leave func(), err error) {
	part := func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if l.inside--; l.inside == 0 { // accounts that do nothing have no lane
			delete(lanes, accountID)
		}
	}
	select {
	case l.places <- struct{}{}:
	default:
		select {
		case l.places <- struct{}{}:
		case <-late:
			err = tooMany()
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			part()
			return nil, err
		}
	}
	return func() {
		<-l.places
		part()
	}, nil
}

// Export lets an export of the account begin, or returns a fault. The caller calls leave when the file has been written.
func (g *Gate) Export(accountID string) (leave func(), err error) {
	if g == nil {
		return func() {}, nil
	}
	l := g.join(g.exports, accountID, exportsAtOnce, exportsAtOnce)
	if l == nil {
		return nil, fault.New(fault.RateLimited, "An export of this account is running already. Wait until it has ended, or cancel it.").After(patience)
	}
	return g.wait(context.Background(), g.exports, accountID, l, nil) // there is a place
}

// tooMany is the fault of a read whose turn did not come.
func tooMany() error {
	return fault.New(fault.RateLimited, "This account reads too much at once: %d requests are being answered, the maximum at a time, and others wait. Read the replies, or wait until one of them has ended.", atOnce).After(time.Second)
}
