package lane

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// patience is how long a test waits for what has to happen.
const patience = time.Minute

// front is a Server on a real port, with net/http behind it.
type front struct {
	*Server
	addr   string
	inner  net.Listener
	handed atomic.Int64 // connections that were handed over since wasHanded
}

// start serves h. change, if not nil, is called before.
func start(t testing.TB, h http.Handler, change func(*Server)) *front {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return startOn(t, inner, h, change)
}

// startOn is start on a listener.
func startOn(t testing.TB, inner net.Listener, h http.Handler, change func(*Server)) *front {
	t.Helper()
	quiet := log.New(io.Discard, "", 0)
	std := &http.Server{Handler: h, ErrorLog: quiet, ReadHeaderTimeout: patience}
	aside := &handOvers{addr: inner.Addr(), conns: make(chan net.Conn), closed: make(chan struct{})}
	f := &front{addr: inner.Addr().String(), inner: inner}
	f.Server = &Server{Handler: h, ErrorLog: quiet, Poison: true, HandOver: func(nc net.Conn, read []byte) {
		f.handed.Add(1)
		select {
		case aside.conns <- &replayed{Conn: nc, read: read}:
		case <-aside.closed:
			_ = nc.Close()
		}
	}}
	if change != nil {
		change(f.Server)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = f.Serve(inner) })
	serving.Go(func() { _ = std.Serve(aside) })
	t.Cleanup(func() {
		_ = inner.Close()
		_ = f.Close()
		_ = std.Close()
		serving.Wait()
	})
	return f
}

// handOvers is the listener of net/http.
type handOvers struct {
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (h *handOvers) Accept() (net.Conn, error) {
	select {
	case nc := <-h.conns:
		return nc, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

func (h *handOvers) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

func (h *handOvers) Addr() net.Addr { return h.addr }

// replayed is a connection of which some bytes were read before.
type replayed struct {
	net.Conn
	read []byte
}

func (r *replayed) Read(p []byte) (int, error) {
	if len(r.read) > 0 {
		n := copy(p, r.read)
		r.read = r.read[n:]
		return n, nil
	}
	return r.Conn.Read(p)
}

// CloseWrite lets net/http end a reply.
func (r *replayed) CloseWrite() error { return r.Conn.(*net.TCPConn).CloseWrite() }

// dial connects to the server. The connection fails the test if it takes too long.
func (f *front) dial(t testing.TB) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", f.addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	return nc
}

// wasHanded reports whether a connection was handed over since the last call.
func (f *front) wasHanded() bool { return f.handed.Swap(0) > 0 }

// send writes raw bytes.
func send(t testing.TB, nc net.Conn, raw string) {
	t.Helper()
	if _, err := io.WriteString(nc, raw); err != nil {
		t.Fatal(err)
	}
}

// receive reads one reply.
func receive(t testing.TB, r *bufio.Reader, method string) (*http.Response, string) {
	t.Helper()
	resp, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("reading the body: %v", err)
	}
	_ = resp.Body.Close()
	return resp, string(body)
}

// ended fails the test unless the connection ends without further bytes.
func ended(t testing.TB, r io.Reader) {
	t.Helper()
	if rest, err := io.ReadAll(r); len(rest) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the connection went on with %q, %v; want its end", rest, err)
	}
}

