// Package ledgertest is the conformance suite for every implementation of admission.Ledger.
//
// The suite moves the clock of the ledger by hand, so it can ask for the exact millisecond at which a call
// passes. Its heart is a property: over random limits, costs, arrivals and ends a ledger says what a slow
// and obvious model says. A ledger that several nodes share passes the same suite as one of a single
// process; the suite then spreads its calls over the nodes.
package ledgertest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/admission"
)

// Ledger is what the suite tests: the interface, and the number of calls that hold a slot.
type Ledger interface {
	admission.Ledger
	Running() int64
}

// Subject is a ledger under test as several nodes see it.
type Subject struct {
	Nodes []Ledger // at least one; a ledger of one process stands there alone
	// Flush returns when every Free and GiveBack so far has reached all nodes. Nil: they always have.
	Flush func()
}

// Clock is the time that a ledger under test goes by. It moves only when the suite moves it.
type Clock struct{ at atomic.Int64 }

// Now returns the time since some moment in the past.
func (c *Clock) Now() time.Duration { return time.Duration(c.at.Load()) }

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) { c.at.Add(int64(d)) }

// NewClock returns a clock that has been running for a day, so that a minute ago is a valid time.
func NewClock() *Clock {
	c := &Clock{}
	c.Advance(24 * time.Hour)
	return c
}

// Run runs the suite. The function fresh returns a ledger on that clock; slots must not expire in it within
// an hour.
func Run(t *testing.T, fresh func(t *testing.T, c *Clock) Subject) {
	cases := map[string]func(*testing.T, *bench){
		"Model":           againstModel,
		"WaitIsExact":     waitIsExact,
		"Never":           never,
		"Order":           order,
		"RefusedIsFree":   refusedIsFree,
		"TokensSettle":    tokensSettle,
		"Refund":          refund,
		"GiveBack":        giveBack,
		"Unlimited":       unlimitedKeepsNothing,
		"Standing":        headroom,
		"LimitChanges":    limitChanges,
		"ParallelCalls":   parallelCalls,
		"ParallelSlots":   parallelSlots,
		"ParallelChurn":   parallelChurn,
		"ReadsOwnWrites":  readsOwnWrites,
		"AccountsDiffer":  accountsDiffer,
		"FreeOfUnknown":   freeOfUnknown,
		"LargeFigures":    largeFigures,
		"ManyInOneMinute": manyInOneMinute,
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := NewClock()
			s := fresh(t, c)
			test(t, &bench{Subject: s, Clock: c, l: s.Nodes[0]})
		})
	}
}

// bench is what a case works with.
type bench struct {
	Subject
	*Clock
	l    Ledger // the first node
	next atomic.Int64
}

// account returns the id of an account that no case has used.
func (b *bench) account() string { return fmt.Sprint("acct_", b.next.Add(1)) }

// node returns the ledger of a node; any number is one.
func (b *bench) node(i int) Ledger { return b.Nodes[i%len(b.Nodes)] }

// running returns the number of calls that hold a slot, over all nodes and accounts.
func (b *bench) running() (n int64) {
	for _, l := range b.Nodes {
		n += l.Running()
	}
	return n
}

func (b *bench) flush() {
	if b.Flush != nil {
		b.Flush()
	}
}

const unlimited = account.Unlimited

func limits(rpm, slots, tpm account.Limit) account.Limits {
	return account.Limits{RequestsPerMinute: rpm, Concurrent: slots, TokensPerMinute: tpm}
}

func cost(requestMilli, tokens int64) admission.Cost {
	return admission.Cost{RequestMilli: requestMilli, Tokens: tokens}
}

