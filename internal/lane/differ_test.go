package lane

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// seen is what a handler sees of a request. Its reply is that, so comparing replies compares the
// requests, too.
type seen struct {
	Method, URI, Path, RawPath, Query, Host, Proto string
	Close, Force                                   bool
	Length                                         int64
	Encoding                                       []string
	Header                                         http.Header
	Body, BodyErr                                  string
}

// bodyErr stands for every error of reading a body.
const bodyErr = "an error"

// mirror replies with what it sees. Some paths reply in other ways.
func mirror(w http.ResponseWriter, r *http.Request) {
	s := seen{
		Method: r.Method, URI: r.RequestURI, Path: r.URL.Path, RawPath: r.URL.RawPath, Query: r.URL.RawQuery, Host: r.Host, Proto: r.Proto,
		Close: r.Close, Force: r.URL.ForceQuery, Length: r.ContentLength, Encoding: r.TransferEncoding, Header: r.Header.Clone(),
	}
	switch r.URL.Path {
	case "/unread":
	case "/204":
		w.WriteHeader(http.StatusNoContent)
		return
	case "/304":
		w.WriteHeader(http.StatusNotModified)
		return
	case "/panic":
		panic(http.ErrAbortHandler)
	case "/close":
		w.Header().Set("Connection", "close")
	default:
		body, err := io.ReadAll(r.Body)
		s.Body = string(body)
		if err != nil {
			s.BodyErr = bodyErr // texts may differ
		}
	}
	answer, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	if r.URL.Path == "/stream" {
		for piece := range slices.Chunk(answer, 50) {
			_, _ = w.Write(piece)
			w.(http.Flusher).Flush()
		}
		return
	}
	_, _ = w.Write(answer)
}

// outcome is what a caller sees of a connection: the replies, and how it ended.
type outcome struct {
	Replies []string
	End     string
	reset   bool // the system has dropped the end, so it is not sure
}

// String leaves out what is not compared.
func (o outcome) String() string { return fmt.Sprintf("%q %s", o.Replies, o.End) }

// pair is a lane with its fallback, and net/http alone.
type pair struct {
	lane *front
	std  string
}

// newPair starts both.
func newPair(t testing.TB) *pair {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	std := &http.Server{Handler: http.HandlerFunc(mirror), ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: patience}
	var serving sync.WaitGroup
	serving.Go(func() { _ = std.Serve(inner) })
	t.Cleanup(func() {
		_ = std.Close()
		serving.Wait()
	})
	return &pair{lane: start(t, http.HandlerFunc(mirror), nil), std: inner.Addr().String()}
}

// try sends raw, cut into pieces after the given numbers of bytes, and reads until the end of the
// connection.
func try(t testing.TB, addr string, raw []byte, cuts []int) outcome {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	// A server may close before it has read everything: errors of writing are its right.
	var writing sync.WaitGroup
	writing.Go(func() {
		from := 0
		for _, cut := range append(slices.Clone(cuts), len(raw)) {
			if cut < from || cut > len(raw) {
				continue
			}
			if _, err := nc.Write(raw[from:cut]); err != nil {
				return
			}
			from = cut
		}
		_ = nc.(*net.TCPConn).CloseWrite()
	})
	defer writing.Wait()
	return read(nc, raw)
}

// read parses the replies of a connection.
func read(nc net.Conn, raw []byte) (o outcome) {
	r := bufio.NewReader(nc)
	for {
		if _, err := r.Peek(1); err != nil {
			// A reset and an end differ by what the system had not delivered yet.
			if o.End = "end"; os.IsTimeout(err) {
				o.End = "time-out"
			}
			o.reset = o.reset || errors.Is(err, syscall.ECONNRESET)
			return o
		}
		// Which of the requests was a HEAD is known from the reply, which names its method; an
		// empty one is a HEAD's, or has no body in any case.
		method := "GET"
		if bytes.Contains(raw, []byte("HEAD")) {
			method = "HEAD"
		}
		resp, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			o.End, o.reset = "not a reply", errors.Is(err, syscall.ECONNRESET)
			return o
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		o.reset = o.reset || errors.Is(err, syscall.ECONNRESET)
		if bytes.Contains(body, []byte(bodyErr)) {
			resp.Close = false // the connection ends in any case; only the lane says so
		}
		o.Replies = append(o.Replies, fmt.Sprintf("%d %q close=%t type=%q body=%s err=%t", resp.StatusCode, resp.Status, resp.Close, resp.Header.Get("Content-Type"), body, err != nil))
	}
}

// compare sends the same bytes to both and fails if a caller can tell them apart. net/http closes
// after a refusal without reading the rest, and then the system may drop the end of its reply; such
// a reply is asked for again.
func (p *pair) compare(t testing.TB, raw []byte, cuts []int) {
	t.Helper()
	for left := 10; ; left-- {
		got, want := try(t, p.lane.addr, raw, cuts), try(t, p.std, raw, cuts)
		if fmt.Sprint(got) == fmt.Sprint(want) {
			return
		}
		if left == 0 || !got.reset && !want.reset {
			t.Errorf("%q, cut at %v:\nthe lane  %v\nnet/http  %v", raw, cuts, got, want)
			return
		}
	}
}

