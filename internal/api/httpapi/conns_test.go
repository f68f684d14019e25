package httpapi

import (
	"bufio"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

// What net/http takes for no request is answered with the error object as well.
func TestMalformedRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	const (
		generic  = "The request is not valid HTTP: its first line, its address or one of its headers is malformed."
		tooLarge = "The request headers are larger than 16 KiB, the maximum size."
		encoding = "The Transfer-Encoding of the request is not supported; send it chunked, or with a Content-Length."
		both     = "it has both a Content-Length and a Transfer-Encoding"
		expect   = "The Expect header has an unsupported value; only 100-continue is supported."
	)
	invalid := func(detail string) string { return "The request is not valid HTTP: " + detail + "." }
	for name, tt := range map[string]struct {
		raw     string
		status  int
		message string
	}{
		"bad escape":          {"GET /v1/models/%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400, generic},
		"bad escape, HEAD":    {"HEAD /v1/models/%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400, generic},
		"bad escape, 1.0":     {"GET /assets/%1 HTTP/1.0\r\n\r\n", 400, generic},
		"no request line":     {"hello\r\n\r\n", 400, generic},
		"TLS":                 {"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400, generic},
		"no version":          {"GET /\r\nHost: x\r\n\r\n", 400, generic},
		"bad version":         {"GET / HTTP/x.1\r\nHost: x\r\n\r\n", 400, generic},
		"HTTP/2":              {"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505, "This version of HTTP is not supported; use HTTP/1.1 or HTTP/2."},
		"bad method":          {"G@T / HTTP/1.1\r\nHost: x\r\n\r\n", 400, generic},
		"no host":             {"GET / HTTP/1.1\r\n\r\n", 400, invalid("missing required Host header")},
		"two hosts":           {"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400, generic},
		"bad host":            {"GET / HTTP/1.1\r\nHost: x y\r\n\r\n", 400, invalid("malformed Host header")},
		"bad header":          {"GET / HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n", 400, generic},
		"bad header name":     {"GET / HTTP/1.1\r\nHost: x\r\nA@B: x\r\n\r\n", 400, generic},
		"bad header value":    {"GET / HTTP/1.1\r\nHost: x\r\nA: \x01\r\n\r\n", 400, generic},
		"two lengths":         {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 400, generic},
		"negative length":     {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\nhello", 400, generic},
		"signed length":       {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\nhello", 400, generic},
		"unknown encoding":    {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\nhello", 501, encoding},
		"two encodings":       {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\nhello", 501, encoding},
		"length and encoding": {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, invalid(both)},
		"encoding and length": {"POST / HTTP/1.1\r\nHost: x\r\ntransfer-encoding: chunked\r\nCONTENT-LENGTH: 0\r\n\r\n0\r\n\r\n", 400, invalid(both)},
		"both, bare breaks":   {"POST / HTTP/1.1\nHost: x\nContent-Length: 5\nTransfer-Encoding: chunked\n\n0\r\n\r\n", 400, invalid(both)},
		"after, both":         {"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nPOST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, invalid(both)},
		"expectation":         {"POST / HTTP/1.1\r\nHost: x\r\nExpect: money\r\nContent-Length: 5\r\n\r\nhello", 417, expect},
		"expectation, 1.0":    {"POST / HTTP/1.0\r\nExpect: money\r\nContent-Length: 5\r\n\r\nhello", 417, expect},
		"large header":        {"GET / HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", 20<<10) + "\r\n\r\n", 431, tooLarge},
		"many headers":        {"GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("A:\r\n", 8<<10) + "\r\n", 431, tooLarge},
		"long address":        {"GET /" + strings.Repeat("a", 20<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n", 431, tooLarge},
		"after a good one":    {"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /v1/models/%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400, generic},
		"after a refused one": {"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\n\r\n", 400, invalid("missing required Host header")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := w.dial(t)
			if _, err := io.WriteString(conn, tt.raw); err != nil {
				t.Fatal(err)
			}
			r := bufio.NewReader(conn)
			if strings.HasPrefix(name, "after") {
				checkFixed(t, name, read(t, r, "GET"))
			}
			got := read(t, r, "GET")
			checkError(t, name, got, tt.status, object(tt.status, "invalid_request_error", tt.message))
			if rest, err := io.ReadAll(r); len(rest) > 0 || isTimeout(err) {
				t.Errorf("after the reply came %q, %v, want the end of the connection", rest, err)
			}
		})
	}
}

// A length and an encoding together are refused on a connection that net/http has served before, too, and a
// head that arrives in pieces is looked at as a whole.
func TestTwoLengthsLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, nil)
	conn := w.dial(t)
	r := bufio.NewReader(conn)
	for _, raw := range []string{"POST /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", "0\r\n\r\n"} {
		if _, err := io.WriteString(conn, raw); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(t, r, "POST"); got.status != 405 {
		t.Fatalf("the chunked request = %d %s, want 405", got.status, got.body)
	}
	for _, raw := range []string{"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Le", "ngth: 5\r\nTransfer-", "Encoding: chunked\r\n\r", "\n0\r\n\r\n"} {
		if _, err := io.WriteString(conn, raw); err != nil {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
	got := read(t, r, "POST")
	checkError(t, "both", got, 400, object(400, "invalid_request_error", "The request is not valid HTTP: it has both a Content-Length and a Transfer-Encoding."))
}

// A handler's reply is its own, whatever it looks like.
func TestRepliesAreNotTakenForMalformed(t *testing.T) {
	t.Parallel()
	const text = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request"
	w := newWorld(t, nil, behind(func(*API) handler {
		return func(x *exchange, _ *http.Request) error {
			x.Header().Set("Content-Type", "text/plain; charset=utf-8")
			x.WriteHeader(http.StatusExpectationFailed)
			x.Flush()
			_, err := io.WriteString(x, text)
			return err
		}
	}))
	got := w.send(t, "GET", "/", "")
	checkFixed(t, "the reply", got)
	if got.status != 417 || got.body != text {
		t.Errorf("the reply = %d %q, want the handler's own", got.status, got.body)
	}
}
