// Package plainhttp calls HTTP/1.1 servers on the caller's own goroutine.
//
// net/http keeps two goroutines for every connection and passes each request and reply between
// them. Upstreams on the same network (vLLM, Ollama, a proxy) are called without TLS, and
// there this took a quarter of the cost of a whole request. Here one goroutine writes the
// request and reads the reply, from one buffer and with few allocations. It accepts less than
// net/http does: whatever two readers could understand differently is refused. Whatever needs HTTP/2
// or a proxy belongs to http.Transport.
//
// It works the same over TLS, if Options.Dial opens such connections, with one exception: a
// write that times out breaks a TLS connection, so a long request cannot look for an early
// reply while it is blocked. Callers send long requests another way; see MaxSecure.
//
// A request is sent once. It is sent a second time, on a new connection, only if a pooled
// connection turns out to be dead and the upstream cannot have run the request: not a byte of
// it was written, or its method is safe.
//
// Start reading with Transport.RoundTrip and conn.exchange, which are one call from its first byte
// to the head of its reply; body reads the rest. A conn belongs to one call at a time: whoever
// takes it from the pool must close it or put it back, and body.end and body.Close decide that
// with one compare-and-swap.
package plainhttp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	// MaxSecure is the longest body that should be sent over TLS here: the buffers of both systems
	// take as much, so that the write does not wait for the server.
	MaxSecure = 32 << 10

	// maxIdle is the maximum number of idle connections to one host.
	maxIdle = 4096
	// idleFor is the default of Options.Idle. It is shorter than the 5 seconds after which
	// uvicorn and Node.js close theirs, so that we rarely use one that is being closed.
	idleFor = 4 * time.Second
	// readBuffer is the size of each connection's buffer. It holds the head of a usual reply.
	readBuffer = 4 << 10
	// writeAtOnce is the largest request that is sent in one write.
	writeAtOnce = 64 << 10
	// borrowAtOnce is how much of a longer one is written at once.
	borrowAtOnce = 256 << 10
	// maxInterim is the maximum number of interim replies (1xx) before the final one.
	maxInterim = 5
	// writeUnlimited is the size up to which a write has no deadline: the system's buffers take that much,
	// whatever the server does. It saves the usual request two changes of a timer.
	writeUnlimited = 8 << 10
	// patience is the default of Options.Patience.
	patience = 5 * time.Minute
	// stuck is how long a write may block before it checks for an early reply.
	stuck = 200 * time.Millisecond
)

// Options holds the optional settings of New. The zero value is the default.
type Options struct {
	// Dial opens connections. The default is a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Patience is the timeout from the start of a request until the head of its reply has
	// arrived. The default is 5 minutes. After the head only the caller's context limits the
	// reply. If it is negative, the context limits everything: for callers that watch their
	// requests themselves, it saves two changes of a timer.
	Patience time.Duration
	// Secure makes a Transport for https URLs. Dial must return connections whose TLS handshake is
	// done, and which negotiated no protocol or HTTP/1.1.
	Secure bool
	// Idle is how long a connection may stay in the pool. The default is 4 seconds.
	Idle time.Duration
}

// Transport is an http.RoundTripper for http URLs, or for https URLs, with a pool of connections.
// It is safe for concurrent use.
//
// A pool is a stack: the connection used last is used first, so that the others grow old and are
// closed when there is less to do.
type Transport struct {
	scheme, port string // of all URLs; the port is that of URLs without one
	idleFor      time.Duration
	dial         func(ctx context.Context, network, address string) (net.Conn, error)
	patience     time.Duration

	// mu guards the pool. It is held only to push and pop, never during I/O other than
	// closing.
	mu sync.Mutex
	// idle holds the pooled connections by host, the least recently used first.
	idle map[string][]*conn
	// trimmer runs while there are idle connections, and is nil otherwise.
	trimmer *time.Timer
}

// New returns a Transport with an empty pool. opts may be nil.
func New(opts *Options) *Transport {
	t := &Transport{scheme: "http", port: "80", idle: map[string][]*conn{}, patience: patience, idleFor: idleFor}
	if opts != nil {
		t.dial = opts.Dial
		t.idleFor = cmp.Or(opts.Idle, idleFor)
		if opts.Secure {
			t.scheme, t.port = "https", "443"
		}
		t.patience = cmp.Or(opts.Patience, patience)
	}
	if t.dial == nil {
		t.dial = (&net.Dialer{}).DialContext
	}
	return t
}