// shapes are requests of every kind: plain ones, unusual ones, malformed ones, and the public
// classes of request smuggling. The value tells whether the lane serves them itself.
var shapes = map[string]bool{
	"GET / HTTP/1.1\r\nHost: x\r\n\r\n":                                                                                     true,
	"HEAD /x HTTP/1.1\r\nHost: x\r\n\r\n":                                                                                   true,
	"POST /v1/chat HTTP/1.1\r\nHost: a.example:8080\r\nContent-Length: 5\r\n\r\nhello":                                      true,
	"POST /stream HTTP/1.1\r\nhost: [::1]:80\r\ncontent-length:5\r\nX-A:  b \t\r\n\r\nhello":                                true,
	"POST / HTTP/1.1\r\nHost: x\r\n\r\n":                                                                                    true,
	"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n":                                                               true,
	"POST /unread HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello":                                                    true,
	"GET /a/b-c_d.e~f:g@h?x=1&y=%20 HTTP/1.1\r\nHost: x\r\n\r\n":                                                            true,
	"GET /$&+=,; HTTP/1.1\r\nHost: x\r\n\r\n":                                                                               true,
	"GET /x HTTP/1.1\r\nHost: x\r\nCookie: a=b\r\nCookie: c=d\r\nA: \xc3\xa4\r\nE:\r\n\r\n":                                 true,
	"GET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n":                                                               true,
	"GET /x HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n":                                                          true,
	"GET /204 HTTP/1.1\r\nHost: x\r\n\r\n":                                                                                  true,
	"GET /304 HTTP/1.1\r\nHost: x\r\n\r\n":                                                                                  true,
	"GET /panic HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n":                                               true,
	"GET /close HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n":                                               true,
	"GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: y\r\n\r\n":                                                  true,
	"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhelloPOST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi": true,
	"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhe":                                                             true, // cut off in the body

	// Unusual, but right.
	"GET / HTTP/1.0\r\n\r\n": false,
	"GET / HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n":                             false,
	"OPTIONS / HTTP/1.1\r\nHost: x\r\n\r\n":                                                   false,
	"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n":                                                   false,
	"DELETE /x HTTP/1.1\r\nHost: x\r\n\r\n":                                                   false,
	"get / HTTP/1.1\r\nHost: x\r\n\r\n":                                                       false,
	"GET http://y/z HTTP/1.1\r\nHost: x\r\n\r\n":                                              false,
	"GET //y/z HTTP/1.1\r\nHost: x\r\n\r\n":                                                   false,
	"GET /a%2fb HTTP/1.1\r\nHost: x\r\n\r\n":                                                  false,
	"GET /a!b HTTP/1.1\r\nHost: x\r\n\r\n":                                                    false,
	"GET /x? HTTP/1.1\r\nHost: x\r\n\r\n":                                                     false,
	"GET /x#y HTTP/1.1\r\nHost: x\r\n\r\n":                                                    false,
	"GET / HTTP/1.1\r\nHost: \r\n\r\n":                                                        false,
	"GET / HTTP/1.1\r\nHost: x\r\nPragma: no-cache\r\n\r\n":                                   false,
	"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc":                               false,
	"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n":                false,
	"GET / HTTP/1.1\r\nHost: x\r\nConnection: close, x\r\n\r\n":                               false,
	"GET / HTTP/1.1\r\nHost: x\r\nConnection: Close\r\n\r\n":                                  false,
	"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n": false,
	"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello":    false,
	"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 05\r\n\r\nhello":                           false,
	"GET / HTTP/1.1\nHost: x\n\n":                                                             false,
	"GET / HTTP/1.1\r\nHost: x\nA: b\r\n\r\n":                                                 false,
	"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n":                                         false,

	// Malformed, or understood differently by different servers.
	"": true,
	"\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n":                                          false,
	"GET / HTTP/1.1\r\n\r\n":                                                             false,
	"GET /":                                                                              false,
	"GET / HTTP/1.1\r\nHost: x\r\n":                                                      false,
	"GET  / HTTP/1.1\r\nHost: x\r\n\r\n":                                                 false,
	"GET /  HTTP/1.1\r\nHost: x\r\n\r\n":                                                 false,
	"GET / HTTP/1.1 \r\nHost: x\r\n\r\n":                                                 false,
	"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n":                                              false,
	"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n":                                       false,
	"GET / HTTP/1.1\r\nHost: x y\r\n\r\n":                                                false,
	"GET / HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n":                                         false,
	"GET / HTTP/1.1\r\nHost: x\r\nA\x00: b\r\n\r\n":                                      false,
	"GET / HTTP/1.1\r\nHost: x\r\nA: \x00\r\n\r\n":                                       false,
	"GET / HTTP/1.1\r\nHost: x\r\nA: b\rC: d\r\n\r\n":                                    false,
	"GET / HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n":                                      false,
	"GET / HTTP/1.1\r\nHost: x\r\n: b\r\n\r\n":                                           false,
	"GET / HTTP/1.1\r\n A: b\r\nHost: x\r\n\r\n":                                         false,
	"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello":  false,
	"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!": false,
	"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5, 5\r\n\r\nhello":                    false,
	"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\nhello":                      false,
	"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\nhello":                      false,
	"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0x5\r\n\r\nhello":                     false,
	"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: \r\n\r\nhello":                        false,
	"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\nhello":    false,
	"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /x HTTP/1.1\r\nHost: x\r\n\r\n": false,
	"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n5\r\nhello\r\n0\r\n\r\n":                     false,
	"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\nContent-Length: 5\r\n\r\nhello":                                      false,
	"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\nContent-Length: 5\r\n\r\nhello":                                      false,
	"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\x0bchunked\r\nContent-Length: 5\r\n\r\nhello":                                    false,
	"POST / HTTP/1.1\r\nHost: x\r\nX: y\r\n Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\nhello":                              false,
	"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n":                         false,
	"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n": false,
	"\x16\x03\x01\x02\x00\x01\x00":     false,
}

