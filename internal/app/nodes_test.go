package app_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/operate/admin"
	"sluice/internal/testkit/pgtest"
	"sluice/internal/testkit/redistest"
)

// oneSecret is the secret of all nodes of an installation.
const oneSecret = "secret: one-secret-for-all-nodes-of-this-test\n"

// threeNodes are three servers on one PostgreSQL and one Redis.
func threeNodes(t *testing.T, yaml string) ([]*node, *redistest.Server) {
	t.Helper()
	redis := redistest.Own(t)
	yaml += "metrics_listen: 127.0.0.1:0\ndatabase: " + pgtest.URL(t) + "\nredis: redis://" + redis.Addr() + "\n" + oneSecret
	nodes := make([]*node, 3)
	for i := range nodes {
		nodes[i] = newSite(t, yaml).start(t)
	}
	return nodes, redis
}

// chat sends a small call to a model that needs the plan basic, and returns the status of the reply.
func (n *node) chat(key string) int {
	return n.request("POST", "/v1/chat/completions", key, `{"model":"sandbox/large","messages":[{"role":"user","content":"hi"}]}`).status
}

// A change holds on every node for the next request, whichever node made it. Nothing waits here: that is what
// is tested. There are no limits, because a node that has just joined has no share of them, and refuses the calls that a
// busy Redis does not answer in time.
func TestChangeHoldsEverywhere(t *testing.T) {
	t.Parallel()
	const unlimited = "{requests_per_minute: unlimited, concurrent: unlimited, tokens_per_minute: unlimited}"
	nodes, _ := threeNodes(t, "plans: {none: "+unlimited+", basic: "+unlimited+", scale: "+unlimited+"}\n")
	made := must[admin.CreatedAccount](nodes[0], "account.create", admin.NewAccount{Actor: "t", Email: "a@example.com", Plan: "basic"})
	key := made.MasterKey
	target := admin.Target{Actor: "t", Ref: made.ID, Reason: "r"}
	everywhere := func(what string, status, chat int) {
		t.Helper()
		for i, n := range nodes {
			if got := n.get("/v1/models", key).status; got != status {
				t.Errorf("%s: GET /v1/models on node %d = %d, want %d", what, i, got, status)
			}
			if got := n.chat(key); got != chat {
				t.Errorf("%s: a call on node %d = %d, want %d", what, i, got, chat)
			}
		}
	}
	everywhere("a new account", 200, 200)
	for i, step := range []struct {
		name         string
		do           func(n *node)
		status, chat int
	}{
		{"suspend", func(n *node) { must[any](n, "account.suspend", target) }, 423, 423},
		{"unsuspend", func(n *node) { must[any](n, "account.unsuspend", target) }, 200, 200},
		{"deactivate", func(n *node) { must[any](n, "key.deactivate", target) }, 401, 401},
		{"restore", func(n *node) { must[any](n, "key.restore", target) }, 200, 200},
		{"lower plan", func(n *node) { must[any](n, "account.set-plan", admin.Target{Actor: "t", Ref: made.ID, Plan: "none"}) }, 200, 402},
		{"higher plan", func(n *node) { must[any](n, "account.set-plan", admin.Target{Actor: "t", Ref: made.ID, Plan: "scale"}) }, 200, 200},
		{"regenerate", func(n *node) {
			old := key
			key = must[admin.RawKey](n, "key.regenerate-master", target).Key
			for i, n := range nodes {
				if models, chat := n.get("/v1/models", old).status, n.chat(old); models != 401 || chat != 401 {
					t.Errorf("the old key on node %d = %d and %d, want 401", i, models, chat)
				}
			}
		}, 200, 200},
	} {
		step.do(nodes[i%3])
		everywhere(step.name, step.status, step.chat)
	}
}

