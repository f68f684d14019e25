// Package plainhttp calls HTTP/1.1 servers without TLS, on the caller's own goroutine.
//
// net/http keeps two goroutines for every connection and hands each request and reply from one to the
// other. Upstreams in the same house (vLLM, Ollama, a proxy) are called without TLS, and there that is
// a quarter of what a whole request cost us. Here one goroutine writes the request and reads the reply; parsing replies
// is still net/http's work. Whatever needs TLS, HTTP/2 or a proxy belongs to http.Transport.
package plainhttp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	maxIdle     = 4096
	idleFor     = 90 * time.Second
	readBuffer  = 4 << 10
	writeAtOnce = 64 << 10 // requests up to this size leave in one piece
	maxInterim  = 5        // replies of status 1xx before the real one
	maxHead     = 1 << 20  // bytes of a reply's status line and header
)

// Options are the choices of New; the zero value is the default.
type Options struct {
	// Dial opens connections; default a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Transport is an http.RoundTripper for http URLs, with a pool of connections.
type Transport struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu      sync.Mutex
	idle    map[string][]*conn // by host, the least recently used first
	trimmer *time.Timer        // runs while there are idle connections
}

// New returns a transport with an empty pool.
func New(opts *Options) *Transport {
	t := &Transport{idle: map[string][]*conn{}}
	if opts != nil {
		t.dial = opts.Dial
	}
	if t.dial == nil {
		t.dial = (&net.Dialer{}).DialContext
	}
	return t
}

// RoundTrip implements http.RoundTripper. Canceling the request's context closes its connection.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "http" {
		return nil, fmt.Errorf("plainhttp: cannot call a %s URL", req.URL.Scheme)
	}
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
	for {
		c, err := t.connection(req)
		if err != nil {
			closeBody(req)
			return nil, err
		}
		resp, err := c.exchange(req, out)
		if err == nil {
			return resp, nil
		}
		// The server may close a connection in the moment in which we use it again.
		if !errors.Is(err, errStale) || req.GetBody == nil && req.Body != nil || req.Context().Err() != nil {
			return nil, err
		}
		if req.GetBody != nil {
			again := *req
			if again.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
			req = &again
		}
	}
}

// connection takes one from the pool or opens one.
func (t *Transport) connection(req *http.Request) (*conn, error) {
	host := req.URL.Host
	for {
		c := t.take(host)
		if c == nil {
			break
		}
		if c.alive() {
			return c, nil
		}
		c.Close()
	}
	address := host
	if req.URL.Port() == "" {
		address = net.JoinHostPort(req.URL.Hostname(), "80")
	}
	nc, err := t.dial(req.Context(), "tcp", address)
	if err != nil {
		return nil, err
	}
	return newConn(t, host, nc), nil
}