func TestReplies(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789abcdef", 5000)
	for name, tt := range map[string]struct {
		handler func(w http.ResponseWriter, r *http.Request)
		request string // the default is a GET
		status  int
		header  map[string]string // "" means that it must not be there
		body    string
		chunked bool
		closes  bool
		ends    bool // the connection ends without a word
	}{
		"nothing":   {handler: func(http.ResponseWriter, *http.Request) {}, status: 200, header: map[string]string{"Content-Length": "0", "Content-Type": ""}},
		"short":     {handler: func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hi") }, status: 200, header: map[string]string{"Content-Length": "2", "Content-Type": "text/plain; charset=utf-8"}, body: "hi"},
		"two parts": {handler: func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "a"); io.WriteString(w, "b") }, status: 200, header: map[string]string{"Content-Length": "2"}, body: "ab"},
		"long":      {handler: func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, long) }, status: 200, header: map[string]string{"Content-Length": ""}, body: long, chunked: true},
		"long, of known length": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "80000")
			io.WriteString(w, long[:100])
			io.WriteString(w, long[100:50000])
			io.WriteString(w, long[50000:])
		}, status: 200, header: map[string]string{"Content-Length": "80000"}, body: long},
		"flushed": {handler: func(w http.ResponseWriter, _ *http.Request) {
			for _, part := range []string{"one", "", "two", long, "three"} {
				io.WriteString(w, part)
				w.(http.Flusher).Flush()
			}
		}, status: 200, header: map[string]string{"Content-Length": ""}, body: "onetwo" + long + "three", chunked: true},
		"flushed before the body": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			io.WriteString(w, "late")
		}, status: 200, body: "late", chunked: true},
		"no content":   {handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, status: 204, header: map[string]string{"Content-Length": "", "Content-Type": ""}},
		"not modified": {handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(304) }, status: 304, header: map[string]string{"Content-Length": ""}},
		"own status":   {handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(799) }, status: 799, header: map[string]string{"Content-Length": "0"}},
		"own header": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["B"] = []string{" two\r\nlines ", "again"}
			w.Header()["A"] = []string{"a"}
			w.Header()["not a name"] = []string{"x"}
			w.Header()["Content-Type"] = nil
			w.Header()["Date"] = nil
			io.WriteString(w, "<html>")
		}, status: 200, header: map[string]string{"A": "a", "B": "two  lines", "Content-Type": "", "Date": ""}, body: "<html>"},
		"HEAD": {handler: func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }, request: "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n", status: 200, header: map[string]string{"Content-Length": "5"}},
		"HEAD, flushed": {handler: func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "hello")
			w.(http.Flusher).Flush()
			io.WriteString(w, "hello")
		}, request: "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n", status: 200, header: map[string]string{"Content-Length": ""}},
		"close asked for":  {handler: func(http.ResponseWriter, *http.Request) {}, request: "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", status: 200, closes: true},
		"close by handler": {handler: func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") }, status: 200, closes: true},
		"longer than said": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "0")
			io.WriteString(w, "x")
		}, status: 200, header: map[string]string{"Content-Length": "0"}, ends: true},
		"longer than said, then shorter": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1")
			io.WriteString(w, "x")
			io.WriteString(w, "y")
		}, status: 200, header: map[string]string{"Content-Length": "1"}, body: "x", ends: true},
		"a body where none may be": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5")
			w.WriteHeader(204)
		}, status: 204, header: map[string]string{"Content-Length": ""}},
		"a type of nothing": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5")
			w.Header().Set("Content-Type", "x/y")
			w.WriteHeader(304)
		}, status: 304, header: map[string]string{"Content-Length": "", "Content-Type": ""}},
		"invalid length": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "x")
			io.WriteString(w, "x")
		}, status: 200, header: map[string]string{"Content-Length": "1"}, body: "x"},
		"length of no body": {handler: func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "9") }, request: "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n", status: 200, header: map[string]string{"Content-Length": "9"}},
		"unread short body": {handler: func(http.ResponseWriter, *http.Request) {}, request: "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", status: 200},
		"header before data": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(404)
			w.WriteHeader(200)
			io.WriteString(w, "n")
		}, status: 404, body: "n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, http.HandlerFunc(tt.handler), nil)
			nc := f.dial(t)
			r := bufio.NewReader(nc)
			request := tt.request
			if request == "" {
				request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
			}
			method, _, _ := strings.Cut(request, " ")
			for range 2 { // the second one uses what the first one has left
				send(t, nc, request)
				resp, body := receive(t, r, method)
				if resp.StatusCode != tt.status || body != tt.body || (len(resp.TransferEncoding) > 0) != tt.chunked || resp.Close != tt.closes {
					t.Fatalf("the reply = %d %.100q, chunked %q, closes %t; want %d %.100q, %t, %t", resp.StatusCode, body, resp.TransferEncoding, resp.Close, tt.status, tt.body, tt.chunked, tt.closes)
				}
				for key, want := range tt.header {
					if got := resp.Header.Get(key); got != want {
						t.Errorf("%s = %q, want %q", key, got, want)
					}
				}
				if tt.closes || tt.ends {
					ended(t, r)
					break
				}
			}
			if f.wasHanded() {
				t.Error("the request was handed over")
			}
		})
	}
}

