package lane

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Phases of a connection. The time-outs and Shutdown may close it in the first three; whoever
// changes the phase first decides.
const (
	phaseNew     int32 = iota // no byte has arrived yet
	phaseIdle                 // between two requests
	phaseHead                 // a part of a head has arrived
	phaseHandler              // a handler runs
	phaseClosed               // another goroutine has closed the connection
)

const (
	// bufferSize is the size of the read buffer, and so of the largest head that is served here.
	// Most requests fit in it with their body.
	bufferSize = 4 << 10
	// lingerFor and lingerBytes limit how much is read from a caller who keeps sending after the
	// reply. A connection that is closed with unread bytes is reset, and the caller may never see
	// the reply.
	lingerFor   = 500 * time.Millisecond
	lingerBytes = 256 << 10
)

// errAside means that a request is not plain, so that net/http must serve it.
var errAside = errors.New("lane: not a plain request")

// conn is a connection and what its requests use, one after the other.
//
// Fields without a word about locking belong to the connection's own goroutine. phase, since and
// hurried are read and changed by others, too.
type conn struct {
	server  *Server
	nc      net.Conn
	raw     syscall.RawConn
	base    context.Context //nolint:containedctx // the parent of the contexts of all requests
	remote  string
	watched uint64 // its number for hangUps

	phase atomic.Int32
	since atomic.Int64 // the tick in which the phase began
	// hurried reports whether writes have a deadline, which must not outlive the reply.
	hurried atomic.Bool

	mu   sync.Mutex // guards the fields below
	gone bool       // the caller has hung up
	ctx  *requestContext

	// buf[r:w] has been read and not been used. An idle connection has no buffer.
	buf  *[bufferSize]byte
	r, w int
	// readable and its result are fields because a closure for each read would be an allocation.
	readable func(fd uintptr) bool
	n        int
	readErr  error

	served bool   // a request was served before
	lines  []line // of the last head, by position
	target target
	// What handlers are given. Except for a poisoned server they are the same for all requests.
	url    *url.URL
	header http.Header
	body   *body
	reply  *reply
}

// buffers holds read buffers that no connection uses.
var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// newConn prepares a connection. It returns nil if the system does not give access to it.
// The connection is registered with epoll here, once for its whole life.
func newConn(s *Server, nc net.Conn, base context.Context) *conn {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	c := &conn{server: s, nc: nc, raw: raw, base: base, remote: nc.RemoteAddr().String(), url: &url.URL{}, header: make(http.Header, 8)}
	if s.watch.add(c) != nil {
		s.watch.remove(c)
		return nil
	}
	c.readable = c.tryRead
	c.body = &body{conn: c}
	c.reply = &reply{conn: c, header: make(http.Header, 16)}
	c.since.Store(s.ticks.Load())
	return c
}

// serve answers the requests of the connection until it ends or is handed over.
func (c *conn) serve() {
	for {
		err := c.next()
		if errors.Is(err, errAside) {
			c.handOver()
			return
		}
		if err != nil || !c.answer() {
			break
		}
	}
	c.server.watch.remove(c)
	_ = c.nc.Close() // may be closed already
	c.giveBuffer()
	c.server.remove(c) // last: Shutdown waits for it
}

// handOver gives the connection to net/http, with the bytes that were not used.
// The bytes are copied, because the buffer returns to the pool. The connection leaves the server
// last, so that Shutdown does not return before net/http has it.
func (c *conn) handOver() {
	var read []byte
	if c.w > c.r {
		read = append(read, c.buf[c.r:c.w]...)
	}
	c.giveBuffer()
	c.server.watch.remove(c)
	c.server.HandOver(c.nc, read)
	c.server.remove(c)
}

// enter changes the phase. It reports false if the connection was closed meanwhile.
func (c *conn) enter(from, to int32) bool {
	c.since.Store(c.server.ticks.Load())
	return c.phase.CompareAndSwap(from, to)
}

// closeIf closes the connection if it is in the given phase. Its goroutine then sees an error.
func (c *conn) closeIf(phase int32) {
	if c.phase.CompareAndSwap(phase, phaseClosed) {
		_ = c.nc.Close() // it is idle: nothing is lost
	}
}

// hangUp cancels the running request, or the next one if none is running.
// It is called by the goroutine that watches for hang-ups, and by a write that fails.
func (c *conn) hangUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	if c.ctx != nil {
		c.ctx.cancel()
	}
}

// cancel cancels the running request, if there is one.
func (c *conn) cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx != nil {
		c.ctx.cancel()
	}
}

// next reads the head of the next request. The phase is phaseHandler afterwards, also for one that
// goes to net/http.
//
// After the first request it waits for firstLook bytes before it looks at them, because skipBreaks
// needs them and net/http waits for as many. The loop ends when the head is whole, cannot be a
// plain one, or the connection fails.
func (c *conn) next() error {
	var s scan
	for again := c.served; ; {
		if again && c.w-c.r >= firstLook {
			again = false
			c.skipBreaks()
		}
		if !again && c.w > c.r {
			if done, err := c.look(&s); done || err != nil {
				return err
			}
		}
		if err := c.fill(); err != nil {
			// net/http says what is wrong with half a head.
			if errors.Is(err, io.EOF) && !again && c.enter(phaseHead, phaseHandler) {
				err = errAside
			}
			return err
		}
	}
}

// firstLook is how many bytes net/http waits for between two requests. A connection that ends with
// fewer gets no reply.
const firstLook = 4

