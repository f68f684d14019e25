package httpapi

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"
)

// What net/http takes for no request is answered with the error object as well.
func TestMalformedRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	const (
		generic  = "The request is not valid HTTP: its first line, its address or one of its headers is malformed."
		tooLarge = "The request headers are larger than 16 KiB, the maximum size."
		encoding = "The Transfer-Encoding of the request is not supported; send it chunked, or with a Content-Length."
		both     = "it has both a Content-Length and a Transfer-Encoding"
		expect   = "The Expect header has an unsupported value; only 100-continue is supported."
	)
	invalid := func(detail string) string { return "The request is not valid HTTP: " + detail + "." }
	for name, tt := range map[string]struct {
		raw     string
		status  int
		message string
	}{
		"bad escape":          {"GET /v1/models/%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400, generic},
		"bad escape, HEAD":    {"HEAD /v1/models/%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400, generic},
		"bad escape, 1.0":     {"GET /assets/%1 HTTP/1.0\r\n\r\n", 400, generic},
		"no request line":     {"hello\r\n\r\n", 400, generic},
		"TLS":                 {"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400, generic},
		"no version":          {"GET /\r\nHost: x\r\n\r\n", 400, generic},
		"bad version":         {"GET / HTTP/x.1\r\nHost: x\r\n\r\n", 400, generic},
		"HTTP/2":              {"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505, "This version of HTTP is not supported; use HTTP/1.1 or HTTP/2."},
		"bad method":          {"G@T / HTTP/1.1\r\nHost: x\r\n\r\n", 400, generic},
		"no host":             {"GET / HTTP/1.1\r\n\r\n", 400, invalid("missing required Host header")},
		"two hosts":           {"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400, generic},
		"bad host":            {"GET / HTTP/1.1\r\nHost: x y\r\n\r\n", 400, invalid("malformed Host header")},
		"bad header":          {"GET / HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n", 400, generic},
		"bad header name":     {"GET / HTTP/1.1\r\nHost: x\r\nA@B: x\r\n\r\n", 400, generic},
		"bad header value":    {"GET / HTTP/1.1\r\nHost: x\r\nA: \x01\r\n\r\n", 400, generic},
		"two lengths":         {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 400, generic},
		"negative length":     {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\nhello", 400, generic},
		"signed length":       {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\nhello", 400, generic},
		"unknown encoding":    {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\nhello", 501, encoding},
		"two encodings":       {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\nhello", 501, encoding},
		"length and encoding": {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, invalid(both)},
		"encoding and length": {"POST / HTTP/1.1\r\nHost: x\r\ntransfer-encoding: chunked\r\nCONTENT-LENGTH: 0\r\n\r\n0\r\n\r\n", 400, invalid(both)},
		"both, bare breaks":   {"POST / HTTP/1.1\nHost: x\nContent-Length: 5\nTransfer-Encoding: chunked\n\n0\r\n\r\n", 400, invalid(both)},
		"after, both":         {"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nPOST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, invalid(both)},
		"expectation":         {"POST / HTTP/1.1\r\nHost: x\r\nExpect: money\r\nContent-Length: 5\r\n\r\nhello", 417, expect},
		"expectation, 1.0":    {"POST / HTTP/1.0\r\nExpect: money\r\nContent-Length: 5\r\n\r\nhello", 417, expect},
		"large header":        {"GET / HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", 20<<10) + "\r\n\r\n", 431, tooLarge},
		"many headers":        {"GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("A:\r\n", 8<<10) + "\r\n", 431, tooLarge},
		"long address":        {"GET /" + strings.Repeat("a", 20<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n", 431, tooLarge},
		"after a good one":    {"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /v1/models/%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400, generic},
		"after a refused one": {"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\n\r\n", 400, invalid("missing required Host header")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := w.dial(t)
			if _, err := io.WriteString(conn, tt.raw); err != nil {
				t.Fatal(err)
			}
			r := bufio.NewReader(conn)
			if strings.HasPrefix(name, "after") {
				checkFixed(t, name, read(t, r, "GET"))
			}
			got := read(t, r, "GET")
			checkError(t, name, got, tt.status, object(tt.status, "invalid_request_error", tt.message))
			if rest, err := io.ReadAll(r); len(rest) > 0 || isTimeout(err) {
				t.Errorf("after the reply came %q, %v, want the end of the connection", rest, err)
			}
		})
	}
}

// A length and an encoding together are refused on a connection that net/http has served before, too, and a
// head that arrives in pieces is looked at as a whole.
func TestTwoLengthsLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	conn := w.dial(t)
	r := bufio.NewReader(conn)
	for _, raw := range []string{"POST /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", "0\r\n\r\n"} {
		if _, err := io.WriteString(conn, raw); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(t, r, "POST"); got.status != 405 {
		t.Fatalf("the chunked request = %d %s, want 405", got.status, got.body)
	}
	for _, raw := range []string{"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Le", "ngth: 5\r\nTransfer-", "Encoding: chunked\r\n\r", "\n0\r\n\r\n"} {
		if _, err := io.WriteString(conn, raw); err != nil {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
	got := read(t, r, "POST")
	checkError(t, "both", got, 400, object(400, "invalid_request_error", "The request is not valid HTTP: it has both a Content-Length and a Transfer-Encoding."))
}

// A handler's reply is its own, whatever it looks like.
func TestRepliesAreNotTakenForMalformed(t *testing.T) {
	t.Parallel()
	const text = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request"
	w := newWorld(t, nil, behind(func(*API) handler {
		return func(x *exchange, _ *http.Request) error {
			x.Header().Set("Content-Type", "text/plain; charset=utf-8")
			x.WriteHeader(http.StatusExpectationFailed)
			x.Flush()
			_, err := io.WriteString(x, text)
			return err
		}
	}))
	got := w.send(t, "GET", "/", "")
	checkFixed(t, "the reply", got)
	if got.status != 417 || got.body != text {
		t.Errorf("the reply = %d %q, want the handler's own", got.status, got.body)
	}
}

// A caller who does not read its reply loses the connection, and one who reads slowly does not.
func TestUnreadReplies(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	w := newWorld(t, nil, behind(func(*API) handler {
		return func(x *exchange, _ *http.Request) error {
			piece := make([]byte, 1<<20)
			for {
				if _, err := x.Write(piece); err != nil {
					ended <- err
					return clientGone(err)
				}
			}
		}
	}))
	conn := w.dial(t)
	write(t, conn, "GET", "/", "")
	if _, err := io.CopyN(io.Discard, conn, 10<<20); err != nil {
		t.Fatalf("reading the reply = %v", err)
	}
	for deadline := time.Now().Add(patience); ; runtime.Gosched() {
		w.front.sweep()
		select {
		case <-ended:
			if open := w.front.Open(); open > 1 {
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

// Beyond the bound connections are closed as they come, and there is room again when one ends.
func TestMostConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	w.front.mu.Lock()
	w.front.opts.Max = 3
	w.front.mu.Unlock()
	var open []*net.TCPConn
	ask := func(conn *net.TCPConn) error {
		if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
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
		conn := w.dial(t)
		if err := ask(conn); err != nil {
			t.Fatalf("a connection within the bound: %v", err)
		}
		open = append(open, conn)
	}
	// The system may tell of the end as early as in Dial.
	if conn, err := net.Dial("tcp", w.addr); err == nil {
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(patience))
		if err := ask(conn.(*net.TCPConn)); err == nil || isTimeout(err) {
			t.Errorf("a connection beyond the bound: %v, want it closed", err)
		}
	}
	open[0].Close()
	for deadline := time.Now().Add(patience); w.front.Open() > 2; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("a closed connection still counts")
		}
	}
	if err := ask(w.dial(t)); err != nil {
		t.Errorf("a connection after another ended: %v", err)
	}
	if err := ask(open[1]); err != nil {
		t.Errorf("a connection that was there before: %v", err)
	}
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
