package idempotency

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/kit/fault"
)

// common is the database of several nodes: replies, and claims on them. It works on virtual time.
type common struct {
	memory
	claims map[string]*Claim
	until  map[string]time.Time
	looks  atomic.Int64 // calls of SeekReply
}

func newCommon() *common {
	return &common{memory: memory{records: map[string]*Record{}}, claims: map[string]*Claim{}, until: map[string]time.Time{}}
}

func (c *common) ClaimReply(ctx context.Context, claim *Claim, now time.Time, life time.Duration) (held bool, sealed, body []byte, err error) {
	if held, err = c.claim(ctx, claim, now, life); err != nil {
		return held, nil, nil, err
	}
	sealed, body, err = c.SeekReply(ctx, claim.ID, now)
	return held, sealed, body, err
}

func (c *common) claim(ctx context.Context, claim *Claim, now time.Time, life time.Duration) (bool, error) {
	sealed, err := c.FindReply(ctx, claim.ID, now)
	if err != nil || sealed != nil {
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	id := string(claim.ID)
	if have := c.claims[id]; have != nil && have.Holder != claim.Holder && c.until[id].After(now) {
		return false, nil
	}
	c.claims[id], c.until[id] = claim, now.Add(life)
	return true, nil
}

func (c *common) SeekReply(ctx context.Context, id []byte, now time.Time) (sealed, body []byte, err error) {
	sealed, err = c.FindReply(ctx, id, now)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looks.Add(1)
	if have := c.claims[string(id)]; have != nil && c.until[string(id)].After(now) {
		body = have.Body
	}
	return sealed, body, err
}

func (c *common) RenewClaims(_ context.Context, holder string, ids [][]byte, life time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		if have := c.claims[string(id)]; c.err == nil && have != nil && have.Holder == holder {
			c.until[string(id)] = time.Now().Add(life)
		}
	}
	return c.err
}

func (c *common) DropClaim(_ context.Context, claim *Claim) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if have := c.claims[string(claim.ID)]; c.err == nil && have != nil && have.Holder == claim.Holder && have.Serial == claim.Serial {
		delete(c.claims, string(claim.ID))
	}
	return c.err
}

func (c *common) KeepReply(ctx context.Context, r *Record, now time.Time, most int64) error {
	// The first reply stays, as in the real store.
	sealed, err := c.FindReply(ctx, r.ID, now)
	if err == nil && sealed == nil {
		err = c.memory.KeepReply(ctx, r, now, most)
	}
	if err == nil && r.Claim != nil {
		err = c.DropClaim(ctx, r.Claim)
	}
	return err
}

// held returns how many claims there are, in force or not.
func (c *common) held() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.claims)
}

// fail makes the database fail, or work again.
func (c *common) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

// node is one process on the database. Kill ends it without a trace; the test's end stops it.
type node struct {
	*Replies
	kill context.CancelFunc
}

func newNode(t *testing.T, c *common) node {
	r := New(c, slog.New(slog.DiscardHandler), &Options{Claims: c, Node: "n"})
	ctx, cancel := context.WithCancel(t.Context())
	go r.Run(ctx)
	return node{r, cancel}
}

// wait starts a request on the node and returns what it becomes.
func (n node) wait(ctx context.Context, req Request) chan outcome {
	out := make(chan outcome, 1)
	go func() {
		turn, reply, err := n.Begin(ctx, req)
		out <- outcome{turn, reply, err, time.Now()}
	}()
	return out
}

type outcome struct {
	turn  *Turn
	reply *Reply
	err   error
	at    time.Time
}

// Repeats on every node wait for the first, however long it runs, and get its reply. Another body is refused
// meanwhile.
func TestNodesWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCommon()
		one, two, three := newNode(t, c), newNode(t, c), newNode(t, c)
		turn := begin(t, one.Replies, request("one"))
		var waiting []chan outcome
		for _, n := range []node{one, two, two, three} {
			waiting = append(waiting, n.wait(t.Context(), request("one")))
		}
		time.Sleep(50 * time.Second) // more than three times the life of a claim
		for _, n := range []node{one, two, three} {
			if _, _, err := n.Begin(t.Context(), request("two")); !fault.Is(err, fault.Invalid) || fault.From(err).Param != Header {
				t.Errorf("Begin with another body meanwhile = %v, want invalid at %s", err, Header)
			}
		}
		if n := c.looks.Load(); n > 3*200 {
			t.Errorf("%d looks of three nodes in 50 seconds, want at most four a second and node", n)
		}
		ended := time.Now()
		turn.answer("reply")
		for i, w := range waiting {
			got := <-w
			if got.err != nil || got.reply == nil || text(got.reply) != "reply" || got.at.Sub(ended) > lastPause {
				t.Errorf("request %d = %+v after %s, want the reply within %s", i, got, got.at.Sub(ended), lastPause)
			}
		}
		if c.held() != 0 || len(c.records) != 1 {
			t.Errorf("%d claims and %d replies are left, want none and 1", c.held(), len(c.records))
		}
		repeat(t, three.Replies, request("one"), "reply")
	})
}

