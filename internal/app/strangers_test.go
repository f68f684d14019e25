package app_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/operate/admin"
)

// raw opens a connection and sends the text.
func (n *node) raw(text string) net.Conn {
	n.t.Helper()
	conn, err := net.Dial("tcp", n.Addr())
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		n.t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		n.t.Fatal(err)
	}
	return conn
}

// answer reads the reply from a connection.
func answer(conn net.Conn) (reply, error) {
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return reply{status: resp.StatusCode, header: resp.Header, body: string(body)}, err
}

// Callers that announce large bodies and send next to nothing of them stop nobody, their own account included.
func TestDrippingBodies(t *testing.T) {
	t.Parallel()
	const drippers, first = 40, 64 << 10
	n := newSite(t, "").start(t)
	one := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "a@example.com", Plan: "basic"}).MasterKey
	other := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "b@example.com", Plan: "basic"}).MasterKey
	for range drippers {
		n.raw("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + one + "\r\nContent-Length: 33554432\r\n\r\n{")
	}
	eventually(t, "the arrival of the first bytes", func() bool { return n.BodiesInFlight() >= drippers*first })
	if held := n.BodiesInFlight(); held != drippers*first {
		t.Errorf("BodiesInFlight() = %d, want the %d of the first buffers", held, drippers*first)
	}
	for name, key := range map[string]string{"the same account": one, "another account": other} {
		if r := n.request("POST", "/v1/chat/completions", key, `{"model":"sandbox/tiny","messages":[{"role":"user","content":"hi"}]}`); r.status != 200 {
			t.Errorf("a call of %s = %d %s, want 200", name, r.status, r.body)
		}
	}
}

// A form that is too large is refused by its length, or as soon as it is; whoever goes on sending it gets the
// answer.
func TestLargeForms(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	const size = 30 << 20
	head := func(path, framing string) string {
		return "POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n" + framing + "\r\n\r\n"
	}
	check := func(name string, conn net.Conn) {
		t.Helper()
		r, err := answer(conn)
		if err != nil || r.status != 413 || !strings.Contains(r.body, "larger than 64 KiB") || r.header.Get("X-Request-Id") == "" {
			t.Errorf("%s = %d %.100q, %v, want 413 and what is accepted", name, r.status, r.body, err)
		}
	}
	for _, path := range []string{"/signin", "/signup", "/reset", "/signin/code", "/link/reset", "/dashboard/keys"} {
		check("the head alone to "+path, n.raw(head(path, fmt.Sprint("Content-Length: ", size))))
		check("65 KiB in chunks to "+path, n.raw(head(path, "Transfer-Encoding: chunked")+"10400\r\n"+strings.Repeat("x", 0x10400)+"\r\n"))
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			conn := n.raw(head("/signin", fmt.Sprint("Content-Length: ", size)))
			go io.CopyN(conn, endless{}, size) // it may be cut off once it is refused
			check("30 MiB", conn)
		})
	}
	all.Wait()
}

