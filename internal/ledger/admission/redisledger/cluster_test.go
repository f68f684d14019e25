package redisledger

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"sluice/internal/testkit/redistest"
)

// One shard of three dies. Calls are admitted on shares, none hangs, and all nodes count in Redis again when
// the shard is back.
func TestDeadShard(t *testing.T) {
	t.Parallel()
	if os.Getenv("SLUICE_SOAK") == "" {
		t.Skip("long: set SLUICE_SOAK=1")
	}
	servers := redistest.OwnCluster(t)
	nodes := trio(t, servers[0].URL(), nil, Options{Deadline: time.Second, Probe: 100 * time.Millisecond})
	start(t, nodes...)
	// redis-cli gives each server a third of the hash slots, in order.
	shard := func(key string) int64 {
		c := raw(nodes[0])
		slot, err := c.Do(t.Context(), c.B().ClusterKeyslot().Key(key).Build()).AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		return min(slot/5461, 2)
	}
	var accounts [3]string // one in each shard
	for i := 0; accounts[0] == "" || accounts[1] == "" || accounts[2] == ""; i++ {
		id := fmt.Sprint("acct_", i)
		accounts[shard(nodes[0].keys(id)[0])] = id
	}
	all := limits(9, unlimited, unlimited)
	for _, id := range accounts {
		if n := storm(nodes, 30, id, all, one); n != 9 {
			t.Errorf("%d of 30 calls passed on an allowance of 9, want 9", n)
		}
	}
	dead := (shard(nodes[0].tableKey()[0]) + 1) % 3 // not the one that tells new data from lost data
	if err := servers[dead].Kill(); err != nil {
		t.Fatal(err)
	}
	for _, id := range accounts {
		begin := time.Now()
		n := storm(nodes, 60, id, all, one)
		t.Logf("soak: a shard of three is dead: %d of 60 calls passed in %v", n, time.Since(begin).Round(time.Millisecond))
		if n > 9 {
			t.Errorf("%d calls passed with a dead shard, want the shares of three nodes at most: 9", n)
		}
	}
	if err := servers[dead].Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "exact on all nodes", exact(nodes, true))
	for i, id := range accounts {
		// The shard that was killed has lost its windows; the others have not.
		if n := storm(nodes, 30, id, all, one); n != 0 && int64(i) != dead {
			t.Errorf("%d calls passed within the minute of a full window, want none", n)
		}
	}
}

// A server that speaks TLS is used if its certificate is trusted, and not otherwise. The authorities that a
// process trusts are read once, so each case is a process of its own.
func TestTLS(t *testing.T) {
	t.Parallel()
	const child = "SLUICE_TEST_TLS_CHILD"
	if url := os.Getenv(child); url != "" {
		l := open(t, url, Options{Deadline: patient})
		n := storm([]*Ledger{l}, 30, "a", limits(10, unlimited, unlimited), one)
		t.Logf("exact %t, %d passed, %s", l.State().Exact, n, l.State().Why)
		return
	}
	url, authority := redistest.OwnTLS(t)
	for trusted, want := range map[string]string{authority: "exact true, 10 passed", os.DevNull: "certificate signed by unknown authority"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTLS$", "-test.v")
		cmd.Env = append(os.Environ(), child+"="+url, "SSL_CERT_FILE="+trusted, "SSL_CERT_DIR="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("a ledger that trusts %s: %v, want %q\n%s", trusted, err, want, out)
		}
	}
}
