package clustertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// sickness is a state in which one node answers nobody, although its process lives.
type sickness struct {
	name  string
	begin func(*cluster, *node) error
	end   func(*cluster, *node) error
	slow  bool // it takes minutes, so only the long form of the test has it
}

// sicknesses returns everything that a node may have.
func sicknesses() []sickness {
	return []sickness{
		{
			name:  "nothing can be written to the journal",
			begin: func(_ *cluster, n *node) error { return limitFiles(n.cmd.Process.Pid, 1) },
			end:   func(_ *cluster, n *node) error { return limitFiles(n.cmd.Process.Pid, ^uint64(0)) },
		},
		{
			// A server that restarts on its data folder takes its place again at once; this one has forgotten which it was.
			name: "started anew after Redis has lost its data",
			begin: func(c *cluster, n *node) error {
				n.kill()
				if err := os.Remove(filepath.Join(n.data, "node")); err != nil {
					return err
				}
				if err := c.redis.Lose(); err != nil {
					return err
				}
				if err := c.redis.Restart(); err != nil {
					return err
				}
				// The other two still have their shares, and the new table knows it.
				for _, other := range c.nodes {
					if other != n {
						c.eventually("that node "+other.name+" has noticed", func() bool { return strings.Contains(c.readiness(other).body, "lost its data") })
					}
				}
				return n.start()
			},
			end:  func(*cluster, *node) error { return nil }, // it is over after a minute
			slow: true,
		},
		{
			name: "cut off from PostgreSQL and Redis for more than five minutes",
			begin: func(c *cluster, n *node) error {
				n.redis.Cut()
				n.pg.Cut()
				for begun := time.Now(); c.readiness(n).status == http.StatusOK; pause(c.t, time.Second) {
					if time.Since(begun) > 6*time.Minute {
						return fmt.Errorf("node %s is ready after %v without PostgreSQL and Redis", n.name, time.Since(begun))
					}
				}
				return nil
			},
			end:  func(_ *cluster, n *node) error { n.redis.Mend(); n.pg.Mend(); return nil },
			slow: true,
		},
	}
}

// limitFiles bounds the size of the files that a process may write.
func limitFiles(pid int, most uint64) error {
	limit := func(to, from *syscall.Rlimit) error {
		if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), syscall.RLIMIT_FSIZE, uintptr(unsafe.Pointer(to)), uintptr(unsafe.Pointer(from)), 0, 0); errno != 0 {
			return fmt.Errorf("prlimit: %w", errno)
		}
		return nil
	}
	var now syscall.Rlimit
	if err := limit(nil, &now); err != nil {
		return err
	}
	now.Cur = min(most, now.Max)
	return limit(&now, nil)
}

// mostFailed is how many of a hundred calls may fail while one of three nodes is sick: 30 of the 1500 that a soak makes.
// Calls fail until the node is left out, so the short form, which makes fewer, allows as many.
const mostFailed = 2

// A node that cannot serve is left out, by load balancers that only look at connections (nginx) and by those that ask
// /readyz (HAProxy, Kubernetes). It says why, its process is alive, and it serves again when it can.
func TestSickNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	proxy := startHAProxy(t, c.dir, c.nodes[:])
	limits := `"requests_per_minute":100000000,"concurrent":100000,"tokens_per_minute":1000000000`
	account := c.newAccount("scale", limits)
	for _, s := range sicknesses() {
		if s.slow && !soak() {
			continue
		}
		for name, address := range map[string]string{"nginx": c.nginx.url, "haproxy": proxy} {
			if !t.Run(s.name+"/"+name, func(t *testing.T) {
				c.t = t
				testSick(t, c, s, address, account.MasterKey)
			}) {
				c.report(t)
			}
		}
	}
	for name, test := range map[string]func(*testing.T, *cluster, string){"combinations": testCombinations, "kubernetes": testSickPod} {
		if !t.Run(name, func(t *testing.T) {
			c.t = t
			test(t, c, account.MasterKey)
		}) {
			c.report(t)
		}
	}
}

