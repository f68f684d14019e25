// Package httpserver is the server below the API: listeners and their connections, request bodies, and how both end.
//
// A Listener bounds connections, and a Server serves them: plain HTTP/1.1 through package lane, everything else through
// net/http. Bodies bounds the memory and the time that request bodies take. A stop is Drain, Finish, Quiet and End.
// What is served, and by which rules, is not known here; see package httpapi.
package httpserver

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"sluice/internal/kit/lane"
)

const (
	// headTimeout is how long the head of a request may take, and idleTimeout how long a connection
	// may wait for its next request.
	headTimeout = 10 * time.Second
	idleTimeout = 2 * time.Minute
)

// Lane tells which requests package lane serves.
type Lane string

// Values of Lane.
const (
	LaneOff   Lane = "off"   // none: net/http serves all
	LaneOn    Lane = "on"    // those it is made for
	LaneDebug Lane = "debug" // the same, and handlers that keep what is reused are found
)

// Server serves a Listener. Plain HTTP/1.1 requests are served by package lane, everything else by
// net/http.
type Server struct {
	*Listener
	std   *http.Server
	lane  *lane.Server // nil if it is off
	aside *aside

	mu    sync.Mutex    // guards ended
	ended chan struct{} // closed when net/http accepts no more from aside; nil: it never began
}

// NewServer returns a server for a Listener. It limits everything that a connection can make
// the server hold: header size, idle time, HTTP/2 streams and buffers.
func NewServer(h http.Handler, l *Listener, mode Lane) *Server {
	errorLog := slog.NewLogLogger(l.opts.Log.Handler(), slog.LevelDebug) // broken connections are routine
	s := &Server{Listener: l, std: &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    MaxHeaderBytes - headerSlop,
		ConnState:         l.ConnState,
		BaseContext:       func(net.Listener) context.Context { return l.base }, // see Listener.End
		ErrorLog:          errorLog,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          maxStreams,
			MaxReadFrameSize:              16 << 10, // each connection keeps a buffer of this size
			MaxReceiveBufferPerConnection: 64 << 10,
			MaxReceiveBufferPerStream:     64 << 10,
			SendPingTimeout:               time.Minute,
			PingTimeout:                   15 * time.Second,
			WriteByteTimeout:              WritePatience,
		},
		Protocols: new(http.Protocols),

		DisableGeneralOptionsHandler: true, // OPTIONS * gets our error object, with a request id
	}}
	// Unencrypted HTTP/2 is accepted only behind our own TLS, see Listener.
	s.std.Protocols.SetHTTP1(true)
	s.std.Protocols.SetUnencryptedHTTP2(l.opts.TLS != nil)
	if mode == LaneOff || l.opts.TLS != nil {
		return s
	}
	s.aside = &aside{addr: l.Addr(), given: make(chan net.Conn), closed: make(chan struct{})}
	s.lane = &lane.Server{
		Handler: h, HandOver: s.aside.give, HeadTimeout: headTimeout, IdleTimeout: idleTimeout,
		ConnState: l.ConnState, Base: l.base, ErrorLog: errorLog, Poison: mode == LaneDebug,
	}
	return s
}

// Serve accepts and serves connections until the listener ends, and returns its error. Connections
// may still be open then; Shutdown or Close ends them.
func (s *Server) Serve() error {
	if s.lane == nil {
		return s.std.Serve(s.Listener)
	}
	ended := make(chan struct{})
	s.mu.Lock()
	s.ended = ended
	s.mu.Unlock()
	go func() {
		defer close(ended)
		_ = s.std.Serve(s.aside) // until Shutdown or Close, also if one of them came first
	}()
	return s.lane.Serve(s.Listener)
}

// await waits until net/http accepts no more from aside. A server may be shut down before Serve was called.
func (s *Server) await() {
	s.mu.Lock()
	ended := s.ended
	s.mu.Unlock()
	if ended != nil {
		<-ended
	}
}

// Shutdown lets running requests finish, and closes idle connections. The listener must have been
// closed before.
func (s *Server) Shutdown(ctx context.Context) error {
	if s.lane == nil {
		return s.std.Shutdown(ctx)
	}
	// One after the other: until its end the lane may hand connections over.
	err := errors.Join(s.lane.Shutdown(ctx), s.std.Shutdown(ctx))
	s.await()
	return err
}

// Close closes all connections.
func (s *Server) Close() error {
	if s.lane == nil {
		return s.std.Close()
	}
	err := errors.Join(s.lane.Close(), s.std.Close())
	s.await()
	return err
}

// aside is the listener of the connections that package lane hands over to net/http.
type aside struct {
	addr   net.Addr
	given  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// give hands a connection over with the bytes that were read from it. If nobody accepts any more,
// the connection is closed.
func (a *aside) give(nc net.Conn, read []byte) {
	if c, ok := nc.(*conn); ok {
		c.ahead = read
	}
	select {
	case a.given <- nc:
	case <-a.closed:
		_ = nc.Close()
	}
}

// Accept implements net.Listener.
func (a *aside) Accept() (net.Conn, error) {
	select {
	case nc := <-a.given:
		return nc, nil
	case <-a.closed:
		return nil, http.ErrServerClosed
	}
}

// Close implements net.Listener. net/http closes it at the start of Shutdown and in Close.
func (a *aside) Close() error {
	a.once.Do(func() { close(a.closed) })
	return nil
}

// Addr implements net.Listener.
func (a *aside) Addr() net.Addr { return a.addr }
