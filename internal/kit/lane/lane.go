// Package lane serves plain HTTP/1.1 requests at a fraction of the cost of net/http.
//
// A request is plain if its head fits one small buffer, is strictly well formed and asks for
// nothing unusual: GET, HEAD or POST, a body only with a Content-Length, no Upgrade, Expect or
// Transfer-Encoding. It is served by the same http.Handler. Everything else, and whatever is in
// doubt, goes to net/http together with the bytes that were read, and the rest of the connection
// with it. So this package decides nothing about malformed requests, and never parses what it is
// not sure of. TLS and HTTP/2 are left to net/http as well.
//
// A connection has one goroutine, which also runs the handler. A request starts no goroutine and
// sets no timer: one goroutine of the server looks at the time-outs of all connections, and one
// learns from the system which callers have hung up. The request's header and body, and the
// ResponseWriter, are reused for the next request, so a handler must keep none of them after it
// returns.
//
// Start reading with conn.serve: next reads a head, answer runs the handler, and reply is the
// ResponseWriter it writes to. The invariant that keeps closing safe is the phase of a connection:
// only a compare-and-swap changes it, so either the connection's goroutine begins a request or
// another goroutine closes the connection, never both.
package lane

import (
	"context"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/kit/pace"
)

const (
	// tick is how often the time-outs of all connections are checked, and so their precision.
	tick = time.Second
	// newGrace is how long Shutdown waits for the first request of a new connection, as
	// net/http does: its request may be on the way.
	newGrace = 5 * time.Second
	// quietEvery is how often Shutdown looks whether all connections have ended.
	quietEvery = 10 * time.Millisecond
)

// Server serves the plain requests of the connections it is given. The fields must not change
// after Serve was called.
type Server struct {
	Handler http.Handler
	// HandOver takes over a connection that is not served here. The bytes in read were read from
	// it and belong to the receiver.
	HandOver func(nc net.Conn, read []byte)
	// HeadTimeout is how long the head of a request may take, and how long a new connection may
	// stay without one. IdleTimeout is how long a connection may wait for its next request. 0
	// means no limit.
	HeadTimeout, IdleTimeout time.Duration
	// ConnState is called with StateActive when a request begins and with StateIdle when its
	// reply is complete. May be nil.
	ConnState func(net.Conn, http.ConnState)
	// Base is the parent of the contexts of all requests. When it is canceled, so are they, with its
	// cause. The default is context.Background.
	Base context.Context //nolint:containedctx // as in net/http
	// ErrorLog gets the panics of handlers. The default is the standard logger.
	ErrorLog *log.Logger
	// Poison overwrites everything that is reused as soon as a handler returns, so that tests
	// find a handler that keeps some of it.
	Poison bool

	// Connections note the tick at which their phase began. Reading a counter is cheaper than
	// reading the clock twice in every request.
	ticks atomic.Int64 // how many ticks have passed
	date  atomic.Pointer[stamp]
	watch hangUps

	mu       sync.Mutex // guards the fields below
	conns    map[*conn]struct{}
	stop     chan struct{} // ends the watching goroutines
	watching sync.WaitGroup

	// closing is set once, by Shutdown or Close, and never cleared; ending can be cleared by
	// EndConnections.
	closing atomic.Bool
	ending  atomic.Bool // every reply ends its connection; so it is while closing
}

// Serve accepts connections until the listener fails or returns http.ErrServerClosed, and returns
// its error. It may be called once. Connections may still be served when it returns; see Shutdown.
func (s *Server) Serve(l net.Listener) error {
	if err := s.start(); err != nil {
		return err
	}
	base := context.Background()
	if s.Base != nil {
		base = s.Base
		context.AfterFunc(base, s.cancelAll) // never undone: requests may run on when Serve has returned
	}
	base = context.WithValue(base, http.LocalAddrContextKey, l.Addr())
	for {
		nc, err := l.Accept()
		if err != nil {
			return err
		}
		c := newConn(s, nc, base)
		if c == nil {
			s.HandOver(nc, nil) // the system gives no access to it
			continue
		}
		if !s.add(c) {
			_ = nc.Close() // closed meanwhile
			continue
		}
		go c.serve() // Shutdown waits for it
	}
}

