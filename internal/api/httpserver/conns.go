package httpserver

import (
	"bytes"
	"cmp"
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
	"syscall"
	"time"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/pace"
)

// maxEcho is how much of a caller's text a message repeats, in bytes. Header values can be far longer.
const maxEcho = 100

const (
	// WritePatience is how long one write of a reply may take. After that the caller is
	// assumed to have stopped reading, and its connection is closed.
	WritePatience = time.Minute
	// sweeps is how often within WritePatience open connections are checked, so a stuck write
	// ends after at most WritePatience plus one interval.
	sweeps = 4
	// WritePiece is the largest single write. A caller that reads at all, however slowly,
	// takes 64 KiB in less than WritePatience.
	WritePiece = 64 << 10

	// drainPatience and drainBytes limit how much is read from a connection after its last
	// reply.
	drainPatience = 500 * time.Millisecond
	drainBytes    = 256 << 10

	// MaxHeaderBytes limits the request line and the headers of a request. This is what a
	// connection of an unknown caller can cost us before it is authenticated; a header of five
	// bytes takes more than a hundred in memory.
	MaxHeaderBytes = 16 << 10
	// headerSlop is what net/http accepts beyond its configured limit.
	headerSlop = 4 << 10

	// maxStreams limits the requests in progress on one HTTP/2 connection. Each takes about 30
	// KB, even while its caller lets it wait.
	maxStreams = 8

	// warnEvery is the minimum interval between log lines about refused connections. Without
	// it a flood of connections would flood the log.
	warnEvery = time.Minute
)

// ListenerOptions holds the settings of a Listener.
type ListenerOptions struct {
	// TLS, if not nil, is used on every connection.
	TLS *tls.Config
	// Max limits the open connections. 0 means no limit.
	Max int
	// MaxPerAddress limits the open connections of one public address that Exempt does not
	// name. 0 means no limit. All addresses of an IPv6 /64 count as one, because a single
	// subscriber usually has a whole /64.
	MaxPerAddress int
	Exempt        func(netip.Addr) bool
	// Refuse returns the complete reply to a request that net/http would answer by itself. If
	// nil, net/http's own reply is sent.
	Refuse func(Malformed) []byte
	// Log is where refused connections are logged. The default is slog.Default().
	Log *slog.Logger
}

// Listener limits the connections of a server and what each of them can hold up. It closes
// connections beyond the limits as they are accepted, and connections whose caller has stopped
// reading. It also replaces the plain-text replies that net/http sends to malformed requests
// with our error object.
//
// HTTP/2 leaves the Listener as if it were not encrypted: net/http recognises TLS only by the
// type *tls.Conn, which would hide its replies from us. So a server on a Listener with TLS
// must accept unencrypted HTTP/2 as well; NewServer does.
type Listener struct {
	net.Listener
	opts ListenerOptions

	// mu guards the fields below, and seen and since of every open wire.
	mu        sync.Mutex
	open      map[*wire]struct{}
	byAddress map[netip.Addr]int
	warned    time.Time
	finished  bool          // Finish was called
	late      []net.Conn    // waited to be accepted at that time, or when Withdraw was called
	away      chan struct{} // closed when connections are accepted again, or never will be; nil unless withdrawn

	turns atomic.Int64 // how often Return was called

	draining atomic.Bool // Drain was called

	// base is the parent of the contexts of all requests, and cut cancels it with a cause.
	base context.Context //nolint:containedctx // of the listener, not of one call
	cut  context.CancelCauseFunc
}

// NewListener wraps inner for a Server. The caller must run Watch.
func NewListener(inner net.Listener, opts ListenerOptions) *Listener {
	opts.Log = cmp.Or(opts.Log, slog.Default())
	l := &Listener{Listener: inner, opts: opts, open: map[*wire]struct{}{}, byAddress: map[netip.Addr]int{}}
	base, cut := context.WithCancelCause(context.Background())
	l.base, l.cut = context.WithValue(base, baseKey{}, base), cut
	return l
}