// RoundTrip implements http.RoundTripper. Canceling the request's context closes its
// connection; the error is then the cause of the cancellation. Like every RoundTripper, it
// always closes the request's body.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != t.scheme {
		closeBody(req)
		return nil, fmt.Errorf("plainhttp: cannot call a %s URL", req.URL.Scheme)
	}
	// The head, and small bodies with it, are assembled in a pooled buffer. A buffer that grew
	// beyond writeAtOnce is dropped, so that the pool stays small.
	out := buffers.Get().(*[]byte)
	defer func() {
		if cap(*out) <= writeAtOnce {
			buffers.Put(out)
		}
	}()
	var err error
	if *out, err = appendHead((*out)[:0], req); err != nil {
		closeBody(req)
		return nil, err
	}
	now := time.Now()
	c := t.take(req.URL.Host, now)
	if c == nil {
		if c, err = t.open(req); err != nil {
			return nil, err
		}
	}
	resp, err := c.exchange(req, out, now)
	if !errors.Is(err, errStale) || req.GetBody == nil && req.Body != nil || req.Context().Err() != nil {
		return resp, err
	}
	// The first attempt has consumed and closed the body, so the repetition needs a new one.
	again := *req
	if req.GetBody != nil {
		if again.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
	}
	// Not from the pool, where the next connection may be dead as well: there is only one
	// repetition.
	if c, err = t.open(&again); err != nil {
		return nil, err
	}
	return c.exchange(&again, out, time.Now())
}

// open dials a connection for the request. On failure it closes the request's body.
func (t *Transport) open(req *http.Request) (*conn, error) {
	address := req.URL.Host
	if req.URL.Port() == "" {
		address = net.JoinHostPort(req.URL.Hostname(), t.port)
	}
	ctx := req.Context()
	nc, err := t.dialAside(ctx, address)
	if err != nil {
		closeBody(req)
		if ctx.Err() != nil {
			err = context.Cause(ctx) // a dialer reports only that it was canceled
		}
		return nil, err
	}
	return newConn(t, req.URL.Host, nc), nil
}

// dialAside dials on a goroutine of its own. Dialing, and shaking hands above all, needs a stack twice as large as the rest of
// a call, and that of the caller would stay large for as long as its connection lasts.
func (t *Transport) dialAside(ctx context.Context, address string) (nc net.Conn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		nc, err = t.dial(ctx, "tcp", address)
	}()
	<-done
	return nc, err
}

// take returns a live connection from the pool, the most recently used first, or nil if there
// is none. Dead and expired ones are closed.
func (t *Transport) take(host string, now time.Time) *conn {
	for {
		c := t.pop(host)
		if c == nil || now.Sub(c.idleSince) < t.idleFor && c.alive() {
			return c
		}
		c.Close()
	}
}

// pop removes and returns the most recently used connection of a host, or nil.
func (t *Transport) pop(host string) *conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	pool := t.idle[host]
	if len(pool) == 0 {
		return nil
	}
	c := pool[len(pool)-1]
	pool[len(pool)-1] = nil
	t.idle[host] = pool[:len(pool)-1]
	return c
}

// put returns a connection to the pool. Its reply must have been read to the end.
// A connection beyond maxIdle is closed.
func (t *Transport) put(c *conn) {
	c.idleSince = time.Now()
	c.reader.give()
	t.mu.Lock()
	defer t.mu.Unlock()
	pool := t.idle[c.host]
	if len(pool) >= maxIdle {
		c.Close()
		return
	}
	t.idle[c.host] = append(pool, c)
	if t.trimmer == nil {
		t.trimmer = time.AfterFunc(t.idleFor, t.trim)
	}
}

// trim closes connections that have been idle for too long. It schedules itself again while any
// are left. Pools are ordered by idleSince, so only their front needs to be checked.
func (t *Transport) trim() {
	t.mu.Lock()
	defer t.mu.Unlock()
	left := 0
	for host, pool := range t.idle {
		n := 0
		for n < len(pool) && time.Since(pool[n].idleSince) >= t.idleFor {
			pool[n].Close()
			n++
		}
		// The rest moves to the front of the same array; the places that become free are cleared
		// below, so that closed connections can be collected.
		if t.idle[host] = append(pool[:0], pool[n:]...); len(t.idle[host]) == 0 {
			delete(t.idle, host)
		}
		clear(pool[len(pool)-n:])
		left += len(pool) - n
	}
	t.trimmer = nil
	if left > 0 {
		t.trimmer = time.AfterFunc(t.idleFor, t.trim)
	}
}