// A reply that breaks off must not look whole.
func TestBrokenReplies(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"panic":             func(http.ResponseWriter, *http.Request) { panic("x") },
		"abort in a stream": func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush(); panic(http.ErrAbortHandler) },
		"less than announced": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5")
			io.WriteString(w, "four")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nc := start(t, handler, nil).dial(t)
			send(t, nc, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				_ = resp.Body.Close()
			}
			if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("reading the reply = %v, want a broken one", err)
			}
		})
	}
}

// What a handler may not write fails as in net/http.
func TestWriteErrors(t *testing.T) {
	t.Parallel()
	got := make(chan error, 3)
	f := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/204":
			w.WriteHeader(204)
		default:
			w.Header().Set("Content-Length", "1")
		}
		_, err := io.WriteString(w, "xx")
		got <- err
	}), nil)
	nc := f.dial(t)
	send(t, nc, "GET /204 HTTP/1.1\r\nHost: x\r\n\r\nGET /long HTTP/1.1\r\nHost: x\r\n\r\n")
	for _, want := range []error{http.ErrBodyNotAllowed, http.ErrContentLength} {
		if err := <-got; !errors.Is(err, want) {
			t.Errorf("Write = %v, want %v", err, want)
		}
	}
}

// Trailers follow the body, whether they were announced or not, and are not in the head.
func TestTrailers(t *testing.T) {
	t.Parallel()
	nc := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum, x-more")
		w.Header().Set("X-Sum", "early")
		_, _ = io.WriteString(w, "body")
		if r.URL.Path == "/stream" {
			w.(http.Flusher).Flush()
		}
		w.Header().Set("X-Sum", "late")
		w.Header()[http.TrailerPrefix+"X-Unannounced"] = []string{"u"}
	}), nil).dial(t)
	r := bufio.NewReader(nc)
	for _, path := range []string{"/", "/stream", "/"} {
		send(t, nc, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n")
		resp, body := receive(t, r, "GET")
		if body != "body" || resp.Header.Get("X-Sum") != "" || resp.Trailer.Get("X-Sum") != "late" || resp.Trailer.Get("X-Unannounced") != "u" {
			t.Errorf("%s = %q, header %v, trailer %v", path, body, resp.Header, resp.Trailer)
		}
	}
}

// An interim reply comes before the final one, which is otherwise unchanged.
func TestInterimReplies(t *testing.T) {
	t.Parallel()
	nc := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</x>")
		w.Header().Set("Content-Length", "5")
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = io.WriteString(w, "final")
	}), nil).dial(t)
	send(t, nc, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	r := bufio.NewReader(nc)
	if resp, _ := receive(t, r, "GET"); resp.StatusCode != 103 || resp.Header.Get("Link") != "</x>" || resp.Header.Get("Content-Length") != "" {
		t.Fatalf("the first reply = %d %v, want 103", resp.StatusCode, resp.Header)
	}
	if resp, body := receive(t, r, "GET"); resp.StatusCode != 200 || body != "final" {
		t.Errorf("the second reply = %d %q, want 200", resp.StatusCode, body)
	}
}

// A caller who hangs up cancels its request, also if it has sent more, and while the handler waits
// in a context that was derived from the request's.
func TestHangUp(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]string{"alone": "", "with another request behind": "GET /next HTTP/1.1\r\nHost: x\r\n\r\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began, canceled := make(chan struct{}), make(chan error, 2)
			f := start(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/next" {
					return
				}
				close(began)
				ctx, cancel := context.WithCancel(r.Context())
				defer cancel()
				hook := make(chan struct{})
				defer context.AfterFunc(r.Context(), func() { close(hook) })()
				<-ctx.Done()
				<-hook
				canceled <- context.Cause(r.Context())
			}), nil)
			nc := f.dial(t)
			send(t, nc, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"+more)
			<-began
			_ = nc.Close()
			select {
			case err := <-canceled:
				if !errors.Is(err, context.Canceled) {
					t.Errorf("the cause = %v, want Canceled", err)
				}
			case <-time.After(patience):
				t.Error("the request was not canceled")
			}
		})
	}
}