// baseKey is the key of the context that ends when the server stops, in the contexts of requests.
type baseKey struct{}

// Base returns the context that ends when the server of a request stops: what continues without its caller ends with it.
// ctx is the request's. It reports false for a request that no server has received.
func Base(ctx context.Context) (base context.Context, ok bool) {
	base, ok = ctx.Value(baseKey{}).(context.Context)
	return base, ok
}

// Accept waits for the next connection that is within the limits. Others are closed at once,
// without a reply: a TLS handshake or a response would cost more than the connection.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		nc, err := l.next()
		if err != nil {
			return nil, err
		}
		boundUnsent(nc)
		w := &wire{Conn: nc, listener: l, address: l.bounded(nc.RemoteAddr())}
		w.rest() // until its first request
		if !l.add(w) {
			abort(nc)
			continue
		}
		c := &conn{Conn: w, wire: w}
		if l.opts.TLS != nil {
			c.Conn = tls.Server(w, l.opts.TLS)
		}
		c.awaits()
		return c, nil
	}
}

// bounded returns the address that a connection counts against, or the zero Addr if it is not
// counted. Addresses that are not public belong to the local network, where an unknown proxy
// may stand for many callers.
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

// add registers a connection. It reports false if there are too many.
func (l *Listener) add(w *wire) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	// The total is checked first; it is the more serious of the two.
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

// remove forgets a connection. It must be called once for each add that reported true.
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

// Open returns the number of open connections.
func (l *Listener) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// Watch closes connections whose caller has stopped reading, until ctx is done.
func (l *Listener) Watch(ctx context.Context) {
	for range pace.Every(ctx, WritePatience/sweeps) {
		l.sweep()
	}
}

// sweep closes the connections whose current write has been running for at least sweeps
// checks.
func (l *Listener) sweep() {
	// Collected under the lock and closed outside of it, since Close takes the lock.
	var stuck []*wire
	l.mu.Lock()
	for w := range l.open {
		if w.isStuck() {
			stuck = append(stuck, w)
		}
	}
	l.mu.Unlock()
	for _, w := range stuck {
		abort(w) // outside the lock: Close takes it
	}
}

// ConnState is the server's ConnState hook. StateIdle means that a reply is complete, so the
// next write starts a new one.
func (l *Listener) ConnState(nc net.Conn, state http.ConnState) {
	c, ok := nc.(*conn)
	if !ok {
		return
	}
	switch state {
	case http.StateActive:
		c.wire.busy.Store(true)
	case http.StateIdle:
		c.awaits()
		c.wire.rest()
	}
}

// wire is the raw connection, below TLS.
type wire struct {
	net.Conn
	listener *Listener
	address  netip.Addr
	closed   atomic.Bool

	// busy reports whether a request is running. idle is when the last one ended, in nanoseconds,
	// if that was after Drain.
	busy atomic.Bool
	idle atomic.Int64

	// writes counts the starts and ends of writes, so it is odd while one is running. The two
	// atomic additions replace a write deadline, which would cost a timer change per write.
	writes atomic.Uint64
	// Guarded by Listener.mu: the value of writes at the last check, and how many checks have
	// found it unchanged.
	seen  uint64
	since int
}

// Write writes p in pieces of at most WritePiece, so that a slow reader makes progress that
// isStuck can see.
func (w *wire) Write(p []byte) (n int, err error) {
	for {
		w.writes.Add(1)
		m, err := w.Conn.Write(p[n:min(len(p), n+WritePiece)])
		w.writes.Add(1)
		if n += m; err != nil || n == len(p) {
			return n, err
		}
	}
}

// Close closes the connection and removes it from the listener, once: net/http may close
// twice.
func (w *wire) Close() error {
	if !w.closed.Swap(true) {
		w.listener.remove(w)
	}
	return w.Conn.Close()
}