// CloseIdleConnections closes the connections that are not in use. http.Client calls it by
// this name.
func (t *Transport) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for host, pool := range t.idle {
		for _, c := range pool {
			c.Close()
		}
		delete(t.idle, host)
	}
	if t.trimmer != nil {
		t.trimmer.Stop()
		t.trimmer = nil
	}
}

// buffers holds the buffers in which requests are assembled.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// closeBody closes the request's body, if it has one.
func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// errStale means that a pooled connection was dead and that the upstream cannot have run the
// request, so that it may be sent again.
var errStale = errors.New("the server closed the connection")

// conn is one connection. One call uses it at a time, from take or open until put or Close.
type conn struct {
	net.Conn
	from   *Transport
	host   string
	reader *reader
	probe  prober
	// secure reports that there is TLS below, which may have read bytes that nobody has asked for.
	secure bool
	// limit is the deadline for the request and the head of its reply.
	limit time.Time
	// interim counts the interim replies to this request.
	interim int
	// writeLimited reports that the connection has a write deadline, which must be cleared.
	writeLimited bool
	used         bool
	// once reports that the connection must not return to the pool.
	once      bool
	idleSince time.Time
	// hangUp closes the connection. It is created once, so that a request does not allocate it.
	hangUp func()
}

// newConn wraps a connection that was just dialed.
func newConn(t *Transport, host string, nc net.Conn) *conn {
	c := &conn{Conn: nc, from: t, host: host, secure: t.scheme == "https"}
	below := nc
	if over, ok := nc.(interface{ NetConn() net.Conn }); ok {
		below = over.NetConn() // whose descriptor can be asked
	}
	c.probe.of(below)
	// A type that wraps a connection may do more when it is read.
	if c.reader = newReader(nc); isTCP(nc) {
		c.reader.raw = c.probe.descriptor()
	}
	c.hangUp = func() { c.Close() }
	return c
}

// isTCP reports whether nc is a plain TCP connection, whose descriptor may be read directly.
func isTCP(nc net.Conn) bool {
	_, ok := nc.(*net.TCPConn)
	return ok
}

// alive reports whether an idle connection can be used: the peer has neither closed it nor
// sent anything. Unexpected bytes would be taken for the next reply.
func (c *conn) alive() bool { return c.reader.Buffered() == 0 && c.quiet() }

