package provider_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/upstream/provider"
)

// Upstreams without TLS are called by our own client, which refuses a folded header, or by that of net/http,
// which takes it.
func TestConnectionsStandard(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.ReadAtLeast(c, make([]byte, 4096), 4)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			c.Close()
		}
	}()
	defer func() { l.Close(); <-served }()
	for _, standard := range []bool{false, true} {
		pool := provider.Connections(time.Minute, &provider.PoolOptions{Standard: standard})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := pool.RoundTrip(req)
		if (err == nil) != standard {
			t.Errorf("Standard %t: RoundTrip = %v, want success: %t", standard, err, standard)
		}
		if err == nil {
			resp.Body.Close()
		}
	}
}

// arrived is what a server with TLS saw of a request.
type arrived struct {
	conn    string // the caller's address
	proto   string
	resumed bool
	length  int
}

// secured starts a server with TLS that replies with the body it got, and a pool that trusts it.
func secured(t testing.TB, pool *provider.PoolOptions, change func(*httptest.Server)) (url string, seen func() []arrived, tr http.RoundTripper) {
	t.Helper()
	var mu sync.Mutex
	var all []arrived
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a part is seen by the caller
		mu.Lock()
		all = append(all, arrived{r.RemoteAddr, r.Proto, r.TLS.DidResume, len(body)})
		mu.Unlock()
		if r.URL.Path == "/stream" {
			for range 3 {
				_, _ = w.Write(body)
				_ = http.NewResponseController(w).Flush()
			}
			return
		}
		_, _ = w.Write(body)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.EnableHTTP2 = true
	if change != nil {
		change(s)
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	if pool == nil {
		pool = &provider.PoolOptions{}
	}
	pool.TLS = &tls.Config{RootCAs: roots}
	tr = provider.Connections(time.Minute, pool)
	t.Cleanup(func() { provider.NewClient(&provider.ClientOptions{Transport: tr}).Retire() })
	return s.URL, func() []arrived {
		mu.Lock()
		defer mu.Unlock()
		return all
	}, tr
}

// post sends a body and returns the reply's.
func post(t testing.TB, tr http.RoundTripper, url string, body []byte) ([]byte, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// With TLS, usual requests go over HTTP/1.1 on connections that are used again, and long ones over
// what http.Transport negotiates.
func TestConnectionsSecure(t *testing.T) {
	t.Parallel()
	url, seen, tr := secured(t, nil, nil)
	short, long := []byte("hello"), bytes.Repeat([]byte("x"), 1<<20)
	for _, tt := range []struct {
		path  string
		body  []byte
		times int
		proto string
	}{{"/", short, 1, "HTTP/1.1"}, {"/stream", short, 3, "HTTP/1.1"}, {"/", bytes.Repeat(short, 5000), 1, "HTTP/1.1"}, {"/", nil, 1, "HTTP/1.1"}, {"/", long, 1, "HTTP/2.0"}, {"/", short, 1, "HTTP/1.1"}} {
		got, err := post(t, tr, url+tt.path, tt.body)
		if err != nil || !bytes.Equal(got, bytes.Repeat(tt.body, tt.times)) {
			t.Fatalf("%s with %d bytes = %d bytes, %v", tt.path, len(tt.body), len(got), err)
		}
		all := seen()
		last := all[len(all)-1]
		if last.proto != tt.proto || last.length != len(tt.body) {
			t.Errorf("%d bytes: the server saw %+v, want %s", len(tt.body), last, tt.proto)
		}
		if tt.proto == "HTTP/1.1" && last.conn != all[0].conn {
			t.Errorf("%d bytes: a new connection, want the first one", len(tt.body))
		}
	}
}

// A new connection resumes the session of an earlier one.
func TestConnectionsResume(t *testing.T) {
	t.Parallel()
	url, seen, tr := secured(t, nil, nil)
	for range 2 {
		if _, err := post(t, tr, url, []byte("x")); err != nil {
			t.Fatal(err)
		}
		provider.NewClient(&provider.ClientOptions{Transport: tr}).Retire()
	}
	if all := seen(); all[0].resumed || !all[1].resumed || all[0].conn == all[1].conn {
		t.Errorf("the server saw %+v, want a second connection that resumes the first one's session", all)
	}
}

// A server that speaks HTTP/2 alone is called that way.
func TestConnectionsOnlyHTTP2(t *testing.T) {
	t.Parallel()
	url, seen, tr := secured(t, nil, func(s *httptest.Server) {
		s.TLS = &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			only := s.TLS.Clone()
			// Go's server lets a client that asks for HTTP/1.1 speak it in any case, unless nothing fits.
			if only.NextProtos = []string{"h2"}; !slices.Contains(hello.SupportedProtos, "h2") {
				only.NextProtos = []string{"other"}
			}
			return only, nil
		}}
	})
	for range 2 {
		if got, err := post(t, tr, url, []byte("x")); err != nil || string(got) != "x" {
			t.Fatalf("post = %q, %v", got, err)
		}
	}
	if all := seen(); all[0].proto != "HTTP/2.0" || all[0].conn != all[1].conn {
		t.Errorf("the server saw %+v, want HTTP/2 on one connection", all)
	}
}