// isStuck reports whether the write in progress was already in progress sweeps checks ago. The
// caller holds Listener.mu.
func (w *wire) isStuck() bool {
	now := w.writes.Load()
	if now != w.seen || now%2 == 0 {
		w.seen, w.since = now, 0
		return false
	}
	w.since++
	return w.since >= sweeps
}

// abort closes a connection without waiting for the peer to take the data that was sent.
// Without SetLinger(0) the kernel would keep the unsent data of a caller that does not read.
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
	net.Conn // the wire, or TLS on top of it
	wire     *wire
	// fresh reports whether nothing was written since the last reply. Only then can net/http
	// send a reply of its own, so only the first write of each reply is inspected.
	fresh atomic.Bool
	// plain reports whether the client speaks plain HTTP on the TLS port.
	plain atomic.Bool
	// ahead holds bytes that were read before net/http was given the connection, head what has
	// arrived of a request's head, and body how much of its body has not. Only reads use them, one at
	// a time.
	ahead, head []byte
	body        int64
	http2       atomic.Bool
	twoLengths  atomic.Bool // net/http is about to refuse a request because of them
	// between reports whether head and body say where the next head begins.
	between atomic.Bool
}

// awaits prepares the connection for its next request.
func (c *conn) awaits() {
	refuses := c.wire.listener.opts.Refuse != nil
	c.fresh.Store(refuses)
	c.between.Store(refuses && !c.http2.Load())
}

// Read notes when a client speaks plain HTTP to the TLS port, so that refuse can say so in
// plain HTTP. It refuses heads whose body has two lengths.
func (c *conn) Read(p []byte) (n int, err error) {
	if len(c.ahead) > 0 {
		n = copy(p, c.ahead)
		c.ahead = c.ahead[n:]
	} else if n, err = c.Conn.Read(p); err != nil {
		if re, ok := errors.AsType[tls.RecordHeaderError](err); ok && looksLikeHTTP(re.RecordHeader) {
			c.plain.Store(true)
		}
	}
	if n > 0 && c.between.Load() {
		c.findTwoLengths(p[:n])
	}
	return n, err
}

// twoLengths is what is wrong with a head that findTwoLengths has found.
const twoLengths = "it has both a Content-Length and a Transfer-Encoding"

// findTwoLengths looks at the heads, whose next bytes are given, for one with both a Content-Length and a
// Transfer-Encoding. net/http lets the latter win and hides the former. A proxy in front may have chosen the
// other one and see the end of the request elsewhere. The name of such an encoding is made invalid, so that
// net/http refuses the request, after its replies to those before it.
func (c *conn) findTwoLengths(p []byte) {
	for len(p) > 0 {
		if n := min(c.body, int64(len(p))); n > 0 {
			c.body, p = c.body-n, p[n:]
			continue
		}
		head := p
		if len(c.head) > 0 {
			c.head = append(c.head, p...)
			head = c.head
		}
		end := endOfHead(head)
		if end < 0 && len(head) < MaxHeaderBytes {
			if len(c.head) == 0 {
				c.head = append(c.head, p...)
			}
			return
		}
		before := len(head) - len(p) // bytes that net/http has already
		c.head = nil
		if bytes.HasPrefix(head, []byte("PRI * HTTP/2.0\r\n")) {
			c.http2.Store(true)
		}
		f := framingOf(head[:max(end, 0)])
		if f.lengths > 0 && f.coded {
			c.twoLengths.Store(true)
			// The last line that is still here, if it is not that of the encoding.
			p[max(f.coding-before, bytes.LastIndexByte(p[:end-before-1], '\n')+1, 0)] = '@'
		}
		if c.http2.Load() || end < 0 || f.coded || f.length < 0 { // what follows is not known, or net/http refuses it
			c.between.Store(false)
			return
		}
		c.body, p = f.length, p[end-before:]
	}
}

