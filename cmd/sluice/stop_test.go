package main

import (
	"path/filepath"
	"syscall"
	"testing"
)

// The second signal ends the delay of a stop and nothing else; the one after that ends the process.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	g := newGateway(t, filepath.Join(t.TempDir(), "data"), "lab", "shutdown_delay: 1h\ndrain_timeout: 2h\n")
	g.start()
	if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the beginning of the stop", func() bool {
		status, _ := g.get(g.url + "/readyz")
		return status == 503
	})
	g.stop() // sends another
}