// The context of a request ends with its handler, and a derived one with it.
func TestContextEnds(t *testing.T) {
	t.Parallel()
	contexts := make(chan context.Context, 2)
	nc := start(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Context().Err() != nil {
			t.Error("the context is canceled at the start")
		}
		if r.Context().Value(http.LocalAddrContextKey) == nil {
			t.Error("the context does not have the local address")
		}
		derived, cancel := context.WithCancel(r.Context())
		t.Cleanup(cancel)
		contexts <- r.Context()
		contexts <- derived
	}), nil).dial(t)
	send(t, nc, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	receive(t, bufio.NewReader(nc), "GET")
	for range 2 {
		<-(<-contexts).Done()
	}
}

// Canceling the server's base cancels running requests, and those that come later, with its cause.
func TestBase(t *testing.T) {
	t.Parallel()
	base, cut := context.WithCancelCause(t.Context())
	stopping := errors.New("stopping")
	began, causes := make(chan struct{}, 2), make(chan error, 4)
	f := start(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		derived, cancel := context.WithCancel(r.Context())
		defer cancel()
		began <- struct{}{}
		<-derived.Done()
		causes <- context.Cause(r.Context())
		causes <- context.Cause(derived)
	}), func(s *Server) { s.Base = base })
	nc := f.dial(t)
	r := bufio.NewReader(nc)
	send(t, nc, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	<-began
	cut(stopping)
	receive(t, r, "GET")
	send(t, nc, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	receive(t, r, "GET")
	for range 4 {
		if err := <-causes; !errors.Is(err, stopping) {
			t.Errorf("the cause = %v, want that of the base", err)
		}
	}
}

// Bodies arrive in pieces, after the head and beyond the buffer, and several requests may be sent
// at once.
func TestBodies(t *testing.T) {
	t.Parallel()
	f := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("reading the body: %v", err)
		}
		if _, err := r.Body.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("reading on = %v, want EOF", err)
		}
		_, _ = w.Write(body)
	}), nil)
	nc := f.dial(t)
	r := bufio.NewReader(nc)
	long := strings.Repeat("x", 1<<20)
	for _, pieces := range [][]string{
		{"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"},
		{"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n", "hel", "lo"},
		{"PO", "ST / HTTP/1.1\r\nHost: x\r", "\nContent-Length: 1048576\r\n\r", "\n", long},
		{"POST / HTTP/1.1\r\nHost: x\r\n\r\n"},
	} {
		for _, p := range pieces {
			send(t, nc, p)
		}
		_, want, _ := strings.Cut(strings.Join(pieces, ""), "\r\n\r\n")
		if _, body := receive(t, r, "POST"); body != want {
			t.Fatalf("the body = %.50q, want %.50q", body, want)
		}
	}
	send(t, nc, strings.Repeat("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", 500))
	for range 500 {
		if _, body := receive(t, r, "POST"); body != "abc" {
			t.Fatalf("the body of a request behind another = %q, want abc", body)
		}
	}
	if f.wasHanded() {
		t.Error("the connection was handed over")
	}
}

// A body that is cut off, or does not arrive in time, is an error of its reader.
func TestBodiesThatStop(t *testing.T) {
	t.Parallel()
	got := make(chan error, 1)
	f := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/late" {
			if err := http.NewResponseController(w).SetReadDeadline(time.Now()); err != nil {
				t.Error(err)
			}
		}
		_, err := io.ReadAll(r.Body)
		got <- err
	}), nil)
	for path, want := range map[string]error{"/cut": io.ErrUnexpectedEOF, "/late": os.ErrDeadlineExceeded} {
		nc := f.dial(t)
		send(t, nc, "POST "+path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhe")
		if path == "/cut" {
			if err := nc.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
		}
		if err := <-got; !errors.Is(err, want) {
			t.Errorf("reading the body of %s = %v, want %v", path, err, want)
		}
	}
}

