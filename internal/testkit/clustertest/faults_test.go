package clustertest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// fault is something that happens to the cluster while callers use it. It begins and ends.
type fault struct {
	name    string
	begin   func(*cluster) error
	end     func(*cluster) error
	slow    bool // takes a minute to heal, so only the long form of the test has it
	rejoins bool // a node may be off the list of the others when it is back
}

// faults returns everything that may happen.
func faults() []fault {
	return []fault{
		{name: "node killed", rejoins: true, begin: func(c *cluster) error { c.nodes[1].kill(); return nil }, end: func(c *cluster) error { return c.nodes[1].start() }},
		{name: "Redis stopped", begin: func(c *cluster) error { return c.redis.Stop() }, end: func(c *cluster) error { return c.redis.Restart() }},
		{name: "Redis hangs", begin: func(c *cluster) error { return c.redis.Signal(syscall.SIGSTOP) }, end: func(c *cluster) error { return c.redis.Signal(syscall.SIGCONT) }},
		{name: "Redis empty", begin: func(c *cluster) error { return c.redis.Lose() }, end: func(c *cluster) error { return c.redis.Restart() }, slow: true},
		{name: "PostgreSQL stopped", begin: func(c *cluster) error { return c.pg.Stop() }, end: func(c *cluster) error { return c.pg.Restart() }},
		{name: "one node without Redis", begin: func(c *cluster) error { c.nodes[2].redis.Cut(); return nil }, end: func(c *cluster) error { c.nodes[2].redis.Mend(); return nil }},
		{name: "Redis slow", begin: func(c *cluster) error { c.delay(200 * time.Millisecond); return nil }, end: func(c *cluster) error { c.delay(0); return nil }},
	}
}

// delay makes Redis answer late.
func (c *cluster) delay(d time.Duration) {
	for _, n := range c.nodes {
		n.redis.Delay(d)
	}
}

// testFaults: whatever happens, callers notice nothing that a retry does not cure, and the books are complete.
func testFaults(t *testing.T, c *cluster) {
	outage, calls := 3*time.Second, 40
	if soak() {
		outage, calls = 20*time.Second, 200
	}
	account := c.newAccount("scale", `"requests_per_minute":"unlimited","concurrent":"unlimited","tokens_per_minute":"unlimited"`)
	for _, f := range faults() {
		if f.slow && !soak() {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			c.t = t
			c.exact()
			seed := newSeed(t)
			l := c.startLoad(account.MasterKey, 8, 2, seed)
			p := c.startProbe()
			c.eventually("some calls", func() bool { return l.completed() >= 10 })
			before := l.completed()
			if err := f.begin(c); err != nil {
				t.Error(err)
			}
			pause(t, outage)
			c.eventually("a call during the fault", func() bool { return l.completed() > before })
			during := l.completed() - before
			if err := f.end(c); err != nil {
				t.Fatal(err)
			}
			over := time.Now()
			c.exact()
			healed := time.Since(over)
			alone := c.unasked()
			// Until a minute is over, a Redis that has lost its data does not know what it had admitted. Nodes
			// notice the end of that minute within a second or two. A node that takes long to start is off the list of the
			// others by then. It comes back with the next change of that list, a minute after this one, and has a share when
			// the list without it does not count any more, a minute later. Each change takes a few beats.
			most := time.Minute
			if f.rejoins {
				most = 2*time.Minute + 10*time.Second
			}
			if healed > most+5*time.Second {
				t.Errorf("limits were exact again after %v, want %v at most", healed, most)
			}
			c.eventually("calls afterwards", func() bool { return l.completed() >= before+during+calls })
			p.settle(t)
			ids := l.finish()
			p.finish(t, over, c.unasked()-alone)
			t.Logf("soak: cluster, %s for %v: %d calls completed meanwhile; all attempts: %s; exact again after %v; seed %d", f.name, outage, during, l.summary(), healed.Round(10*time.Millisecond), seed)
			for _, failed := range l.failed {
				t.Errorf("a call failed in spite of retries:\n\t%s", failed)
			}
			c.checkBooks(append(ids, p.ids()...))
		})
	}
}

// exact waits until every node is ready, counts limits in Redis, and has its share of them.
func (c *cluster) exact() {
	c.t.Helper()
	c.ready()
	for _, n := range c.nodes {
		deadline := time.Now().Add(3 * patience)
		for {
			r := c.get(n.url, "", "/readyz")
			if r.status == 200 && !strings.Contains(r.body, "as one of ") && !strings.Contains(r.body, "just joined") {
				break
			}
			if time.Now().After(deadline) {
				c.t.Fatalf("node %s after %v: %s", n.name, 3*patience, r.body)
			}
			pause(c.t, 50*time.Millisecond)
		}
	}
}

// newSeed returns a random seed, or the one that the environment sets.
func newSeed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("SLUICE_SEED")
	if text == "" {
		return rand.Uint64() >> 1
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("SLUICE_SEED: %v", err)
	}
	return seed
}

