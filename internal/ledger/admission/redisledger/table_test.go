package redisledger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/admission/ledgertest"
	"sluice/internal/ledger/cluster"
)

// loss is a cluster in virtual time whose Redis loses its data.
type loss struct {
	*testing.T
	net      *simNet
	database simDatabase
	admitted []time.Time
	worst    int // the most calls in any minute
}

// start returns a node as production makes one, and what kills it.
func (w *loss) start(id string) (l *Ledger, kill func()) {
	w.Helper()
	link := &simLink{simDatabase: &w.database}
	c, err := cluster.Join(w.Context(), link, id, cluster.Exact, nil)
	if err != nil {
		w.Fatal(err)
	}
	var wire *simWire
	l, err = openWith(w.Context(), c, link, nil, func(_ time.Duration, dialed func()) func() (transport, error) {
		wire = newSimWire(w.net, rand.New(rand.NewPCG(1, 2)), dialed)
		return func() (transport, error) { return wire, nil }
	})
	if err != nil {
		w.Fatal(err)
	}
	return l, func() {
		link.cut.Store(true)
		wire.close()
		c.Leave(context.Background())
	}
}

// call makes as many calls on nodes as they admit.
func (w *loss) call(nodes ...*Ledger) {
	for _, l := range nodes {
		for range 2 * lossLimit {
			if _, _, o := l.Take("a", limits(lossLimit, unlimited, unlimited), one); o == nil {
				w.admitted = append(w.admitted, time.Now())
			}
		}
	}
	w.admitted = slices.DeleteFunc(w.admitted, func(at time.Time) bool { return time.Since(at) >= time.Minute })
	w.worst = max(w.worst, len(w.admitted))
}

// pass lets time go by in which nodes do what is due and make calls.
func (w *loss) pass(d time.Duration, nodes ...*Ledger) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(time.Second) // the bubble's clock
		for _, l := range nodes {
			l.step(w.Context())
			w.call(l)
		}
	}
}

const lossLimit = 12

// A node that is the first to see that Redis has lost its data, and has never seen it before, knows. No minute holds
// more than twice a limit: what Redis had admitted, and shares. Otherwise the node would count in Redis a limit that
// others have on their shares, or that it has itself when Redis goes away again.
func TestFirstNodeAfterALoss(t *testing.T) {
	t.Parallel()
	for _, alone := range []bool{true, false} {
		t.Run(fmt.Sprint("alone ", alone), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &loss{T: t, net: &simNet{redis: newSimRedis(time.Now, breakScript(t, "")), wires: map[*simWire]bool{}}}
				a, killA := w.start("a")
				b, killB := w.start("b")
				w.pass(3*time.Minute, a, b) // everybody has a part of the limits
				if !a.State().Exact || a.State().Parts != 2 {
					t.Fatalf("state %+v, want it exact, with a part of two", a.State())
				}
				others := []*Ledger{a, b}
				if alone {
					killA()
					killB()
					others = nil
					w.admitted = w.admitted[:0]
					time.Sleep(2 * time.Minute) // nobody waits for them; the bubble's clock
					c, kill := w.start("c")
					w.pass(3*time.Minute, c)
					kill()
				}
				w.net.stop()
				w.net.redis.lose()
				w.call(others...) // on their shares
				w.net.start()
				first, kill := w.start("c")
				defer kill()
				if s := first.State(); s.Exact || !s.Lost {
					t.Errorf("alone %t: state %+v of the first node after a loss, want it to know", alone, s)
				}
				w.call(append(others, first)...)
				w.pass(5*time.Second, first)
				w.net.stop()
				w.pass(5*time.Second, append(others, first)...)
				w.net.start()
				w.pass(90*time.Second, append(others, first)...)
				if w.worst > 2*lossLimit {
					t.Errorf("alone %t: %d calls in a minute on a limit of %d, want at most twice as many", alone, w.worst, lossLimit)
				}
				if s := first.State(); !s.Exact || s.Lost {
					t.Errorf("alone %t: state %+v 90 seconds later, want it exact", alone, s)
				}
				if !alone {
					killA()
					killB()
				}
			})
		})
	}
}

