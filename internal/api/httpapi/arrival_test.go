package httpapi

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/account/auth"
	"sluice/internal/api/httpserver"
)

// pipes is a listener whose connections are pipes, so that a test can have minutes pass at once.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// A body must arrive at 1 KiB a second over any 30 seconds, and be whole after 10 minutes.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	const slow = "The request body arrived too slowly: less than 1024 bytes a second over 30s. Send it again."
	for name, tt := range map[string]struct {
		length int // announced; 0: chunked
		send   []portion
		status int
		after  time.Duration // when the reply comes
		says   string
	}{
		"at once":                  {length: 10, send: []portion{{10, 1, 0}}, status: 200},
		"silent":                   {length: 10, status: 408, after: 30 * time.Second, says: slow},
		"silent, chunked":          {status: 408, after: 30 * time.Second, says: slow},
		"a byte a second":          {length: 32 << 20, send: []portion{{1, 60, time.Second}}, status: 408, after: 30 * time.Second, says: slow},
		"a byte a second, chunked": {send: []portion{{1, 60, time.Second}}, status: 408, after: 30 * time.Second, says: slow},
		"just fast enough":         {length: 308 * 1100, send: []portion{{1100, 308, time.Second}}, status: 200, after: 307 * time.Second},
		"a burst, then silence":    {length: 1 << 20, send: []portion{{100 << 10, 1, time.Hour}}, status: 408, after: 30 * time.Second, says: slow},
		"fast, then slow":          {length: 1 << 20, send: []portion{{64 << 10, 4, 10 * time.Second}, {100, 100, time.Second}}, status: 408, after: 60 * time.Second, says: slow},
		"too long in all":          {length: 32 << 20, send: []portion{{32 << 10, 40, 20 * time.Second}}, status: 408, after: 10 * time.Minute, says: "The request body was incomplete after 10m0s. Send it faster, or send a smaller one."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := New(auth.New(auth.NewIndex(), "service", nil), nil, Settings{}, &Options{Log: slog.New(slog.DiscardHandler)})
				behind(echo(nil))(api)
				l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
				front := httpserver.NewListener(l, httpserver.ListenerOptions{Log: slog.New(slog.DiscardHandler)})
				server := httpserver.NewServer(api, front, httpserver.LaneOff) // the bubble's clock does not move while the lane waits for the system
				var serving sync.WaitGroup
				serving.Go(func() { _ = server.Serve() })
				client, theirs := net.Pipe()
				l.conns <- theirs
				began := time.Now()
				serving.Go(func() {
					framing := "Transfer-Encoding: chunked"
					if tt.length > 0 {
						framing = fmt.Sprint("Content-Length: ", tt.length)
					}
					fmt.Fprintf(client, "POST / HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", framing)
					for _, s := range tt.send {
						for range s.times {
							piece := strings.Repeat("x", s.bytes)
							if tt.length == 0 {
								piece = fmt.Sprintf("%x\r\n%s\r\n", s.bytes, piece)
							}
							if _, err := io.WriteString(client, piece); err != nil {
								return
							}
							time.Sleep(s.pause)
						}
					}
				})
				got := read(t, bufio.NewReader(client), "POST")
				took := time.Since(began)
				if tt.status == 200 {
					if got.status != 200 {
						t.Errorf("the reply = %d %s, want 200", got.status, got.body)
					}
				} else {
					checkError(t, name, got, tt.status, object(tt.status, "request_timeout", tt.says))
				}
				if took != tt.after {
					t.Errorf("the reply came after %v, want %v", took, tt.after)
				}
				if held := api.BodiesInFlight(); tt.status != 200 && held != 0 {
					t.Errorf("BodiesInFlight() = %d, want 0", held)
				}
				client.Close()
				server.Close()
				serving.Wait()
			})
		})
	}
}

// portion is bytes that are sent several times, with a pause after each.
type portion struct {
	bytes, times int
	pause        time.Duration
}

// waitHeld waits until so many bytes of bodies are held.
func (w *world) waitHeld(t *testing.T, want int64) {
	t.Helper()
	for deadline := time.Now().Add(patience); w.api.BodiesInFlight() != want; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("BodiesInFlight() = %d, want %d", w.api.BodiesInFlight(), want)
		}
	}
}