// The moment that an obstacle names is exact: then the call passes, and not before.
func waitIsExact(t *testing.T, b *bench) {
	for name, tt := range map[string]struct {
		limits account.Limits
		cost   admission.Cost
		what   admission.Resource
	}{
		"requests": {limits(3, unlimited, unlimited), cost(1000, 0), admission.Requests},
		"halves":   {limits(3, unlimited, unlimited), cost(1500, 0), admission.Requests},
		"tokens":   {limits(unlimited, unlimited, 1000), cost(0, 400), admission.Tokens},
	} {
		id := b.account()
		var o *admission.Obstacle
		for o == nil {
			b.Advance(1234567 * time.Microsecond)
			_, _, o = b.l.Take(id, tt.limits, tt.cost)
		}
		if o.Resource != tt.what || o.Wait <= 0 || o.Wait > time.Minute || o.Never {
			t.Errorf("%s: obstacle %+v, want a wait of up to a minute for resource %d", name, o, tt.what)
		}
		b.Advance(o.Wait - time.Millisecond)
		if _, _, early := b.l.Take(id, tt.limits, tt.cost); early == nil {
			t.Errorf("%s: a call passed 1 ms before the time that was named", name)
		}
		b.Advance(time.Millisecond)
		if _, _, late := b.l.Take(id, tt.limits, tt.cost); late != nil {
			t.Errorf("%s: at the time that was named: %+v, want it to pass", name, late)
		}
	}
}

func never(t *testing.T, b *bench) {
	for name, tt := range map[string]struct {
		limits account.Limits
		cost   admission.Cost
		what   admission.Resource
	}{
		"beyond the whole allowance": {limits(2, unlimited, unlimited), cost(4000, 0), admission.Requests},
		"no requests at all":         {limits(0, unlimited, unlimited), cost(1, 0), admission.Requests},
		"beyond all tokens":          {limits(unlimited, unlimited, 10), cost(0, 11), admission.Tokens},
		"no slot at all":             {limits(unlimited, 0, unlimited), cost(0, 0), admission.Slots},
	} {
		if _, _, o := b.l.Take(b.account(), tt.limits, tt.cost); o == nil || !o.Never || o.Resource != tt.what || o.Wait != 0 {
			t.Errorf("%s: %+v, want never, for resource %d", name, o, tt.what)
		}
	}
}

// order checks that the first obstacle is named, as docs/api.md#order-of-checks says.
func order(t *testing.T, b *bench) {
	id := b.account()
	if _, _, o := b.l.Take(id, limits(1, 1, 100), cost(1000, 100)); o != nil {
		t.Fatal(o)
	}
	for _, tt := range []struct {
		limits account.Limits
		want   admission.Resource
		used   int64
	}{
		{limits(1, 1, 100), admission.Requests, 1000},
		{limits(2, 1, 100), admission.Tokens, 100},
		{limits(2, 1, 200), admission.Slots, 1},
	} {
		_, _, o := b.l.Take(id, tt.limits, cost(1000, 100))
		if o == nil || o.Resource != tt.want || o.Used != tt.used || o.Never {
			t.Errorf("Take under %+v = %+v, want resource %d with %d used", tt.limits, o, tt.want, tt.used)
		}
	}
	if _, _, o := b.l.Take(id, limits(2, 2, 200), cost(1000, 100)); o != nil {
		t.Errorf("Take with room everywhere = %+v, want it to pass", o)
	}
}

// What is refused takes nothing: not a slot, not a request, not a token.
func refusedIsFree(t *testing.T, b *bench) {
	id, l := b.account(), limits(10, 1, 1000)
	p, before, o := b.l.Take(id, l, cost(1000, 100))
	if o != nil {
		t.Fatal(o)
	}
	for _, refused := range []admission.Cost{cost(1000, 100), cost(10_000, 0), cost(0, 901)} {
		if _, after, o := b.l.Take(id, l, refused); o == nil || after != before {
			t.Errorf("Take(%+v) = %+v, %+v, want it refused and nothing taken from %+v", refused, o, after, before)
		}
	}
	b.l.Free(id, p, cost(1000, 100))
	if b.l.Running() != 0 {
		t.Errorf("Running() = %d after all ended, want 0", b.l.Running())
	}
}

