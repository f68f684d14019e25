package lane

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Many callers who hang up, wait, read slowly or write slowly leave nothing behind: no connection, no
// watch, no goroutine.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	hangUps, idle := 300, 200
	if os.Getenv("SLUICE_SOAK") != "" {
		hangUps, idle = 5000, 4000
	}
	var running atomic.Int64
	f := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		running.Add(1)
		defer running.Add(-1)
		switch r.URL.Path {
		case "/wait":
			<-r.Context().Done()
		case "/stream":
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat("x", 1000)); err != nil {
					return
				}
				w.(http.Flusher).Flush()
			}
		default:
			_, _ = io.Copy(w, r.Body)
		}
	}), nil)

	open := make([]net.Conn, idle)
	for i := range open {
		open[i] = f.dial(t)
		if i%2 == 0 {
			send(t, open[i], "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			receive(t, bufio.NewReader(open[i]), "GET")
		}
	}
	requests := []string{
		"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nslow",
		"GET / HTTP/1.1\r\nHo",
		"GET /wait HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
	}
	var callers sync.WaitGroup
	failed := make(chan error, 20)
	for n := range 20 {
		callers.Go(func() { failed <- callAndHangUp(f.addr, requests, hangUps/20, uint64(n)) })
	}
	callers.Wait()
	for range 20 {
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(patience); f.open() > idle || running.Load() > 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections and %d requests are left, want %d and none", f.open(), running.Load(), idle)
		}
	}
	for _, nc := range open {
		_ = nc.Close()
	}
	for deadline := time.Now().Add(patience); f.open() > 0 || f.watch.watched() > 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections and %d watches are left, want none", f.open(), f.watch.watched())
		}
	}
}

// callAndHangUp makes calls, one after the other, and hangs up in the middle of each.
func callAndHangUp(addr string, requests []string, times int, seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 0))
	for range times {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			return err
		}
		_, err = io.WriteString(nc, requests[r.IntN(len(requests))])
		if err == nil && r.IntN(2) == 0 {
			_ = nc.SetReadDeadline(time.Now().Add(time.Millisecond))
			_, _ = nc.Read(make([]byte, 1+r.IntN(4000))) // a slow reader sees only a part
		}
		if err != nil {
			return fmt.Errorf("sending a request: %w", err)
		}
		if err := nc.Close(); err != nil {
			return err
		}
	}
	return nil
}

// open returns the number of connections.
func (s *Server) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// watched returns the number of connections that are watched.
func (h *hangUps) watched() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.conns)
}
