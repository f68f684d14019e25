package clustertest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"sluice/internal/operate/admin"
	"sluice/internal/testkit/pgtest"
	"sluice/internal/testkit/redistest"
)

// What is made to fail, how, what callers see and what the books show. Callers retry what says that it
// can be retried, as OpenAI's clients do; "nothing" means that no call fails after that.
//
//	fault                      how it is made                   callers see                    the books show
//	-------------------------  -------------------------------  -----------------------------  --------------------------------
//	200 calls at once          over three nodes, 10 a minute    10 replies, 190 × 429          10 settlements
//	15 streams at once         over three nodes, 5 slots        5 streams, 10 × 429            -
//	a key is replaced          on one node                      401 for the old key, all over  an entry in the audit log
//	… and nobody is notified   LISTEN sessions are ended        the same                       the same
//	a node dies                SIGKILL, start                   broken calls; a retry works    every finished call, once
//	Redis is away              stopped, started again           nothing                        every finished call, once
//	Redis hangs                SIGSTOP, SIGCONT                 nothing                        every finished call, once
//	PostgreSQL is away         stopped, started again           nothing                        every finished call, once
//	one node without Redis     its proxy closes connections     nothing                        every finished call, once
//	Redis is slow              its proxy delays by 200 ms       slower replies                 every finished call, once
//	a restart of every node    SIGTERM, start, one by one       nothing, without any retry     every finished call, once
//	hard budgets are used up   with the faults above            402 at the budget, 503         no budget overspent, ever
//
// In all of them, no account gets more than twice its allowance in any minute.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	// One after the other: each changes what all share.
	for _, part := range []struct {
		name string
		test func(*testing.T, *cluster)
	}{
		{"limits", testLimits},
		{"revocation", testRevocation},
		{"files", testFiles},
		{"rolling", testRollingRestart},
		{"budgets", testBudgets},
		{"faults", testFaults},
	} {
		if !t.Run(part.name, func(t *testing.T) {
			c.t = t
			part.test(t, c)
		}) {
			c.report(t)
		}
	}
}

// patience is how long a test waits for something that must happen.
const patience = time.Minute

// soak reports whether the test takes its time.
func soak() bool { return os.Getenv("SLUICE_SOAK") != "" }

// nodes is the number of servers.
const nodes = 3

// cluster is the whole installation.
type cluster struct {
	t     *testing.T // the part that is running
	dir   string
	pg    *pgtest.Server
	redis *redistest.Server
	nodes [nodes]*node
	nginx *nginx
	// client calls the nodes and nginx. It keeps connections, as programs do.
	client *http.Client
	books  *sql.DB
	named  int // accounts made so far
	asked  int // calls for which Redis was not asked before the present part; see undisturbed
}

// newCluster starts everything, and stops it when the test ends.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	if _, err := FindNginx(); err != nil {
		t.Skipf("needs nginx: %v", err)
	}
	c := &cluster{t: t, dir: t.TempDir(), pg: pgtest.Own(t), redis: redistest.Own(t, "save 3600 1")}
	transport := &http.Transport{MaxIdleConnsPerHost: 100, IdleConnTimeout: 30 * time.Second}
	c.client = &http.Client{Transport: transport}
	t.Cleanup(transport.CloseIdleConnections)
	program, err := build()
	if err != nil {
		t.Fatal(err)
	}
	files := newStore(t)
	for i := range c.nodes {
		c.nodes[i] = c.newNode(t, program, string(rune('a'+i)), files)
	}
	// All at once, as after a power failure: one of them makes the tables and the owner.
	var starting sync.WaitGroup
	for _, n := range c.nodes {
		starting.Go(func() { n.err = n.start() })
	}
	starting.Wait()
	for _, n := range c.nodes {
		if n.err != nil {
			t.Fatal(n.err)
		}
	}
	c.nginx = startNginx(t, c.dir, c.nodes[:])
	if c.books, err = sql.Open("pgx", c.pg.URL()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.books.Close() })
	return c
}

// scratch is the folder of the program, deleted by TestMain.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "sluice-clustertest-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(scratch)
	os.Exit(code)
}