func tokensSettle(t *testing.T, b *bench) {
	id, l := b.account(), limits(unlimited, unlimited, 1000)
	take := func(n int64) admission.Place {
		t.Helper()
		p, _, o := b.l.Take(id, l, cost(0, n))
		if o != nil {
			t.Fatalf("Take(%d) = %+v", n, o)
		}
		return p
	}
	used := func() int64 { return b.l.Peek(id, l).Tokens.Used }

	b.l.Free(id, take(600), cost(0, 50)) // less than reserved comes back
	if used() != 50 {
		t.Errorf("used %d after settling 600 with 50, want 50", used())
	}
	b.l.Free(id, take(100), cost(0, 2000)) // more becomes a debt
	if s := b.l.Peek(id, l).Tokens; s.Used != 2050 || s.Remaining != 0 {
		t.Errorf("standing %+v after settling 100 with 2000, want 2050 used and nothing left", s)
	}
	_, _, o := b.l.Take(id, l, cost(0, 1))
	if o == nil || o.Wait <= 0 || o.Wait > time.Minute+time.Millisecond {
		t.Fatalf("a call in debt: %+v, want it delayed by at most a minute", o)
	}
	b.Advance(o.Wait)
	p := take(900)
	b.Advance(2 * time.Minute) // the reservation has expired, the rest of a long stream counts when it ends
	b.l.Free(id, p, cost(0, 1000))
	if used() != 100 {
		t.Errorf("used %d after a long stream, want the 100 beyond its reservation", used())
	}
}

func refund(t *testing.T, b *bench) {
	id, l := b.account(), limits(2, unlimited, 1000)
	p, _, _ := b.l.Take(id, l, cost(2000, 1000))
	b.l.Free(id, p, admission.Cost{})
	if s := b.l.Peek(id, l); s.Requests.Used != 0 || s.Requests.Remaining != 2 || s.Tokens.Used != 0 || s.Requests.Reset != 0 {
		t.Errorf("standing %+v after a refund, want nothing used", s)
	}
}

// giveBack returns requests of a place that has ended, in parts, and never more than it took.
func giveBack(t *testing.T, b *bench) {
	id, l := b.account(), limits(10, unlimited, unlimited)
	p, _, _ := b.l.Take(id, l, cost(5000, 0))
	b.l.Free(id, p, cost(5000, 0))
	used := func() int64 { return b.l.Peek(id, l).Requests.Used }
	b.l.GiveBack(id, p, 1500)
	if used() != 3500 {
		t.Errorf("used %d after 1500 of 5000 were given back, want 3500", used())
	}
	b.l.GiveBack(id, p, -1)
	b.l.GiveBack(id, p, 0)
	b.l.GiveBack(id, p, 9000)
	if used() != 0 {
		t.Errorf("used %d after everything was given back, want 0", used())
	}
	p, _, _ = b.l.Take(id, l, cost(1000, 0))
	b.l.Free(id, p, cost(1000, 0))
	b.Advance(time.Minute + time.Millisecond)
	if _, _, o := b.l.Take(id, l, cost(2000, 0)); o != nil {
		t.Fatal(o)
	}
	b.l.GiveBack(id, p, 1000) // too late: its minute is over
	if used() != 2000 {
		t.Errorf("used %d after an old place was given back, want the 2000 of the new one", used())
	}
}

// An unlimited resource keeps no window, so nothing is there when a limit is set.
func unlimitedKeepsNothing(t *testing.T, b *bench) {
	id := b.account()
	all := limits(unlimited, unlimited, unlimited)
	for range 5 {
		p, s, o := b.l.Take(id, all, cost(1000, 1000))
		want := admission.Meter{Limit: unlimited}
		if o != nil || s.Requests != want || s.Tokens != want {
			t.Fatalf("Take without limits = %+v, %+v, want it to pass and no meters", s, o)
		}
		b.l.Free(id, p, cost(1000, 5000))
		b.l.GiveBack(id, p, 1000)
	}
	if s := b.l.Peek(id, limits(10, 10, 10)); s.Requests.Used != 0 || s.Tokens.Used != 0 {
		t.Errorf("standing %+v after calls without limits, want nothing used", s)
	}
}