// endless is as many bytes as one asks for.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// What pages ask of the API is no form: it takes as much as the API, which charges the account.
func TestLargeRequestsOfPages(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	p := n.join("a@example.com")
	ask := func(size int) reply {
		body := `{"model":"sandbox/tiny","messages":[{"role":"user","content":"hi"}],"metadata":{"x":"` + strings.Repeat("x", size) + `"}}`
		r, err := http.NewRequest("POST", n.scheme+n.Addr()+"/dashboard/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := p.client.Do(r)
		if err != nil {
			t.Fatalf("a request of %d bytes = %v", size, err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body) // the status tells
		return reply{status: resp.StatusCode, header: resp.Header, body: string(text)}
	}
	if r := ask(1 << 20); r.status != 200 {
		t.Errorf("a request of 1 MiB = %d %.200s, want 200", r.status, r.body)
	}
	if r := ask(32 << 20); r.status != 413 || !strings.Contains(r.body, `"code":413`) {
		t.Errorf("a request of 32 MiB and more = %d %.200s, want 413", r.status, r.body)
	}
}

func TestMostConnections(t *testing.T) {
	t.Parallel()
	n := newSite(t, "max_connections: 10\n").start(t)
	const ask = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
	for i := range 10 {
		if r, err := answer(n.raw(ask)); err != nil || r.status != 200 {
			t.Fatalf("connection %d = %d, %v, want 200", i+1, r.status, err)
		}
	}
	conn, err := net.Dial("tcp", n.Addr())
	if err != nil {
		return // closed before Dial had returned
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(conn, ask) // it may be closed by now
	if r, err := answer(conn); err == nil {
		t.Errorf("connection 11 = %d, want it closed", r.status)
	}
}

// Whatever is wrong with a request, wherever it goes: the reply is the error object with a request id.
func TestErrorsAreObjects(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := writeCertificate(t, dir, 1, time.Now().Add(30*24*time.Hour))
	plain := newSite(t, "metrics_listen: 127.0.0.1:0\n").start(t)
	secure := newSite(t, "tls: {cert: "+cert+", key: "+key+"}\n").start(t)
	object := regexp.MustCompile(`^\{"error":\{"message":"(?:[^"\\]|\\.)+","type":"[a-z_]+","code":(\d+)(,"param":"[^"]+")?\}\}$`)
	for name, tt := range map[string]struct {
		address string
		tls     bool
		text    string
		status  int
	}{
		"bad escape":             {plain.Addr(), false, "GET /v1/models/%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400},
		"large headers":          {plain.Addr(), false, "GET / HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", 20<<10) + "\r\n\r\n", 431},
		"expectation":            {plain.Addr(), false, "POST /v1/route HTTP/1.1\r\nHost: x\r\nExpect: x\r\nContent-Length: 2\r\n\r\n{}", 417},
		"encoding":               {plain.Addr(), false, "POST /v1/route HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: br\r\n\r\n{}", 501},
		"two lengths":            {plain.Addr(), false, "POST /v1/route HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}", 400},
		"no request":             {plain.Addr(), false, "what is this?\r\n\r\n", 400},
		"an asset":               {plain.Addr(), false, "GET /assets/nope HTTP/1.1\r\nHost: x\r\n\r\n", 404},
		"an asset, HTTP/1.0":     {plain.Addr(), false, "GET /assets/nope HTTP/1.0\r\n\r\n", 404},
		"a path":                 {plain.Addr(), false, "GET /nope HTTP/1.0\r\n\r\n", 404},
		"a page":                 {plain.Addr(), false, "GET /dashboard/nope HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n\r\n", 404},
		"a public page":          {plain.Addr(), false, "GET /models/none HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n\r\n", 404},
		"a large form":           {plain.Addr(), false, "POST /signup HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 70000\r\n\r\n" + strings.Repeat("x", 70000), 413},
		"a form of another site": {plain.Addr(), false, "POST /signup HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\nSec-Fetch-Site: cross-site\r\nContent-Length: 0\r\n\r\n", 403},
		"metrics, path":          {plain.MetricsAddr(), false, "GET /nope HTTP/1.1\r\nHost: x\r\n\r\n", 404},
		"metrics, method":        {plain.MetricsAddr(), false, "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 404},
		"metrics, no request":    {plain.MetricsAddr(), false, "what is this?\r\n\r\n", 400},
		"TLS, bad escape":        {secure.Addr(), true, "GET /v1/models/%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400},
		"TLS, large headers":     {secure.Addr(), true, "GET / HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", 20<<10) + "\r\n\r\n", 431},
		"TLS, expectation":       {secure.Addr(), true, "POST /v1/route HTTP/1.1\r\nHost: x\r\nExpect: x\r\nContent-Length: 2\r\n\r\n{}", 417},
		"HTTP where HTTPS is":    {secure.Addr(), false, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 400},
		"a path, after TLS":      {secure.Addr(), true, "GET /v1/nope HTTP/1.1\r\nHost: x\r\n\r\n", 401},
		"DELETE where HTTPS is":  {secure.Addr(), false, "DELETE /v1/models HTTP/1.1\r\nHost: x\r\n\r\n", 400},
		"OPTIONS of everything":  {plain.Addr(), false, "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 404},
		"CONNECT":                {plain.Addr(), false, "CONNECT x:443 HTTP/1.1\r\nHost: x:443\r\n\r\n", 404},
		"escaped dots":           {plain.Addr(), false, "GET /assets/%2e%2e/x HTTP/1.1\r\nHost: x\r\n\r\n", 404},
		"an escaped slash":       {plain.Addr(), false, "GET /assets/a%2Fb HTTP/1.1\r\nHost: x\r\n\r\n", 404},
		"an address as the path": {plain.Addr(), false, "GET http://x/v1/nope HTTP/1.1\r\nHost: x\r\n\r\n", 401},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var conn net.Conn
			conn, err := net.Dial("tcp", tt.address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(patience))
			if tt.tls {
				conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
			}
			if _, err := io.WriteString(conn, tt.text); err != nil {
				t.Fatal(err)
			}
			r, err := answer(conn)
			if err != nil {
				t.Fatalf("no whole reply: %v", err)
			}
			m := object.FindStringSubmatch(r.body)
			if r.status != tt.status || m == nil || m[1] != fmt.Sprint(tt.status) {
				t.Errorf("the reply = %d %s, want %d and the error object", r.status, r.body, tt.status)
			}
			if got := r.header.Get("Content-Type"); got != "application/json" {
				t.Errorf("content type %q, want application/json", got)
			}
			if r.header.Get("X-Request-Id") == "" || r.header.Get("X-Sluice-Version") == "" {
				t.Errorf("headers %v, want x-request-id and x-sluice-version", r.header)
			}
		})
	}
}

// The rate-limit headers of an error say what is left after the failed call gave back what it had taken.
func TestRateHeadersOfErrors(t *testing.T) {
	t.Parallel()
	up := newMoody(t)
	up.mood.Store(int32(busy))
	s := newSite(t, lab(up.URL, "lab/m"))
	s.patience = time.Millisecond
	n := s.start(t)
	key := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "a@example.com", Plan: "basic"}).MasterKey
	for _, stream := range []string{"false", "true"} {
		r := n.request("POST", "/v1/chat/completions", key, `{"model":"lab/m","stream":`+stream+`,"messages":[{"role":"user","content":"hi"}]}`)
		if r.status != 503 {
			t.Fatalf("a call = %d %s, want 503", r.status, r.body)
		}
		if got := r.header.Get("X-Ratelimit-Remaining-Requests"); got != "10" {
			t.Errorf("stream %s: %s requests remain, want all 10: the failed call gave its own back", stream, got)
		}
		if got := r.header.Get("X-Ratelimit-Remaining-Tokens"); got != "500000" {
			t.Errorf("stream %s: %s tokens remain, want all 500000", stream, got)
		}
	}
}
