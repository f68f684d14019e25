package redisledger

import (
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/admission/ledgertest"
	"sluice/internal/testkit/redistest"
	"sluice/internal/testkit/wiretest"
)

// brisk are options for tests of an outage: it is noticed and ends quickly.
func brisk() Options {
	return Options{Deadline: patient, Beat: 10 * time.Millisecond, Probe: 5 * time.Millisecond}
}

func exact(nodes []*Ledger, want bool) func() bool {
	return func() bool {
		for _, l := range nodes {
			if l.State().Exact != want {
				return false
			}
		}
		return true
	}
}

// keeping is the setting with which a server that is stopped keeps its data.
const keeping = "save 3600 1"

// During an outage the nodes together admit the limit once more, each its share. After it, everything is
// counted again, what they admitted alone included.
func TestOutage(t *testing.T) {
	t.Parallel()
	server, c := redistest.Own(t, keeping), ledgertest.NewClock()
	nodes := trio(t, server.URL(), c, brisk())
	l := limits(10, unlimited, 100)
	cost := admission.Cost{RequestMilli: 1000, Tokens: 1}
	if n := storm(nodes, 60, "a", l, cost); n != 10 {
		t.Fatalf("%d calls passed before the outage, want 10", n)
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if n := storm(nodes, 200, "a", l, cost); n != 10 {
		t.Errorf("%d calls passed during the outage, want the shares of three nodes: 10", n)
	}
	var local int64
	for i, n := range nodes {
		s := n.State()
		if s.Exact || s.Why == "" || s.LocalCalls < 3 || s.LocalCalls > 4 {
			t.Errorf("state of node %d = %+v, want approximate, with 3 or 4 local calls", i, s)
		}
		local += s.LocalCalls
	}
	if local != 10 {
		t.Errorf("%d local calls, want 10", local)
	}
	c.Advance(time.Millisecond) // Redis is told of milliseconds that are over
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	start(t, nodes...)
	eventually(t, "exact on all nodes", exact(nodes, true))
	// Both the calls before and those during the outage are of this minute.
	eventually(t, "20 requests and tokens in Redis", func() bool {
		s := nodes[0].Peek("a", l)
		return s.Requests.Used == 20_000 && s.Tokens.Used == 20
	})
	if n := storm(nodes, 60, "a", l, cost); n != 0 {
		t.Errorf("%d calls passed after the outage, want none: the limit was used twice", n)
	}
	c.Advance(time.Minute + time.Millisecond)
	if n := storm(nodes, 200, "a", l, cost); n != 10 {
		t.Errorf("%d calls passed a minute after the outage, want 10", n)
	}
}

// A Redis that comes back without its data does not know what it admitted in the last minute, so the nodes
// go by their shares until that minute is over.
func TestDataLost(t *testing.T) {
	t.Parallel()
	for _, noticed := range []bool{true, false} {
		server, c := redistest.Own(t), ledgertest.NewClock()
		nodes := trio(t, server.URL(), c, brisk())
		l := limits(10, unlimited, unlimited)
		if n := storm(nodes, 60, "a", l, one); n != 10 {
			t.Fatalf("%d calls passed at first, want 10", n)
		}
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		var during int64
		if noticed {
			during = storm(nodes, 60, "a", l, one)
		}
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
		// Nodes that had nothing to ask meanwhile find out from the first reply.
		during += storm(nodes, 60, "a", l, one)
		for range 3 {
			for _, n := range nodes {
				n.step(t.Context())
			}
			during += storm(nodes, 60, "a", l, one)
		}
		if during != 10 {
			t.Errorf("noticed %t: %d calls passed after Redis had lost its data, want the shares of three nodes: 10", noticed, during)
		}
		if exact(nodes, true)() {
			t.Errorf("noticed %t: exact at once, want a minute of shares", noticed)
		}
		c.Advance(time.Minute)
		for _, n := range nodes {
			n.step(t.Context())
		}
		if !exact(nodes, true)() {
			t.Errorf("noticed %t: states %+v, %+v, %+v a minute later, want exact", noticed, nodes[0].State(), nodes[1].State(), nodes[2].State())
		}
		c.Advance(time.Second)
		if n := storm(nodes, 60, "a", l, one); n != 10 {
			t.Errorf("noticed %t: %d calls passed after that, want 10", noticed, n)
		}
	}
}

// Calls that run through an outage keep their slots, wherever they were admitted, and free them.
func TestSlotsThroughOutage(t *testing.T) {
	t.Parallel()
	server, c := redistest.Own(t, keeping), ledgertest.NewClock()
	nodes := trio(t, server.URL(), c, brisk())
	l := limits(unlimited, 6, unlimited) // a share is 2
	type held struct {
		node  *Ledger
		place admission.Place
	}
	var calls []held
	take := func(n *Ledger) *admission.Obstacle {
		p, _, o := n.Take("a", l, one)
		if o == nil {
			calls = append(calls, held{n, p})
		}
		return o
	}
	for range 2 {
		if o := take(nodes[0]); o != nil {
			t.Fatal(o)
		}
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	// The first node uses its share already, with calls that Redis had admitted.
	for range tolerated + 1 {
		if o := take(nodes[0]); o == nil || o.Resource != admission.Slots || o.Never || o.Limit != 6 {
			t.Errorf("Take on a node whose share is used = %+v, want no slot at the moment", o)
		}
	}
	for range 2 {
		if o := take(nodes[1]); o != nil {
			t.Errorf("Take on a node with its share = %+v, want it to pass", o)
		}
	}
	c.Advance(20 * time.Second) // longer than a lease
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	nodes[2].step(t.Context())
	if o := take(nodes[2]); o != nil { // ends the leases that have run out
		t.Errorf("Take on the first node to return = %+v, want it to pass", o)
	}
	nodes[0].step(t.Context())
	nodes[1].step(t.Context())
	if !exact(nodes, true)() {
		t.Fatalf("states %+v, %+v, %+v, want exact", nodes[0].State(), nodes[1].State(), nodes[2].State())
	}
	if o := take(nodes[2]); o != nil {
		t.Errorf("Take with 5 of 6 slots used = %+v, want it to pass", o)
	}
	if o := take(nodes[2]); o == nil || o.Used != 6 {
		t.Errorf("Take with all slots used = %+v, want no slot", o)
	}
	for _, h := range calls {
		h.node.Free("a", h.place, one)
	}
	for _, n := range nodes {
		n.Flush(t.Context())
		if n.Running() != 0 {
			t.Errorf("%d running after all ended", n.Running())
		}
	}
	if n := storm(nodes, 20, "a", l, one); n != 6 {
		t.Errorf("%d calls passed on 6 free slots, want 6", n)
	}
}

// What calls of an outage gave back, or used beyond what they had reserved, is right in Redis afterwards,
// whether they ended during the outage or later.
func TestSettleThroughOutage(t *testing.T) {
	t.Parallel()
	server, c := redistest.Own(t, keeping), ledgertest.NewClock()
	o := brisk()
	o.Now = c.Now
	n := open(t, server.URL(), o)
	l := limits(100, unlimited, 10_000)
	take := func() admission.Place {
		c.Advance(10 * time.Millisecond) // each call has its own entry
		return mustTake(t, n, "a", l, admission.Cost{RequestMilli: 1000, Tokens: 100})
	}
	remote := take()
	late := take()
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	// In the same millisecond as the last: what it gives back must not be taken from that entry in Redis.
	refunded := mustTake(t, n, "a", l, admission.Cost{RequestMilli: 1000, Tokens: 100})
	take() // still running at the end
	ended, job, after := take(), take(), take()
	for n.State().Exact {
		n.step(t.Context())
	}
	n.Free("a", remote, admission.Cost{RequestMilli: 1000, Tokens: 130})
	n.Free("a", ended, admission.Cost{RequestMilli: 1000, Tokens: 150})
	n.Free("a", refunded, admission.Cost{})
	n.Free("a", job, admission.Cost{RequestMilli: 1000, Tokens: 100})
	n.GiveBack("a", job, 600)
	// What runs, 150, 100 and 100 tokens, and the 30 by which a call that Redis had admitted was too low.
	if s := n.Peek("a", l); s.Requests.Used != 3400 || s.Tokens.Used != 480 {
		t.Errorf("standing %+v during the outage, want 3400 thousandths and 480 tokens used", s)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	c.Advance(time.Second)
	n.step(t.Context())
	if !n.State().Exact {
		t.Fatalf("state = %+v, want exact", n.State())
	}
	n.Free("a", late, admission.Cost{RequestMilli: 1000, Tokens: 10})
	n.Free("a", after, admission.Cost{RequestMilli: 1000, Tokens: 40})
	n.GiveBack("a", after, 300)
	n.GiveBack("a", job, 100)
	s := n.Peek("a", l)
	// requests: 7 taken, 1 refunded, 600 + 300 + 100 given back; tokens: 130 + 10 + 100 + 150 + 0 + 100 + 40
	if s.Requests.Used != 5000 || s.Tokens.Used != 530 {
		t.Errorf("standing %+v, want 5000 thousandths and 530 tokens used", s)
	}
	c.Advance(2 * time.Minute)
	n.step(t.Context())
	if len(n.debts.byAccount) != 0 || n.Running() != 1 {
		t.Errorf("%d accounts are remembered two minutes later, %d running; want none and 1", len(n.debts.byAccount), n.Running())
	}
}

// Redis is told once of what a node admitted alone, also of the millisecond in which it is told.
func TestToldOnce(t *testing.T) {
	t.Parallel()
	server, c := redistest.Own(t, keeping), ledgertest.NewClock()
	o := brisk()
	o.Now = c.Now
	n := open(t, server.URL(), o)
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	l := limits(100, unlimited, unlimited)
	mustTake(t, n, "a", l, one)
	c.Advance(time.Second)
	mustTake(t, n, "a", l, one)
	for n.State().Exact {
		n.step(t.Context())
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		n.step(t.Context())
		mustTake(t, n, "a", l, one)
		c.Advance(time.Millisecond)
	}
	if s := n.Peek("a", l); s.Requests.Used != 6000 {
		t.Errorf("standing %+v after 6 calls", s)
	}
}

// mustTake is a Take that passes.
func mustTake(t *testing.T, n *Ledger, id string, l account.Limits, c admission.Cost) admission.Place {
	t.Helper()
	p, _, o := n.Take(id, l, c)
	if o != nil {
		t.Fatalf("Take(%+v) = %+v, want it to pass", c, o)
	}
	return p
}

// A call that is too large for a share is refused in a way that a retry cures; one that is too large for
// the limit is not.
func TestNeverInShare(t *testing.T) {
	t.Parallel()
	server := redistest.Own(t)
	nodes := trio(t, server.URL(), nil, brisk())
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	for nodes[0].State().Exact {
		nodes[0].step(t.Context())
	}
	for _, tt := range []struct {
		limits account.Limits
		cost   admission.Cost
		what   admission.Resource
		never  bool
	}{
		{limits(6, unlimited, unlimited), admission.Cost{RequestMilli: 4000}, admission.Requests, false},
		{limits(6, unlimited, unlimited), admission.Cost{RequestMilli: 7000}, admission.Requests, true},
		{limits(unlimited, unlimited, 300), admission.Cost{Tokens: 300}, admission.Tokens, false},
		{limits(unlimited, unlimited, 300), admission.Cost{Tokens: 301}, admission.Tokens, true},
		{limits(0, unlimited, unlimited), one, admission.Requests, true},
		{limits(unlimited, 0, unlimited), one, admission.Slots, true},
	} {
		_, s, o := nodes[0].Take("a", tt.limits, tt.cost)
		if o == nil || o.Never != tt.never || o.Resource != tt.what || !o.Never && (o.Wait <= 0 || o.Wait > time.Minute) {
			t.Errorf("Take(%+v) under %+v = %+v, want never %t for resource %d", tt.cost, tt.limits, o, tt.never, tt.what)
		}
		if s.Requests.Limit != tt.limits.RequestsPerMinute || s.Tokens.Limit != tt.limits.TokensPerMinute {
			t.Errorf("standing %+v, want the limits %+v", s, tt.limits)
		}
	}
	if p := nodes[0].Peek("a", limits(6, unlimited, 300)); p.Requests.Remaining != 2 || p.Requests.Used != 4000 || p.Tokens.Remaining != 100 {
		t.Errorf("standing %+v of an unused share, want 2 requests and 100 tokens left", p)
	}
}

// A Redis that is slow but within the deadline is used; one beyond it is not, until it is faster again.
func TestSlowRedis(t *testing.T) {
	t.Parallel()
	p := wiretest.New(t, redistest.Own(t).Addr())
	slow := open(t, "redis://"+p.Addr(), Options{Deadline: patient})
	p.Delay(20 * time.Millisecond)
	l := limits(10, unlimited, unlimited)
	if n := storm([]*Ledger{slow}, 30, "a", l, one); n != 10 || !slow.State().Exact || slow.State().LocalCalls != 0 {
		t.Errorf("%d calls passed on a Redis that is slow, state %+v; want 10, exact", n, slow.State())
	}
	p.Delay(0)

	hasty := open(t, "redis://"+p.Addr(), Options{Deadline: 200 * time.Millisecond, Beat: 5 * time.Millisecond, Probe: 5 * time.Millisecond})
	release := p.Stall()
	defer release()
	for range 4 { // the first calls wait for the deadline, later ones do not ask
		if _, _, o := hasty.Take("b", l, one); o != nil {
			t.Errorf("Take while Redis hangs = %+v, want it to pass on the share", o)
		}
	}
	if s := hasty.State(); s.Exact || s.LocalCalls != 4 || s.Why == "" {
		t.Errorf("state = %+v, want approximate and 4 local calls", s)
	}
	release()
	start(t, hasty)
	eventually(t, "exact again", func() bool { return hasty.State().Exact })
	// Redis may have seen the calls whose replies were late as well: then they count twice, never less.
	eventually(t, "4 calls in Redis", func() bool { return hasty.Peek("b", l).Requests.Used >= 4000 })
	client := raw(hasty)
	eventually(t, "the slots of 4 calls, and none of late replies", func() bool {
		n, err := client.Do(t.Context(), client.B().Zcard().Key(hasty.keys("b")[1]).Build()).AsInt64()
		return n == 4 && err == nil
	})
}

// A lost connection to a Redis that has its data is not an outage.
func TestReconnect(t *testing.T) {
	t.Parallel()
	p := wiretest.New(t, redistest.Own(t).Addr())
	l := open(t, "redis://"+p.Addr(), Options{Deadline: patient, Beat: 10 * time.Millisecond})
	start(t, l)
	all := limits(100, unlimited, unlimited)
	for range 5 {
		p.Break()
		for range 4 { // a call on the lost connection goes by the share, later ones have a new connection
			if _, _, o := l.Take("a", all, one); o != nil {
				t.Fatal(o)
			}
		}
	}
	// A call whose reply was cut off may count twice.
	eventually(t, "exact and everything counted", func() bool {
		return l.State().Exact && l.Peek("a", all).Requests.Used >= 20_000
	})
}

// Under load of three nodes Redis is stopped and started again. What passes in any minute is never more than
// twice the limit, and everything is exact afterwards.
func TestOutagesUnderLoad(t *testing.T) {
	t.Parallel()
	server := redistest.Own(t, keeping)
	rounds := 2
	if os.Getenv("SLUICE_SOAK") != "" {
		rounds = 20
	}
	c := ledgertest.NewClock()
	nodes := trio(t, server.URL(), c, brisk())
	start(t, nodes...)
	const limit = 30
	l := limits(limit, 12, unlimited)

	var mu sync.Mutex
	var admitted []time.Duration
	var most, now atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 9 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				at := c.Now()
				p, _, o := nodes[i%3].Take("a", l, one)
				if o != nil {
					continue
				}
				most.Store(max(most.Load(), now.Add(1)))
				mu.Lock()
				admitted = append(admitted, at)
				mu.Unlock()
				now.Add(-1)
				nodes[i%3].Free("a", p, one)
			}
		})
	}
	move := func(seconds int) {
		for range seconds * 4 {
			c.Advance(250 * time.Millisecond)
			for _, n := range nodes {
				n.Peek("a", l) // one round trip for each quarter of a second
			}
		}
	}
	for range rounds {
		move(30)
		if err := server.Stop(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "approximate on all nodes", exact(nodes, false))
		move(20)
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "exact on all nodes", exact(nodes, true))
		move(50)
	}
	close(stop)
	wg.Wait()
	worst := 0
	for i := range admitted {
		n := 0
		for j := range admitted {
			if d := admitted[j] - admitted[i]; d >= 0 && d <= time.Minute {
				n++
			}
		}
		worst = max(worst, n)
	}
	if worst > 2*limit || most.Load() > 24 {
		t.Errorf("%d calls in a minute and %d at once, want at most twice %d and 12", worst, most.Load(), limit)
	}
	t.Logf("soak: %d calls passed in %d outages, at most %d in a minute of %d allowed", len(admitted), rounds, worst, limit)

	c.Advance(2 * time.Minute)
	for _, n := range nodes {
		n.Flush(t.Context())
	}
	if n := storm(nodes, 200, "a", limits(limit, unlimited, unlimited), one); n != limit {
		t.Errorf("%d calls passed after everything, want %d", n, limit)
	}
}
