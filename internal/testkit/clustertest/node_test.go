package clustertest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/internal/testkit/porttest"
	"sluice/internal/testkit/wiretest"
)

// node is one server: the program, its folder and its ways to Redis and PostgreSQL.
type node struct {
	name    string
	program string
	file    string // the configuration
	data    string
	url     string
	port    *porttest.Port
	redis   *wiretest.Wire
	pg      *wiretest.Wire
	log     *text
	cmd     *exec.Cmd
	exited  chan error // gets what Wait returned
	err     error      // of the first start
}

// text is a log that can be read while it is written.
type text struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *text) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *text) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *text) tail(lines int) string { return tail(l.String(), lines) }

// newNode configures a server of the cluster. Its settings are the three lines that an operator adds, and
// what tests need: a plan whose budget is used up quickly, and a price.
func (c *cluster) newNode(t *testing.T, program, name, files string) *node {
	t.Helper()
	port, err := porttest.Hold()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.Release)
	dir := filepath.Join(c.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	n := &node{
		name: name, program: program, file: filepath.Join(dir, "sluice.yaml"), data: filepath.Join(dir, "data"),
		url: "http://" + port.Addr(), port: port, redis: wiretest.New(t, c.redis.Addr()), log: &text{},
	}
	var database string
	n.pg, database = wiretest.To(t, c.pg.URL())
	yaml := fmt.Sprintf(`data: %q
listen: %s
metrics_listen: 127.0.0.1:0
database: %q
redis: redis://%s
storage: 's3://%s/videos?endpoint=%s&region=us-east-1'
secret: one-secret-for-all-nodes-of-this-test
public_url: http://cluster.example.com
trusted_proxies: [127.0.0.1]
discover: false
plans: {premium: {requests_per_minute: unlimited, concurrent: unlimited, tokens_per_minute: unlimited, monthly_units: %d}}
`, n.data, port.Addr(), database, n.redis.Addr(), bucket, files, monthly) + usualPrices
	if err := os.WriteFile(n.file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.kill)
	return n
}

// start starts the server and returns when it says that it is ready.
func (n *node) start() error {
	n.cmd = exec.Command(n.program, "serve", "--config", n.file)
	n.cmd.Dir = filepath.Dir(n.file)
	n.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + n.cmd.Dir, "AWS_ACCESS_KEY_ID=key", "AWS_SECRET_ACCESS_KEY=secret-of-the-store"}
	before := len(n.log.String())
	n.cmd.Stderr = n.log
	n.cmd.SysProcAttr = &syscall.SysProcAttr{}
	endWithParent(n.cmd.SysProcAttr)
	if err := n.cmd.Start(); err != nil {
		return err
	}
	n.exited = make(chan error, 1)
	go func(cmd *exec.Cmd, exited chan<- error) { exited <- cmd.Wait() }(n.cmd, n.exited)
	deadline := time.After(patience)
	for !strings.Contains(n.log.String()[before:], `"msg":"sluice is ready"`) {
		select {
		case err := <-n.exited:
			n.exited <- err
			return fmt.Errorf("node %s: %w: %v\n%s", n.name, errEarly, err, n.log.tail(20))
		case <-deadline:
			return fmt.Errorf("node %s is not ready after %v:\n%s", n.name, patience, n.log.tail(20))
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// side returns the address of the node's metrics, which stays open while the node cannot serve.
func (c *cluster) side(n *node) string {
	log := n.log.String()
	address, _ := between(log[max(0, strings.LastIndex(log, `"msg":"sluice is ready"`)):], `"metrics":"`, `"`)
	return "http://" + address
}

// readiness asks a node whether it can serve, on the address that stays open.
func (c *cluster) readiness(n *node) reply { return c.get(c.side(n), "", "/readyz") }

// metric returns the value of a metric since the start of the server, or 0 if the server does not tell.
func (c *cluster) metric(n *node, name string) int {
	for line := range strings.Lines(c.get(c.side(n), "", "/metrics").body) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			v, _ := strconv.Atoi(strings.TrimSpace(value)) // whole numbers only
			return v
		}
	}
	return 0
}

// unasked returns how many calls the nodes have admitted on their share of a limit because Redis did not answer in
// time. On a machine that is busy enough this happens without any fault, and then limits are not exact.
func (c *cluster) unasked() (n int) {
	for _, node := range c.nodes {
		n += c.metric(node, "sluice_ledger_local_calls")
	}
	return n
}

// kill ends the server at once.
func (n *node) kill() {
	if n.cmd == nil || n.cmd.Process == nil {
		return
	}
	_ = n.cmd.Process.Kill() // an error means that it has already exited
	<-n.exited
	n.cmd = nil
}

// stop asks the server to stop and waits for its end.
func (n *node) stop() error {
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case err := <-n.exited:
		n.cmd = nil
		if err != nil {
			return fmt.Errorf("node %s: %w\n%s", n.name, err, n.log.tail(20))
		}
		return nil
	case <-time.After(patience):
		return fmt.Errorf("node %s did not stop within %v\n%s", n.name, patience, n.log.tail(20))
	}
}
