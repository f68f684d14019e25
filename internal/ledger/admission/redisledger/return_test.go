package redisledger

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/admission/ledgertest"
)

// weakRedis is a transport to a Redis that can be away, and that does not answer in time what is too much for it.
type weakRedis struct {
	redis  *simRedis
	down   bool
	trips  int
	refuse int // every so many round trips one fails; 0: none
	most   int // bytes of arguments that it manages in one round trip; 0: any
	moved  int // the most bytes that a script has read and written
}

func (w *weakRedis) load(context.Context) {}
func (w *weakRedis) close()               {}
func (w *weakRedis) run(_ context.Context, orders []order, answers []answer) {
	size := 0
	for _, o := range orders {
		for _, a := range o.args {
			size += len(a)
		}
	}
	w.trips++
	var err error
	switch {
	case w.down, w.refuse > 0 && w.trips%w.refuse == 0:
		err = errRefused
	case w.most > 0 && size > w.most:
		err = context.DeadlineExceeded
	}
	for i, o := range orders {
		if answers[i].err = err; err == nil {
			answers[i] = w.redis.run(o)
			w.moved = max(w.moved, w.redis.moved)
		}
	}
}

// weakTrio returns three nodes with their shares on one weak Redis.
func weakTrio(t *testing.T) (*weakRedis, *ledgertest.Clock, []*Ledger) {
	t.Helper()
	w, c := &weakRedis{redis: newSimRedis(time.Now, breakScript(t, ""))}, ledgertest.NewClock()
	var nodes []*Ledger
	memory := &memo{}
	for i := range 3 {
		nodes = append(nodes, openSim(t, at(i, 3), memory, &Options{Now: c.Now}, w))
	}
	w.down = true
	for _, l := range nodes {
		for l.State().Exact {
			l.step(t.Context())
		}
	}
	return w, c, nodes
}

// plenty are limits that no test here reaches.
var plenty = limits(1_000_000, unlimited, 1_000_000_000)

// alone makes a call on a node that does not count in Redis.
func alone(t *testing.T, l *Ledger, id string, limits account.Limits, tokens int64) {
	t.Helper()
	cost := admission.Cost{RequestMilli: 1000, Tokens: tokens}
	l.Free(id, mustTake(t, l, id, limits, cost), cost)
}

// Nodes that have counted on their own tell Redis of the same minute. That may keep Redis from answering others only
// for a moment, so a script moves the window of the account once, not once for each entry.
func TestReturnOfManyEntries(t *testing.T) {
	t.Parallel()
	w, c, nodes := weakTrio(t)
	const each, length = 3000, 24
	for i := range each * len(nodes) {
		c.Advance(2 * time.Millisecond)
		alone(t, nodes[i%len(nodes)], "a", plenty, int64(i%7))
	}
	c.Advance(2 * time.Millisecond)
	end := c.Now()
	w.down = false
	for i, l := range nodes {
		if l.step(t.Context()); !l.State().Exact {
			t.Fatalf("node %d returns: %+v", i, l.State())
		}
	}
	if most := 6 * length * each * len(nodes); w.moved > most {
		t.Errorf("a script has read and written %d bytes, want at most %d: the window has %d", w.moved, most, length*each*len(nodes))
	}
	// Every entry counts, and stops counting when its minute is over.
	for ago := time.Duration(0); ago <= 20*time.Second; ago += 777 * time.Millisecond {
		var requests, tokens int64
		for i := range each * len(nodes) {
			at := end - time.Duration(each*len(nodes)-i)*2*time.Millisecond
			if at+time.Millisecond+time.Minute > c.Now() {
				requests, tokens = requests+1000, tokens+int64(i%7)
			}
		}
		for i, l := range nodes {
			if s := l.Peek("a", plenty); s.Requests.Used != requests || s.Tokens.Used != tokens {
				t.Fatalf("node %d, %v later: %d thousandths and %d tokens are used, want %d and %d", i, c.Now()-end, s.Requests.Used, s.Tokens.Used, requests, tokens)
			}
		}
		if ago == 0 {
			c.Advance(time.Minute - 18*time.Second)
		}
		c.Advance(777 * time.Millisecond)
	}
}

