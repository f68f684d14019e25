package httpapi

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"sluice/internal/line/relay"
)

// Who is refused by the headers alone is told so before a byte of the body is sent.
func TestRefusedBeforeTheBody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	noKey := object(401, "authentication_error", saysNoKey)
	for name, tt := range map[string]struct {
		method, target, key, length string
		status                      int
		object                      string
	}{
		"401":            {"POST", "/v1/chat/completions", "", "1000", 401, noKey},
		"401, huge":      {"POST", "/v1/chat/completions", "", "99999999999", 401, noKey},
		"401, wrong way": {"POST", "/v1/nothing", "", "1000", 401, noKey},
		"423":            {"POST", "/v1/chat/completions", w.suspended, "1000", 423, object(423, "account_suspended", saysSuspended)},
		"423, huge":      {"PUT", "/v1/models", w.suspended, "99999999999", 423, object(423, "account_suspended", saysSuspended)},
		"404":            {"POST", "/v1/nothing", w.good, "1000", 404, nothing("/v1/nothing")},
		"405":            {"POST", "/healthz", "", "1000", 405, object(405, "method_not_allowed", "POST is not possible on /healthz; use GET or HEAD.")},
	} {
		for _, header := range [][]string{
			{"Content-Type: application/json", "Content-Length: " + tt.length},
			{"Content-Type: application/json", "Content-Length: " + tt.length, "Expect: 100-continue"},
			{"Content-Type: application/json", "Transfer-Encoding: chunked"},
		} {
			name := fmt.Sprintf("%s %v", name, header[1:])
			conn := w.dial(t)
			write(t, conn, tt.method, tt.target, tt.key, header...)
			r := bufio.NewReader(conn)
			// The very first line is the answer: no "100 Continue" invites the body.
			checkError(t, name, read(t, r, tt.method), tt.status, tt.object)
			conn.Close()
		}
	}
}

// A client that was refused and sends its body all the same keeps its connection.
func TestConnectionOutlivesARefusal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	conn := w.dial(t)
	r := bufio.NewReader(conn)
	const body = "DELETE /v1/models HTTP/1.1\r\nHost: x\r\n\r\n" // never to be taken for a request
	for _, framing := range []struct{ header, body string }{
		{fmt.Sprint("Content-Length: ", len(body)), body},
		{"Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)},
	} {
		write(t, conn, "POST", "/v1/chat/completions", "", framing.header)
		checkError(t, framing.header, read(t, r, "POST"), 401, object(401, "authentication_error", saysNoKey))
		if _, err := io.WriteString(conn, framing.body); err != nil {
			t.Fatal(err)
		}
	}
	write(t, conn, "GET", "/healthz", "")
	if got := read(t, r, "GET"); got.status != 200 {
		t.Errorf("the next request on the connection = %d %s, want 200", got.status, got.body)
	}
}

// Who announces a body and never sends it does not keep a connection for ever, nor can what comes
// late pass for another request.
func TestSilentClients(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		method, target, header string
		status                 int
	}{
		"refused":                {"POST", "/v1/chat/completions", "Content-Length: 10", 401},
		"refused, chunked":       {"POST", "/v1/chat/completions", "Transfer-Encoding: chunked", 401},
		"answered without it":    {"GET", "/healthz", "Content-Length: 10", 200},
		"refused, 100-continue":  {"POST", "/v1/models", "Content-Length: 10\r\nExpect: 100-continue", 401},
		"answered, 100-continue": {"GET", "/healthz", "Content-Length: 10\r\nExpect: 100-continue", 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil, func(a *API) { a.bodies.Patience = 50 * time.Millisecond })
			conn := w.dial(t)
			r := bufio.NewReader(conn)
			write(t, conn, tt.method, tt.target, "", tt.header)
			if got := read(t, r, tt.method); got.status != tt.status {
				t.Errorf("%s %s = %d %s, want %d", tt.method, tt.target, got.status, got.body, tt.status)
			}
			if rest, err := io.ReadAll(r); len(rest) > 0 || isTimeout(err) {
				t.Errorf("after the reply came %q, %v, want the end of the connection", rest, err)
			}
		})
	}
}

func isTimeout(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}

// echo answers with the size of the body, once it may.
func echo(gate <-chan struct{}) func(*API) handler {
	return func(a *API) handler {
		return func(x *exchange, r *http.Request) error {
			body, release, err := a.readBody(x, r, a.bodies.One, 1)
			if err != nil {
				return err
			}
			defer release()
			if gate != nil {
				<-gate
			}
			return x.json(fmt.Appendf(nil, `{"bytes":%d,"held":%t}`, len(body), a.BodiesInFlight() >= int64(len(body))))
		}
	}
}