// probe is a caller that always wants more than its account has. It shows how much that is.
type probe struct {
	c       *cluster
	key     string
	stop    chan struct{}
	running sync.WaitGroup

	mu    sync.Mutex
	calls []attempt // those that were served
	odd   []string  // other replies than 200 and 429
}

// allowance is how many calls a minute a probe has.
const allowance = 20

// startProbe starts a probe with an account of its own. It calls every node in turn.
func (c *cluster) startProbe() *probe {
	c.t.Helper()
	account := c.newAccount("basic", fmt.Sprintf(`"requests_per_minute":%d,"concurrent":"unlimited"`, allowance))
	p := &probe{c: c, key: account.MasterKey, stop: make(chan struct{})}
	for _, n := range c.nodes {
		p.running.Go(func() {
			for {
				select {
				case <-p.stop:
					return
				case <-time.After(50 * time.Millisecond):
				}
				p.call(n)
			}
		})
	}
	return p
}

func (p *probe) call(n *node) {
	a := p.c.try(n.url, p.key, "Reply with the word pong", false)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case a.complete:
		p.calls = append(p.calls, a)
	case a.status != 0 && !a.retry, a.status != 0 && a.status != 429 && a.status != 503:
		p.odd = append(p.odd, a.problem)
	}
}

// settle lets the time pass after which limits must be exact again, and a minute more to see it. The short form
// of the test does not wait.
func (p *probe) settle(t *testing.T) {
	t.Helper()
	if soak() {
		pause(t, 125*time.Second)
	}
}

// finish ends the probe and checks what it got. over is when the fault ended, and unasked for how many calls Redis did
// not answer in time since then.
func (p *probe) finish(t *testing.T, over time.Time, unasked int) {
	t.Helper()
	close(p.stop)
	p.running.Wait()
	if n := most(p.calls, time.Time{}); n > 2*allowance {
		t.Errorf("a minute had %d calls of an account with %d, want at most twice as many", n, allowance)
	}
	if n := most(p.calls, over.Add(time.Minute)); n > allowance && unasked == 0 {
		t.Errorf("a minute later a minute still had %d calls of an account with %d", n, allowance)
	}
	if len(p.odd) > 0 {
		t.Errorf("%d probes had another reply than a refusal that a retry cures, such as %s", len(p.odd), p.odd[0])
	}
	t.Logf("soak: cluster: an account with %d calls a minute had at most %d in a minute, and %d a minute after the fault; %d calls were admitted without Redis since its end",
		allowance, most(p.calls, time.Time{}), most(p.calls, over.Add(time.Minute)), unasked)
}

// ids returns the requests that were served.
func (p *probe) ids() (ids []string) {
	for _, a := range p.calls {
		ids = append(ids, a.id)
	}
	return ids
}

// most returns the largest number of calls that were surely admitted within one minute: those that began
// and ended in it, and not before from.
func most(calls []attempt, from time.Time) (n int) {
	sorted := slices.SortedFunc(slices.Values(calls), func(a, b attempt) int { return a.began.Compare(b.began) })
	for i, first := range sorted {
		if first.began.Before(from) {
			continue
		}
		count := 0
		for _, a := range sorted[i:] {
			if a.ended.Before(first.began.Add(time.Minute)) {
				count++
			}
		}
		n = max(n, count)
	}
	return n
}

// testRollingRestart: every node is restarted, one after the other, and no caller notices: no call is repeated.
func testRollingRestart(t *testing.T, c *cluster) {
	rounds, rest := 1, 50*time.Millisecond
	if soak() {
		rounds, rest = 5, 8*time.Millisecond
	}
	c.exact()
	account := c.newAccount("scale", `"requests_per_minute":"unlimited","concurrent":"unlimited","tokens_per_minute":"unlimited"`)
	lines := len(c.nginx.requests(t, 0))
	seed := newSeed(t)
	l := c.startLoad(account.MasterKey, 10, 0, seed)
	l.hurry(4, rest, seed)
	l.linger(4, seed)
	var longest time.Duration
	for range rounds {
		for _, n := range c.nodes {
			had := l.completed()
			c.eventually("some calls", func() bool { return l.completed() >= had+20 })
			began := time.Now()
			if err := n.stop(); err != nil {
				t.Error(err)
			}
			longest = max(longest, time.Since(began))
			if err := n.start(); err != nil {
				t.Fatal(err)
			}
			c.ready()
		}
	}
	ids := l.finish()
	streams := 0
	for _, a := range l.attempts {
		if a.stream {
			streams++
		}
	}
	bad := refused(c.nginx.requests(t, lines))
	t.Logf("soak: cluster: %d rolling restarts under load: %s, %d of them streams; %d refused by nginx; the longest stop took %v; seed %d", rounds*nodes, l.summary(), streams, len(bad), longest.Round(10*time.Millisecond), seed)
	for _, failed := range l.failed {
		t.Errorf("a call failed:\n\t%s", failed)
	}
	if len(bad) > 0 {
		t.Errorf("nginx refused %d requests:\n\t%s", len(bad), strings.Join(bad, "\n\t"))
	}
	c.checkBooks(ids)
}
