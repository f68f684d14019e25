package redisledger

import (
	"testing"
	"time"

	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/admission/ledgertest"
	"sluice/internal/testkit/redistest"
)

// A Redis that answers and writes nothing, because it is read-only or out of memory, is like one that is away: the nodes
// together admit the limit once more, each its share. When it writes again, everything is counted again, and calls that
// ended meanwhile have freed their slots.
func TestRefusingRedis(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]struct{ begin, end []string }{
		// Nobody listens at the port of that primary, so the data stays.
		"read-only":     {[]string{"REPLICAOF", "127.0.0.1", "1"}, []string{"REPLICAOF", "NO", "ONE"}},
		"out of memory": {[]string{"CONFIG", "SET", "maxmemory", "1"}, []string{"CONFIG", "SET", "maxmemory", "0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, c := redistest.Own(t, "maxmemory-policy noeviction"), ledgertest.NewClock()
			nodes := trio(t, server.URL(), c, brisk())
			operator := open(t, server.URL(), Options{Deadline: patient, Prefix: redistest.Prefix()})
			order := func(command []string) {
				t.Helper()
				client := raw(operator)
				if err := client.Do(t.Context(), client.B().Arbitrary(command...).Build()).Error(); err != nil {
					t.Fatalf("%q = %v", command, err)
				}
			}
			l := limits(10, unlimited, 100)
			cost := admission.Cost{RequestMilli: 1000, Tokens: 1}
			if n := storm(nodes, 60, "a", l, cost); n != 10 {
				t.Fatalf("%d calls passed before, want 10", n)
			}
			slots := limits(unlimited, 6, unlimited)
			running := mustTake(t, nodes[0], "slots", slots, one) // ends while Redis refuses

			order(how.begin)
			// It can still be read: a limit that is used up stays so until nodes have noticed that nothing is written.
			if n := storm(nodes, 2, "a", l, cost); n != 0 {
				t.Errorf("%d calls passed on a limit that is used up, want none", n)
			}
			for _, id := range []string{"b", "a"} {
				if n := storm(nodes, 200, id, l, cost); n != 10 {
					t.Errorf("%d calls of %s passed while Redis refuses, want the shares of three nodes: 10", n, id)
				}
			}
			for i, n := range nodes {
				n.step(t.Context()) // a sign of life is a write, too: it must not bring the node back
				if s := n.State(); s.Exact || s.Why == "" {
					t.Errorf("state of node %d = %+v, want approximate", i, s)
				}
			}
			nodes[0].Free("slots", running, one)
			alone := mustTake(t, nodes[1], "slots", slots, one)
			if n := storm(nodes, 60, "a", l, cost); n != 0 {
				t.Errorf("%d more calls passed while Redis refuses, want none", n)
			}
			c.Advance(time.Millisecond) // Redis is told of milliseconds that are over

			order(how.end)
			began := time.Now()
			start(t, nodes...)
			eventually(t, "exact on all nodes", exact(nodes, true))
			for id, used := range map[string]int64{"a": 20, "b": 10} {
				eventually(t, "the calls of "+id+" in Redis", func() bool {
					s := nodes[0].Peek(id, l)
					return s.Requests.Used == used*1000 && s.Tokens.Used == used
				})
			}
			t.Logf("soak: Redis %s: exact again after %v", name, time.Since(began).Round(time.Millisecond))
			if n := storm(nodes, 60, "a", l, cost); n != 0 {
				t.Errorf("%d calls passed afterwards, want none: the limit was used twice", n)
			}
			nodes[1].Free("slots", alone, one)
			for _, n := range nodes {
				n.Flush(t.Context())
			}
			if n := storm(nodes, 60, "slots", slots, one); n != 6 {
				t.Errorf("%d calls passed on 6 free slots, want 6", n)
			}
			c.Advance(time.Minute + time.Millisecond)
			if n := storm(nodes, 200, "a", l, cost); n != 10 {
				t.Errorf("%d calls passed a minute later, want 10", n)
			}
		})
	}
}
