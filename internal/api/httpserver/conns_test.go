package httpserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"
)

// testLane returns the mode in which the tests run. Both are tested, one in each run.
func testLane() Lane {
	if mode := os.Getenv("SLUICE_HTTP1_LANE"); mode != "" {
		return Lane(mode)
	}
	return LaneDebug
}

// patience is how long a test waits for what has to happen.
const patience = time.Minute

// serve serves the handler on a port of its own until the test ends.
func serve(t *testing.T, opts ListenerOptions, h http.HandlerFunc) *Listener {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	opts.Log = slog.New(slog.DiscardHandler)
	l := NewListener(inner, opts)
	s := NewServer(h, l, testLane())
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve() })
	t.Cleanup(func() {
		_ = l.Finish()
		_ = s.Close()
		serving.Wait()
	})
	return l
}

// dial opens a connection to the listener.
func dial(t *testing.T, l *Listener) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// A caller who does not read its reply loses the connection, and one who reads slowly does not.
func TestUnreadReplies(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	l := serve(t, ListenerOptions{}, func(w http.ResponseWriter, _ *http.Request) {
		piece := make([]byte, 1<<20)
		for {
			if _, err := w.Write(piece); err != nil {
				ended <- err
				return
			}
		}
	})
	conn := dial(t, l)
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, conn, 10<<20); err != nil {
		t.Fatalf("reading the reply = %v", err)
	}
	for deadline := time.Now().Add(patience); ; runtime.Gosched() {
		l.sweep()
		select {
		case <-ended:
			if open := l.Open(); open > 1 {
				t.Errorf("%d connections are open, want none but that which is being closed", open)
			}
			return
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal("the handler still waits for a caller who does not read")
		}
	}
}

// Beyond the bound connections are closed as they come, and there is room again when one ends.
func TestMostConnections(t *testing.T) {
	t.Parallel()
	l := serve(t, ListenerOptions{Max: 3}, func(http.ResponseWriter, *http.Request) {})
	var open []net.Conn
	ask := func(conn net.Conn) error {
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			return err
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	for range 3 {
		conn := dial(t, l)
		if err := ask(conn); err != nil {
			t.Fatalf("a connection within the bound: %v", err)
		}
		open = append(open, conn)
	}
	// The system may tell of the end as early as in Dial.
	if conn, err := net.Dial("tcp", l.Addr().String()); err == nil {
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(patience))
		if err := ask(conn); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a connection beyond the bound: %v, want it closed", err)
		}
	}
	open[0].Close()
	for deadline := time.Now().Add(patience); l.Open() > 2; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("a closed connection still counts")
		}
	}
	if err := ask(dial(t, l)); err != nil {
		t.Errorf("a connection after another ended: %v", err)
	}
	if err := ask(open[1]); err != nil {
		t.Errorf("a connection that was there before: %v", err)
	}
}

// Callers that hold nothing leave nothing behind: the addresses of strangers are unbounded.
func TestBodiesForgetCallers(t *testing.T) {
	t.Parallel()
	b := NewBodies()
	b.Account = 10
	take, release := b.Hold("a")
	if take(6) != nil || take(6) == nil || take(-2) != nil {
		t.Error("an account with 10 bytes must get 6 and not 12")
	}
	release()
	body := &Body{Address: "192.0.2.1", limits: b}
	if body.charge(7) != nil || b.strangers.Load() != 7 {
		t.Error("a stranger must get 7 bytes")
	}
	body.Release()
	for i := range b.callers {
		if left := b.callers[i].held; len(left) > 0 {
			t.Errorf("in the end %v is held, want nothing", left)
		}
	}
	if b.Held() != 0 || b.strangers.Load() != 0 {
		t.Errorf("in the end %d and %d bytes are held, want none", b.Held(), b.strangers.Load())
	}
}

func TestStuckWrites(t *testing.T) {
	t.Parallel()
	w := &wire{}
	step := func(name string, writes uint64, want bool) {
		t.Helper()
		w.writes.Add(writes)
		if got := w.isStuck(); got != want {
			t.Errorf("%s: isStuck() = %t, want %t", name, got, want)
		}
	}
	for range 2 * sweeps {
		step("nothing is written", 0, false)
	}
	step("a write begins", 1, false)
	for range sweeps - 1 {
		step("a write waits", 0, false)
	}
	step("it ends and another begins", 2, false)
	for range sweeps - 1 {
		step("that one waits", 0, false)
	}
	step("it has waited long", 0, true)
}

func TestMostPerAddress(t *testing.T) {
	t.Parallel()
	proxy := netip.MustParseAddr("203.0.113.9")
	l := NewListener(nil, ListenerOptions{Max: 100, MaxPerAddress: 2, Exempt: func(a netip.Addr) bool { return a == proxy }, Log: slog.New(slog.DiscardHandler)})
	for _, tt := range []struct {
		addresses []string
		admitted  int
	}{
		{[]string{"198.51.100.1", "198.51.100.1", "198.51.100.1", "198.51.100.1"}, 2},
		{[]string{"198.51.100.2", "198.51.100.3", "::ffff:198.51.100.2"}, 3},
		{[]string{"2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8:0:1::1"}, 3}, // a /64 is one
		{[]string{"203.0.113.9", "203.0.113.9", "203.0.113.9"}, 3},                    // a proxy
		{[]string{"127.0.0.1", "127.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.1", "fd00::1", "fd00::1", "fd00::1", "::1"}, 9},
	} {
		var in []*wire
		for _, a := range tt.addresses {
			from := from{net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(a), 1))}
			w := &wire{Conn: from, listener: l, address: l.bounded(from.RemoteAddr())}
			if l.add(w) {
				in = append(in, w)
			}
		}
		if len(in) != tt.admitted {
			t.Errorf("of %v %d are let in, want %d", tt.addresses, len(in), tt.admitted)
		}
		for _, w := range in {
			w.Close()
			w.Close() // a second time changes nothing
		}
	}
	if len(l.open)+len(l.byAddress) != 0 {
		t.Errorf("%d connections and %d addresses are left, want none", len(l.open), len(l.byAddress))
	}
}

// from is a connection that has an address and nothing else.
type from struct{ address net.Addr }

func (f from) RemoteAddr() net.Addr             { return f.address }
func (f from) LocalAddr() net.Addr              { return f.address }
func (f from) Read([]byte) (int, error)         { return 0, io.EOF }
func (f from) Write(p []byte) (int, error)      { return len(p), nil }
func (f from) Close() error                     { return nil }
func (f from) SetDeadline(time.Time) error      { return nil }
func (f from) SetReadDeadline(time.Time) error  { return nil }
func (f from) SetWriteDeadline(time.Time) error { return nil }

// A first write is looked at once a reply, so that is what it may cost.
func BenchmarkFirstWrite(b *testing.B) {
	reply := fmt.Appendf(nil, "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nX-Request-Id: %032d\r\n\r\n{}", 1)
	w := &wire{Conn: from{}}
	c := &conn{Conn: w, wire: w}
	b.ReportAllocs()
	for b.Loop() {
		c.fresh.Store(true)
		if _, err := c.Write(reply); err != nil {
			b.Fatal(err)
		}
	}
}
