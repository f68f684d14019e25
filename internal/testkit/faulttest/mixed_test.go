package faulttest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/examples/resume"
	"sluice/internal/account"
	"sluice/internal/ledger/budget"
	"sluice/internal/operate/admin"
	"sluice/internal/testkit/pgtest"
	"sluice/internal/testkit/porttest"
	"sluice/internal/testkit/redistest"
)

// TestMixed lets callers of every kind work while one fault after the other, drawn at random, happens to the servers, and
// compares the books with what the callers saw. In a soak it takes 12 minutes, otherwise as long as each fault once.
func TestMixed(t *testing.T) {
	t.Parallel()
	t.Run("one process", func(t *testing.T) {
		t.Parallel()
		m := newMixed(t, "")
		s := m.nodes[0]
		m.run(
			happening{"process killed", func(time.Duration) { s.kill(syscall.SIGKILL); s.start() }},
			happening{"process restarted", func(time.Duration) { s.kill(syscall.SIGTERM); s.start() }},
			m.stopped(s),
			m.idle(s),
		)
	})
	t.Run("two nodes", func(t *testing.T) {
		t.Parallel()
		pg, redis := pgtest.Own(t), redistest.Own(t)
		m := newMixed(t, fmt.Sprintf("database: %q\nredis: %s\nsecret: one-secret-for-all-nodes-of-this-test\n", pg.URL(), redis.URL()), "")
		// The first one lives through all of it, so that what it holds can be told.
		first, second := m.nodes[0], m.nodes[1]
		during := func(begin, end func() error) func(time.Duration) {
			return func(outage time.Duration) {
				if err := begin(); err != nil {
					t.Error(err)
				}
				m.wait(outage)
				if err := end(); err != nil {
					t.Error(err)
				}
			}
		}
		signal := func(sig syscall.Signal) func() error { return func() error { return redis.Signal(sig) } }
		m.run(
			happening{"node killed", func(time.Duration) { second.kill(syscall.SIGKILL); second.start() }},
			happening{"node restarted", func(time.Duration) { second.kill(syscall.SIGTERM); second.start() }},
			m.stopped(first),
			m.stopped(second),
			m.idle(first),
			happening{"PostgreSQL restarted", during(pg.Stop, pg.Restart)},
			happening{"PostgreSQL hangs", during(pg.Freeze, pg.Thaw)},
			happening{"Redis restarted", during(redis.Stop, redis.Restart)},
			happening{"Redis hangs", during(signal(syscall.SIGSTOP), signal(syscall.SIGCONT))},
			happening{"Redis restarted empty", during(redis.Lose, redis.Restart)},
		)
	})
}

// happening is a fault, made and mended. Those that last take a time.
type happening struct {
	name string
	make func(outage time.Duration)
}

// mixed is a load on servers to which things happen.
type mixed struct {
	t      *testing.T
	nodes  []*server
	faults []upstreamFault // of the models f0, f1, …
	random *rand.Rand
	seed   uint64
	ended  chan struct{} // closed: callers go home
	amount int           // of the budget, in dollars
	record budget.Record
}

// newMixed starts a server for each of the configurations, which all of them share, and one more.
func newMixed(t *testing.T, shared string, more ...string) *mixed {
	t.Helper()
	seed := rand.Uint64() >> 1
	if text := os.Getenv("SLUICE_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("SLUICE_SEED: %v", err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("SLUICE_SEED=%d", seed)
		}
	})
	m := &mixed{t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 0)), ended: make(chan struct{})}
	for _, f := range upstreamFaults(t) {
		if !f.heavy && f.script != nil {
			m.faults = append(m.faults, f)
		}
	}
	bad := listen(t, func(w *wire, path, prompt string) {
		var i int
		if _, err := fmt.Sscanf(path, "/%d/", &i); err == nil {
			_, _ = fmt.Sscanf(prompt, "at %d", &w.n)
			m.faults[i].script(w)
		}
	})
	providers, models := &strings.Builder{}, &strings.Builder{}
	fmt.Fprintf(providers, "  - {name: p, kind: openai, base_url: \"http://%s/v1\"}\n", newOrdinary(t).addr)
	fmt.Fprintf(models, "  - {id: m, provider: p, plan: free, context_length: 1000000, max_output: 100}\n")
	prices := &strings.Builder{}
	fmt.Fprintf(prices, "  - {model: m, input: 1000, output: 10000}\n")
	for i := range m.faults {
		fmt.Fprintf(providers, "  - {name: p%d, kind: openai, base_url: \"http://%s/%d/v1\", timeouts: {first_content: 1s, silence: 1s}}\n", i, bad, i)
		fmt.Fprintf(models, "  - {id: f%d, provider: p%d, plan: free, context_length: 1000, max_output: 100}\n", i, i)
		fmt.Fprintf(prices, "  - {model: f%d, input: 1000, output: 10000}\n", i)
	}
	for range len(more) + 1 {
		port, err := porttest.Hold()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(port.Release)
		s := configureAt(t, port.Addr(), shared+"providers:\n"+providers.String()+"models:\n"+models.String()+"prices:\n"+prices.String())
		s.start()
		if len(m.nodes) > 0 { // only the one that made the owner knows the key
			s.key = m.nodes[0].key
		}
		m.nodes = append(m.nodes, s)
	}
	return m
}

