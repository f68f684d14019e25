package plainhttp_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/kit/plainhttp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// post makes a request that can be sent again.
func post(ctx context.Context, t *testing.T, url, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Test", "yes")
	return req
}

// read sends and reads all of the reply.
func read(t *testing.T, tr *plainhttp.Transport, req *http.Request) (int, string, error) {
	t.Helper()
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// counted is a server of net/http and the number of connections made to it.
func counted(t *testing.T, h http.HandlerFunc) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	var n atomic.Int64
	s := httptest.NewUnstartedServer(h)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			n.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s, &n
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	s, connections := counted(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		switch r.URL.Path {
		case "/chunked":
			for range 3 {
				_, _ = w.Write(body)
				_ = http.NewResponseController(w).Flush()
			}
		case "/interim":
			w.WriteHeader(http.StatusEarlyHints)
			fallthrough
		default:
			fmt.Fprintf(w, "%s %s %s %s %d", r.Method, r.RequestURI, r.Header.Get("X-Test"), r.Host, len(body))
		case "/nothing":
			w.WriteHeader(http.StatusNoContent)
		}
	})
	host := strings.TrimPrefix(s.URL, "http://")
	tr := plainhttp.New(nil)
	defer tr.CloseIdleConnections()
	long := strings.Repeat("x", 1<<20)
	for _, tt := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/a%20b?q=1", "hello", 200, "POST /a%20b?q=1 yes " + host + " 5"},
		{"/empty", "", 200, "POST /empty yes " + host + " 0"},
		{"/long", long, 200, "POST /long yes " + host + " 1048576"},
		{"/chunked", "abc", 200, "abcabcabc"},
		{"/interim", "abc", 200, "POST /interim yes " + host + " 3"},
		{"/nothing", "abc", 204, ""},
		{"/again", "abc", 200, "POST /again yes " + host + " 3"},
	} {
		status, got, err := read(t, tr, post(t.Context(), t, s.URL+tt.path, tt.body))
		if status != tt.status || got != tt.want || err != nil {
			t.Errorf("%s = %d %.80q, %v, want %d %q", tt.path, status, got, err, tt.status, tt.want)
		}
	}
	get, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/get", nil)
	if err != nil {
		t.Fatal(err)
	}
	if status, got, err := read(t, tr, get); status != 200 || got != "GET /get  "+host+" 0" || err != nil {
		t.Errorf("GET = %d %q, %v", status, got, err)
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections were made for calls one after the other, want 1", n)
	}
}