// build builds the program, once.
var build = sync.OnceValues(func() (path string, err error) {
	path = filepath.Join(scratch, "sluice")
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, "./cmd/sluice")
	cmd.Dir = filepath.Join("..", "..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// report shows the end of every log, to explain a failure.
func (c *cluster) report(t *testing.T) {
	t.Helper()
	for _, n := range c.nodes {
		t.Logf("the log of node %s, without requests, ends with:\n%s", n.name, n.log.tail(30))
	}
	text, _ := os.ReadFile(filepath.Join(c.nginx.dir, "error.log"))
	t.Logf("the log of nginx ends with:\n%s", text[max(0, len(text)-2000):])
}

// do runs an operation on a node, which must succeed.
func do[Out any](c *cluster, n *node, operation string, in any) Out {
	c.t.Helper()
	var out Out
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client, err := admin.Dial(ctx, n.data)
	if err == nil {
		err = client.Call(ctx, operation, in, &out)
	}
	if err != nil {
		c.t.Fatalf("%s on node %s = %v", operation, n.name, err)
	}
	return out
}

// newAccount makes an account on the first node, with limits of its own if limits is not "", and
// waits until every node knows it.
func (c *cluster) newAccount(plan, limits string) admin.CreatedAccount {
	c.t.Helper()
	c.named++
	made := do[admin.CreatedAccount](c, c.nodes[0], "account.create", admin.NewAccount{Actor: "test", Email: fmt.Sprintf("caller%d@example.com", c.named), Plan: plan})
	if limits != "" {
		do[any](c, c.nodes[0], "account.set-limits", raw(fmt.Sprintf(`{"actor":"test","ref":%q,"set":{%s}}`, made.ID, limits)))
	}
	for _, n := range c.nodes {
		c.eventually("the arrival of a new key on node "+n.name, func() bool { return c.get(n.url, made.MasterKey, "/v1/models").status == http.StatusOK })
	}
	return made
}

// raw is a JSON text as an argument.
type raw string

func (r raw) MarshalJSON() ([]byte, error) { return []byte(r), nil }

// eventually waits until the condition holds.
func (c *cluster) eventually(what string, holds func() bool) {
	c.t.Helper()
	deadline := time.After(patience)
	for !holds() {
		select {
		case <-deadline:
			c.t.Fatalf("%s did not happen within %v", what, patience)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ready waits until every node is ready.
func (c *cluster) ready() {
	c.t.Helper()
	for _, n := range c.nodes {
		last := reply{}
		deadline := time.Now().Add(patience)
		for last = c.get(n.url, "", "/readyz"); last.status != http.StatusOK && time.Now().Before(deadline); last = c.get(n.url, "", "/readyz") {
			pause(c.t, 50*time.Millisecond)
		}
		if last.status != http.StatusOK {
			c.t.Fatalf("node %s is not ready after %v: %d %s %v", n.name, patience, last.status, last.body, last.err)
		}
	}
}

// pause waits for the given time. What runs meanwhile is the test: an outage must last.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// settlements returns how often each request is in the books.
func (c *cluster) settlements() (map[string]int, error) {
	rows, err := c.books.Query("SELECT id FROM settlements")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := map[string]int{}
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		found[id]++
	}
	return found, rows.Err()
}

// checkBooks waits until every request is in the books, and checks that each is there once and that
// journals, records and sums agree on every node.
func (c *cluster) checkBooks(ids []string) {
	c.t.Helper()
	var found map[string]int
	var missing []string
	deadline := time.Now().Add(patience)
	for {
		var err error
		if found, err = c.settlements(); err != nil {
			c.t.Fatal(err)
		}
		missing = missing[:0]
		for _, id := range ids {
			if found[id] == 0 {
				missing = append(missing, id)
			}
		}
		if len(missing) == 0 || time.Now().After(deadline) {
			break
		}
		pause(c.t, 100*time.Millisecond)
	}
	if len(missing) > 0 {
		c.t.Errorf("%d of %d finished calls are not in the books, such as %s", len(missing), len(ids), missing[0])
	}
	for id, n := range found {
		if n != 1 {
			c.t.Errorf("the call %s is in the books %d times", id, n)
		}
	}
	for _, n := range c.nodes {
		if audit := do[admin.Audit](c, n, "audit", admin.Empty{}); len(audit.Differences) > 0 {
			c.t.Errorf("audit on node %s = %+v, want no difference", n.name, audit.Differences)
		}
	}
}

// errEarly is the error of a server that ended while it started.
var errEarly = errors.New("the server ended")

// tail returns the last lines of a log that are not about requests or mail.
func tail(text string, most int) string {
	var kept []string
	for line := range strings.Lines(text) {
		if !strings.Contains(line, `"msg":"request"`) && !strings.Contains(line, `"msg":"no mail server`) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept[max(0, len(kept)-most):], "")
}