// stopped is a process that stands still for a while.
func (m *mixed) stopped(s *server) happening {
	return happening{"process stopped and continued", func(outage time.Duration) {
		_ = s.cmd.Process.Signal(syscall.SIGSTOP)
		m.wait(outage)
		_ = s.cmd.Process.Signal(syscall.SIGCONT)
	}}
}

// idle is a crowd of connections that say nothing.
func (m *mixed) idle(s *server) happening {
	return happening{"idle connections", func(outage time.Duration) {
		var open []net.Conn
		for range scaled(50, 1000) {
			if nc, err := net.Dial("tcp", s.addr); err == nil {
				open = append(open, nc)
			}
		}
		m.wait(outage)
		for _, nc := range open {
			_ = nc.Close()
		}
	}}
}

// wait lets the callers work for a time.
func (m *mixed) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-m.t.Context().Done():
	}
}

// callers is how many work at a time, and pace how long each rests between two calls.
const (
	callers = 8
	pace    = 100 * time.Millisecond
)

// run lets the faults happen under load: each of them once, in any order, and in a soak again and again for 12 minutes. Then
// it audits.
func (m *mixed) run(faults ...happening) {
	first := m.nodes[0]
	first.begin(m.t)
	first.back(m.t, time.Now())
	m.budget(budgetStep)
	before := first.atRest()
	before.files += float64(4 * len(m.faults)) // connections to upstreams are kept for a while
	watch := watchLoad(first)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() { m.work(rand.New(rand.NewPCG(m.seed, uint64(i)+1))) })
	}
	began, most := time.Now(), time.Duration(scaled(0, 12))*time.Minute
	happened := map[string]int{}
	for time.Since(began) < most || len(happened) == 0 {
		for _, i := range m.random.Perm(len(faults)) {
			outage := time.Duration(m.random.IntN(scaled(500, 20_000))) * time.Millisecond
			m.wait(time.Duration(m.random.IntN(scaled(300, 10_000))) * time.Millisecond)
			watch.mark(faults[i].name)
			faults[i].make(outage)
			happened[faults[i].name]++
			if m.t.Failed() {
				break
			}
			m.budget(budgetStep)
		}
	}
	close(m.ended)
	all.Wait()
	m.budget(1000)
	over := time.Now()
	for _, s := range m.nodes {
		s.back(m.t, over)
		eventually(m.t, "an empty journal", func() bool { return s.gauge("sluice_journal_records") == 0 }, func() string { return "" })
		if s != first {
			first.calls = append(first.calls, s.calls...)
		}
	}
	first.calm(before)
	recovery := time.Since(over)
	watch.stop()
	n := first.balance()
	charges := m.spent()
	for _, s := range m.nodes {
		s.kill(syscall.SIGTERM)
	}
	report(m.t, "mixed load, "+strings.ReplaceAll(path.Base(m.t.Name()), "_", " "), n, recovery)
	m.t.Logf("soak: %v of mixed load, %d calls, with %v; %d charges of a hard budget of %d dollars in the end, none beyond it; SLUICE_SEED=%d", over.Sub(began).Round(time.Second), len(first.calls), happened, charges, m.amount, m.seed)
	watch.report(m.t)
}

// budgetStep is how many dollars are added to the budget of all calls after each fault. A call costs one at most; it may use up the
// budget, and is refused then.
const budgetStep = 10