// post sends a body, in chunks where it is told to, and reads the reply.
func (w *world) post(t *testing.T, body string, chunked bool, header ...string) reply {
	t.Helper()
	conn := w.dial(t)
	r := bufio.NewReader(conn)
	if !chunked {
		write(t, conn, "POST", "/", "", append(header, fmt.Sprint("Content-Length: ", len(body)))...)
		go io.WriteString(conn, body) // a refused client may find the connection closed
		return read(t, r, "POST")
	}
	write(t, conn, "POST", "/", "", append(header, "Transfer-Encoding: chunked")...)
	go func() {
		for rest := body; rest != ""; {
			n := min(len(rest), 1000)
			fmt.Fprintf(conn, "%x\r\n%s\r\n", n, rest[:n])
			rest = rest[n:]
		}
		io.WriteString(conn, "0\r\n\r\n")
	}()
	return read(t, r, "POST")
}

func TestBodies(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	w := newWorld(t, nil, func(a *API) {
		a.bodies.One, a.bodies.All = limit, 3*limit
		behind(echo(nil))(a)
	})
	tooLarge := object(413, "request_too_large", "The request body is larger than 1 MiB, the maximum size.")
	for _, size := range []int{0, 1, 4095, 4096, 4097, 70_000, limit - 1, limit, limit + 1, 2 * limit} {
		for _, chunked := range []bool{false, true} {
			name := fmt.Sprintf("%d bytes, chunked %t", size, chunked)
			got := w.post(t, strings.Repeat("x", size), chunked)
			if size > limit {
				checkError(t, name, got, 413, tooLarge)
			} else if want := fmt.Sprintf(`{"bytes":%d,"held":true}`, size); got.status != 200 || got.body != want {
				t.Errorf("%s = %d %s, want 200 %s", name, got.status, got.body, want)
			}
		}
	}
	w.stop(t)
	if held := w.api.BodiesInFlight(); held != 0 {
		t.Errorf("BodiesInFlight() = %d in the end, want 0", held)
	}
}

// A reply that fails after it has begun, and says so itself, ends properly: to a client that sees the
// connection break, that is the failure, and what was told before may be lost.
func TestToldFailureEndsTheReply(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, behind(func(a *API) handler {
		return func(x *exchange, r *http.Request) error {
			_, release, err := a.readBody(x, r, a.bodies.One, 1)
			if err != nil {
				return err
			}
			defer release()
			_, err = io.WriteString(x, "it broke")
			x.Flush()
			return errors.Join(relay.ErrTold, err)
		}
	}))
	for _, chunked := range []bool{false, true} {
		if got := w.post(t, "a body", chunked); got.status != 200 || got.body != "it broke" {
			t.Errorf("chunked %t = %d %q, want 200 and what was told", chunked, got.status, got.body)
		}
	}
}

// By its length alone a body is refused before it is sent.
func TestTooLargeByLength(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, behind(echo(nil)))
	conn := w.dial(t)
	write(t, conn, "POST", "/v1/chat/completions", w.good, fmt.Sprint("Content-Length: ", 32<<20+1))
	checkError(t, "33 MiB", read(t, bufio.NewReader(conn), "POST"), 413,
		object(413, "request_too_large", "The request body is larger than 32 MiB, the maximum size."))
}

// Bodies in flight are bounded in total: beyond, a request is asked to come again.
func TestBodiesInTotal(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	w := newWorld(t, nil, func(a *API) {
		a.bodies.One, a.bodies.All = 100_000, 100_000
		behind(echo(gate))(a)
	})
	first := make(chan reply, 1)
	conn := w.dial(t)
	write(t, conn, "POST", "/", "", "Content-Length: 90000")
	if _, err := io.WriteString(conn, strings.Repeat("x", 90_000)); err != nil {
		t.Fatal(err)
	}
	go func() { first <- read(t, bufio.NewReader(conn), "POST") }()
	for deadline := time.Now().Add(patience); w.api.BodiesInFlight() < 90_000; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("the first body did not arrive")
		}
	}

	busy := object(503, "service_unavailable", "Too many large requests are being handled at once. Try again shortly.")
	for name, got := range map[string]reply{
		"by its length": w.post(t, strings.Repeat("x", 10_001), false),
		"as it comes":   w.post(t, strings.Repeat("x", 10_001), true),
	} {
		checkError(t, name, got, 503, busy)
		if got.header.Get("Retry-After") != "1" || got.header.Get("Retry-After-Ms") != "1000" {
			t.Errorf("%s: Retry-After %q, retry-after-ms %q, want 1 and 1000", name, got.header.Get("Retry-After"), got.header.Get("Retry-After-Ms"))
		}
	}
	if held := w.api.BodiesInFlight(); held != 90_000 {
		t.Errorf("BodiesInFlight() = %d after the refusals, want the 90000 of the first", held)
	}
	close(gate)
	if got := <-first; got.status != 200 {
		t.Errorf("the first request = %d %s, want 200", got.status, got.body)
	}
	if got := w.post(t, strings.Repeat("x", 90_000), false); got.status != 200 {
		t.Errorf("a request afterwards = %d %s, want 200: the room was given back", got.status, got.body)
	}
}