// A body that the handler did not read is dropped with the reply, so that the connection can be
// used again, unless it is too long.
func TestUnreadBodies(t *testing.T) {
	t.Parallel()
	f := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/duplex" {
			_ = http.NewResponseController(w).EnableFullDuplex()
		}
		_, _ = io.WriteString(w, "refused")
		w.(http.Flusher).Flush()
		n, err := io.Copy(io.Discard, r.Body)
		switch r.URL.Path {
		case "/short":
			if !errors.Is(err, http.ErrBodyReadAfterClose) {
				t.Errorf("reading on = %v, want ErrBodyReadAfterClose", err)
			}
		case "/duplex":
			if n != 100<<10 || err != nil {
				t.Errorf("reading on = %d, %v, want the body", n, err)
			}
		}
	}), nil)
	nc := f.dial(t)
	r := bufio.NewReader(nc)
	for _, path := range []string{"/short", "/duplex", "/short"} {
		send(t, nc, "POST "+path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 102400\r\n\r\n"+strings.Repeat("x", 100<<10))
		if resp, body := receive(t, r, "POST"); body != "refused" || resp.Close {
			t.Fatalf("the reply = %q, closes %t", body, resp.Close)
		}
	}
	send(t, nc, "POST /long HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"+strings.Repeat("x", 1_000_000))
	if resp, body := receive(t, r, "POST"); body != "refused" || !resp.Close {
		t.Errorf("the reply to a long body = %q, closes %t, want one that closes", body, resp.Close)
	}
	ended(t, r)
}

// Connections that wait too long are closed; those with a request are not.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	f := start(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-release
		}
	}), func(s *Server) { s.HeadTimeout, s.IdleTimeout = 10*time.Second, 2*time.Minute })
	newer, half, idle, busy := f.dial(t), f.dial(t), f.dial(t), f.dial(t)
	send(t, half, "GET / HT")
	send(t, idle, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	idleReader := bufio.NewReader(idle)
	receive(t, idleReader, "GET")
	send(t, busy, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
	for f.count(phaseNew) != 1 || f.count(phaseHead) != 1 || f.count(phaseIdle) != 1 || f.count(phaseHandler) != 1 {
		runtime.Gosched()
	}
	// The clock of the time-outs is a count of ticks, which the test moves on.
	f.ticks.Add(12)
	f.expire()
	ended(t, newer)
	ended(t, half)
	f.ticks.Add(120)
	f.expire()
	ended(t, idleReader)
	close(release)
	receive(t, bufio.NewReader(busy), "GET")
}

// count returns how many connections are in a phase.
func (s *Server) count(phase int32) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.phase.Load() == phase {
			n++
		}
	}
	return n
}

// Shutdown closes idle connections and waits for running requests, whose replies end their
// connections.
func TestShutdown(t *testing.T) {
	t.Parallel()
	began, release := make(chan struct{}), make(chan struct{})
	f := start(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(began)
			<-release
		}
	}), nil)
	idle, busy := f.dial(t), f.dial(t)
	send(t, idle, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	idleReader := bufio.NewReader(idle)
	receive(t, idleReader, "GET")
	send(t, busy, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
	<-began
	_ = f.inner.Close()
	short, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Shutdown(short); !errors.Is(err, context.Canceled) {
		t.Fatalf("Shutdown with a running request = %v, want Canceled", err)
	}
	ended(t, idleReader)
	close(release)
	if resp, _ := receive(t, bufio.NewReader(busy), "GET"); !resp.Close {
		t.Error("the reply does not end the connection")
	}
	if err := f.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown = %v", err)
	}
}

// A server that is closed before it serves starts nothing that somebody would have to end.
func TestClosedBefore(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	for name, end := range map[string]func(*Server) error{
		"Shutdown": func(s *Server) error { return s.Shutdown(t.Context()) }, "Close": (*Server).Close,
	} {
		s := &Server{}
		if err := end(s); err != nil {
			t.Errorf("%s = %v", name, err)
		}
		if err := s.Serve(inner); !errors.Is(err, http.ErrServerClosed) || s.stop != nil {
			t.Errorf("Serve after %s = %v, want ErrServerClosed and nothing running", name, err)
		}
	}
}

