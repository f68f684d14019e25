package clustertest

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/operate/admin"
)

// monthly is how many calls a month the plan premium has before its keys are deactivated.
const monthly = 20

// testRevocation: what was changed on one node holds on every node for the next request.
func testRevocation(t *testing.T, c *cluster) {
	for _, notified := range []bool{true, false} {
		t.Run(map[bool]string{true: "notified", false: "not notified"}[notified], func(t *testing.T) {
			if !notified {
				defer c.silence(t)()
			}
			t.Run("changes", func(t *testing.T) { revoke(t, c) })
			t.Run("budget", func(t *testing.T) { useUp(t, c) })
		})
	}
}

// silence keeps nodes from being notified by PostgreSQL, until the returned function is called: it ends the
// sessions that listen, again and again.
func (c *cluster) silence(t *testing.T) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var silencing sync.WaitGroup
	ended := 0
	silencing.Go(func() {
		for ctx.Err() == nil {
			result, err := c.books.ExecContext(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ILIKE 'listen %' AND pid <> pg_backend_pid()`)
			if err == nil {
				n, _ := result.RowsAffected() // PostgreSQL knows it
				ended += int(n)
			}
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	return func() {
		cancel()
		silencing.Wait()
		t.Logf("%d listening sessions were ended", ended)
	}
}

// revoke makes each change on each node in turn.
func revoke(t *testing.T, c *cluster) {
	c.t = t
	for round := range rounds() {
		at := c.nodes[round%nodes]
		account := c.newAccount("basic", `"requests_per_minute":"unlimited","concurrent":"unlimited"`)
		key := account.MasterKey
		target := admin.Target{Actor: "test", Ref: account.ID, Reason: "a test"}

		fresh := do[admin.RawKey](c, at, "key.regenerate-master", target).Key
		c.everywhere("the old key after a new one was made", key, "sandbox/small", 401, "")
		c.everywhere("the new key", fresh, "sandbox/small", 200, "")
		key = fresh

		do[any](c, at, "account.suspend", target)
		c.everywhere("a key of a suspended account", key, "sandbox/small", 423, "")
		do[any](c, at, "account.unsuspend", target)
		c.everywhere("a key of an account that is not suspended any more", key, "sandbox/small", 200, "")

		for plan, status := range map[string]int{"free": 403, "basic": 200} {
			target.Plan = map[string]string{"free": "basic", "basic": "free"}[plan]
			do[any](c, at, "account.set-plan", target)
			target.Plan = plan
			do[any](c, at, "account.set-plan", target)
			c.everywhere("a model of the plan basic on the plan "+plan, key, "sandbox/large", status, "")
		}

		target.Name = "sub"
		sub := do[admin.NewKey](c, at, "key.create", target)
		c.everywhere("a new sub-key", sub.Key, "sandbox/small", 200, "")
		do[any](c, at, "key.delete", admin.Target{Actor: "test", Ref: sub.ID})
		c.everywhere("a deleted sub-key", sub.Key, "sandbox/small", 401, "")

		do[any](c, at, "key.deactivate", target)
		c.everywhere("a deactivated key", key, "sandbox/small", 401, "key_deactivated")
		do[any](c, at, "key.restore", target)
		c.everywhere("a restored key", key, "sandbox/small", 200, "")
	}
}

// rounds is how often each change is made.
func rounds() int {
	if soak() {
		return 20
	}
	return nodes
}

// everywhere makes several calls on every node at once, all of which must have the status.
func (c *cluster) everywhere(what, key, model string, status int, word string) {
	c.t.Helper()
	var mu sync.Mutex
	wrong := map[string]int{}
	example := ""
	c.atOnce(6*nodes, func(i int) int {
		n := c.nodes[i%nodes]
		var r reply
		// Every path of the API, not only those that count against limits.
		if path := "/v1/models"; i >= 4*nodes && model == "sandbox/small" {
			r = c.get(n.url, key, path)
		} else {
			r = c.chat(n.url, key, model)
		}
		if r.status != status || !strings.Contains(r.body, word) {
			mu.Lock()
			defer mu.Unlock()
			wrong[n.name]++
			example = http.StatusText(r.status) + " " + r.body
		}
		return r.status
	})
	if len(wrong) > 0 {
		c.t.Errorf("%s: of 6 requests to each node, those with another status than %d: %v, such as %s", what, status, wrong, example)
	}
}

// useUp uses up the budget of an account, on all nodes in turn. The call that reaches the end of it is the last
// one that is served anywhere. If Redis answers too late, on a machine that is too busy, a node does not know for a moment
// what the others have counted: the round is repeated then, with another account. A mistake would show in every try.
func useUp(t *testing.T, c *cluster) {
	c.t = t
	const tries = 3
	for first := range rounds() {
		var served int
		for try := 0; served != monthly && try < tries; try++ {
			var key string
			key, served = c.spend(first)
			t.Logf("%d calls were served on a budget of %d units", served, monthly)
			if served < monthly || served > 2*monthly {
				break
			}
			c.everywhere("a key whose budget is used up", key, "sandbox/small", 401, "key_deactivated")
		}
		if served != monthly {
			t.Errorf("%d calls were served on a budget of %d units", served, monthly)
		}
	}
}

// spend makes calls with a new account, on all nodes in turn from the first one, until one is refused. It returns the key
// and how many calls were served.
func (c *cluster) spend(first int) (key string, served int) {
	c.t.Helper()
	key = c.newAccount("premium", "").MasterKey
	for i := first; i <= first+2*monthly; i++ {
		r := c.chat(c.nodes[i%nodes].url, key, "sandbox/small")
		if r.status == http.StatusOK {
			served++
			continue
		}
		if r.status != 401 || !strings.Contains(r.body, "key_deactivated") {
			c.t.Errorf("call %d = %d %s, want 401 key_deactivated", i-first, r.status, r.body)
		}
		break
	}
	return key, served
}