// testCombinations: whatever is away at the same time, /readyz says 200 exactly if calls are answered. A disk, a
// PostgreSQL or a Redis that is away keeps no call from being answered, and a journal that cannot be written does.
func testCombinations(t *testing.T, c *cluster, key string) {
	t.Helper()
	c.exact()
	n := c.nodes[1]
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	probe := filepath.Join(n.data, ".probe")
	thaw := func() {}
	for _, database := range []struct {
		name       string
		begin, end func()
	}{
		{"works", func() {}, func() {}},
		{"is away", n.pg.Cut, n.pg.Mend},
		{"is frozen", func() { thaw = n.pg.Freeze() }, func() { thaw(); n.pg.Break() }},
		{"is read-only", func() { c.readOnly("on") }, func() { c.readOnly("off") }},
	} {
		database.begin()
		for bits := range 8 {
			redis, disk, journal := bits&1 != 0, bits&2 != 0, bits&4 != 0
			if redis {
				n.redis.Cut()
			}
			if disk { // a folder in place of the file that shows whether anything can be stored
				must(os.MkdirAll(probe, 0o700))
			}
			if journal {
				must(limitFiles(n.cmd.Process.Pid, 1))
			}
			what := fmt.Sprintf("PostgreSQL %s, Redis away: %v, disk full: %v, journal full: %v", database.name, redis, disk, journal)
			want := !journal
			agreed := 0
			var last string
			for deadline := time.Now().Add(patience); agreed < 5; pause(t, 20*time.Millisecond) {
				before, answered, after := c.readiness(n), c.try(n.url, key, "Reply with the word pong", false), c.readiness(n)
				last = fmt.Sprintf("a call: %d %v %s; /readyz: %d %s", answered.status, answered.complete, answered.problem, after.status, after.body)
				if agreed++; answered.complete != want || (before.status == 200) != want || (after.status == 200) != want {
					agreed = 0
				}
				if time.Now().After(deadline) {
					t.Fatalf("%s: want that calls are answered and the node is ready: %v; %s", what, want, last)
				}
			}
			n.redis.Mend()
			must(os.RemoveAll(probe))
			must(limitFiles(n.cmd.Process.Pid, ^uint64(0)))
		}
		database.end()
		c.exact() // the others take a node that was away for a minute off their list
	}
}

// readOnly makes the database read-only, as after a failover to a standby, or no longer.
func (c *cluster) readOnly(value string) {
	c.t.Helper()
	var name string
	if err := c.books.QueryRow(`SELECT current_database()`).Scan(&name); err != nil {
		c.t.Fatal(err)
	}
	for _, statement := range []string{
		`SET default_transaction_read_only = off`,
		`ALTER DATABASE "` + name + `" SET default_transaction_read_only = ` + value,
		// The setting is that of new connections, so the old ones go.
		`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`,
	} {
		c.eventually("a connection", func() bool { _, err := c.books.Exec(statement); return err == nil })
	}
}

// testSick makes a node sick under load and counts the calls that fail. Callers do not retry.
func testSick(t *testing.T, c *cluster, s sickness, address, key string) {
	t.Helper()
	const most = 1500
	calls := 500
	if soak() {
		calls = most
	}
	c.exact()
	sick := c.nodes[2]
	seed := newSeed(t)
	l := c.startLoadOn(func() string { return address }, key, 6, 0, seed)
	l.hurry(4, 8*time.Millisecond, seed)
	c.eventually("some calls", func() bool { return l.completed() >= 50 })
	before := l.tried()
	if err := s.begin(c, sick); err != nil {
		t.Fatal(err)
	}
	c.eventually("that the node says it is not ready", func() bool { return c.readiness(sick).status == http.StatusServiceUnavailable })
	began := l.tried()
	why := c.readiness(sick).body
	if !strings.Contains(why, `"ok":false`) {
		t.Errorf("GET /readyz of the sick node = %s, want the reason", why)
	}
	c.eventually("calls", func() bool { return l.tried() >= began+calls })
	if r := c.get(c.side(sick), "", "/healthz"); r.status != http.StatusOK {
		t.Errorf("GET /healthz of the sick node = %d %v, want 200: its process is alive", r.status, r.err)
	}
	if err := s.end(c, sick); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(2 * patience)
	for r := c.readiness(sick); r.status != http.StatusOK; r = c.readiness(sick) {
		if time.Now().After(deadline) {
			t.Fatalf("the node is not ready %v after the end: %d %s %v", 2*patience, r.status, r.body, r.err)
		}
		pause(t, 50*time.Millisecond)
	}
	c.eventually("a call on the node", func() bool { return c.try(sick.url, key, "Reply with the word pong", false).complete })
	had := l.tried()
	c.eventually("calls afterwards", func() bool { return l.tried() >= had+200 })
	ids := l.finish()
	failed, all := len(l.failed), len(l.attempts)-before
	t.Logf("soak: sick node: %s: %s; %d of %d calls failed; %s; seed %d", s.name, l.summary(), failed, all, why, seed)
	if failed*100 > max(all, most)*mostFailed {
		t.Errorf("%d of %d calls failed, want at most %d in a hundred of %d, such as\n\t%s", failed, all, mostFailed, max(all, most), l.failed[0])
	}
	c.checkBooks(ids)
}

