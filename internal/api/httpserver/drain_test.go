package httpserver

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// Quiet waits for the end of running requests, and until no connection was used for the given time.
func TestQuiet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := NewListener(nil, ListenerOptions{})
		begin := time.Now()
		took := func() time.Duration { return time.Since(begin).Truncate(time.Second) }
		open := func() *conn {
			w := &wire{Conn: from{}, listener: l}
			w.rest()
			l.add(w)
			return &conn{Conn: w, wire: w}
		}
		old, running := open(), open()
		l.ConnState(running, http.StateActive)
		time.Sleep(time.Minute)
		if l.Drain(); l.quiet(time.Now()) {
			t.Error("quiet while a request is running = true, want false")
		}
		begin = time.Now()
		late := open() // accepted during the delay
		go func() {
			time.Sleep(3 * time.Second)
			l.ConnState(running, http.StateIdle)
			time.Sleep(4 * time.Second)
			l.ConnState(late, http.StateActive)
			_ = late.Close()
		}()
		if l.Quiet(t.Context(), 5*time.Second); took() != 8*time.Second {
			t.Errorf("Quiet returned after %v, want 5 s after the last use at 3 s", took())
		}
		_ = old.Close()

		// A request that does not end is waited for as long as the context lasts.
		l.ConnState(running, http.StateActive)
		begin = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if l.Quiet(ctx, 0); took() != 2*time.Second {
			t.Errorf("Quiet with a running request returned after %v, want at the end of the context", took())
		}
	})
}

// Finish serves the connections that the system had accepted, also behind one whose caller has left, and refuses others.
func TestFinish(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := inner.Addr().String()
	left, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(left.(*net.TCPConn).SetLinger(0), left.Close()); err != nil { // a reset
		t.Fatal(err)
	}
	const waiting = 5
	var conns [waiting]net.Conn
	for i := range conns {
		if conns[i], err = net.Dial("tcp", address); err != nil {
			t.Fatal(err)
		}
		defer conns[i].Close()
		if _, err := io.WriteString(conns[i], "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	l := NewListener(inner, ListenerOptions{Log: slog.New(slog.DiscardHandler)})
	if err := errors.Join(l.Finish(), l.Finish()); err != nil {
		t.Fatal(err)
	}
	if c, err := net.Dial("tcp", address); err == nil {
		c.Close()
		t.Error("a connection was accepted after Finish")
	}
	server := NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }), l, testLane())
	if err := server.Serve(); !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("Serve = %v, want ErrServerClosed", err)
	}
	for _, c := range conns {
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != http.StatusTeapot {
			t.Fatalf("a request that was waiting = %v, %v, want it served", resp, err)
		}
		resp.Body.Close()
	}
	if err := server.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown = %v", err)
	}
}