func TestContentType(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, behind(echo(nil)))
	for name, tt := range map[string]struct {
		header []string
		says   string // empty: accepted
	}{
		"none":             {nil, ""},
		"JSON":             {[]string{"Content-Type: application/json"}, ""},
		"UTF-8":            {[]string{"Content-Type: application/json; charset=utf-8"}, ""},
		"capitals":         {[]string{"Content-Type: Application/JSON; Charset=\"Utf-8\""}, ""},
		"identity":         {[]string{"Content-Encoding: identity"}, ""},
		"text":             {[]string{"Content-Type: text/plain"}, `Content-Type "text/plain" is not accepted; send application/json.`},
		"a form":           {[]string{"Content-Type: application/x-www-form-urlencoded"}, `Content-Type "application/x-www-form-urlencoded" is not accepted; send application/json.`},
		"JSON of another":  {[]string{"Content-Type: application/problem+json"}, `Content-Type "application/problem+json" is not accepted; send application/json.`},
		"nonsense":         {[]string{"Content-Type: ;;"}, `Content-Type ";;" is not accepted; send application/json.`},
		"another charset":  {[]string{"Content-Type: application/json; charset=latin1"}, `charset "latin1" is not accepted; JSON is UTF-8.`},
		"compressed":       {[]string{"Content-Type: application/json", "Content-Encoding: gzip"}, `Content-Encoding "gzip" is not accepted; send the body as plain JSON.`},
		"long and strange": {[]string{"Content-Type: " + strings.Repeat("x", 500)}, `Content-Type "` + strings.Repeat("x", 100) + `…" is not accepted; send application/json.`},
	} {
		got := w.post(t, `{"a":1}`, false, tt.header...)
		if tt.says != "" {
			checkError(t, name, got, 400, object(400, "invalid_request_error", tt.says))
		} else if want := `{"bytes":7,"held":true}`; got.status != 200 || got.body != want {
			t.Errorf("%s = %d %s, want 200 %s", name, got.status, got.body, want)
		}
	}
}

// A body that breaks off, stays away or is garbled is the caller's mistake, and gives its room back.
func TestBrokenBodies(t *testing.T) {
	t.Parallel()
	incomplete := object(400, "invalid_request_error", "The request body was cut off before its end.")
	for name, tt := range map[string]struct {
		header, body string
		hangUp       bool
		status       int
		kind, object string
	}{
		"cut":           {"Content-Length: 1000", "half", true, 400, "invalid_request_error", incomplete},
		"cut, chunked":  {"Transfer-Encoding: chunked", "4\r\nhalf\r\n", true, 400, "invalid_request_error", incomplete},
		"not in chunks": {"Transfer-Encoding: chunked", "this is no chunk\r\n", false, 400, "invalid_request_error", incomplete},
		"silent":        {"Content-Length: 1000", "half", false, 408, "request_timeout", object(408, "request_timeout", "The request body arrived too slowly: less than 1024 bytes a second over 1s. Send it again.")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil, func(a *API) {
				a.bodies.Patience = patience
				if tt.status == http.StatusRequestTimeout {
					a.bodies.Patience = time.Second
				}
				behind(echo(nil))(a)
			})
			conn := w.dial(t)
			r := bufio.NewReader(conn)
			write(t, conn, "POST", "/", "", tt.header)
			if _, err := io.WriteString(conn, tt.body); err != nil {
				t.Fatal(err)
			}
			if tt.hangUp {
				if err := conn.CloseWrite(); err != nil {
					t.Fatal(err)
				}
			}
			checkError(t, name, read(t, r, "POST"), tt.status, tt.object)
			if rest, err := io.ReadAll(r); len(rest) > 0 || isTimeout(err) {
				t.Errorf("after the reply came %q, %v, want the end of the connection", rest, err)
			}
			if events := w.logged(t, "request"); len(events) != 1 || events[0]["error"] == nil || events[0]["fault"] != tt.kind {
				t.Errorf("events = %v, want one with the cause", events)
			}
			if held := w.api.BodiesInFlight(); held != 0 {
				t.Errorf("BodiesInFlight() = %d, want 0", held)
			}
		})
	}
}
