package idempotency_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/line/idempotency"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/testkit/pgtest"
)

// node is one process on a PostgreSQL.
type node struct {
	*idempotency.Replies
	store *alltest.Store
	stop  context.CancelFunc
}

// newNode starts a node whose claims hold for life without renewal.
func newNode(t *testing.T, url string, life time.Duration) *node {
	t.Helper()
	s, err := alltest.Open(t.Context(), url, "")
	if err != nil {
		t.Fatal(err)
	}
	n := &node{store: s, Replies: idempotency.New(s, slog.New(slog.DiscardHandler), &idempotency.Options{Claims: s, Node: "n", ClaimLife: life, Patience: time.Minute})} // a slow database is none of these tests' faults
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { n.Run(ctx) })
	n.stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(func() {
		n.stop()
		s.Close()
	})
	return n
}

// kill ends the node as far as others can tell: it renews nothing and reaches no database.
func (n *node) kill() {
	n.store.Close()
	n.stop()
}

func request(key, body string) idempotency.Request {
	return idempotency.Request{AccountID: "acct_1", Path: "/v1/x", Key: []string{key}, Body: []byte(body)}
}

func text(r *idempotency.Reply) (s string) {
	for p := range r.Pieces {
		s += string(p)
	}
	return s
}

// On a real database, requests on two nodes at the same time make one call; a call that fails is repeated by
// one of those that wait.
func TestTwoNodes(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	nodes := []*node{newNode(t, url, time.Minute), newNode(t, url, time.Minute)}
	for _, failures := range []int64{0, 2} {
		key := fmt.Sprint("key", failures)
		var ran, running, replayed atomic.Int64
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				turn, reply, err := nodes[i%2].Begin(t.Context(), request(key, "one"))
				if err != nil {
					t.Errorf("Begin = %v", err)
					return
				}
				if reply != nil {
					replayed.Add(1)
					if text(reply) != "reply" {
						t.Errorf("a repeat = %q, want the reply", text(reply))
					}
					return
				}
				if running.Add(1) != 1 {
					t.Error("two calls run at the same time")
				}
				n := ran.Add(1)
				running.Add(-1)
				if n > failures {
					turn.Record([]byte("reply"), false)
					turn.Keep(t.Context())
				}
				turn.End()
			})
		}
		wg.Wait()
		if ran.Load() != 1+failures || replayed.Load() != 10-ran.Load() {
			t.Errorf("%d calls ran and %d got the reply, want %d and the rest", ran.Load(), replayed.Load(), 1+failures)
		}
	}
}

// A call outlives many lives of its claim, because its node renews it; when the node dies, another one runs
// the call within that life.
func TestKilledNode(t *testing.T) {
	t.Parallel()
	const life = 3 * time.Second // a busy machine renews the claim in time
	url := pgtest.URL(t)
	one, two := newNode(t, url, life), newNode(t, url, life)
	first, _, err := one.Begin(t.Context(), request("key", "body"))
	if first == nil {
		t.Fatalf("Begin = %v, want the turn", err)
	}
	got := make(chan *idempotency.Turn, 1)
	go func() {
		turn, _, _ := two.Begin(t.Context(), request("key", "body"))
		got <- turn
	}()
	select {
	case <-got:
		t.Fatal("the second node ran the call while the first was running it")
	case <-time.After(3 * life):
	}
	one.kill()
	died := time.Now()
	turn := <-got
	if took := time.Since(died); turn == nil || took > life+25*time.Second { // a busy machine has time, but not a minute
		t.Fatalf("the second node has the turn %v after %s, want it within %s", turn, took, life)
	}
	turn.Record([]byte("reply"), false)
	turn.Keep(t.Context())
	first.Record([]byte("too late"), false)
	first.Keep(t.Context()) // its database is away
	three := newNode(t, url, life)
	if _, reply, err := three.Begin(t.Context(), request("key", "body")); reply == nil || text(reply) != "reply" {
		t.Errorf("a later repeat = %v, %v, want the reply of the second node", reply, err)
	}
}
