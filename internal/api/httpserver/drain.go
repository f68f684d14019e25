package httpserver

import (
	"context"
	"net"
	"net/http"
	"time"

	"sluice/internal/kit/pace"
)

// A proxy sends requests over connections that it keeps. If the server closes such a connection
// while a request is on its way, the proxy cannot know whether the request was served, and reports
// an error for everything that must not be repeated. The same happens to a connection that the
// system has accepted and the server has not. So a stop avoids both: Drain, Finish and Quiet, in
// this order, leave no connection that a proxy would still use.

const (
	// quietEvery is how often Until looks again.
	quietEvery = 20 * time.Millisecond
	// LastWords is how long the requests that are cut off have to tell their callers.
	LastWords = 2 * time.Second
)

// Drain starts to measure how long connections have been idle, for Quiet.
func (l *Listener) Drain() {
	// Before the loop: a connection becomes idle either before it, and is marked here, or after the
	// switch, and marks itself.
	l.draining.Store(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.open {
		if !w.busy.Load() {
			w.rest()
		}
	}
}

// Finish stops accepting connections. Those that the system has already accepted are still served;
// the others are refused, which tells a proxy to try another node. Serve returns
// http.ErrServerClosed.
func (l *Listener) Finish() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.finished {
		return nil
	}
	l.finished = true
	l.late = append(l.late, finish(l.Listener)...)
	l.wake()
	return l.Listener.Close()
}

// Close implements net.Listener. After Finish there is nothing left to close: a server that is shut
// down would take the error of a second Close for its own.
func (l *Listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.finished {
		return nil
	}
	defer l.wake()
	return l.Listener.Close()
}

// next returns the next connection of the system, or after Finish and Withdraw one of those that were waiting. After
// Withdraw it waits for Return.
func (l *Listener) next() (net.Conn, error) {
	for {
		turns := l.turns.Load()
		nc, err := l.Listener.Accept()
		if err == nil {
			return nc, nil
		}
		l.mu.Lock()
		if len(l.late) > 0 {
			nc, l.late = l.late[0], l.late[1:]
			l.mu.Unlock()
			return nc, nil
		}
		away, finished := l.away, l.finished
		l.mu.Unlock()
		switch {
		case finished:
			return nil, http.ErrServerClosed
		case away != nil:
			<-away
		case turns == l.turns.Load():
			return nil, err
		}
	}
}

// Quiet waits until every open connection has been idle for at least d since Drain, or until ctx is
// done. A proxy that drops its idle connections earlier than that has none left.
func (l *Listener) Quiet(ctx context.Context, d time.Duration) {
	Until(ctx, func() bool { return l.quiet(time.Now().Add(-d)) })
}

// Until waits until done reports true, or until ctx is done.
func Until(ctx context.Context, done func() bool) {
	for !done() {
		if pace.Sleep(ctx, quietEvery) != nil {
			return
		}
	}
}

// End shuts the server down. It waits for running requests until ctx is done. Those that still run then are
// canceled with the cause: a stream ends with an error event, other calls are answered with a 503, and
// both are settled as cut by us. Connections that are still in use LastWords later are closed.
func (s *Server) End(ctx context.Context, cause error) {
	if s.Shutdown(ctx) == nil {
		return
	}
	s.cut(cause)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), LastWords)
	defer cancel()
	if s.Shutdown(ctx) != nil {
		_ = s.Close() // these requests end with an error of their connection
	}
}

// quiet reports whether no connection was used after the given time.
func (l *Listener) quiet(since time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.late) > 0 {
		return false
	}
	for w := range l.open {
		if w.busy.Load() || w.idle.Load() > since.UnixNano() {
			return false
		}
	}
	return true
}

// rest notes that a connection is idle from now on. Before Drain nobody asks for how long, so the
// hot path does without the time.
func (w *wire) rest() {
	if w.listener.draining.Load() {
		w.idle.Store(time.Now().UnixNano())
	}
	w.busy.Store(false)
}