// quiet reports whether the connection is open and has nothing to read. If the operating
// system cannot tell without blocking, it waits a millisecond.
func (c *conn) quiet() bool {
	quiet, known := c.probe.quiet()
	switch {
	case !c.secure && known:
		return quiet
	case quiet:
		// TLS gives what it has, and does not ask the system after its deadline.
		return c.silent(longAgo)
	}
	// With TLS this may be a session ticket, which is no reason to give up the connection.
	return c.silent(time.Now().Add(time.Millisecond))
}

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// silent reports whether nothing can be read before the deadline.
func (c *conn) silent(deadline time.Time) bool {
	_ = c.SetReadDeadline(deadline)
	_, err := c.reader.Peek(1)
	_ = c.SetReadDeadline(c.limit)
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// exchange sends the request, whose head is in out, and reads the head of its reply. If it
// returns an error, the connection is closed.
//
// An error while sending is not final: a server may answer and close before it has read
// everything, so the reply is looked for first. The deadlines are cleared when the head is there,
// because a stream may last longer than any of them.
func (c *conn) exchange(req *http.Request, out *[]byte, now time.Time) (*http.Response, error) {
	ctx := req.Context()
	if ctx.Err() != nil {
		closeBody(req)
		c.Close()
		return nil, context.Cause(ctx)
	}
	reused := c.used
	c.used, c.once, c.interim = true, req.Close, 0
	if c.from.patience > 0 {
		c.limit = now.Add(c.from.patience)
		_ = c.SetReadDeadline(c.limit) // an error shows again at the next read
	}
	// The only way to interrupt a blocked read or write is to close the connection.
	stop := c.watch(ctx)
	// fail closes the connection and returns err, or the cause of the cancellation if that was
	// the reason.
	fail := func(err error) (*http.Response, error) {
		stop()
		c.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	// The order of these checks matters: our own mistake, then a connection that was dead before
	// we wrote anything, then one that died before it answered.
	n, sent := c.send(req, out)
	if errors.Is(sent, errBody) {
		return fail(sent)
	}
	if reused && sent != nil && n == 0 {
		return fail(fmt.Errorf("%w: %w", errStale, sent)) // anything to read is not a reply to this request
	}
	if _, err := c.reader.Peek(1); err != nil {
		// The server may have closed the connection just when it was reused, or it may have run the request and
		// crashed. Only a safe method may therefore be repeated.
		stale := reused && isSafe(req.Method) && !errors.Is(err, os.ErrDeadlineExceeded)
		if err = noEOF(err); sent != nil {
			err = sent
		}
		if stale {
			err = fmt.Errorf("%w: %w", errStale, err)
		}
		return fail(err)
	}
	resp, b, err := c.response(req)
	if err != nil {
		return fail(err)
	}
	// After an incomplete request the server's position in the stream is unknown: the
	// connection cannot be reused.
	if resp.Close || sent != nil {
		c.once = true
	}
	if !c.limit.IsZero() {
		c.limit = time.Time{}
		_ = c.SetReadDeadline(c.limit)
	}
	if c.writeLimited {
		_ = c.SetWriteDeadline(c.limit)
		c.writeLimited = false
	}
	// A reply without a body is over now, and its connection is free at once.
	if b.stop = stop; b.left == 0 && !b.chunked && !b.end() {
		return nil, context.Cause(ctx)
	}
	return resp, nil
}

// watch closes the connection when ctx is canceled, until the returned function is called. That reports false if ctx
// was canceled first. A context that has a way of its own to do so is spared the detour of context.AfterFunc.
func (c *conn) watch(ctx context.Context) (stop func() bool) {
	if own, ok := ctx.(interface{ AfterFunc(f func()) func() bool }); ok {
		return own.AfterFunc(c.hangUp)
	}
	return context.AfterFunc(ctx, c.hangUp)
}

// isSafe reports whether a request with this method may run twice.
func isSafe(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

var (
	// errBody means that the request's own body cannot be read or has another length than
	// announced. It is never the server's fault.
	errBody = errors.New("the request's body is not as long as announced")
	// errAnswered means that the server replied and stopped reading the request.
	errAnswered = errors.New("the server answered before it had read the request")
)

// send writes the request, small ones in one write, and returns how many bytes were written. A
// server may reply before it has read everything, so a write error matters only if no reply
// arrives. The head stays in out, for a possible repetition.
//
// A long body is sent piece by piece through out, or, if it can lend its bytes, from its own
// memory; see lend.
func (c *conn) send(req *http.Request, out *[]byte) (int64, error) {
	if req.Body == nil {
		n, err := c.Write(*out)
		return int64(n), err
	}
	defer req.Body.Close()
	head, left := len(*out), req.ContentLength
	if own, ok := req.Body.(borrower); ok && !c.secure && left > int64(writeAtOnce-head) {
		return c.lend(*out, own, left)
	}
	var sent int64
	for {
		// The first piece goes out with the head.
		piece := int(min(left, int64(max(writeAtOnce-head, readBuffer))))
		left -= int64(piece)
		*out = slices.Grow((*out)[:head], piece+1)
		if err := readPiece(req.Body, (*out)[head:head+piece+1], left == 0); err != nil {
			return sent, err
		}
		whole := (*out)[:head+piece]
		if sent > 0 {
			whole = whole[head:]
		}
		n, err := c.write(whole, left > 0 || sent > 0)
		sent += int64(n)
		if err != nil || left == 0 {
			return sent, err
		}
	}
}

// lend sends a head and left bytes of a body from where they are, without a copy. The pieces go out together.
func (c *conn) lend(head []byte, own borrower, left int64) (sent int64, err error) {
	pieces := append(make(net.Buffers, 0, 4), head)
	for {
		for room := min(left, borrowAtOnce); room > 0; {
			piece := own.Borrow(int(room))
			if len(piece) == 0 {
				return sent, fmt.Errorf("%w: %w", errBody, io.ErrUnexpectedEOF)
			}
			pieces = append(pieces, piece)
			room, left = room-int64(len(piece)), left-int64(len(piece))
		}
		n, err := c.writeAll(pieces)
		sent += n
		if err != nil || left == 0 {
			return sent, err
		}
		pieces = pieces[:0]
	}
}

// borrower is a body that lends its bytes instead of copying them. What Borrow returns is not longer than n, and empty
// only at the end. A body must have the announced length.
type borrower interface{ Borrow(n int) []byte }

// readPiece fills p except for its last byte. In the last piece that byte detects a body that
// is longer than announced.
func readPiece(body io.Reader, p []byte, last bool) error {
	want := len(p) - 1
	if !last {
		p = p[:want]
	}
	n, err := io.ReadFull(body, p)
	if n == want && (err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) {
		return nil
	}
	if err == nil {
		err = errors.New("it is longer")
	}
	return fmt.Errorf("%w: %w", errBody, err)
}

// write writes a piece of a request. While a long request is blocked it checks for a reply: a
// server may refuse a request without reading it and keep the connection open. Without the
// check both sides would wait for each other until the timeout.
// A short write has no deadline, a long one over TLS that of the call, and any other one is
// interrupted every 200 ms to look for a reply.
func (c *conn) write(p []byte, long bool) (n int, err error) {
	if !long && len(p) <= writeUnlimited {
		return c.Write(p)
	}
	long = long && !c.secure // a time-out would break the connection
	c.writeLimited = true
	if !long {
		_ = c.SetWriteDeadline(c.limit)
		return c.Write(p)
	}
	wrote, err := c.writeAll(net.Buffers{p})
	return int(wrote), err
}

// writeAll writes pieces of a long request together; see write.
func (c *conn) writeAll(pieces net.Buffers) (n int64, err error) {
	c.writeLimited = true
	var to io.Writer = c.Conn
	if _, plain := to.(*net.TCPConn); !plain {
		to = struct{ io.Writer }{to} // WriteTo would pass by the Write of a type around one
	}
	for {
		until := time.Now().Add(stuck)
		if !c.limit.IsZero() && until.After(c.limit) {
			until = c.limit
		}
		_ = c.SetWriteDeadline(until)
		var wrote int64
		wrote, err = pieces.WriteTo(to)
		n += wrote
		if !errors.Is(err, os.ErrDeadlineExceeded) || !c.limit.IsZero() && !time.Now().Before(c.limit) {
			return n, err
		}
		if wrote == 0 {
			if err = c.answered(); err != nil {
				return n, err
			}
		}
	}
}

// answered returns errAnswered if the final reply has started to arrive, and nil if nothing
// has. It drops interim replies.
// Any error means that the request need not be sent any further.
func (c *conn) answered() error {
	for c.reader.Buffered() > 0 || !c.quiet() {
		f, _, err := c.next()
		if err != nil {
			return err
		}
		if f.status >= 200 {
			return errAnswered
		}
	}
	return nil
}

// response reads the head of the final reply and skips interim ones.
func (c *conn) response(req *http.Request) (*http.Response, *body, error) {
	for {
		f, head, err := c.next()
		if err != nil {
			return nil, nil, err
		}
		if f.status < 200 {
			continue
		}
		b := &body{conn: c, ctx: req.Context(), chunked: f.chunked, left: f.length}
		resp := &http.Response{
			Status: string(head[9:bytes.IndexByte(head, '\r')]), StatusCode: f.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: f.header(head), ContentLength: f.length, Close: f.closes, Request: req, Body: b,
		}
		if f.old {
			resp.Proto, resp.ProtoMinor = "HTTP/1.0", 0
		}
		switch {
		case !f.hasBody(req.Method):
			b.left, b.chunked = 0, false
			if req.Method != http.MethodHead {
				resp.ContentLength = 0
			}
		case f.chunked:
			b.left, resp.TransferEncoding = 0, chunkedEncoding
		// Without a length the end of the connection is the end of the reply.
		case f.length < 0:
			resp.Close = true
		}
		c.reader.Discard(len(head))
		return resp, b, nil
	}
}

// chunkedEncoding is the TransferEncoding of replies; nobody changes it.
var chunkedEncoding = []string{"chunked"}

// next waits until a whole head is buffered, checks it and returns it. The head of an interim reply is dropped, so
// only that of the final reply is valid, until the next read.
func (c *conn) next() (f framing, head []byte, err error) {
	if head, err = c.peekHead(); err != nil {
		return f, nil, err
	}
	if f, err = checkHead(head); err != nil || f.status >= 200 {
		return f, head, err
	}
	if c.interim++; c.interim > maxInterim {
		return f, nil, errInterim
	}
	c.reader.Discard(len(head))
	return f, nil, nil
}

// peekHead returns the next head, including the empty line that ends it, without consuming it.
// A head that does not fit the small buffer gets one of maxHead bytes.
func (c *conn) peekHead() ([]byte, error) {
	for looked := 0; ; {
		if _, err := c.reader.Peek(looked + 1); err != nil {
			return nil, noEOF(err)
		}
		some, _ := c.reader.Peek(c.reader.Buffered())
		if end := headEnd(some, looked); end > 0 {
			return some[:end], nil
		}
		looked = len(some)
		switch {
		case looked >= maxHead:
			return nil, errHeadLong
		case looked == c.reader.size():
			c.reader.grow(maxHead)
			c.once = true // the buffer is too large to keep in the pool
			looked = 0
		}
	}
}

// noEOF replaces io.EOF, which callers would take for the regular end of a reply.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
