package redistest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/internal/testkit/porttest"
)

// OwnCluster starts a Redis Cluster of three shards without replicas for this test, and stops it when the
// test ends. It skips the test if Redis is not installed.
func OwnCluster(t testing.TB) []*Server {
	t.Helper()
	cli, err := exec.LookPath("redis-cli")
	if err != nil {
		t.Skip("needs redis-server: no redis-cli in PATH (Debian package redis-tools)")
	}
	var servers []*Server
	create := []string{"--cluster", "create"}
	base := t.TempDir()
	for i := range 3 {
		dir := filepath.Join(base, strconv.Itoa(i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		// By default the bus is on the port plus 10,000, which may be beyond the last port.
		bus, err := porttest.Hold()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(bus.Release)
		s, err := Start(dir, "cluster-enabled yes", "cluster-port "+strconv.Itoa(bus.Number), "cluster-node-timeout 5000")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.discard(t) })
		servers = append(servers, s)
		create = append(create, s.Addr())
	}

	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if out, err := exec.CommandContext(ctx, cli, append(create, "--cluster-yes")...).CombinedOutput(); err != nil {
		t.Fatalf("redis-cli --cluster create: %v\n%s", err, out)
	}
	for _, s := range servers {
		if err := s.joined(ctx, cli); err != nil {
			t.Fatal(err)
		}
	}
	return servers
}

// joined waits until the server serves all hash slots together with the others.
func (s *Server) joined(ctx context.Context, cli string) error {
	for {
		out, err := exec.CommandContext(ctx, cli, "-p", strconv.Itoa(s.port.Number), "cluster", "info").CombinedOutput()
		if err == nil && strings.Contains(string(out), "cluster_state:ok") {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the cluster on %s is not complete after %v: %v\n%s", s.Addr(), patience, err, out)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