// A Redis that manages little at a time, and fails at one of five, is told everything, and nothing twice.
func TestReturnInPieces(t *testing.T) {
	t.Parallel()
	w, c, nodes := weakTrio(t)
	const accounts, many = 700, 9000
	l := nodes[0]
	for i := range many {
		c.Advance(time.Millisecond)
		alone(t, l, "large", plenty, 2)
		if i < 3*accounts {
			alone(t, l, fmt.Sprint("small", i%accounts), plenty, 1)
		}
	}
	held := make([]admission.Place, 5000)
	for i := range held {
		held[i] = mustTake(t, l, "busy", limits(unlimited, 1_000_000, unlimited), one)
	}
	c.Advance(time.Millisecond)
	w.down, w.refuse, w.most = false, 5, 200_000
	for range 1000 {
		if l.State().Exact {
			break
		}
		l.step(t.Context())
		c.Advance(time.Millisecond)
	}
	if !l.State().Exact {
		t.Fatalf("the node does not return: %+v", l.State())
	}
	w.refuse, w.most = 0, 0
	if s := l.Peek("large", plenty); s.Requests.Used != many*1000 || s.Tokens.Used != 2*many {
		t.Errorf("standing %+v, want %d requests and %d tokens used", s, many, 2*many)
	}
	for i := range accounts {
		if s := l.Peek(fmt.Sprint("small", i), plenty); s.Requests.Used != 3000 || s.Tokens.Used != 3 {
			t.Fatalf("standing %+v of account %d, want 3 requests and 3 tokens used", s, i)
		}
	}
	if _, _, o := l.Take("busy", limits(unlimited, 1, unlimited), one); o == nil || o.Used != int64(len(held)) {
		t.Errorf("%+v is in the way of a call, want %d slots in use", o, len(held))
	}
}

// A node that starts while Redis is away admits calls before it knows the time of Redis. When it returns, Redis is told
// of all of them, with the time that has passed since, whatever the clocks of the two machines say.
func TestReturnWithAnotherClock(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{20 * time.Minute, 30 * time.Second, -30 * time.Second, -20 * time.Minute} {
		t.Run(ahead.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { returnWithClock(t, ahead) })
		})
	}
}

func returnWithClock(t *testing.T, ahead time.Duration) {
	w := &weakRedis{redis: newSimRedis(func() time.Time { return time.Now().Add(ahead) }, breakScript(t, "")), down: true}
	memory := &memo{}
	late := openSim(t, at(0, 2), memory, nil, w)
	cost, all := admission.Cost{RequestMilli: 1000, Tokens: 10}, limits(20, 4, 1000)
	alone(t, late, "a", all, 10)
	given := mustTake(t, late, "a", all, cost)
	time.Sleep(20 * time.Second) // the bubble's clock
	held := mustTake(t, late, "a", all, cost)
	time.Sleep(time.Second) // the bubble's clock
	w.down = false
	if late.step(t.Context()); !late.State().Exact {
		t.Fatalf("the node returns: %+v", late.State())
	}

	other := openSim(t, at(1, 2), memory, nil, w)
	used := func(when string, requests, tokens int64) {
		t.Helper()
		late.Flush(t.Context())
		if s := other.Peek("a", all); s.Requests.Used != 1000*requests || s.Tokens.Used != tokens {
			t.Errorf("%s: %d thousandths and %d tokens are used, want %d and %d", when, s.Requests.Used, s.Tokens.Used, 1000*requests, tokens)
		}
	}
	used("after the return", 3, 30)
	if _, _, o := other.Take("a", limits(20, 2, 1000), cost); o == nil || o.Resource != admission.Slots || o.Used != 2 {
		t.Errorf("%+v is in the way of a call, want both slots", o)
	}
	late.Free("a", given, admission.Cost{RequestMilli: 1000})
	used("after an end that used no tokens", 3, 20)
	late.GiveBack("a", given, 1000)
	used("after requests were given back", 2, 20)
	time.Sleep(38 * time.Second) // the bubble's clock
	used("in the last second of the first minute", 2, 20)
	time.Sleep(2 * time.Second) // the bubble's clock
	used("after the first minute", 1, 10)
	late.Free("a", held, cost)
	time.Sleep(20 * time.Second) // the bubble's clock
	used("after both minutes", 0, 0)
}