func (t *Transport) take(host string) *conn {
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

// put gives a connection back whose reply has been read to its end.
func (t *Transport) put(c *conn) {
	c.idleSince = time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	pool := t.idle[c.host]
	if len(pool) >= maxIdle {
		c.Close()
		return
	}
	t.idle[c.host] = append(pool, c)
	if t.trimmer == nil {
		t.trimmer = time.AfterFunc(idleFor, t.trim)
	}
}

// trim closes what has been idle for long, and comes again while anything is idle.
func (t *Transport) trim() {
	t.mu.Lock()
	defer t.mu.Unlock()
	left := 0
	for host, pool := range t.idle {
		n := 0
		for n < len(pool) && time.Since(pool[n].idleSince) >= idleFor {
			pool[n].Close()
			n++
		}
		if t.idle[host] = append(pool[:0], pool[n:]...); len(t.idle[host]) == 0 {
			delete(t.idle, host)
		}
		clear(pool[len(pool)-n:])
		left += len(pool) - n
	}
	t.trimmer = nil
	if left > 0 {
		t.trimmer = time.AfterFunc(idleFor, t.trim)
	}
}

// CloseIdleConnections closes what nobody uses now.
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

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// errStale means that a connection that had been used before ended before a reply began.
var errStale = errors.New("the server closed the connection")

// conn is one connection, used by one call at a time.
type conn struct {
	net.Conn
	from      *Transport
	host      string
	reader    *bufio.Reader
	probe     prober
	head      int // bytes that the head of a reply may still take; negative: no bound
	used      bool
	idleSince time.Time
}

func newConn(t *Transport, host string, nc net.Conn) *conn {
	c := &conn{Conn: nc, from: t, host: host, head: -1}
	c.reader = bufio.NewReaderSize(c, readBuffer)
	c.probe.of(nc)
	return c
}

// Read bounds the head of a reply.
func (c *conn) Read(p []byte) (int, error) {
	if c.head == 0 {
		return 0, errors.New("the head of the reply is too long")
	}
	if c.head > 0 && len(p) > c.head {
		p = p[:c.head]
	}
	n, err := c.Conn.Read(p)
	if c.head > 0 {
		c.head -= n
	}
	return n, err
}

// alive reports whether the other side has neither closed an idle connection nor said anything on it.
func (c *conn) alive() bool { return c.reader.Buffered() == 0 && c.probe.quiet() }

// exchange sends the request, whose head is in out, and reads the head of its reply. Where it returns
// an error the connection is closed.
func (c *conn) exchange(req *http.Request, out *[]byte) (*http.Response, error) {
	ctx := req.Context()
	reused := c.used
	c.used = true
	stop := context.AfterFunc(ctx, func() { c.Close() })
	fail := func(err error) (*http.Response, error) {
		stop()
		c.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	sent := c.send(req, out)
	if errors.Is(sent, errBody) {
		return fail(sent)
	}
	c.head = maxHead
	if _, err := c.reader.Peek(1); err != nil {
		switch {
		case sent != nil:
			err = sent
		case errors.Is(err, io.EOF):
			err = io.ErrUnexpectedEOF
		}
		if reused {
			err = errors.Join(errStale, err)
		}
		return fail(err)
	}
	resp, err := c.response(req)
	if err != nil {
		return fail(err)
	}
	c.head = -1
	b := &body{src: resp.Body, conn: c, stop: stop, ctx: ctx, closes: resp.Close || sent != nil}
	if resp.Body == http.NoBody {
		b.end()
	}
	resp.Body = b
	return resp, nil
}

// send writes the request, small ones at once. A server may answer before it has read everything, so
// an error here counts only where no answer comes.
func (c *conn) send(req *http.Request, out *[]byte) error {
	if req.Body == nil {
		_, err := c.Write(*out)
		return err
	}
	defer req.Body.Close()
	head := len(*out)
	if req.ContentLength <= writeAtOnce-int64(head) {
		n := head + int(req.ContentLength)
		for cap(*out) < n {
			*out = append((*out)[:cap(*out)], 0)
		}
		whole := (*out)[:n]
		if _, err := io.ReadFull(req.Body, whole[head:]); err != nil {
			return errors.Join(errBody, err)
		}
		_, err := c.Write(whole)
		return err
	}
	if _, err := c.Write(*out); err != nil {
		return err
	}
	n, err := io.Copy(struct{ io.Writer }{c.Conn}, io.LimitReader(req.Body, req.ContentLength))
	if err == nil && n < req.ContentLength {
		return errors.Join(errBody, io.ErrUnexpectedEOF)
	}
	return err
}

// errBody means that the request could not be sent because its own body could not be read.
var errBody = errors.New("the request's body is shorter than announced")

// response reads the head of the reply, past interim ones.
func (c *conn) response(req *http.Request) (*http.Response, error) {
	for range maxInterim + 1 {
		resp, err := http.ReadResponse(c.reader, req)
		if err != nil || resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, err
		}
	}
	return nil, errors.New("the server sent too many interim replies")
}

// body is the rest of a reply. Read to its end, its connection goes back to the pool.
type body struct {
	src    io.ReadCloser
	conn   *conn
	stop   func() bool     // ends the watch over ctx; false: ctx was quicker
	ctx    context.Context //nolint:containedctx // one call's
	closes bool            // the connection cannot be used again
	done   bool
}

func (b *body) Read(p []byte) (int, error) {
	if b.done {
		return 0, io.EOF
	}
	n, err := b.src.Read(p)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		b.end()
	case b.ctx.Err() != nil:
		err = context.Cause(b.ctx)
	}
	return n, err
}

// end lets the connection go after the last byte of the reply.
func (b *body) end() {
	b.done = true
	if !b.stop() || b.closes || b.conn.reader.Buffered() > 0 {
		b.conn.Close()
		return
	}
	b.conn.from.put(b.conn)
}

// Close ends the reply. What has not been read is not waited for: the connection is closed.
func (b *body) Close() error {
	if b.done {
		return nil
	}
	b.done = true
	b.stop()
	return b.conn.Close()
}