// testSickPod does what Kubernetes does: it asks /readyz of each pod every period, takes a pod out after one failure
// and puts it back after one success, and sends connections to the pods that are in. The node keeps its port open, as
// it does in a pod, because a liveness probe on it must not restart the process.
func testSickPod(t *testing.T, c *cluster, key string) {
	t.Helper()
	const period = 2 * time.Second // periodSeconds of deploy/helm/sluice/templates/statefulset.yaml; failureThreshold is 1
	c.exact()
	sick := c.nodes[2]
	if err := sick.stop(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(sick.file)
	if err == nil {
		err = os.WriteFile(sick.file, append(text, "unready: answer\n"...), 0o600)
	}
	if err == nil {
		err = sick.start()
	}
	if err != nil {
		t.Fatal(err)
	}
	c.exact()

	service := &endpoints{in: slices.Clone(c.nodes[:])}
	ctx, cancel := context.WithCancel(t.Context())
	var probing sync.WaitGroup
	for _, n := range c.nodes {
		probing.Go(func() {
			for ctx.Err() == nil {
				service.set(n, c.get(n.url, "", "/readyz").status == http.StatusOK)
				select {
				case <-ctx.Done():
				case <-time.After(period):
				}
			}
		})
	}
	defer probing.Wait()
	defer cancel()
	l := c.startLoadOn(service.pick, key, 6, 0, newSeed(t))
	c.eventually("some calls", func() bool { return l.completed() >= 50 })
	if err := limitFiles(sick.cmd.Process.Pid, 1); err != nil {
		t.Fatal(err)
	}
	c.eventually("that the pod is taken out", func() bool { return !service.has(sick) })
	out := time.Now()
	began := l.tried()
	c.eventually("calls", func() bool { return l.tried() >= began+300 })
	if r := c.get(sick.url, "", "/healthz"); r.status != http.StatusOK {
		t.Errorf("GET /healthz of the sick pod on its port = %d %v, want 200: it would be restarted", r.status, r.err)
	}
	a := c.try(sick.url, key, "Reply with the word pong", false)
	if a.status != http.StatusServiceUnavailable || !a.retry {
		t.Errorf("a call on the sick pod = %+v, want 503 and a retry", a)
	}
	if err := limitFiles(sick.cmd.Process.Pid, ^uint64(0)); err != nil {
		t.Fatal(err)
	}
	c.eventually("that the pod is put back", func() bool { return service.has(sick) })
	had := l.tried()
	c.eventually("calls afterwards", func() bool { return l.tried() >= had+100 })
	ids := l.finish()
	for _, a := range l.attempts {
		if !a.complete && a.began.After(out) {
			t.Errorf("a call that began after the pod was taken out: %s", a.problem)
		}
	}
	c.checkBooks(ids)
}

// endpoints are the nodes that a service of Kubernetes sends connections to.
type endpoints struct {
	mu sync.Mutex
	in []*node
}

func (e *endpoints) set(n *node, ready bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.in = slices.DeleteFunc(slices.Clone(e.in), func(o *node) bool { return o == n })
	if ready {
		e.in = append(e.in, n)
	}
}

func (e *endpoints) has(n *node) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Contains(e.in, n)
}

func (e *endpoints) pick() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.in[rand.IntN(len(e.in))].url
}