// The lane with net/http behind it cannot be told from net/http alone: on every shape, whole and
// cut at every byte, and behind a plain request.
func TestDiffer(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	long := "GET /" + strings.Repeat("a", 5000) + " HTTP/1.1\r\nHost: x\r\n\r\n"
	many := "GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("A: b\r\n", 100) + "\r\n"
	all := map[string]bool{long: false, many: false}
	for shape, plain := range shapes {
		all[shape] = plain
	}
	for shape, plain := range all {
		p.lane.wasHanded()
		p.compare(t, []byte(shape), nil)
		if handed := p.lane.wasHanded(); handed == plain {
			t.Errorf("%q: handed over %t, want %t", shape, handed, !plain)
		}
		p.compare(t, []byte("POST /first HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi"+shape), nil)
	}
}

// A request is the same wherever the network cuts it.
func TestDifferWhenCut(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	step := 7 // every byte takes too long for a short run
	if os.Getenv("SLUICE_SOAK") != "" {
		step = 1
	}
	for shape := range shapes {
		for cut := 1; cut < len(shape); cut += step {
			p.compare(t, []byte(shape), []int{cut})
		}
	}
}

// pieces are what the random requests are made of.
var pieces = []string{
	"GET", "POST", "HEAD", "PUT", " ", " /", "/x", "?a=b", "%20", "%", "//", "#", "*", " HTTP/1.1", " HTTP/1.0", " HTTP/2.0", "\r\n", "\n", "\r", "\r\n\r\n", "Host: x", "Host:", "Host: y",
	"Content-Length: 5", "Content-Length: 0", "content-length:5", "Content-Length: 5 ", "Transfer-Encoding: chunked", "Connection: close", "Connection: keep-alive", "Connection: x", "Expect: 100-continue",
	"Upgrade: h2c", "A: b", "A:b", ": ", "hello", "5\r\nhello\r\n0\r\n\r\n", "0\r\n\r\n", "\x00", "\t", "\x7f", "\xff", "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n", "GET / HTTP/1.1\r\n", "POST / HTTP/1.1\r\n",
}

// random draws a request: mostly a plain one with a mistake in it.
func random(r *rand.Rand) []byte {
	var b []byte
	for range 1 + r.IntN(3) {
		b = append(b, "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nA: b\r\n\r\nhello"...)
	}
	for range r.IntN(4) {
		piece := pieces[r.IntN(len(pieces))]
		at := r.IntN(len(b) + 1)
		cut := min(len(b), at+r.IntN(len(piece)+3)*r.IntN(2)) // replaces as often as it inserts
		b = slices.Concat(b[:at], []byte(piece), b[cut:])
	}
	return b
}

// Random requests, cut at random, with a seed that is printed.
func TestDifferAtRandom(t *testing.T) {
	t.Parallel()
	seed, rounds := uint64(time.Now().UnixNano()), 500
	if os.Getenv("SLUICE_SOAK") != "" {
		rounds = 50_000
	}
	if given := os.Getenv("SLUICE_SEED"); given != "" {
		n, err := strconv.ParseUint(given, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	t.Logf("SLUICE_SEED=%d", seed)
	p := newPair(t)
	r := rand.New(rand.NewPCG(seed, 0))
	for range rounds {
		raw := random(r)
		cuts := []int{r.IntN(len(raw) + 1)}
		if p.compare(t, raw, cuts); t.Failed() {
			return
		}
	}
}

// FuzzDiffer looks for bytes that the lane and net/http answer differently.
func FuzzDiffer(f *testing.F) {
	for shape := range shapes {
		f.Add([]byte(shape), uint16(len(shape)/2))
	}
	p := newPair(f)
	f.Fuzz(func(t *testing.T, raw []byte, cut uint16) {
		if len(raw) > 8<<10 {
			t.Skip("longer than any head that matters")
		}
		p.compare(t, raw, []int{int(cut)})
	})
}
