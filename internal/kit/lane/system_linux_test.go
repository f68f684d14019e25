package lane

import (
	"net"
	"os"
	"testing"
)

// A connection that the system cannot watch leaves nothing behind.
func TestNotWatched(t *testing.T) {
	t.Parallel()
	var h hangUps
	if err := h.open(); err != nil {
		t.Fatal(err)
	}
	defer h.close()
	f, err := os.Open(t.TempDir()) // epoll refuses folders
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	c := &conn{raw: raw, nc: &net.TCPConn{}}
	if err := h.add(c); err == nil {
		t.Fatal("add of a folder = nil, want an error")
	}
	h.remove(c)
	if n := len(h.conns); n != 0 {
		t.Errorf("%d connections are kept after one that could not be watched, want none", n)
	}
}
