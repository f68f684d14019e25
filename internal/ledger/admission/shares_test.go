package admission

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
)

// The shares of a list of nodes add up to the limit, and differ by one at most.
func TestShare(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 50).Draw(t, "nodes")
		limit := account.Limit(rapid.Int64Range(0, 200).Draw(t, "limit"))
		turn := rapid.Uint32().Draw(t, "turn")
		var sum account.Limit
		for rank := range n {
			share := View{rank, n}.Share(limit, turn)
			if sum += share; share < limit/account.Limit(n) || share > limit/account.Limit(n)+1 {
				t.Fatalf("share of %d of node %d of %d = %d", limit, rank, n, share)
			}
		}
		if sum != limit {
			t.Fatalf("shares of %d nodes add up to %d, want %d", n, sum, limit)
		}
		if got := (View{0, n}).Share(account.Unlimited, turn); got != account.Unlimited {
			t.Fatalf("share of unlimited = %d", got)
		}
	})
	if got := (View{}).Share(10, 3); got != 0 {
		t.Errorf("share without nodes = %d, want 0", got)
	}
}

// The one more goes to different nodes for different accounts.
func TestSpread(t *testing.T) {
	t.Parallel()
	got := map[bool]int{}
	for i := range 300 {
		got[View{0, 3}.Share(1, spread(fmt.Sprint("acct_", i))) == 1]++
	}
	if got[true] < 60 || got[true] > 140 {
		t.Errorf("one of three nodes has the only call of %d of 300 accounts, want about 100", got[true])
	}
}

// When a node comes or goes, almost all that had one more still have it. Otherwise limits smaller than the
// number of nodes would be nobody's for as long as the list changes.
func TestShareStays(t *testing.T) {
	t.Parallel()
	for i := range 20 {
		turn, stays := spread(fmt.Sprint("acct_", i)), 0
		for rank := range 1000 {
			if min(View{rank, 1000}.Share(300, turn), View{rank, 1001}.Share(300, turn)) == 1 {
				stays++
			}
		}
		if stays < 295 {
			t.Errorf("%d of 300 nodes keep their share when another comes, want nearly all", stays)
		}
	}
}

// divided returns the ledgers of n nodes that know each other. Their clock stands still.
func divided(n int) []*Divided {
	now := func() time.Duration { return time.Hour }
	var nodes []*Divided
	for rank := range n {
		views := []View{{rank, n}}
		nodes = append(nodes, NewDivided(NewMemory(now), func() []View { return views }))
	}
	return nodes
}

// Together the nodes admit the limit, whatever it is, and not one call more.
func TestDivided(t *testing.T) {
	t.Parallel()
	for _, limits := range []account.Limits{
		{RequestsPerMinute: 10, TokensPerMinute: account.Unlimited, Concurrent: account.Unlimited},
		{RequestsPerMinute: account.Unlimited, TokensPerMinute: 10, Concurrent: account.Unlimited},
		{RequestsPerMinute: account.Unlimited, TokensPerMinute: account.Unlimited, Concurrent: 10},
	} {
		admitted := 0
		for _, node := range divided(3) {
			for range 20 {
				_, headroom, o := node.Take("acct_1", limits, Cost{RequestMilli: 1000, Tokens: 1})
				if o == nil {
					admitted++
				} else if o.Never || o.Limit != 10 || o.Used != map[Resource]int64{Requests: 10_000, Tokens: 10, Slots: 10}[o.Resource] {
					t.Errorf("Take(%+v) = %+v, want the whole limit as used", limits, o)
				}
				if headroom != node.Peek("acct_1", limits) {
					t.Errorf("Peek(%+v) = %+v, want %+v as Take says", limits, node.Peek("acct_1", limits), headroom)
				}
			}
		}
		if admitted != 10 {
			t.Errorf("three nodes admit %d calls at the limits %+v, want 10", admitted, limits)
		}
	}
}

// A call whose tokens exceed the node's part passes while nothing else is used, and then counts in full.
func TestDividedTokens(t *testing.T) {
	t.Parallel()
	node := divided(4)[0]
	limits := account.Limits{RequestsPerMinute: account.Unlimited, TokensPerMinute: 100, Concurrent: account.Unlimited}
	p, _, o := node.Take("acct_1", limits, Cost{Tokens: 100})
	if o != nil || p.Cost.Tokens != 25 {
		t.Fatalf("Take = %+v, %+v, want the node's part reserved", p, o)
	}
	node.Free("acct_1", p, Cost{Tokens: 60})
	if got := node.Peek("acct_1", limits).Tokens; got.Used != 60+75 || got.Remaining != 0 {
		t.Errorf("Peek = %+v, want what was used and the parts of others", got)
	}
	if _, _, o := node.Take("acct_1", limits, Cost{Tokens: 1}); o == nil || o.Never || o.Wait <= 0 {
		t.Errorf("Take = %+v, want to wait", o)
	}
}

