package redisledger

import (
	"context"
	"strings"
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

const unlimited = account.Unlimited

func limits(rpm, slots, tpm account.Limit) account.Limits {
	return account.Limits{RequestsPerMinute: rpm, Concurrent: slots, TokensPerMinute: tpm}
}

// one is the cost of an ordinary call.
var one = admission.Cost{RequestMilli: 1000}

// trio returns three nodes that share one Redis and have their shares. A nil clock is that of Redis.
func trio(t *testing.T, url string, c *ledgertest.Clock, opts Options) []*Ledger {
	t.Helper()
	opts.Prefix = redistest.Prefix()
	if c != nil {
		opts.Now = c.Now
	}
	if opts.Deadline == 0 {
		opts.Deadline = patient
	}
	if opts.Beat == 0 {
		opts.Beat = 10 * time.Millisecond
	}
	var nodes []*Ledger
	memory := &memo{}
	for i := range 3 {
		nodes = append(nodes, openAt(t, url, at(i, 3), memory, opts))
	}
	return nodes
}

// start runs ledgers until the test ends.
func start(t *testing.T, ledgers ...*Ledger) {
	t.Helper()
	for _, l := range ledgers {
		t.Cleanup(keepRunning(t, l))
	}
}

// keepRunning runs a ledger until the returned function is called.
func keepRunning(t testing.TB, l *Ledger) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v", err)
		}
	}
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	patience := time.NewTimer(patient)
	defer patience.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-patience.C:
			t.Fatalf("waited for %v and not seen: %s", patient, what)
		}
	}
}

// storm makes calls on all nodes at once and returns how many passed.
func storm(nodes []*Ledger, calls int, id string, l account.Limits, c admission.Cost) (passed int64) {
	var n atomic.Int64
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			if _, _, o := nodes[i%len(nodes)].Take(id, l, c); o == nil {
				n.Add(1)
			}
		})
	}
	wg.Wait()
	return n.Load()
}

// On the clock of Redis itself: 200 calls on three nodes share one allowance, 15 calls five slots.
func TestThreeNodes(t *testing.T) {
	t.Parallel()
	nodes := trio(t, redistest.URL(t), nil, Options{})
	start(t, nodes...)
	if n := storm(nodes, 200, "a", limits(10, unlimited, unlimited), one); n != 10 {
		t.Errorf("%d of 200 calls on three nodes passed on an allowance of 10, want 10", n)
	}
	if n := storm(nodes, 15, "b", limits(unlimited, 5, unlimited), one); n != 5 {
		t.Errorf("%d of 15 calls on three nodes passed on 5 slots, want 5", n)
	}
	for _, l := range nodes {
		if s := l.State(); !s.Exact || s.Nodes != 3 || s.LocalCalls != 0 || s.Why != "" {
			t.Errorf("state = %+v, want exact, three nodes and no local calls", s)
		}
	}
}

// The slots of a node that has died come back when its leases end; those of a living one never do.
func TestDeadNode(t *testing.T) {
	t.Parallel()
	c := ledgertest.NewClock()
	nodes := trio(t, redistest.URL(t), c, Options{})
	l := limits(unlimited, 5, unlimited)
	take := func(n int) *admission.Obstacle {
		_, _, o := nodes[n].Take("a", l, one)
		return o
	}
	for i := range 5 {
		if o := take(i % 2); o != nil { // three on the first node, two on the second
			t.Fatal(o)
		}
	}
	for range 10 {
		c.Advance(5 * time.Second)
		nodes[0].step(t.Context())
		nodes[1].step(t.Context())
		if o := take(2); o == nil || o.Resource != admission.Slots || o.Used != 5 {
			t.Fatalf("Take while 5 calls run = %+v, want no slot", o)
		}
	}
	// From here on the first node is dead.
	for range 3 {
		c.Advance(5 * time.Second)
		nodes[1].step(t.Context())
	}
	for i := range 3 {
		if o := take(2); o != nil {
			t.Errorf("Take %d, 15 s after the death of a node with 3 slots = %+v, want it to pass", i, o)
		}
	}
	if o := take(2); o == nil {
		t.Error("a fourth call passed: the living node has lost a slot")
	}
}

// A node that stops sends what is queued.
func TestStop(t *testing.T) {
	t.Parallel()
	c := ledgertest.NewClock()
	nodes := trio(t, redistest.URL(t), c, Options{})
	stop := keepRunning(t, nodes[0])
	l := limits(unlimited, 1, unlimited)
	p, _, o := nodes[0].Take("a", l, one)
	if o != nil {
		t.Fatal(o)
	}
	nodes[0].Free("a", p, one)
	stop()
	if _, _, o := nodes[1].Take("a", l, one); o != nil {
		t.Errorf("Take after a node with the only call has stopped = %+v, want it to pass", o)
	}
	if s := nodes[0].State(); s.QueuedOps != 0 {
		t.Errorf("state = %+v after Run, want nothing queued", s)
	}
}

