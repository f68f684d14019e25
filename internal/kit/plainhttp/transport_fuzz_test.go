package plainhttp_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/kit/plainhttp"
)

// tape is a connection on which a reply stands ready, whatever is asked.
type tape struct {
	io.Reader
	written bytes.Buffer
}

func (t *tape) Write(p []byte) (int, error)      { return t.written.Write(p) }
func (*tape) Close() error                       { return nil }
func (*tape) LocalAddr() net.Addr                { return &net.TCPAddr{} }
func (*tape) RemoteAddr() net.Addr               { return &net.TCPAddr{} }
func (*tape) SetDeadline(time.Time) error        { return nil }
func (*tape) SetReadDeadline(time.Time) error    { return nil }
func (*tape) SetWriteDeadline(t time.Time) error { return nil }

// to is a transport whose one connection is the tape.
func (t *tape) to() *plainhttp.Transport {
	first := true
	return plainhttp.New(&plainhttp.Options{Dial: func(context.Context, string, string) (net.Conn, error) {
		if !first {
			return nil, errors.New("there is one connection")
		}
		first = false
		return t, nil
	}})
}

// FuzzReply holds what the transport makes of a reply against net/http. The transport may refuse more, and
// never takes a reply that net/http refuses or reads otherwise.
func FuzzReply(f *testing.F) {
	for _, form := range forms {
		f.Add([]byte(reply(form, "1:10")), http.MethodPost)
		f.Add([]byte(reply(form, "1:10")+"surplus"), http.MethodHead)
	}
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
		"HTTP/1.1 204 None\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 101 Switching\r\n\r\n",
		"HTTP/1.1 099 Low\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 5000) + "\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nA: b\n\n\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\nConnection: a, close\r\n\r\n1;a=\"b\" \r\no\r\n0001\r\nk\r\n0\r\nA: b\r\nC:d\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\nok\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+2\r\nok\r\n0x0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokk\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nok",
		"HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999999\r\n\r\nok",
	} {
		f.Add([]byte(s), http.MethodGet)
	}
	f.Fuzz(func(t *testing.T, raw []byte, method string) {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://upstream.test/", nil)
		if err != nil || req.Method == http.MethodConnect {
			t.Skip("not a request that the transport is given")
		}
		resp, err := (&tape{Reader: bytes.NewReader(raw)}).to().RoundTrip(req)
		if err != nil {
			return
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		if err != nil {
			return
		}
		reader := bufio.NewReaderSize(bytes.NewReader(raw), 64<<10)
		for {
			want, err := http.ReadResponse(reader, req)
			if err != nil {
				t.Fatalf("%q = %d %q, want what net/http says: %v", raw, resp.StatusCode, got, err)
			}
			body, err := io.ReadAll(want.Body)
			if want.StatusCode >= 100 && want.StatusCode < 200 {
				continue
			}
			if err != nil || want.StatusCode != resp.StatusCode || !bytes.Equal(body, got) {
				t.Fatalf("%q = %d %q, want as net/http %d %q, %v", raw, resp.StatusCode, got, want.StatusCode, body, err)
			}
			return
		}
	})
}

// FuzzRequest holds what is written against what was asked for: one request that a server reads as it was
// meant, or nothing at all.
func FuzzRequest(f *testing.F) {
	f.Add("POST", "/v1/chat", "a=b", "up.test", "X-Test", "yes", "body")
	f.Add("GET", "/", "", "", "Host", "other.test", "")
	f.Add("PUT", "/a b", "c d", "a b", "Transfer-Encoding", "chunked", "0\r\n\r\n")
	f.Add("", "", "\r\n", "a\r\nb", "transfer-encoding", "x\r\ny", "x")
	f.Add("A B", "//x", "?", "h:1", "connection", "close", "x")
	f.Fuzz(func(t *testing.T, method, path, query, host, name, value, content string) {
		u := &url.URL{Scheme: "http", Host: "upstream.test", Path: path, RawQuery: query}
		req := &http.Request{
			Method: method, URL: u, Host: host, Header: http.Header{name: {value}},
			ContentLength: int64(len(content)), Body: io.NopCloser(strings.NewReader(content)),
		}
		tape := &tape{Reader: strings.NewReader(ok)}
		resp, err := tape.to().RoundTrip(req)
		if err != nil {
			if tape.written.Len() > 0 {
				t.Fatalf("%q was written, want nothing: %v", tape.written.String(), err)
			}
			return
		}
		resp.Body.Close()
		wire := tape.written.String()
		reader := bufio.NewReader(strings.NewReader(wire))
		got, err := http.ReadRequest(reader)
		if err != nil {
			// What a server may refuse as a whole does no harm: it is one line each, and one request.
			head, body, _ := strings.Cut(wire, "\r\n\r\n")
			if body != content || strings.Count(head, "\n") > 3 || strings.Count(head, "\r") > 3 {
				t.Fatalf("%q was written, want one request: %v", wire, err)
			}
			return
		}
		body, err := io.ReadAll(got.Body)
		if err != nil || string(body) != content || reader.Buffered() > 0 {
			t.Fatalf("%q was written, want one request with the body %q", wire, content)
		}
		if got.Method != method && method != "" || got.RequestURI != u.RequestURI() || got.Host != host && host != "" || got.Close {
			t.Fatalf("%q was written, want what was asked for", wire)
		}
		names := slices.Collect(maps.Keys(got.Header))
		if len(names) > 2 || len(got.TransferEncoding) > 0 {
			t.Fatalf("%q was written, want no header but %q", wire, name)
		}
	})
}