// A call that counts as more requests than any node has is refused for good, in words that say why.
func TestDividedTooSmall(t *testing.T) {
	t.Parallel()
	limits := account.Limits{RequestsPerMinute: 10, TokensPerMinute: account.Unlimited, Concurrent: account.Unlimited}
	_, _, o := divided(3)[0].Take("acct_1", limits, Cost{RequestMilli: 5000})
	if o == nil || !o.Never || o.Parts != 3 {
		t.Fatalf("Take = %+v, want that no part is large enough", o)
	}
	const want = "This call counts as 5 requests. The limit of 10 a minute is divided among 3 servers at the moment, and none of them can admit it. Use a model with a lower request_multiplier, or a higher plan."
	if f := o.fault(Cost{RequestMilli: 5000}, true); f.Message != want || !f.Final {
		t.Errorf("fault = %q (final: %t), want %q", f.Message, f.Final, want)
	}
	// One that fits into the largest part passes elsewhere, or later.
	passes := 0
	for _, node := range divided(3) {
		if _, _, o := node.Take("acct_1", limits, Cost{RequestMilli: 4000}); o == nil {
			passes++
		} else if o.Never || o.Wait <= 0 {
			t.Errorf("Take = %+v, want that a retry may pass", o)
		}
	}
	if passes != 1 {
		t.Errorf("%d of three nodes admit a call of 4 of 10 requests, want 1", passes)
	}
	if _, _, o := divided(3)[0].Take("acct_1", limits, Cost{RequestMilli: 11_000}); o == nil || !o.Never || o.Parts != 0 {
		t.Errorf("Take of more than the limit = %+v, want never, for all that parts matter", o)
	}
}

// What a refused caller reads is true: what belongs to other nodes is not used, and a node that has no part of the
// limits refuses because of its own state, which is a 503.
func TestDividedWords(t *testing.T) {
	t.Parallel()
	limits := account.Limits{RequestsPerMinute: 9, TokensPerMinute: 90, Concurrent: 9}
	full := func(c Cost) *Obstacle {
		node := divided(3)[0]
		for range 10 {
			if _, _, o := node.Take("acct_1", limits, c); o != nil {
				return o
			}
		}
		return nil
	}
	outside := NewDivided(NewMemory(nil), func() []View { return []View{{Rank: 1, Nodes: 2}, {}} })
	_, _, none := outside.Take("acct_1", limits, Cost{RequestMilli: 1000, Tokens: 1})
	for _, c := range []struct {
		obstacle *Obstacle
		cost     Cost
		kind     fault.Kind
		want     string
	}{
		{full(Cost{RequestMilli: 1500}), Cost{RequestMilli: 1500}, fault.RateLimited, "Limits are divided among the servers at the moment: of 9 requests a minute, this server admits 3; 3 are used and this call counts as 1.5. It would pass in "},
		{full(Cost{Tokens: 10}), Cost{Tokens: 10}, fault.RateLimited, "Limits are divided among the servers at the moment: of 90 tokens a minute, this server admits 30; 30 are used and this call reserves 10. It would pass in "},
		{full(Cost{}), Cost{}, fault.RateLimited, "Limits are divided among the servers at the moment: of the 9 calls that this account may have at once, this server admits 3, and 3 are running. One of them must end first, or another server may take the call."},
		{none, Cost{RequestMilli: 1000}, fault.Unavailable, "This server has just joined the others and has no share of the limits yet, so it lets no call in. Try again in 5 seconds: another server may take the call."},
	} {
		if c.obstacle == nil {
			t.Errorf("no refusal, want %q", c.want)
			continue
		}
		if f := c.obstacle.fault(c.cost, true); !strings.HasPrefix(f.Message, c.want) || f.Kind != c.kind || f.Final || f.RetryAfter <= 0 {
			t.Errorf("fault = %s %q after %s (final: %t), want %s %q", f.Kind, f.Message, f.RetryAfter, f.Final, c.kind, c.want)
		}
	}
	// An account without limits has no share of anything, and needs none.
	free := account.Limits{RequestsPerMinute: account.Unlimited, TokensPerMinute: account.Unlimited, Concurrent: account.Unlimited}
	if _, _, o := outside.Take("acct_2", free, Cost{RequestMilli: 1000, Tokens: 1}); o != nil {
		t.Errorf("Take without limits on a node without a share = %+v, want none in the way", o)
	}
}