// Close cancels what is running.
func TestClose(t *testing.T) {
	t.Parallel()
	began, canceled := make(chan struct{}), make(chan struct{})
	f := start(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
		close(canceled)
	}), nil)
	nc := f.dial(t)
	send(t, nc, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	<-began
	_ = f.Close()
	<-canceled
	ended(t, nc)
}

// What is reused is useless to a handler that keeps it, and the next request on the connection does
// not notice.
func TestPoison(t *testing.T) {
	t.Parallel()
	type given struct {
		r              *http.Request
		url            *url.URL
		header, answer http.Header
		body           io.Reader
		w              http.ResponseWriter
	}
	kept, idle := make(chan given, 1), make(chan struct{}, 1)
	nc := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/next" {
			_, _ = io.Copy(w, r.Body)
			return
		}
		kept <- given{r, r.URL, r.Header, w.Header(), r.Body, w}
	}), func(s *Server) {
		s.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateIdle {
				idle <- struct{}{}
			}
		}
	}).dial(t)
	r := bufio.NewReader(nc)
	send(t, nc, "POST /x HTTP/1.1\r\nHost: x\r\nA: b\r\nContent-Length: 5\r\n\r\nhello")
	got := <-kept
	<-idle
	receive(t, r, "POST")
	if got.r.Method != "POISONED" || got.url.Path != "/poisoned" || got.header.Get("A") != "" || got.header.Get("Poisoned") == "" || got.answer.Get("Poisoned") == "" {
		t.Errorf("what the handler kept = %s %s %v %v, want it poisoned", got.r.Method, got.url, got.header, got.answer)
	}
	// The next request has arrived, up to its body.
	send(t, nc, "POST /next HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n")
	got.w.Header().Set("Late", "x")
	if n, err := io.WriteString(got.w, "late"); n > 0 || !errors.Is(err, errPoisoned) {
		t.Errorf("a late Write = %d, %v, want an error", n, err)
	}
	if err := http.NewResponseController(got.w).Flush(); !errors.Is(err, errPoisoned) {
		t.Errorf("a late Flush = %v, want an error", err)
	}
	if n, err := got.body.Read(make([]byte, 5)); n > 0 || !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("a late Read = %d, %v, want an error", n, err)
	}
	send(t, nc, "hello")
	if resp, body := receive(t, r, "POST"); body != "hello" || resp.Header.Get("Late") != "" {
		t.Errorf("the next reply = %q %v, want nothing of the late ones", body, resp.Header)
	}
	b := []byte("secret")
	if poisonBytes(b); string(b) != strings.Repeat("\xdb", 6) {
		t.Errorf("poisoned bytes = %q", b)
	}
}

// The states of a connection are told in order.
func TestConnState(t *testing.T) {
	t.Parallel()
	states := make(chan http.ConnState, 10)
	nc := start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), func(s *Server) {
		s.ConnState = func(_ net.Conn, state http.ConnState) { states <- state }
	}).dial(t)
	r := bufio.NewReader(nc)
	for range 2 {
		send(t, nc, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		receive(t, r, "GET")
		for _, want := range []http.ConnState{http.StateActive, http.StateIdle} {
			if got := <-states; got != want {
				t.Errorf("the state = %v, want %v", got, want)
			}
		}
	}
}

// A request that has arrived on a connection which the server has closed meanwhile does not run.
func TestClosedBeforeLook(t *testing.T) {
	t.Parallel()
	for _, before := range []int32{phaseNew, phaseIdle, phaseHead} {
		s := &Server{}
		c := &conn{server: s, nc: &net.TCPConn{}, buf: new([bufferSize]byte), header: http.Header{}, url: &url.URL{}}
		c.body = &body{conn: c}
		c.w = copy(c.buf[:], "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
		c.phase.Store(before)
		c.closeIf(before)
		var sc scan
		if done, err := c.look(&sc); done || !errors.Is(err, net.ErrClosed) || c.phase.Load() != phaseClosed {
			t.Errorf("look on a connection closed in phase %d = %t, %v, phase %d; want net.ErrClosed", before, done, err, c.phase.Load())
		}
	}
}