// endOfHead returns the length of a head with the empty line after it, or -1 if p does not have all of it.
func endOfHead(p []byte) int {
	end, size := bytes.Index(p, []byte("\n\r\n")), len("\n\r\n")
	if bare := bytes.Index(p, []byte("\n\n")); bare >= 0 && (end < 0 || bare < end) {
		end, size = bare, len("\n\n")
	}
	if end < 0 {
		return -1
	}
	return end + size
}

// framing is what a head says about its body.
type framing struct {
	lengths int   // how many lines of Content-Length it has
	length  int64 // the last of them; -1 if it is no number
	coded   bool  // it has a Transfer-Encoding
	coding  int   // the offset of that line
}

func framingOf(head []byte) (f framing) {
	at := 0
	for line := range bytes.Lines(head) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			n, err := strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64)
			if f.length, f.lengths = n, f.lengths+1; err != nil {
				f.length = -1
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			f.coded, f.coding = true, at
		}
		at += len(line)
	}
	return f
}

// SyscallConn gives package lane access to the socket. A connection with TLS has none: what its
// socket carries is not HTTP.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	if sc, ok := c.wire.Conn.(syscall.Conn); ok && c.Conn == net.Conn(c.wire) {
		return sc.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// looksLikeHTTP reports whether a TLS record header is really the start of an HTTP request
// line.
func looksLikeHTTP(head [5]byte) bool {
	switch string(head[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET", "PATCH":
		return true
	}
	return false
}

// Write passes replies of handlers through, and replaces those that net/http wrote by itself.
func (c *conn) Write(p []byte) (int, error) {
	if c.fresh.Load() {
		c.fresh.Store(false)
		if m, ok := canned(p); ok {
			m.Remote = c.RemoteAddr().String()
			if c.twoLengths.Load() {
				m.Detail = twoLengths
			}
			return len(p), c.refuse(m)
		}
	}
	return c.Conn.Write(p)
}

// CloseWrite closes the sending side. net/http calls it to end a reply before it closes the
// connection.
func (c *conn) CloseWrite() error {
	if s, ok := c.Conn.(*tls.Conn); ok {
		return s.CloseWrite()
	}
	if h, ok := c.wire.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return nil
}

// refuse replies in place of net/http. It then reads what the caller is still sending: if a
// connection is closed while it has unread bytes, the kernel resets it and the caller may
// never see the reply.
func (c *conn) refuse(m Malformed) error {
	// A client that speaks plain HTTP cannot read TLS, so it gets the reply in plain HTTP.
	to := c.Conn
	if c.plain.Load() {
		to, m.Detail = c.wire, "this port speaks HTTPS, so use an address that begins with https://"
	}
	if _, err := to.Write(c.wire.listener.opts.Refuse(m)); err != nil {
		return err
	}
	_ = c.CloseWrite()
	_ = c.wire.SetReadDeadline(time.Now().Add(drainPatience))
	_, _ = io.Copy(io.Discard, io.LimitReader(c.wire, drainBytes)) // errors do not matter: the connection is closed next
	return nil
}

// Malformed describes a request that net/http rejected before any handler saw it.
type Malformed struct {
	Status int
	// Detail is net/http's own text, or "".
	Detail string
	Remote string
}

// cannedHead follows the status line of every reply that net/http sends without a handler.
const cannedHead = "Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// canned reports whether p is a reply that no handler wrote, and what it says. Replies of
// handlers have a Date header.
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

// Message says what is wrong and what to do about it.
func (m *Malformed) Message() string {
	switch m.Status {
	case http.StatusRequestHeaderFieldsTooLarge:
		return "The request headers are larger than " + strconv.Itoa(MaxHeaderBytes>>10) + " KiB, the maximum size."
	case http.StatusExpectationFailed:
		return "The Expect header has an unsupported value; only 100-continue is supported."
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
