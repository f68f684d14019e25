package app_test

import (
	"strings"
	"testing"

	"sluice/internal/testkit/pgtest"
	"sluice/internal/testkit/redistest"
)

// A new server that has started since Redis lost its data has no share of the limits: it says that it is not ready, and
// refuses calls with 503 and words that are true, because its own state is in the way and not what the account has used.
// Others have their shares, serve and are ready, also one that has restarted.
func TestNoShareAfterRedisLostItsData(t *testing.T) {
	t.Parallel()
	redis := redistest.Own(t)
	yaml := "unready: answer\nmetrics_listen: 127.0.0.1:0\ndatabase: " + pgtest.URL(t) + "\nredis: redis://" + redis.Addr() + "\n" + oneSecret
	one := newSite(t, yaml).start(t)
	key := one.OwnerKey()
	second := newSite(t, yaml)
	two := second.start(t)
	counted := func(n *node) bool { return strings.Contains(n.scrape(), "\nsluice_ledger_exact 1\n") }
	eventually(t, "that both count in Redis, and know each other", func() bool {
		return counted(one) && counted(two) && strings.Contains(one.scrape(), "\nsluice_ledger_nodes 2\n") && !strings.Contains(one.get("/readyz", "").body, "just joined")
	})
	two.answers(key)
	two.stop()
	if err := redis.Lose(); err != nil {
		t.Fatal(err)
	}
	if err := redis.Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "that the first has noticed", func() bool { return strings.Contains(one.get("/readyz", "").body, "Redis has lost its data") })
	two = second.start(t)
	if r := two.get("/readyz", ""); r.status != 200 || two.chat(key) != 200 {
		t.Errorf("GET /readyz of the server that has restarted = %d %s, want 200, and that calls are answered", r.status, r.body)
	}
	two.stop()
	two = newSite(t, yaml).start(t)
	if r := two.get("/readyz", ""); r.status != 503 || !strings.Contains(r.body, `{"name":"redis","ok":false,"message":"Redis has lost its data less than a minute ago: this server had just joined the others, has no share of the limits yet, and refuses calls until that minute is over"`) {
		t.Errorf("GET /readyz of the new server = %d %s, want 503 and why", r.status, r.body)
	}
	r := two.request("POST", "/v1/chat/completions", key, `{"model":"sandbox/small","messages":[{"role":"user","content":"hi"}]}`)
	if r.status != 503 || r.header.Get("Retry-After") != "5" || !strings.Contains(r.body, "has no share of the limits yet, so it lets no call in") || strings.Contains(r.body, " used") {
		t.Errorf("a call on the new server = %d %v %s, want 503, when to try again, and the reason", r.status, r.header, r.body)
	}
	if r := one.get("/readyz", ""); r.status != 200 || one.chat(key) != 200 {
		t.Errorf("GET /readyz of the server with a share = %d %s, want 200, and that calls are answered", r.status, r.body)
	}
	// Health is served beside the metrics as well: the port of the API may refuse connections.
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503} {
		if got := two.side(path); got != want {
			t.Errorf("GET %s on the address of the metrics = %d, want %d", path, got, want)
		}
	}
}

// A server that is the first to start after Redis has lost its data does not count there at once: what others have
// admitted on their shares, and Redis before, would be forgotten. It knows it from the database.
func TestFirstAfterRedisLostItsData(t *testing.T) {
	t.Parallel()
	redis := redistest.Own(t)
	s := newSite(t, "metrics_listen: 127.0.0.1:0\ndatabase: "+pgtest.URL(t)+"\nredis: redis://"+redis.Addr()+"\n"+oneSecret)
	n := s.start(t)
	key := n.OwnerKey()
	n.answers(key)
	// A busy machine may keep its first call to Redis waiting for too long.
	eventually(t, "that the first server of all counts in Redis, which has lost nothing", func() bool { return strings.Contains(n.scrape(), "\nsluice_ledger_exact 1\n") })
	n.stop()
	n = s.start(t)
	eventually(t, "that a server that restarts counts in a Redis that has its data", func() bool { return strings.Contains(n.scrape(), "\nsluice_ledger_exact 1\n") })
	n.stop()
	if err := redis.Lose(); err != nil {
		t.Fatal(err)
	}
	if err := redis.Restart(); err != nil {
		t.Fatal(err)
	}
	n = s.start(t)
	eventually(t, "that the server says that Redis has lost its data", func() bool {
		if strings.Contains(n.scrape(), "\nsluice_ledger_exact 1\n") {
			t.Fatalf("a server that starts on a Redis without its data counts there at once: %s", n.get("/readyz", "").body)
		}
		return strings.Contains(n.get("/readyz", "").body, "Redis has lost its data")
	})
	// Nobody else is there, so it answers: 503 until it knows that nobody has a share, and then on its share.
	n.answers(key)
}

// answers waits until a call is answered.
func (n *node) answers(key string) {
	n.t.Helper()
	eventually(n.t, "a call that is answered", func() bool { return n.chat(key) == 200 })
}

// side returns the status of a path on the address of the metrics.
func (n *node) side(path string) int {
	n.t.Helper()
	resp, err := n.client.Get("http://" + n.MetricsAddr() + path)
	if err != nil {
		n.t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}