// A server that nobody vouches for, or that is silent, is not called.
func TestConnectionsUntrusted(t *testing.T) {
	t.Parallel()
	url, seen, _ := secured(t, nil, nil)
	if _, err := post(t, provider.Connections(time.Minute, nil), url, []byte("x")); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("post to a server with an unknown certificate = %v", err)
	}
	if len(seen()) > 0 {
		t.Error("the request was sent")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var timeout net.Error // of the handshake, or on a busy machine of the connection
	if _, err := post(t, provider.Connections(50*time.Millisecond, nil), "https://"+l.Addr().String(), nil); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("post to a server without a handshake = %v, want a time-out", err)
	}
}

// Bytes behind a reply must not become the next reply, even if TLS has read them already: with more
// than fits our own buffer, and in a record of their own.
func TestConnectionsSurplus(t *testing.T) {
	t.Parallel()
	for name, parts := range map[string][]string{
		"one record":  {"HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n" + strings.Repeat("a", 4000) + "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nsurplus" + strings.Repeat("b", 3000)},
		"two records": {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nsurplus"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var handed int
			var mu sync.Mutex
			url, _, tr := secured(t, nil, func(s *httptest.Server) {
				s.EnableHTTP2 = false
				s.Listener = corks{s.Listener}
				s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					mu.Lock()
					handed++
					mu.Unlock()
					nc, _, err := http.NewResponseController(w).Hijack()
					if err != nil {
						t.Error(err)
						return
					}
					tc := nc.(*tls.Conn)
					cork := tc.NetConn().(*corked)
					cork.in = true
					for _, part := range parts {
						_, _ = io.WriteString(tc, part)
					}
					cork.in = false
					_, _ = cork.Write(nil)
					_, _ = io.Copy(io.Discard, tc) // until the caller closes it
					_ = tc.Close()
				})
			})
			for range 3 {
				got, err := post(t, tr, url, []byte("x"))
				if err != nil || bytes.Contains(got, []byte("surplus")) {
					t.Fatalf("post = %.50q, %v", got, err)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if handed != 3 {
				t.Errorf("%d connections for 3 calls, want a new one each", handed)
			}
		})
	}
}

// corks is a listener of corked connections.
type corks struct{ net.Listener }

func (c corks) Accept() (net.Conn, error) {
	nc, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &corked{Conn: nc}, nil
}

// corked collects what is written while in is set, so that all of it arrives at once.
type corked struct {
	net.Conn
	in   bool
	held []byte
}

func (c *corked) Write(p []byte) (int, error) {
	c.held = append(c.held, p...)
	if !c.in {
		_, err := c.Conn.Write(c.held)
		c.held = c.held[:0]
		return len(p), err
	}
	return len(p), nil
}

// BenchmarkSecure compares a call over TLS, server included, with net/http's two ways.
func BenchmarkSecure(b *testing.B) {
	for _, bench := range []struct {
		name  string
		pool  *provider.PoolOptions
		http2 bool
	}{{"ours", &provider.PoolOptions{}, true}, {"net-http-1", &provider.PoolOptions{Standard: true}, false}, {"net-http-2", &provider.PoolOptions{Standard: true}, true}} {
		for _, callers := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/c=%d", bench.name, callers), func(b *testing.B) {
				url, _, tr := secured(b, bench.pool, func(s *httptest.Server) {
					s.EnableHTTP2 = bench.http2
					s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						_, _ = io.Copy(w, r.Body)
					})
				})
				body := bytes.Repeat([]byte("x"), 600)
				b.ReportAllocs()
				b.SetParallelism(callers)
				b.RunParallel(func(p *testing.PB) {
					for p.Next() {
						if _, err := post(b, tr, url, body); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
	}
}

// A pool with an address connects there, whatever URLs say, and checks the server's name by the URL.
func TestConnectionsAddress(t *testing.T) {
	t.Parallel()
	hosts := make(chan string, 1)
	h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { hosts <- r.Host })
	plain := httptest.NewServer(h)
	defer plain.Close()
	secure := httptest.NewUnstartedServer(h)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // the client that does not trust it
	secure.StartTLS()
	defer secure.Close()
	trust := x509.NewCertPool()
	trust.AddCert(secure.Certificate()) // it is for example.com
	for _, standard := range []bool{false, true} {
		for _, tt := range []struct {
			up        *httptest.Server
			url, host string
		}{
			{plain, "http://vllm.test:8000/v1", "vllm.test:8000"},
			{secure, "https://example.com/v1", "example.com"},
			{secure, "https://vllm.test/v1", ""}, // the certificate has another name
		} {
			pool := provider.Connections(time.Minute, &provider.PoolOptions{Standard: standard, Address: tt.up.Listener.Addr().String(), TLS: &tls.Config{RootCAs: trust}})
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, tt.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := pool.RoundTrip(req)
			if (err == nil) != (tt.host != "") {
				t.Errorf("Standard %t: %s at %s = %v, want success: %t", standard, tt.url, tt.up.URL, err, tt.host != "")
			}
			if err != nil {
				continue
			}
			resp.Body.Close()
			if got := <-hosts; got != tt.host {
				t.Errorf("Standard %t: the server was called %q, want %q", standard, got, tt.host)
			}
			client := provider.NewClient(&provider.ClientOptions{Transport: pool})
			if err := client.Connect(t.Context(), req.URL); err != nil {
				t.Errorf("Standard %t: Connect = %v", standard, err)
			}
			client.Close()
		}
	}
}