func headroom(t *testing.T, b *bench) {
	_, s, _ := b.l.Take(b.account(), limits(10, unlimited, unlimited), cost(1500, 0))
	want := admission.Meter{Limit: 10, Used: 1500, Remaining: 8, Reset: time.Minute + time.Millisecond}
	if s.Requests != want || s.Tokens.Limit != unlimited {
		t.Errorf("standing %+v, want requests %+v and tokens unlimited", s, want)
	}
	if got := b.l.Peek(b.account(), limits(10, 1, 100)); got.Requests.Remaining != 10 || got.Tokens.Remaining != 100 {
		t.Errorf("Peek of an unknown account = %+v, want all of it left", got)
	}
}

// A changed limit applies to the very next request, and slots taken without a limit count under one.
func limitChanges(t *testing.T, b *bench) {
	id := b.account()
	for range 3 {
		if _, _, o := b.l.Take(id, limits(10, unlimited, unlimited), cost(1000, 0)); o != nil {
			t.Fatal(o)
		}
	}
	if _, s, o := b.l.Take(id, limits(3, unlimited, unlimited), cost(1000, 0)); o == nil || o.Resource != admission.Requests || s.Requests.Remaining != 0 {
		t.Errorf("Take under a lower limit = %+v, %+v, want requests in the way", s, o)
	}
	if _, _, o := b.l.Take(id, limits(10, 3, unlimited), cost(1000, 0)); o == nil || o.Resource != admission.Slots || o.Used != 3 {
		t.Errorf("Take with 3 slots and 3 calls = %+v, want slots in the way", o)
	}
}

func parallelCalls(t *testing.T, b *bench) {
	id := b.account()
	var passed atomic.Int32
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			if _, _, o := b.node(i).Take(id, limits(10, unlimited, unlimited), cost(1000, 0)); o == nil {
				passed.Add(1)
			}
		})
	}
	wg.Wait()
	if passed.Load() != 10 {
		t.Errorf("%d of 200 parallel calls passed on an allowance of 10, want 10", passed.Load())
	}
}

func parallelSlots(t *testing.T, b *bench) {
	id := b.account()
	var passed atomic.Int32
	var wg sync.WaitGroup
	for i := range 15 {
		wg.Go(func() {
			if _, _, o := b.node(i).Take(id, limits(unlimited, 5, unlimited), cost(1000, 0)); o == nil {
				passed.Add(1)
			}
		})
	}
	wg.Wait()
	if passed.Load() != 5 {
		t.Errorf("%d of 15 parallel calls passed on 5 slots, want 5", passed.Load())
	}
}

// parallelChurn takes and frees from many goroutines: never more at once than there are slots, nothing is
// lost, and in the end every slot is free.
func parallelChurn(t *testing.T, b *bench) {
	const slots, workers, rounds = 4, 16, 25
	id, l := b.account(), limits(unlimited, slots, 1_000_000)
	var running, most atomic.Int64
	var passed atomic.Int64
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			for range rounds {
				p, _, o := b.node(i).Take(id, l, cost(1000, 100))
				if o != nil {
					continue
				}
				n := running.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				passed.Add(1)
				running.Add(-1)
				b.node(i).Free(id, p, cost(1000, 7))
			}
		})
	}
	wg.Wait()
	b.flush()
	if most.Load() > slots || passed.Load() < slots {
		t.Errorf("%d calls ran at once on %d slots, and %d passed", most.Load(), slots, passed.Load())
	}
	if used := b.l.Peek(id, l).Tokens.Used; used != 7*passed.Load() {
		t.Errorf("used %d tokens after %d calls of 7, want %d", used, passed.Load(), 7*passed.Load())
	}
	for i := range slots {
		if _, _, o := b.node(i).Take(id, l, cost(0, 0)); o != nil {
			t.Errorf("slot %d is still taken: %+v", i, o)
		}
	}
}