// budget adds to the hard budget of the account, or makes it.
func (m *mixed) budget(by int) {
	m.amount += by
	name, amount, window := "all", strconv.Itoa(m.amount), account.Total
	order := admin.BudgetOrder{Actor: "t", Ref: "owner@localhost", ID: m.record.ID, Amount: &amount}
	if order.ID == "" {
		order.Name, order.Window, order.Scope = &name, &window, &account.BudgetScope{Account: true}
	}
	var err error
	eventually(m.t, "a budget", func() bool {
		var door *admin.Client
		if door, err = admin.Dial(m.t.Context(), m.nodes[0].data()); err == nil {
			err = door.Call(m.t.Context(), "budget.set", order, &m.record)
		}
		return err == nil
	}, func() string { return fmt.Sprint(err) })
}

// spent checks that the budget was never overspent and that nothing of it is reserved, on any node, and returns how many calls counted.
func (m *mixed) spent() (charges int) {
	for _, s := range m.nodes {
		var audit admin.Audit
		s.call("audit", admin.Empty{}, &audit)
		if charges = audit.Charges; charges == 0 || len(audit.Overspent) > 0 {
			m.t.Errorf("the audit has %d charges of budgets and finds %+v", charges, audit.Overspent)
		}
		var list admin.List[budget.Record]
		eventually(m.t, "that nothing is reserved", func() bool {
			s.call("budget.list", admin.AccountPage{Ref: "owner@localhost"}, &list)
			return len(list.Data) == 1 && *list.Data[0].Reserved == "0.00"
		}, func() string { return fmt.Sprintf("%+v", list.Data) })
	}
	return charges
}

// work makes calls of every kind until the end.
func (m *mixed) work(random *rand.Rand) {
	rest := time.NewTicker(pace)
	defer rest.Stop()
	for {
		select {
		case <-m.ended:
			return
		case <-rest.C:
			m.call(random)
		}
	}
}

// call makes a call of some kind. However it ends, what looks whole is.
func (m *mixed) call(random *rand.Rand) {
	s := m.nodes[random.IntN(len(m.nodes))]
	c, want := &seen{}, ""
	switch kind := random.IntN(100); {
	case kind < 40:
		c, want = s.chat("m", "Go."), "one two three"
	case kind < 50:
		c, want = s.chat("m", "slow"), "0123456789"
	case kind < 70:
		i := random.IntN(len(m.faults))
		c, want = s.chat(fmt.Sprint("f", i), fmt.Sprint("at ", random.IntN(max(1, m.faults[i].calls)))), m.faults[i].text
		if want == "" {
			want = c.text
		}
	case kind < 85:
		c, want = m.resumed(s, random), "0123456789"
	default:
		nc, err := net.Dial("tcp", s.addr)
		if err != nil {
			return
		}
		_ = nc.SetDeadline(time.Now().Add(patience))
		request := strings.Replace(s.request("m", "Go."), "Host: x\r\n", "Host: x\r\nConnection: close\r\n", 1)
		if kind < 92 {
			s.leave(nc, request, random.IntN(len(request)), 0)
		} else {
			s.leave(nc, request, len(request), 1+random.IntN(2000))
		}
		return
	}
	if c.end == complete && c.text != want {
		m.t.Errorf("a call looked complete with %q, want %q\n%s", c.text, want, c.body)
	}
	c.body, c.text = "", "" // there are many
}

// resumed makes a call whose connection breaks somewhere, and gets the rest from any node.
func (m *mixed) resumed(s *server, random *rand.Rand) *seen {
	req := s.post(`{"model":"m","stream":true,"messages":[{"role":"user","content":"slow"}]}`)
	req.GetBody = nil // sent once
	broken := &breaking{at: random.IntN(4000), other: m.nodes[random.IntN(len(m.nodes))].addr}
	return s.ask(&http.Client{Transport: &resume.Transport{Base: broken, Patience: 5 * time.Second}, Timeout: patience}, req)
}

// breaking breaks the first reply after some bytes, and sends what comes then elsewhere.
type breaking struct {
	at    int
	other string
}

// RoundTrip implements http.RoundTripper.
func (b *breaking) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		r.URL.Host = b.other
		return client.Transport.RoundTrip(r)
	}
	resp, err := client.Transport.RoundTrip(r)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(io.LimitReader(resp.Body, int64(b.at)), broken{}), resp.Body}
	}
	return resp, err
}

// broken is a connection that is gone.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("the connection broke") }

// statm returns the resident memory of a process, in bytes, and how many descriptors it has; zeros if there is none.
func statm(pid int64) (memory, files float64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	fields := bytes.Fields(text)
	if err != nil || len(fields) < 2 {
		return 0, 0
	}
	pages, _ := strconv.ParseFloat(string(fields[1]), 64)
	list, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return pages * float64(os.Getpagesize()), float64(len(list))
}