// What is not read to its end is not waited for, and its connection is not used again.
func TestCloseEarly(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{}, 1)
	s, connections := counted(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "begin")
		_ = http.NewResponseController(w).Flush()
		if r.URL.Path == "/endless" {
			<-r.Context().Done()
			gone <- struct{}{}
		}
	})
	tr := plainhttp.New(nil)
	defer tr.CloseIdleConnections()
	resp, err := tr.RoundTrip(post(t.Context(), t, s.URL+"/endless", "x"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	<-gone
	if _, err := resp.Body.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("Read after Close = %v, want an error: the reply was not read to its end", err)
	}
	if _, got, err := read(t, tr, post(t.Context(), t, s.URL, "x")); got != "begin" || err != nil {
		t.Errorf("the next call = %q, %v", got, err)
	}
	if n := connections.Load(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}

// A canceled call ends with the cause, whatever it is doing.
func TestCancel(t *testing.T) {
	t.Parallel()
	why := errors.New("why")
	asked := make(chan struct{}, 1)
	s, _ := counted(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked <- struct{}{}
		if r.URL.Path == "/begun" {
			_, _ = io.WriteString(w, "begin")
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	})
	tr := plainhttp.New(nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { <-asked; cancel(why) }()
	if _, err := tr.RoundTrip(post(ctx, t, s.URL, "x")); !errors.Is(err, why) {
		t.Errorf("canceled before a reply: %v, want the cause", err)
	}
	ctx, cancel = context.WithCancelCause(t.Context())
	resp, err := tr.RoundTrip(post(ctx, t, s.URL+"/begun", "x"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	cancel(why)
	if _, err := resp.Body.Read(make([]byte, 1)); !errors.Is(err, why) {
		t.Errorf("canceled within a reply: %v, want the cause", err)
	}
	if _, err := tr.RoundTrip(post(ctx, t, s.URL, "x")); !errors.Is(err, why) {
		t.Errorf("canceled before the call: %v, want the cause", err)
	}

	dialing := make(chan struct{})
	stuck := plainhttp.New(&plainhttp.Options{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		close(dialing)
		<-ctx.Done()
		return nil, &net.OpError{Op: "dial", Err: errors.New("operation was canceled")} // as a net.Dialer says it
	}})
	ctx, cancel = context.WithCancelCause(t.Context())
	go func() { <-dialing; cancel(why) }()
	if _, err := stuck.RoundTrip(post(ctx, t, s.URL, "x")); !errors.Is(err, why) {
		t.Errorf("canceled while dialing: %v, want the cause", err)
	}
}

// raw is a server that writes what it is told, one reply a connection and request, and then waits for
// the next, or closes where the reply is the last.
func raw(t *testing.T, replies ...string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		for len(replies) > 0 {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r := bufio.NewReader(c)
			for len(replies) > 0 {
				req, err := http.ReadRequest(r)
				if err != nil {
					break
				}
				_, _ = io.Copy(io.Discard, req.Body)
				reply := replies[0]
				replies = replies[1:]
				if reply == "close" {
					break
				}
				_, _ = io.WriteString(c, reply)
				if strings.HasSuffix(reply, "\n\n") {
					break // only for replies that end with the connection
				}
			}
			c.Close()
		}
	}()
	return "http://" + l.Addr().String()
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func TestStrangeServers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		replies []string
		want    []string // bodies of the calls; "!": an error
	}{
		"fine":                           {[]string{ok, ok}, []string{"ok", "ok"}},
		"closes before a reply":          {[]string{"close"}, []string{"!"}},
		"closes a used connection":       {[]string{ok, "close", ok}, []string{"ok", "!", "ok"}}, // it may have run the request
		"garbage":                        {[]string{"no HTTP\r\n\r\n"}, []string{"!"}},
		"a head without end":             {[]string{"HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", 300_000)}, []string{"!"}},
		"a cut body":                     {[]string{"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok\n\n"}, []string{"!"}},
		"ends with the connection":       {[]string{"HTTP/1.0 200 OK\r\n\r\nok\n\n", ok}, []string{"ok\n\n", "ok"}},
		"says more than was asked":       {[]string{ok + ok, ok}, []string{"ok", "ok"}},
		"asks to close":                  {[]string{"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", ok}, []string{"ok", "ok"}},
		"too many interim replies":       {[]string{strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 9) + ok}, []string{"!"}},
		"chunked, cut before its end":    {[]string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\n\n"}, []string{"!"}},
		"chunked, with a bad chunk size": {[]string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nok\r\n0\r\n\r\n"}, []string{"!"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := raw(t, tt.replies...)
			tr := plainhttp.New(nil)
			defer tr.CloseIdleConnections()
			for i, want := range tt.want {
				_, got, err := read(t, tr, post(t.Context(), t, url, "hello"))
				if want == "!" && err == nil || want != "!" && (err != nil || got != want) {
					t.Errorf("call %d = %q, %v, want %q", i, got, err, want)
				}
			}
		})
	}
}

// A server may refuse a long body before it has read it.
func TestEarlyAnswer(t *testing.T) {
	t.Parallel()
	s, _ := counted(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	})
	tr := plainhttp.New(nil)
	defer tr.CloseIdleConnections()
	status, _, err := read(t, tr, post(t.Context(), t, s.URL, strings.Repeat("x", 100<<10)))
	if err == nil && status != http.StatusRequestEntityTooLarge {
		t.Errorf("RoundTrip = %d, want 413", status)
	}
	if err != nil && !strings.Contains(err.Error(), "reset") && !strings.Contains(err.Error(), "broken pipe") {
		t.Errorf("RoundTrip = %v, want 413, or the connection reset", err)
	}
}