// Every reply carries the epoch, a refusal too, and a revocation on one node changes it for all.
func TestEpoch(t *testing.T) {
	t.Parallel()
	nodes := trio(t, redistest.URL(t), nil, Options{})
	l := limits(1, unlimited, unlimited)
	_, s, _ := nodes[0].Take("a", l, one)
	if s.Epoch == 0 || nodes[1].Peek("a", l).Epoch != s.Epoch {
		t.Errorf("epochs %d and %d on two nodes, want the same and not 0", s.Epoch, nodes[1].Peek("a", l).Epoch)
	}
	seen := map[int64]bool{s.Epoch: true}
	for i := range 3 {
		epoch, err := nodes[i].Revoke(t.Context(), "a")
		if err != nil || seen[epoch] {
			t.Fatalf("Revoke = %d, %v, want a value that was not there before", epoch, err)
		}
		seen[epoch] = true
		for n := range nodes {
			if _, s, o := nodes[n].Take("a", l, one); o == nil || s.Epoch != epoch {
				t.Errorf("epoch of a refusal on node %d = %d, want %d", n, s.Epoch, epoch)
			}
		}
	}
	if got := nodes[0].Peek("b", l).Epoch; !seen[got] || got != s.Epoch {
		t.Errorf("epoch of another account = %d, want %d as before", got, s.Epoch)
	}
}

// Everything in Redis goes away by itself, and many calls in one millisecond make one entry.
func TestKeysExpire(t *testing.T) {
	t.Parallel()
	c := ledgertest.NewClock()
	l := open(t, redistest.URL(t), Options{Now: c.Now, Deadline: patient})
	all := limits(1000, 1000, 1000)
	var places []admission.Place
	for range 100 {
		p, _, o := l.Take("a", all, admission.Cost{RequestMilli: 10, Tokens: 2})
		if o != nil {
			t.Fatal(o)
		}
		places = append(places, p)
	}
	client := raw(l)
	keys := l.keys("a")
	if n, err := client.Do(t.Context(), client.B().Strlen().Key(keys[0]).Build()).AsInt64(); n != 64+24 || err != nil {
		t.Errorf("%d bytes, %v, after 100 calls in one millisecond, want a head and one record: 88", n, err)
	}
	for _, p := range places {
		l.Free("a", p, admission.Cost{RequestMilli: 10, Tokens: 3})
		c.Advance(time.Second)
		if _, _, o := l.Take("a", all, admission.Cost{RequestMilli: 1, Tokens: 1}); o != nil {
			t.Fatal(o)
		}
		for _, key := range keys[:2] {
			if ms, err := client.Do(t.Context(), client.B().Pttl().Key(key).Build()).AsInt64(); ms <= 0 || err != nil {
				t.Fatalf("PTTL %s = %d, %v, want it to expire", key, ms, err)
			}
		}
	}
	if _, err := l.Revoke(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	for _, key := range append(keys[2:], l.tableKey()...) {
		if ms, err := client.Do(t.Context(), client.B().Pttl().Key(key).Build()).AsInt64(); ms <= 0 || err != nil {
			t.Errorf("PTTL %s = %d, %v, want it to expire", key, ms, err)
		}
	}
}

// A clock that is set back does not block an account for the time that it was set back.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	c := ledgertest.NewClock()
	l := open(t, redistest.URL(t), Options{Now: c.Now, Deadline: patient})
	if _, _, o := l.Take("a", limits(1, unlimited, unlimited), one); o != nil {
		t.Fatal(o)
	}
	c.Advance(-time.Hour)
	if _, _, o := l.Take("a", limits(1, unlimited, unlimited), one); o != nil {
		t.Errorf("Take an hour before the last one = %+v, want it to pass", o)
	}
}

// A caller with one slot, whose calls go to one node after the other, is never refused.
func TestLastSlotIsFreeAtOnce(t *testing.T) {
	t.Parallel()
	nodes := trio(t, redistest.URL(t), nil, Options{Beat: 2 * time.Second})
	start(t, nodes...)
	single := limits(unlimited, 1, unlimited)
	for i := range 300 {
		l := nodes[i%len(nodes)]
		place, _, o := l.Take("a", single, one)
		if o != nil {
			t.Fatalf("call %d = %+v, want it to pass", i, o)
		}
		l.Free("a", place, one)
	}
}