// A new Redis of a new database is no loss. But until the database remembers it, nobody counts there.
func TestNewData(t *testing.T) {
	t.Parallel()
	memory, redis, c := &memo{}, simDirect{newSimRedis(time.Now, breakScript(t, ""))}, ledgertest.NewClock()
	opts := &Options{Now: c.Now}
	first := openSim(t, at(0, 2), memory, opts, redis)
	if s := first.State(); !s.Exact || s.Lost || memory.table == "" {
		t.Errorf("state %+v and memory %q on a new Redis, want exact and remembered", s, memory.table)
	}
	forgetful := &memo{}
	second := newLedger(at(1, 2), opts)
	second.link.dial, second.table.memory = func() (transport, error) { return redis, nil }, forgetful
	forgetful.err = errors.New("the database is away")
	if second.step(t.Context()); second.State().Exact {
		t.Error("a node counts in a Redis that nobody remembers")
	}
	forgetful.err = nil
	if second.step(t.Context()); !second.State().Exact || forgetful.table != memory.table {
		t.Errorf("state %+v and memory %q, want exact and %q", second.State(), forgetful.table, memory.table)
	}
	redis.redis.lose()
	if first.step(t.Context()); first.State().Exact || !first.State().Lost {
		t.Errorf("state %+v after a loss, want a minute of shares", first.State())
	}
	// The database is away now, and names the data that was lost. Who starts takes that for a loss, which is right.
	if c.Advance(59 * time.Second); first.State().Exact {
		t.Error("exact before the minute is over")
	}
	late := openSim(t, at(1, 2), &memo{table: "another"}, opts, redis)
	if s := late.State(); s.Exact || !s.Lost {
		t.Errorf("state %+v of a node that starts, want a minute of shares", s)
	}
	c.Advance(time.Second)
	for _, l := range []*Ledger{first, late} {
		if l.step(t.Context()); !l.State().Exact {
			t.Errorf("state %+v a minute after the loss, want exact", l.State())
		}
	}
}

// movable is a node whose list changes.
type movable struct {
	spot
	list    int64
	current bool
}

func (m *movable) List() (int64, bool) { return m.list, m.current }

// A node that is cut off from the database keeps its share, unless the others go by another list.
func TestStaleList(t *testing.T) {
	t.Parallel()
	redis, memory := simDirect{newSimRedis(time.Now, breakScript(t, ""))}, &memo{}
	here, there := &movable{at(0, 2), 1, true}, &movable{at(1, 2), 1, true}
	a, b := openSim(t, here, memory, nil, redis), openSim(t, there, memory, nil, redis)
	share := func(l *Ledger) int {
		a.step(t.Context())
		b.step(t.Context())
		return int(admission.Shares(l.views(), "acct", limits(10, unlimited, unlimited)).RequestsPerMinute)
	}
	for _, tt := range []struct {
		what               string
		listA, listB       int64
		currentA, currentB bool
		wantA, wantB       int
	}{
		{"all is well", 1, 1, true, true, 5, 5},
		{"the list changes, and one node has not seen it", 2, 1, true, true, 5, 5},
		{"the database is away", 2, 2, false, false, 5, 5},
		{"it is back for one", 2, 2, true, false, 5, 5},
		{"whose list changes", 3, 2, true, false, 5, 0},
		{"and is cut off as well", 3, 2, false, false, 5, 0},
		{"the other is back", 3, 3, false, true, 5, 5},
		{"and goes on", 3, 4, false, true, 0, 5},
	} {
		here.list, there.list, here.current, there.current = tt.listA, tt.listB, tt.currentA, tt.currentB
		share(a)
		if x, y := share(a), share(b); x != tt.wantA || y != tt.wantB {
			t.Errorf("%s: shares of 10 are %d and %d, want %d and %d", tt.what, x, y, tt.wantA, tt.wantB)
		}
	}
	// What all nodes said last is not known to a Redis that has lost it, and then nobody has anything to fear.
	redis.redis.lose()
	here.current, there.current = false, false
	if x := share(b); x != 5 || admission.NoShare(b.views()) {
		t.Errorf("share of 10 is %d after a loss while the database is away, want 5", x)
	}
}