// A call that starts after another has ended on the same node finds its slot free, every time.
func readsOwnWrites(t *testing.T, b *bench) {
	id, l := b.account(), limits(unlimited, 1, 100)
	for i := range 200 {
		p, _, o := b.l.Take(id, l, cost(1000, 100))
		if o != nil {
			t.Fatalf("call %d after one that has ended: %+v, want it to pass", i, o)
		}
		b.l.Free(id, p, cost(1000, 0))
	}
}

func accountsDiffer(t *testing.T, b *bench) {
	one, two := b.account(), b.account()
	l := limits(1, 1, 1)
	if _, _, o := b.l.Take(one, l, cost(1000, 1)); o != nil {
		t.Fatal(o)
	}
	if _, _, o := b.l.Take(two, l, cost(1000, 1)); o != nil {
		t.Errorf("another account's call is in the way: %+v", o)
	}
}

// A place that the ledger does not know, because another process made it, changes nothing.
func freeOfUnknown(t *testing.T, b *bench) {
	id, l := b.account(), limits(10, 1, 100)
	b.l.Free(id, admission.Place{}, cost(1000, 10))
	b.l.GiveBack(id, admission.Place{}, 1000)
	if s := b.l.Peek(id, l); s.Requests.Used != 0 || s.Tokens.Used != 0 || b.l.Running() != 0 {
		t.Errorf("standing %+v, %d running after the end of an unknown call, want nothing", s, b.l.Running())
	}
}

// largeFigures stays exact with the largest limit: nothing is rounded to a float's digits.
func largeFigures(t *testing.T, b *bench) {
	id, l := b.account(), limits(account.MostLimit, unlimited, account.MostLimit)
	most := int64(account.MostLimit)
	p, s, o := b.l.Take(id, l, cost(most*1000-1, most-1))
	if o != nil || s.Requests.Used != most*1000-1 || s.Tokens.Remaining != 1 {
		t.Fatalf("Take of almost everything = %+v, %+v", s, o)
	}
	if _, _, o := b.l.Take(id, l, cost(2, 0)); o == nil {
		t.Error("2 thousandths passed where 1 was left")
	}
	if _, s, o := b.l.Take(id, l, cost(1, 1)); o != nil || s.Requests.Used != most*1000 || s.Tokens.Used != most {
		t.Errorf("Take of the rest = %+v, %+v, want it to pass", s, o)
	}
	b.l.Free(id, p, cost(most*1000-3, most-3))
	if s := b.l.Peek(id, l); s.Requests.Used != most*1000-2 || s.Tokens.Used != most-2 {
		t.Errorf("standing %+v after 2 of each came back", s)
	}
}

// manyInOneMinute fills a window with more entries than a page of any search holds.
func manyInOneMinute(t *testing.T, b *bench) {
	id, l := b.account(), limits(300, unlimited, unlimited)
	for range 300 {
		b.Advance(100 * time.Millisecond)
		if _, _, o := b.l.Take(id, l, cost(1000, 0)); o != nil {
			t.Fatal(o)
		}
	}
	_, _, o := b.l.Take(id, l, cost(250_000, 0))
	// The 250th entry was made 5 s ago.
	if want := 55*time.Second + time.Millisecond; o == nil || o.Wait != want {
		t.Errorf("Take of 250 requests = %+v, want a wait of %v", o, want)
	}
	b.Advance(2 * time.Minute)
	if s := b.l.Peek(id, l); s.Requests.Used != 0 {
		t.Errorf("standing %+v two minutes later, want nothing used", s)
	}
}
