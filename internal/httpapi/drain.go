package httpapi

import (
	"context"
	"net"
	"net/http"
	"time"
)

// A proxy sends requests over connections that it keeps. If the server closes such a connection
// while a request is on its way, the proxy cannot know whether the request was served, and reports
// an error for everything that must not be repeated. The same happens to a connection that the
// system has accepted and the server has not. So a stop avoids both: Drain, Finish and Quiet, in
// this order, leave no connection that a proxy would still use.

// quietEvery is how often Quiet looks at the connections.
const quietEvery = 20 * time.Millisecond

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
	l.late = finish(l.Listener)
	return l.Listener.Close()
}

// next returns the next connection of the system, or after Finish one of those that were waiting.
func (l *Listener) next() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err == nil {
		return nc, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.late) > 0 {
		nc, l.late = l.late[0], l.late[1:]
		return nc, nil
	}
	if l.finished {
		err = http.ErrServerClosed
	}
	return nil, err
}

// Quiet waits until every open connection has been idle for at least d since Drain, or until ctx is
// done. A proxy that drops its idle connections earlier than that has none left.
func (l *Listener) Quiet(ctx context.Context, d time.Duration) {
	tick := time.NewTicker(quietEvery)
	defer tick.Stop()
	for !l.quiet(time.Now().Add(-d)) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
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