// What is announced takes no room; what has arrived does.
func TestBodiesGrowAsTheyArrive(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, behind(echo(nil)))
	conn := w.dial(t)
	write(t, conn, "POST", "/v1/chat/completions", w.good, fmt.Sprint("Content-Length: ", 32<<20))
	const firstBuffer = 64 << 10
	for _, tt := range []struct {
		sent int
		held int64
	}{{1, firstBuffer}, {firstBuffer, 4 * firstBuffer}, {3*firstBuffer - 2, 4 * firstBuffer}, {2, 16 * firstBuffer}} {
		if _, err := io.WriteString(conn, strings.Repeat("x", tt.sent)); err != nil {
			t.Fatal(err)
		}
		w.waitHeld(t, tt.held)
	}
	conn.Close()
	w.waitHeld(t, 0)
}

// One account's bodies are bounded together, and do not keep another account's out.
func TestBodiesOfAnAccount(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	w := newWorld(t, nil, func(a *API) {
		a.bodies.Account = 1 << 20
		behind(echo(gate))(a)
	})
	other := w.caller(t, nil)
	ask := func(key string, size int) *bufio.Reader {
		conn := w.dial(t)
		write(t, conn, "POST", "/v1/chat/completions", key, fmt.Sprint("Content-Length: ", size))
		go io.WriteString(conn, strings.Repeat("x", size)) // a refused client may find the connection closed
		return bufio.NewReader(conn)
	}
	first := ask(w.good, 1<<20)
	w.waitHeld(t, 1<<20)
	full := object(429, "rate_limit_error", "The running requests of this account would hold more than 1 MiB of bodies and stored responses, the maximum at a time. Read the replies, or wait until one of them has ended.")
	got := read(t, ask(w.good, 1), "POST")
	checkError(t, "a further body of the account", got, 429, full)
	if got.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After = %q, want 1", got.header.Get("Retry-After"))
	}
	second := ask(other, 1<<20)
	w.waitHeld(t, 2<<20)
	close(gate)
	for name, r := range map[string]*bufio.Reader{"the first": first, "another account's": second} {
		if got := read(t, r, "POST"); got.status != 200 {
			t.Errorf("%s = %d %s, want 200", name, got.status, got.body)
		}
	}
	if got := read(t, ask(w.good, 1<<20), "POST"); got.status != 200 {
		t.Errorf("a later one = %d %s, want 200", got.status, got.body)
	}
	w.stop(t)
	if held := w.api.BodiesInFlight(); held != 0 {
		t.Errorf("BodiesInFlight() = %d in the end, want 0", held)
	}
}

// What pages read of callers without an account is bounded by address and in all.
func TestBodiesOfStrangers(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*httpserver.Bodies){
		"by address": func(b *httpserver.Bodies) { b.Address = 32<<10 + 1000 },
		"in all":     func(b *httpserver.Bodies) { b.Strangers = 32<<10 + 1000 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := make(chan struct{})
			held := make(chan struct{}, 2)
			page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if _, err := io.ReadAll(r.Body); err != nil {
					http.Error(w, err.Error(), http.StatusServiceUnavailable)
					return
				}
				held <- struct{}{}
				<-gate
			})
			w := newWorld(t, &Options{Pages: map[string]http.Handler{"/form": page}}, func(a *API) { change(a.bodies) })
			ask := func() *bufio.Reader {
				conn := w.dial(t)
				write(t, conn, "POST", "/form", "", "Content-Length: 600")
				if _, err := io.WriteString(conn, strings.Repeat("x", 600)); err != nil {
					t.Fatal(err)
				}
				return bufio.NewReader(conn)
			}
			first := ask()
			<-held
			if got := read(t, ask(), "POST"); got.status != 503 || !strings.HasPrefix(got.body, "Too many large requests") {
				t.Errorf("a form beyond the bound = %d %s, want 503", got.status, got.body)
			}
			close(gate)
			if got := read(t, first, "POST"); got.status != 200 {
				t.Errorf("a form within the bound = %d %s, want 200", got.status, got.body)
			}
			if got := read(t, ask(), "POST"); got.status != 200 {
				t.Errorf("a form afterwards = %d %s, want 200", got.status, got.body)
			}
		})
	}
}
