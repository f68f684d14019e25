// Package turnstile bounds how many reads of one account run at once.
//
// Reads cost no units: pages, lists, stored responses and exports are free. What bounds them is this: a few of an account
// run at a time, the next ones wait for their turn, and more than that are refused. A read that nobody reads keeps its place
// until its connection is closed, so an account that asks for much at once waits for itself and for nobody else
// (docs/security.md#what-each-route-costs). Bytes are counted elsewhere; see httpapi.
package turnstile

import (
	"context"
	"sync"
	"time"

	"sluice/internal/fault"
)

const (
	// atOnce is how many reads of one account run at once.
	atOnce = 4
	// mostWaiting is how many more may wait for their turn, and patience how long they do.
	mostWaiting = 32
	patience    = 5 * time.Second
	// exportsAtOnce is how many exports of one account run at once. They are long, so nobody waits for one.
	exportsAtOnce = 1
)

// Gate counts the reads of all accounts. It is safe for concurrent use. A nil Gate bounds nothing.
type Gate struct {
	mu      sync.Mutex
	reads   map[string]*lane
	exports map[string]int
}

// lane is the reads of one account.
type lane struct {
	places chan struct{} // has one element for each read that runs
	inside int           // reads that run or wait; guarded by Gate.mu
}

// New returns a gate.
func New() *Gate { return &Gate{reads: map[string]*lane{}, exports: map[string]int{}} }

// Enter waits until a read of the account may run. The caller calls leave when the reply has been written. The error is a
// fault, or that of the context.
func (g *Gate) Enter(ctx context.Context, accountID string) (leave func(), err error) {
	if g == nil {
		return func() {}, nil
	}
	l, ok := g.join(accountID)
	if !ok {
		return nil, tooMany()
	}
	select {
	case l.places <- struct{}{}:
	default:
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case l.places <- struct{}{}:
		case <-timer.C:
			g.part(accountID, l)
			return nil, tooMany()
		case <-ctx.Done():
			g.part(accountID, l)
			return nil, ctx.Err()
		}
	}
	return func() {
		<-l.places
		g.part(accountID, l)
	}, nil
}

// join returns the lane of an account. It reports false if too many wait there.
func (g *Gate) join(accountID string) (*lane, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.reads[accountID]
	if l == nil {
		l = &lane{places: make(chan struct{}, atOnce)}
		g.reads[accountID] = l
	}
	if l.inside == atOnce+mostWaiting {
		return nil, false
	}
	l.inside++
	return l, true
}

// part forgets a read. Accounts without one have no lane.
func (g *Gate) part(accountID string, l *lane) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l.inside--; l.inside == 0 {
		delete(g.reads, accountID)
	}
}

// Export lets an export of the account begin, or returns a fault. The caller calls leave when the file has been written.
func (g *Gate) Export(accountID string) (leave func(), err error) {
	if g == nil {
		return func() {}, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.exports[accountID] == exportsAtOnce {
		return nil, fault.New(fault.RateLimited, "An export of this account is running already. Wait until it has ended, or cancel it.").After(patience)
	}
	g.exports[accountID]++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.exports[accountID]--; g.exports[accountID] == 0 {
			delete(g.exports, accountID)
		}
	}, nil
}

// tooMany is the fault of a read whose turn did not come.
func tooMany() error {
	return fault.New(fault.RateLimited, "This account reads too much at once: %d requests are being answered, the maximum at a time, and others wait. Read the replies, or wait until one of them has ended.", atOnce).After(time.Second)
}