// skipBreaks skips line breaks after the body of a POST, as net/http does: old clients send them.
func (c *conn) skipBreaks() {
	if c.target.method != http.MethodPost {
		return
	}
	for range firstLook {
		if c.buf[c.r] != '\r' && c.buf[c.r] != '\n' {
			return
		}
		c.r++
	}
}

// look continues with the head of a request. It reports whether the request was taken.
func (c *conn) look(s *scan) (done bool, err error) {
	whole, err := s.look(c.buf[c.r:c.w])
	if whole {
		err = c.parse(c.buf[c.r : c.r+s.end])
	}
	to := phaseHead
	if whole || err != nil {
		to = phaseHandler // here, or in net/http
	}
	// The connection may have been closed after these bytes were read. A request on it must not run:
	// its caller sees a close and would be charged for a reply that never arrives.
	if from := c.phase.Load(); from == phaseClosed || from != to && !c.enter(from, to) {
		return false, net.ErrClosed
	}
	if err != nil || !whole {
		return false, err
	}
	c.r += s.end
	c.served = true
	c.tell(http.StateActive)
	return true, nil
}

// fill reads more into the buffer.
// A full buffer without a whole head is the bound on the size of heads.
func (c *conn) fill() error {
	// What was not used moves to the front: pipelined requests, or the start of one.
	if c.r > 0 {
		c.w = copy(c.buf[:], c.buf[c.r:c.w])
		c.r = 0
	}
	if c.w == bufferSize {
		if !c.enter(phaseHead, phaseHandler) {
			return net.ErrClosed
		}
		return errAside // the head is too long for this package
	}
	if err := c.raw.Read(c.readable); err != nil {
		return err
	}
	if c.readErr != nil {
		return c.readErr
	}
	if c.n == 0 {
		return io.EOF
	}
	c.w += c.n
	return nil
}

// giveBuffer returns the buffer to the pool.
func (c *conn) giveBuffer() {
	if c.buf == nil {
		return
	}
	if c.server.Poison {
		poisonBytes(c.buf[:])
	}
	buffers.Put(c.buf)
	c.buf, c.r, c.w = nil, 0, 0
}

// answer runs the handler. It reports whether the connection can be used for another request.
//
// The order at the end matters. The context is canceled before the last bytes are sent, and
// buffers are given back before the connection becomes idle: once it is idle, another goroutine
// may close it at any time.
func (c *conn) answer() bool {
	ctx := &requestContext{Context: c.base}
	// hangUp may run at any moment. Under the lock it either finds this context or has set gone
	// before.
	c.mu.Lock()
	c.ctx = ctx
	if c.gone || c.base.Err() != nil {
		ctx.cancel()
	}
	c.mu.Unlock()
	r := c.request(ctx)
	c.reply.begin(r)
	whole := c.run(r)
	c.mu.Lock()
	c.ctx = nil
	c.mu.Unlock()
	ctx.cancel()
	whole = whole && c.reply.end()
	c.reply.release()
	if c.server.Poison {
		c.poison(r)
	}
	switch {
	case !whole:
		return false
	case c.body.left > 0 || c.reply.closes:
		c.linger()
		return false
	case c.server.ending.Load():
		return false
	}
	if c.body.limited {
		c.body.limited = false
		_ = c.nc.SetReadDeadline(time.Time{})
	}
	if c.hurried.Load() { // as net/http does between requests
		_ = c.reply.SetWriteDeadline(time.Time{})
	}
	if !c.enter(phaseHandler, phaseIdle) {
		return false
	}
	c.tell(http.StateIdle)
	// If connections are to end since the check above, whoever wanted it may have seen this one busy.
	return !c.server.ending.Load()
}

// request returns the request whose head was parsed. It is a new one each time, which costs one
// allocation: derived requests share its fields, and they may outlive the handler.
func (c *conn) request(ctx context.Context) *http.Request {
	r := (&http.Request{}).WithContext(ctx)
	r.Method, r.URL, r.Header, r.Host = c.target.method, c.url, c.header, c.target.host
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
	r.RequestURI, r.RemoteAddr, r.Close = c.target.uri, c.remote, c.target.close
	r.ContentLength, r.Body = c.target.length, http.NoBody
	if r.ContentLength > 0 {
		r.Body = c.body
	}
	return r
}

// run calls the handler. It reports false if the handler panicked; the connection must then be
// closed, so that the caller does not take the reply for a whole one.
// http.ErrAbortHandler is how a handler cuts off a reply on purpose; it is not logged.
func (c *conn) run(r *http.Request) (ok bool) {
	defer func() {
		if ok {
			return
		}
		if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // net/http compares it, too
			c.server.logf("lane: panic serving %s: %v\n%s", c.remote, p, debug.Stack())
		}
	}()
	c.server.Handler.ServeHTTP(c.reply, r)
	return true
}

// linger waits a moment until the caller has read the reply, if it is still sending.
// It ends its own direction first, so that the caller sees the end of the reply, and then discards
// what still arrives.
func (c *conn) linger() {
	if c.body.left == 0 && c.r == c.w {
		return // nothing unread is known of, so the connection ends in the usual way
	}
	half, ok := c.nc.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	_ = c.nc.SetReadDeadline(time.Now().Add(lingerFor))
	_, _ = io.Copy(io.Discard, io.LimitReader(c.nc, lingerBytes)) // the connection is closed next
}

// tell calls the ConnState hook.
func (c *conn) tell(state http.ConnState) {
	if c.server.ConnState != nil {
		c.server.ConnState(c.nc, state)
	}
}
