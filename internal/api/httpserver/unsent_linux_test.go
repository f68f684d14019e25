package httpserver

import (
	"net"
	"testing"
	"time"
)

// The system takes only so much of a reply for a caller that does not read: a write blocks early, and is then noticed.
func TestUnsent(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := NewListener(inner, ListenerOptions{})
	defer l.Close()
	client, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	// Without the bound, Linux takes 2.5 MB here.
	n, err := conn.Write(make([]byte, 16<<20))
	if err == nil || n > 1<<20 {
		t.Errorf("the system took %d bytes for a caller that reads nothing (%v), want about %d", n, err, maxUnsent)
	}
}
