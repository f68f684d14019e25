package httpapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/buildinfo"
	"sluice/internal/excerpt"
	"sluice/internal/fault"
	"sluice/internal/telemetry"
)

const (
	// writePatience is how long a caller may take for one piece of a reply before its connection is cut.
	writePatience = time.Minute
	// sweeps is how often within that time connections are looked at.
	sweeps = 4
	// writePiece is the most that is written in one piece: a caller that reads at all, however slowly,
	// takes one in less than writePatience.
	writePiece = 64 << 10

	// drainPatience and drainBytes bound what is read from a connection after its last reply.
	drainPatience = 500 * time.Millisecond
	drainBytes    = 256 << 10

	// MaxHeaderBytes bounds the request line and the headers of a request. A header of five bytes costs us
	// more than a hundred, so it is what a stranger's connection costs.
	MaxHeaderBytes = 16 << 10
	// headerSlop is what net/http allows beyond what it is told.
	headerSlop = 4 << 10

	// maxStreams is how many requests a connection of HTTP/2 may have under way. Each costs about 30 KB, also
	// one whose caller lets it wait.
	maxStreams = 8

	// warnEvery is how often refused connections are logged.
	warnEvery = time.Minute
)

// NewServer returns a server for a Listener, with a bound on everything that a connection can make it hold.
func NewServer(h http.Handler, l *Listener) *http.Server {
	s := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    MaxHeaderBytes - headerSlop,
		ConnState:         l.ConnState,
		ErrorLog:          slog.NewLogLogger(l.opts.Log.Handler(), slog.LevelDebug), // broken connections: routine
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          maxStreams,
			MaxReadFrameSize:              16 << 10, // each connection keeps a buffer of that size
			MaxReceiveBufferPerConnection: 64 << 10,
			MaxReceiveBufferPerStream:     64 << 10,
			SendPingTimeout:               time.Minute,
			PingTimeout:                   15 * time.Second,
			WriteByteTimeout:              writePatience,
		},
		Protocols: new(http.Protocols),

		DisableGeneralOptionsHandler: true, // OPTIONS * is answered like everything else, with a request id
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(l.opts.TLS != nil) // see Listener
	return s
}

// ListenerOptions are what a Listener needs beside the listener it wraps.
type ListenerOptions struct {
	// TLS, where given, is spoken on every connection.
	TLS *tls.Config
	// Max is how many connections may be open at once; 0: any number.
	Max int
	// MaxPerAddress is how many of them may come from one public address that Exempt does not name; 0: any
	// number. The addresses of an IPv6 /64 count as one.
	MaxPerAddress int
	Exempt        func(netip.Addr) bool
	// Refuse makes the reply to a request that net/http answers by itself; nil: net/http's is sent.
	Refuse func(Malformed) []byte
	Log    *slog.Logger // default: slog.Default()
}

// Listener bounds the connections of a server and what a connection can hold up. It closes connections
// beyond the bound as they are accepted, and those whose caller has stopped reading; and it replaces the
// plain text with which net/http answers what it takes for no request.
//
// HTTP/2 comes out of it as if it were not encrypted: net/http knows TLS only by the type *tls.Conn, which
// would hide its replies from us. So a server on a Listener with TLS must speak unencrypted HTTP/2 as well.
type Listener struct {
	net.Listener
	opts ListenerOptions

	mu        sync.Mutex
	open      map[*wire]struct{}
	byAddress map[netip.Addr]int
	warned    time.Time
}

// NewListener wraps a listener. The server's ConnState must be the Listener's, and somebody must run Watch.
func NewListener(inner net.Listener, opts ListenerOptions) *Listener {
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	return &Listener{Listener: inner, opts: opts, open: map[*wire]struct{}{}, byAddress: map[netip.Addr]int{}}
}

// Accept waits for the next connection within the bounds.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		w := &wire{Conn: nc, listener: l, address: l.bounded(nc.RemoteAddr())}
		if !l.add(w) {
			abort(nc)
			continue
		}
		c := &conn{Conn: w, wire: w}
		if l.opts.TLS != nil {
			c.Conn = tls.Server(w, l.opts.TLS)
		}
		c.fresh.Store(l.opts.Refuse != nil)
		return c, nil
	}
}