// start starts the goroutines that watch all connections. A server that was closed before starts
// nothing: nobody would end it.
func (s *Server) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		return http.ErrServerClosed
	}
	if err := s.watch.open(); err != nil {
		return err
	}
	s.conns, s.stop = map[*conn]struct{}{}, make(chan struct{})
	s.watching.Go(s.checkTimes)
	s.watching.Go(s.watch.run)
	return nil
}

// add registers a connection. It reports false once the server is closing and waits for no more
// connections.
func (s *Server) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop == nil {
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

// remove forgets a connection that has ended or was handed over.
func (s *Server) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// Shutdown closes idle connections, lets running requests finish and waits until all connections
// have ended, or until ctx is done. Every reply from now on ends its connection. The listener must
// be closed by the caller before.
func (s *Server) Shutdown(ctx context.Context) error {
	s.closing.Store(true)
	s.ending.Store(true)
	for !s.quiet() {
		if pace.Sleep(ctx, quietEvery) != nil {
			return ctx.Err()
		}
	}
	s.end()
	return nil
}

// quiet closes the idle connections and reports whether there are no others.
// A connection on which a part of a head has arrived is waited for, until its HeadTimeout closes
// it.
func (s *Server) quiet() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.closeIf(phaseIdle)
		if s.since(c) >= newGrace {
			c.closeIf(phaseNew)
		}
	}
	return len(s.conns) == 0
}

// EndConnections closes the connections that wait for their next request and makes every reply end its connection,
// until it is called with false. After Shutdown and Close it stays so.
func (s *Server) EndConnections(on bool) {
	// Before the loop: a connection is either idle by then, or sees it before it becomes so.
	s.ending.Store(on || s.closing.Load())
	if !on {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.closeIf(phaseIdle)
	}
}

// Close closes all connections at once. The contexts of running requests are canceled.
func (s *Server) Close() error {
	s.closing.Store(true)
	s.ending.Store(true)
	s.mu.Lock()
	for c := range s.conns {
		c.hangUp()
		_ = c.nc.Close() // its goroutine sees the error
	}
	s.mu.Unlock()
	s.end()
	return nil
}

// cancelAll cancels the running requests. Base was canceled before, so later ones see that
// themselves.
// Unlike hangUp it does not mark the connections: their callers are still there and may be sent a
// reply.
func (s *Server) cancelAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.cancel()
	}
}

// end stops the watching goroutines. It may be called more than once.
// The lock is released before it waits, because checkTimes takes it.
func (s *Server) end() {
	s.mu.Lock()
	if s.stop != nil {
		close(s.stop)
		s.stop = nil
		s.watch.close()
	}
	s.mu.Unlock()
	s.watching.Wait()
}

// checkTimes closes connections whose time is over.
func (s *Server) checkTimes() {
	s.mu.Lock()
	stop := s.stop
	s.mu.Unlock()
	if stop == nil {
		return
	}
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
			s.ticks.Add(1)
			s.expire()
		}
	}
}

// expire closes the connections that have been waiting for too long.
func (s *Server) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		waited := s.since(c)
		if s.IdleTimeout > 0 && waited >= s.IdleTimeout {
			c.closeIf(phaseIdle)
		}
		if s.HeadTimeout > 0 && waited >= s.HeadTimeout {
			c.closeIf(phaseNew)
			c.closeIf(phaseHead)
		}
	}
}

// since returns for how long a connection has been in its phase, at least: the tick in which the
// phase began does not count.
func (s *Server) since(c *conn) time.Duration {
	return time.Duration(s.ticks.Load()-c.since.Load()-1) * tick
}

// logf reports a mistake of a handler.
func (s *Server) logf(format string, args ...any) {
	if s.ErrorLog != nil {
		s.ErrorLog.Printf(format, args...)
	} else {
		log.Printf(format, args...)
	}
}