// The end of a call does not wait for Redis.
func TestFreeDoesNotWait(t *testing.T) {
	t.Parallel()
	p := wiretest.New(t, redistest.Own(t).Addr())
	l := open(t, "redis://"+p.Addr(), Options{Deadline: patient})
	start(t, l)
	all := limits(unlimited, 1, unlimited)
	place, _, o := l.Take("a", all, one)
	if o != nil {
		t.Fatal(o)
	}
	release := p.Stall()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.Free("a", place, one)
		l.GiveBack("a", place, 1000)
	}()
	select {
	case <-ended:
	case <-time.After(patient / 2):
		t.Error("Free waits for Redis")
	}
	release()
	// The slot is free for the next call, although Redis was told late.
	if _, _, o := l.Take("a", all, one); o != nil {
		t.Errorf("Take after Free = %+v, want it to pass", o)
	}
}

// A call that Redis refuses while it is being told that another has ended is not refused for that.
func TestOvertaking(t *testing.T) {
	t.Parallel()
	p := wiretest.New(t, redistest.Own(t).Addr())
	l := open(t, "redis://"+p.Addr(), Options{Deadline: patient})
	all := limits(10, 1, unlimited)
	place, _, o := l.Take("a", all, one)
	if o != nil {
		t.Fatal(o)
	}
	l.Free("a", place, admission.Cost{})
	late := l.queue.grabSome() // as Flush does, which is then slow to send it
	before := p.Replies()
	passed := make(chan *admission.Obstacle, 1)
	go func() {
		_, _, o := l.Take("a", all, one)
		passed <- o
	}()
	eventually(t, "the first answer", func() bool { return p.Replies() > before })
	l.flushSome(t.Context(), late)
	if o := <-passed; o != nil {
		t.Errorf("Take = %+v, want it to pass", o)
	}

	place = admission.Place{RequestsAt: place.RequestsAt, Slot: place.Slot}
	l.GiveBack("a", place, 1) // something to be told
	late = l.queue.grabSome()
	seen := make(chan admission.Headroom, 1)
	before = p.Replies()
	go func() { seen <- l.Peek("a", all) }()
	eventually(t, "the first answer", func() bool { return p.Replies() > before })
	select {
	case s := <-seen:
		t.Fatalf("Peek = %+v before everything was told", s)
	default:
	}
	l.flushSome(t.Context(), late)
	if s := <-seen; s.Requests.Used != 1000 {
		t.Errorf("Peek = %+v, want one request used", s)
	}
}

// A full queue drops what heals by itself, and counts here what does not.
func TestFullQueue(t *testing.T) {
	t.Parallel()
	l := open(t, redistest.URL(t), Options{Deadline: patient})
	l.queue.mu.Lock()
	l.queue.count = longest
	l.queue.mu.Unlock()
	all := limits(unlimited, unlimited, 1000)
	p, _, _ := l.Take("a", all, admission.Cost{Tokens: 100})
	l.Free("a", p, admission.Cost{Tokens: 150})
	if s := l.State(); s.DroppedOps != 1 {
		t.Errorf("state = %+v, want one dropped", s)
	}
	l.queue.mu.Lock()
	l.queue.count = 0
	l.queue.mu.Unlock()
	eventually(t, "150 tokens in Redis", func() bool {
		l.step(t.Context())
		return l.Peek("a", all).Tokens.Used == 150
	})
}

func TestOpen(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"redis://u:geheim@ho st", "http://u:geheim@host", "redis://u:geheim@host/x", "://u:geheim@"} {
		if _, err := Open(t.Context(), url, at(0, 1), &memo{}, nil); err == nil || strings.Contains(err.Error(), "geheim") {
			t.Errorf("Open(%q) = %v, want an error without the password", url, err)
		}
	}
}

// A node that begins without Redis admits nothing, or the share that it is told, and finds Redis later.
func TestBeginsWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Own(t)
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	all := limits(9, unlimited, unlimited)
	opts, memory := Options{Prefix: redistest.Prefix(), Probe: 5 * time.Millisecond}, &memo{}
	l := openAt(t, server.URL(), spot{id: "new"}, memory, opts)
	if s := l.State(); s.Exact || s.Why == "" || s.Since.IsZero() || s.Parts != 0 {
		t.Errorf("state = %+v, want approximate with a reason and without a share", s)
	}
	if _, s, o := l.Take("a", all, one); o == nil || o.Never || o.Wait <= 0 || s.Epoch != 0 || s.Requests.Limit != 9 || s.Requests.Remaining != 0 {
		t.Errorf("Take of a node without a share = %+v, %+v, want a refusal that a retry cures", s, o)
	}
	third := openAt(t, server.URL(), at(1, 3), memory, opts)
	if n := storm([]*Ledger{third}, 20, "a", all, one); n != 3 {
		t.Errorf("%d of 20 calls passed on a third of 9, want 3", n)
	}
	if _, err := l.Revoke(t.Context(), "a"); err == nil {
		t.Error("Revoke without Redis = nil, want an error")
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	start(t, l, third)
	eventually(t, "exact on both nodes", func() bool { return l.State().Exact && third.State().Exact })
	eventually(t, "what the node admitted alone", func() bool { return l.Peek("a", all).Requests.Used == 3000 })
}