// The limits of an account hold over all nodes together. On a machine that is too busy for Redis to answer in time,
// nodes go by their share of a limit, and what Redis has counted by then may be refused: the round is repeated then, with
// fewer calls at once. A mistake would show in every round.
func TestLimitsOverNodes(t *testing.T) {
	t.Parallel()
	const rounds, limit = 8, 10
	nodes, _ := threeNodes(t, fmt.Sprintf("plans: {basic: {requests_per_minute: %d, concurrent: unlimited, tokens_per_minute: unlimited}}\n", limit))
	for round := range rounds {
		calls := max(200>>round, limit+2)
		made := must[admin.CreatedAccount](nodes[0], "account.create", admin.NewAccount{Actor: "t", Email: fmt.Sprintf("a%d@example.com", round), Plan: "basic"})
		var mu sync.Mutex
		seen := map[int]int{} // calls by status
		var all sync.WaitGroup
		for i := range calls {
			all.Go(func() {
				status := nodes[i%3].chat(made.MasterKey)
				mu.Lock()
				defer mu.Unlock()
				seen[status]++
			})
		}
		all.Wait()
		passed, refused, without := seen[200], seen[429], seen[503]
		got := fmt.Sprintf("%d calls over three nodes: %v by status, want %d of 200 and %d of 429", calls, seen, limit, calls-limit)
		onShare := 0
		for _, n := range nodes {
			if !strings.Contains(n.scrape(), "sluice_ledger_local_calls 0\n") {
				onShare++
			}
		}
		switch {
		case passed == limit && refused == calls-limit:
			return
		// Where Redis does not answer in time, a node goes on by its share, and refuses calls while it has none. Where
		// the database does not, it cannot know a key that another node has just made.
		case onShare == 0 && passed > limit, passed+refused+without != calls:
			t.Fatal(got)
		}
		t.Log(got)
	}
	t.Errorf("the limit did not hold in any of %d rounds", rounds)
}

// joining is how long nodes may take until each has a share: a minute after the last of them has come, and what a busy
// machine needs.
const joining = 3 * time.Minute

// While Redis is away, nodes go on by their shares, and say so.
func TestWithoutRedis(t *testing.T) {
	t.Parallel()
	// Waiting costs calls, and so does each node's share.
	nodes, redis := threeNodes(t, "plans: {scale: {requests_per_minute: unlimited, tokens_per_minute: unlimited}}\n")
	made := must[admin.CreatedAccount](nodes[0], "account.create", admin.NewAccount{Actor: "t", Email: "a@example.com", Plan: "scale"})
	for _, n := range nodes {
		within(t, joining, "a share of the limits", func() bool {
			return strings.Contains(n.get("/readyz", "").body, `{"name":"redis","ok":true,"age_seconds":0}`) && strings.Contains(n.scrape(), "sluice_ledger_nodes 3")
		})
	}
	if got := nodes[1].chat(made.MasterKey); got != 200 {
		t.Fatalf("a call = %d, want 200", got)
	}
	if err := redis.Kill(); err != nil {
		t.Fatal(err)
	}
	for i, n := range nodes {
		if got := n.chat(made.MasterKey); got != 200 {
			t.Errorf("a call on node %d without Redis = %d, want 200", i, got)
		}
		eventually(t, "a note about Redis", func() bool {
			r := n.get("/readyz", "")
			return r.status == 200 && strings.Contains(r.body, "this server admits its share of each limit, as one of 3")
		})
	}
	must[any](nodes[0], "account.suspend", admin.Target{Actor: "t", Ref: made.ID, Reason: "r"})
	for i, n := range nodes {
		eventually(t, fmt.Sprintf("the suspension on node %d", i), func() bool { return n.chat(made.MasterKey) == 423 })
	}
	must[any](nodes[0], "account.unsuspend", admin.Target{Actor: "t", Ref: made.ID})
	if err := redis.Restart(); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		eventually(t, "calls", func() bool { return n.chat(made.MasterKey) == 200 })
	}
}