func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	url := raw(t, ok)
	tr := plainhttp.New(nil)
	for name, change := range map[string]func(*http.Request){
		"https":                  func(r *http.Request) { r.URL.Scheme = "https" },
		"a line end in a value":  func(r *http.Request) { r.Header["X-Test"] = []string{"a\r\nB: c"} },
		"a line end in a name":   func(r *http.Request) { r.Header["X\nTest"] = []string{"a"} },
		"a line end in the host": func(r *http.Request) { r.Host = "a\r\nB: c" },
		"a space in the method":  func(r *http.Request) { r.Method = "GET /x" },
		"a space in the host":    func(r *http.Request) { r.Host = "a b" },
		"no host":                func(r *http.Request) { r.Host, r.URL.Host = "", "" },
		"a colon in a name":      func(r *http.Request) { r.Header["Transfer-Encoding: chunked, X"] = []string{"a"} },
		"an empty name":          func(r *http.Request) { r.Header[""] = []string{"a"} },
		"a NUL in a value":       func(r *http.Request) { r.Header["X-Test"] = []string{"a\x00b"} },
		"a line end in a query":  func(r *http.Request) { r.URL.RawQuery = "a=b HTTP/1.1\r\nB: c" },
		"a space in a query":     func(r *http.Request) { r.URL.RawQuery = "a b" },
		"an opaque URL":          func(r *http.Request) { r.URL.Opaque = "/ HTTP/1.1\r\nB: c\r\n\r\n" },
		"a body not announced":   func(r *http.Request) { r.ContentLength = 0 },
		"a body that is longer":  func(r *http.Request) { r.ContentLength = 3 },
		"an unknown length":      func(r *http.Request) { r.ContentLength = -1 },
		"a body that is too short": func(r *http.Request) {
			r.ContentLength = 9
			r.GetBody = nil
		},
		"a body that lends too little": func(r *http.Request) {
			r.ContentLength = 200_000
			r.Body, r.GetBody = newLender(strings.Repeat("x", 150_000)), nil
		},
	} {
		req := post(t.Context(), t, url, "hello")
		change(req)
		if resp, err := tr.RoundTrip(req); err == nil {
			resp.Body.Close()
			t.Errorf("%s: it was sent", name)
		}
	}
}

// Idle connections are closed after a while. The pipe's other end is a server that says ok.
func TestIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		open := 0
		tr := plainhttp.New(&plainhttp.Options{Dial: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			open++
			go func() {
				r := bufio.NewReader(theirs)
				for {
					req, err := http.ReadRequest(r)
					if err != nil {
						open--
						theirs.Close()
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					_, _ = io.WriteString(theirs, ok)
				}
			}()
			return ours, nil
		}})
		call := func() {
			t.Helper()
			if _, got, err := read(t, tr, post(t.Context(), t, "http://upstream.test", "x")); got != "ok" || err != nil {
				t.Fatalf("RoundTrip = %q, %v", got, err)
			}
		}
		held, err := tr.RoundTrip(post(t.Context(), t, "http://upstream.test", "x"))
		if err != nil {
			t.Fatal(err)
		}
		call()
		if _, err := io.ReadAll(held.Body); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if open != 2 {
			t.Errorf("%d connections for two calls at once, want 2", open)
		}
		time.Sleep(3 * time.Second)
		call()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if open != 1 {
			t.Errorf("%d connections are open after 5 s in which one was used, want 1", open)
		}
		call()
		time.Sleep(time.Hour)
		synctest.Wait()
		if open != 0 {
			t.Errorf("%d connections are open after an hour, want none", open)
		}
		call()
		tr.CloseIdleConnections()
		synctest.Wait()
		if open != 0 {
			t.Errorf("%d connections are open after CloseIdleConnections, want none", open)
		}
	})
}

// BenchmarkRoundTrip is one call beside the same call by net/http.
func BenchmarkRoundTrip(b *testing.B) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "ok")
	}))
	defer s.Close()
	plain, full := plainhttp.New(nil), &http.Transport{}
	defer plain.CloseIdleConnections()
	defer full.CloseIdleConnections()
	body := bytes.Repeat([]byte("x"), 1000)
	for name, tr := range map[string]http.RoundTripper{"plainhttp": plain, "nethttp": full} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, s.URL, bytes.NewReader(body))
				if err != nil {
					b.Fatal(err)
				}
				resp, err := tr.RoundTrip(req)
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
}