// bounded is the address whose connections are counted; the zero one: they are not. Addresses that are not
// public are those of this network, where a proxy that nobody told us of may stand for many callers.
func (l *Listener) bounded(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok || l.opts.MaxPerAddress == 0 {
		return netip.Addr{}
	}
	addr := tcp.AddrPort().Addr().Unmap()
	if !addr.IsGlobalUnicast() || addr.IsPrivate() || l.opts.Exempt != nil && l.opts.Exempt(addr) {
		return netip.Addr{}
	}
	if addr.Is6() {
		if p, err := addr.Prefix(64); err == nil {
			addr = p.Addr()
		}
	}
	return addr
}

// add counts a connection in, or reports that there are too many.
func (l *Listener) add(w *wire) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	full := l.opts.Max > 0 && len(l.open) >= l.opts.Max
	if full || w.address.IsValid() && l.byAddress[w.address] >= l.opts.MaxPerAddress {
		if now := time.Now(); now.Sub(l.warned) >= warnEvery {
			l.warned = now
			l.opts.Log.Warn("connections are refused", "open", len(l.open), "max_connections", l.opts.Max, "from", w.RemoteAddr().String(), "most_per_address", l.opts.MaxPerAddress, "all", full)
		}
		return false
	}
	l.open[w] = struct{}{}
	if w.address.IsValid() {
		l.byAddress[w.address]++
	}
	return true
}

// remove counts a connection out.
func (l *Listener) remove(w *wire) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, w)
	if !w.address.IsValid() {
		return
	}
	if l.byAddress[w.address]--; l.byAddress[w.address] <= 0 {
		delete(l.byAddress, w.address)
	}
}

// Open is how many connections there are.
func (l *Listener) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// Watch closes connections whose caller has stopped reading, until ctx ends.
func (l *Listener) Watch(ctx context.Context) {
	tick := time.NewTicker(writePatience / sweeps)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			l.sweep()
		}
	}
}

// sweep looks once for writes that have not ended since several sweeps ago.
func (l *Listener) sweep() {
	var stuck []*wire
	l.mu.Lock()
	for w := range l.open {
		if w.isStuck() {
			stuck = append(stuck, w)
		}
	}
	l.mu.Unlock()
	for _, w := range stuck {
		abort(w) // takes the lock
	}
}

// ConnState tells the connection that a reply is complete; see http.Server.
func (l *Listener) ConnState(nc net.Conn, state http.ConnState) {
	if c, ok := nc.(*conn); ok && state == http.StateIdle {
		c.fresh.Store(l.opts.Refuse != nil)
	}
}

// wire is the connection itself, below TLS.
type wire struct {
	net.Conn
	listener *Listener
	address  netip.Addr
	closed   atomic.Bool

	// writes counts beginnings and ends of writes, so it is odd during one. Two additions are all that a
	// write pays for its deadline.
	writes atomic.Uint64
	// Guarded by the listener's mutex.
	seen  uint64 // the count at the last sweep
	since int    // how many sweeps have found it the same
}

func (w *wire) Write(p []byte) (n int, err error) {
	for {
		w.writes.Add(1)
		m, err := w.Conn.Write(p[n:min(len(p), n+writePiece)])
		w.writes.Add(1)
		if n += m; err != nil || n == len(p) {
			return n, err
		}
	}
}

func (w *wire) Close() error {
	if !w.closed.Swap(true) {
		w.listener.remove(w)
	}
	return w.Conn.Close()
}

// isStuck reports whether the write under way was already under way several sweeps ago.
func (w *wire) isStuck() bool {
	now := w.writes.Load()
	if now != w.seen || now%2 == 0 {
		w.seen, w.since = now, 0
		return false
	}
	w.since++
	return w.since >= sweeps
}

// abort closes a connection without waiting until the other side has taken what was sent to it.
func abort(c net.Conn) {
	inner := c
	if w, ok := c.(*wire); ok {
		inner = w.Conn
	}
	if tcp, ok := inner.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// conn is a connection as the server sees it, above TLS.
type conn struct {
	net.Conn // the wire, or TLS over it
	wire     *wire
	// fresh says that nothing was written since the last reply. Only then can net/http answer by itself, so
	// only the first write of each reply is looked at.
	fresh atomic.Bool
	plain atomic.Bool // it speaks HTTP where TLS was expected
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		if re, ok := errors.AsType[tls.RecordHeaderError](err); ok && looksLikeHTTP(re.RecordHeader) {
			c.plain.Store(true)
		}
	}
	return n, err
}