// A first call that fails makes room for exactly one of those that wait, on any node, and soon.
func TestNodesTakeOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCommon()
		nodes := []node{newNode(t, c), newNode(t, c), newNode(t, c)}
		turn := begin(t, nodes[0].Replies, request("one"))
		got := make(chan outcome, 9)
		for i := range 9 {
			go func() { got <- <-nodes[i%3].wait(t.Context(), request("one")) }()
		}
		time.Sleep(5 * time.Second)
		for range 3 { // three fail one after the other
			ended := time.Now()
			turn.Record([]byte("half a rep"), false)
			turn.End()
			next := <-got
			if next.turn == nil || next.at.Sub(ended) > lastPause {
				t.Fatalf("after a failure = %+v, %s later, want a turn", next, next.at.Sub(ended))
			}
			synctest.Wait()
			time.Sleep(2 * lastPause)
			if len(got) != 0 {
				t.Fatalf("%d more have an answer, want one turn at a time", len(got))
			}
			turn = next.turn
		}
		turn.answer("reply")
		for range 6 {
			if last := <-got; last.reply == nil || text(last.reply) != "reply" {
				t.Errorf("a waiting request = %+v, want the reply", last)
			}
		}
	})
}

// A node that dies holds a key for at most the life of its claim.
func TestNodeDies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCommon()
		one, two := newNode(t, c), newNode(t, c)
		begin(t, one.Replies, request("one")) // and never ends
		w := two.wait(t.Context(), request("one"))
		time.Sleep(40 * time.Second)
		if len(w) != 0 {
			t.Fatalf("the second ran while the first was running: %+v", <-w)
		}
		one.kill()
		died := time.Now()
		got := <-w
		if got.turn == nil || got.at.Sub(died) > defaultClaim+lastPause {
			t.Fatalf("after the death of the first = %+v after %s, want the turn within %s", got, got.at.Sub(died), defaultClaim)
		}
		got.turn.answer("reply")
		// Its next life is another holder.
		repeat(t, newNode(t, c).Replies, request("one"), "reply")
	})
}

// Waiting has the same bound and the same fault as on one node; a caller that hangs up leaves.
func TestNodesPatience(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCommon()
		one, two := newNode(t, c), newNode(t, c)
		turn := begin(t, one.Replies, request("one"))
		start := time.Now()
		w := two.wait(t.Context(), request("one"))
		got := <-w
		if !fault.Is(got.err, fault.Conflict) || !strings.Contains(got.err.Error(), "still running after 60 seconds") || got.at.Sub(start) != defaultWait {
			t.Errorf("after %s: %v, want the conflict after %s", got.at.Sub(start), got.err, defaultWait)
		}
		gone := errors.New("gone")
		ctx, hangUp := context.WithCancelCause(t.Context())
		w = two.wait(ctx, request("one"))
		synctest.Wait()
		hangUp(gone)
		if got := <-w; !errors.Is(got.err, gone) {
			t.Errorf("a caller that hung up = %v, want %v", got.err, gone)
		}
		turn.answer("reply")
		repeat(t, two.Replies, request("one"), "reply")
	})
}

// Without the database calls run, as they do on one node. A request that knows of a running call waits as
// long as that call's claim may be in force.
func TestNodesWithoutDatabase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCommon()
		one, two := newNode(t, c), newNode(t, c)
		turn := begin(t, one.Replies, request("one"))
		w := two.wait(t.Context(), request("one"))
		time.Sleep(time.Second)
		c.fail(errors.New("the database is away"))
		away := time.Now()
		free := request("free")
		free.Key = []string{"free"}
		begin(t, two.Replies, free).answer("reply") // at once
		if time.Since(away) != 0 {
			t.Errorf("a new key waited %s for a database that is away", time.Since(away))
		}
		got := <-w
		if d := got.at.Sub(away); got.turn == nil || d < defaultClaim-lastPause || d > defaultClaim+lastPause {
			t.Errorf("the waiting request = %+v after %s, want the turn after %s", got, d, defaultClaim)
		}
		c.fail(nil)
		// Both run now. The reply that is kept first is the one that everybody gets.
		got.turn.answer("second")
		turn.answer("first")
		repeat(t, one.Replies, request("one"), "second")
		time.Sleep(defaultClaim)
		if c.held() != 0 {
			t.Errorf("%d claims are left, want none", c.held())
		}
	})
}

// The store learns nothing of the key or the body from a claim.
func TestClaimIsOpaque(t *testing.T) {
	t.Parallel()
	c := newCommon()
	r := New(c, slog.New(slog.DiscardHandler), &Options{Claims: c})
	turn := begin(t, r, request("one"))
	other := secret{accountID: "acct_1", path: "/v1/x", key: "other"}
	if bytes.Equal(turn.claim.Body, turn.body[:]) || bytes.Equal(turn.claim.Body, other.bodyID(turn.body)) {
		t.Error("whoever reads a claim can try out which body it is for")
	}
	turn.End()
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	wg.Go(func() { r.Run(ctx) })
	cancel()
	wg.Wait() // a process that stops leaves no claim behind
	if c.held() != 0 {
		t.Errorf("%d claims are left after the stop, want none", c.held())
	}
}