func looksLikeHTTP(head [5]byte) bool {
	switch string(head[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET", "PATCH":
		return true
	}
	return false
}

func (c *conn) Write(p []byte) (int, error) {
	if c.fresh.Load() {
		c.fresh.Store(false)
		if m, ok := canned(p); ok {
			m.Remote = c.RemoteAddr().String()
			return len(p), c.refuse(m)
		}
	}
	return c.Conn.Write(p)
}

// CloseWrite lets net/http end the reply before it closes the connection.
func (c *conn) CloseWrite() error {
	if s, ok := c.Conn.(*tls.Conn); ok {
		return s.CloseWrite()
	}
	if h, ok := c.wire.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return nil
}

// refuse answers in net/http's place, and takes in what the caller is still sending: closing a connection
// with unread bytes in it makes the system throw our reply away.
func (c *conn) refuse(m Malformed) error {
	to := c.Conn
	if c.plain.Load() {
		to, m.Detail = c.wire, "this port speaks HTTPS, so use an address that begins with https://"
	}
	if _, err := to.Write(c.wire.listener.opts.Refuse(m)); err != nil {
		return err
	}
	_ = c.CloseWrite()
	_ = c.wire.SetReadDeadline(time.Now().Add(drainPatience))
	_, _ = io.Copy(io.Discard, io.LimitReader(c.wire, drainBytes)) // it is closed next, whatever comes
	return nil
}

// Malformed is what net/http found wrong with what came over a connection.
type Malformed struct {
	Status int
	Detail string // empty: not known
	Remote string
}

// cannedHead is what follows the status line where net/http answers without a handler.
const cannedHead = "Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// canned recognises a reply that no handler wrote. Those of handlers carry a Date.
func canned(p []byte) (Malformed, bool) {
	// HTTP/1.1 400 Bad Request: missing required Host header
	if len(p) < len("HTTP/1.1 400 ") || string(p[:7]) != "HTTP/1." || p[9] != '4' && p[9] != '5' {
		return Malformed{}, false
	}
	line, rest, _ := bytes.Cut(p, []byte("\r\n"))
	status, err := strconv.Atoi(string(p[9:12]))
	if err != nil {
		return Malformed{}, false
	}
	if !bytes.HasPrefix(rest, []byte(cannedHead)) && (status != http.StatusExpectationFailed || bytes.Contains(rest, []byte("X-Request-Id"))) {
		return Malformed{}, false
	}
	_, detail, _ := bytes.Cut(line, []byte(": "))
	return Malformed{Status: status, Detail: string(detail)}, true
}

// message says what is wrong and what to do.
func (m *Malformed) message() string {
	switch m.Status {
	case http.StatusRequestHeaderFieldsTooLarge:
		return "The headers of the request are larger than " + strconv.Itoa(MaxHeaderBytes>>10) + " KiB, the most that is accepted."
	case http.StatusExpectationFailed:
		return "The Expect header asks for something that is not possible here; only 100-continue is."
	case http.StatusNotImplemented:
		return "The Transfer-Encoding of the request is not supported; send it chunked, or with a Content-Length."
	case http.StatusHTTPVersionNotSupported:
		return "This version of HTTP is not supported; use HTTP/1.1 or HTTP/2."
	}
	if m.Detail != "" {
		return "The request is not valid HTTP: " + excerpt.Of(m.Detail, maxEcho) + "."
	}
	return "The request is not valid HTTP: its first line, its address or one of its headers is malformed."
}

// Refuse makes the whole reply to a request that net/http answers by itself, and tells log and metrics of it.
func (a *API) Refuse(m Malformed) []byte {
	e := telemetry.Event{RequestID: newRequestID(), Start: time.Now(), Remote: m.Remote, Status: m.Status, Fault: fault.Invalid.String()}
	if host, _, err := net.SplitHostPort(m.Remote); err == nil {
		e.Remote = host
	}
	body := fault.Object{Message: m.message(), Type: e.Fault, Code: m.Status}.Body()
	h := http.Header{
		"Content-Type": jsonType, "Content-Length": {strconv.Itoa(len(body))}, "Connection": {"close"},
		"Date":         {e.Start.UTC().Format(http.TimeFormat)},
		"X-Request-Id": {e.RequestID}, "X-Sluice-Version": {buildinfo.Version}, "X-Content-Type-Options": nosniff, "X-Should-Retry": {"false"},
	}
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 " + strconv.Itoa(m.Status) + " " + http.StatusText(m.Status) + "\r\n")
	_ = h.Write(&b) // a bytes.Buffer takes everything
	b.WriteString("\r\n")
	b.Write(body)
	e.Bytes = int64(len(body))
	a.metrics.RequestStarted()
	a.metrics.RequestEnded(&e, 0)
	e.Log(context.Background(), a.log, 0)
	return b.Bytes()
}
