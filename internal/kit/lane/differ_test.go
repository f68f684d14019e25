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
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// seen is what a handler sees of a request, and what its calls return.
type seen struct {
	Method, URI, Path, RawPath, Query, Host, Proto string
	Close, Force                                   bool
	Length                                         int64
	Encoding                                       []string
	Header, Trailer                                http.Header
	Body                                           string
	Errors                                         []string
}

// bodyErr stands for every error of reading a body: the texts may differ.
const bodyErr = "an error"

// mirror is a handler that keeps what it sees by the caller's address, and replies with it. Paths
// below /do/ say what else it does.
type mirror struct {
	mu    sync.Mutex
	calls map[string][]string
}

// take returns what the handler saw of a caller, and forgets it.
func (m *mirror) take(addr string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	calls := m.calls[addr]
	delete(m.calls, addr)
	return calls
}

// ServeHTTP implements http.Handler.
func (m *mirror) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := &seen{
		Method: r.Method, URI: r.RequestURI, Path: r.URL.Path, RawPath: r.URL.RawPath, Query: r.URL.RawQuery, Host: r.Host, Proto: r.Proto,
		Close: r.Close, Force: r.URL.ForceQuery, Length: r.ContentLength, Encoding: r.TransferEncoding, Header: r.Header.Clone(),
	}
	// A handler that panics was called, too.
	defer func() {
		s.Trailer = r.Trailer
		text := s.text()
		m.mu.Lock()
		defer m.mu.Unlock()
		m.calls[r.RemoteAddr] = append(m.calls[r.RemoteAddr], text)
	}()
	w.Header().Set("X-Method", r.Method) // for readReply
	if steps, ok := strings.CutPrefix(r.URL.Path, "/do/"); ok {
		s.perform(w, r, steps)
		return
	}
	if r.URL.Path != "/unread" {
		s.read(r.Body, -1)
	}
	s.Trailer = r.Trailer
	answer := []byte(s.text())
	if r.URL.Path == "/stream" {
		for piece := range slices.Chunk(answer, 50) {
			_, _ = w.Write(piece)
			w.(http.Flusher).Flush()
		}
		return
	}
	_, _ = w.Write(answer)
}

// text returns what was seen.
func (s *seen) text() string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// read reads n bytes of the body, or all of it.
func (s *seen) read(body io.Reader, n int64) {
	if n >= 0 {
		body = io.LimitReader(body, n)
	}
	got, err := io.ReadAll(body)
	s.Body += string(got)
	s.note(err)
}

// note keeps an error that a handler was given. Those that handlers compare are kept by name.
func (s *seen) note(err error) {
	switch {
	case err == nil:
	case errors.Is(err, http.ErrBodyNotAllowed), errors.Is(err, http.ErrContentLength), errors.Is(err, http.ErrBodyReadAfterClose):
		s.Errors = append(s.Errors, err.Error())
	default:
		s.Errors = append(s.Errors, bodyErr)
	}
}

// perform does what the path says: letters with a number, such as r5,w10,f. What no handler may do
// is left out: changing the header after it was sent. So is reading, or failing, after so
// much was written that the reply may have begun: the two send at different sizes.
func (s *seen) perform(w http.ResponseWriter, r *http.Request, steps string) {
	written, sent, flushed, announced, closed, duplex := 0, false, false, false, false, false // written since the last flush
	for step := range strings.SplitSeq(steps, ",") {
		if step == "" || len(step) > 5 {
			continue
		}
		n, err := strconv.Atoi(step[1:])
		if err != nil || n < 0 {
			n = -1
		}
		switch step[0] {
		case 'r': // read
			if flushed || written < 1000 {
				s.read(r.Body, int64(n))
			}
		case 'x': // close the body; not in full duplex, where only the lane then closes the connection
			if !duplex {
				closed = true
				s.note(r.Body.Close())
			}
		case 'w': // write
			if n = min(max(n, 0), 20_000); n > 0 || !sent {
				written, sent = written+n, true
				_, err := w.Write(bytes.Repeat([]byte("w"), n))
				s.note(err)
			}
		case 'f': // flush
			written, flushed, sent = 0, true, true
			w.(http.Flusher).Flush()
		case 'p': // panic
			if written < 1000 {
				panic(http.ErrAbortHandler)
			}
		case 's': // status
			if n >= 200 && n <= 999 {
				sent = true
				w.WriteHeader(n)
			}
		case 'e': // early hints
			if !sent {
				w.WriteHeader(http.StatusEarlyHints)
			}
		case 'd': // full duplex
			if !closed {
				duplex = true
				s.note(http.NewResponseController(w).EnableFullDuplex())
			}
		case 't': // trailers
			if !sent {
				announced = true
				w.Header().Set("Trailer", "X-Sum")
			} else if announced {
				w.Header().Set("X-Sum", strconv.Itoa(n))
				w.Header().Set(http.TrailerPrefix+"X-More", "m")
			}
		}
		if sent {
			continue
		}
		switch step[0] {
		case 'l': // length; net/http sends a wrong one in some replies to HEAD
			if n >= 0 {
				w.Header().Set("Content-Length", strconv.Itoa(n))
			}
		case 'c': // close; net/http goes on after "Close", although the caller was told otherwise
			w.Header().Set("Connection", []string{"close", "keep-alive"}[max(n, 0)%2])
		case 'h': // header
			w.Header().Add("X-Step", step)
		case 'k': // kind
			w.Header().Set("Content-Type", "x/y")
		case 'n': // no kind, or no date
			w.Header()[[]string{"Content-Type", "Date"}[max(n, 0)%2]] = nil
		case 'z': // encoding
			w.Header().Set("Content-Encoding", "z")
		}
	}
	// net/http reads what is left of the body when a full-duplex handler has returned, and then may look for the next
	// request in two goroutines at once, which ends the connection; see finishRequest and startBackgroundRead there.
	if duplex {
		_, _ = io.Copy(io.Discard, r.Body)
	}
}

// outcome is what a connection led to: what the handler saw, the replies, and the end.
type outcome struct {
	Calls, Replies []string
	End            string
	reset          bool // the system has dropped the end, so it is not sure
}

// String leaves out what is not compared.
func (o outcome) String() string {
	return fmt.Sprintf("calls %s\nreplies %s\n%s", strings.Join(o.Calls, "\n      "), strings.Join(o.Replies, "\n        "), o.End)
}

// side is one of the two servers that are compared.
type side struct {
	addr   string
	mirror *mirror
	arrivals
}

// arrivals is a listener that keeps the server's end of each connection by the caller's address.
type arrivals struct {
	net.Listener
	mu    sync.Mutex
	conns map[string]*net.TCPConn
}

func (a *arrivals) Accept() (net.Conn, error) {
	nc, err := a.Listener.Accept()
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.conns[nc.RemoteAddr().String()] = nc.(*net.TCPConn)
	return nc, nil
}

// read waits until the server has read everything that arrived, or closed the connection.
func (a *arrivals) read(addr string, until time.Time) {
	for time.Now().Before(until) {
		a.mu.Lock()
		nc := a.conns[addr]
		a.mu.Unlock()
		if nc != nil && unread(nc) == 0 {
			return
		}
		runtime.Gosched()
	}
}

// forget drops a connection that has ended.
func (a *arrivals) forget(addr string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.conns, addr)
}

// Accept forgets what came from the same address before: a call on a connection that the caller left may end after the
// last look at it, and the system uses ports again.
func (s *side) Accept() (net.Conn, error) {
	nc, err := s.arrivals.Accept()
	if err == nil {
		s.mirror.take(nc.RemoteAddr().String())
	}
	return nc, err
}

// listen starts one side.
func listen(t testing.TB) *side {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return &side{
		addr: inner.Addr().String(), mirror: &mirror{calls: map[string][]string{}},
		arrivals: arrivals{Listener: inner, conns: map[string]*net.TCPConn{}},
	}
}

// pair is a lane with its fallback, and net/http alone.
type pair struct {
	front     *front
	lane, std *side
}

// newPair starts both.
func newPair(t testing.TB) *pair {
	t.Helper()
	p := &pair{lane: listen(t), std: listen(t)}
	std := &http.Server{Handler: p.std.mirror, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: patience}
	var serving sync.WaitGroup
	serving.Go(func() { _ = std.Serve(p.std) })
	t.Cleanup(func() {
		_ = std.Close()
		serving.Wait()
	})
	p.front = startOn(t, p.lane, p.lane.mirror, nil)
	return p
}

// script is what a caller sends, in parts. Each part is sent when the server has read the one before.
type script []part

// part is some bytes. If they end a request, the caller may wait for its reply before it goes on.
type part struct {
	bytes []byte
	wait  bool
}

// cut returns a script that sends raw in pieces.
func cut(raw []byte, cuts ...int) script {
	var s script
	from := 0
	for _, to := range append(cuts, len(raw)) {
		if to >= from && to <= len(raw) {
			s = append(s, part{bytes: raw[from:to]})
			from = to
		}
	}
	return s
}

// String shows the parts.
func (s script) String() string {
	var b strings.Builder
	for _, p := range s {
		fmt.Fprintf(&b, "%q wait=%t\n", p.bytes, p.wait)
	}
	return b.String()
}

// try runs a script and reads until the end of the connection.
func (s *side) try(t testing.TB, parts script) outcome {
	t.Helper()
	nc, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	until := time.Now().Add(patience)
	if err := nc.SetDeadline(until); err != nil {
		t.Fatal(err)
	}
	local := nc.LocalAddr().String()
	replied := make(chan struct{}, 1000) // closed at the end
	// A server may close before it has read everything: errors of writing are its right. The system tells of a reset only
	// once, to whoever reads or writes first.
	var writing sync.WaitGroup
	reset := false
	writing.Go(func() {
		for i, p := range parts {
			if _, err := nc.Write(p.bytes); err != nil {
				reset = errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
				return
			}
			if p.wait {
				<-replied
			}
			if i < len(parts)-1 {
				s.arrivals.read(local, until)
			}
		}
		_ = nc.(*net.TCPConn).CloseWrite()
	})
	o := read(nc, func() {
		select {
		case replied <- struct{}{}:
		default:
		}
	})
	close(replied)
	writing.Wait()
	o.reset = o.reset || reset
	s.forget(local)
	o.Calls = s.mirror.take(local)
	// After a body that broke off the connection ends in any case; only the lane says so.
	if last := len(o.Replies) - 1; last >= 0 && slices.ContainsFunc(o.Calls, func(c string) bool { return strings.Contains(c, bodyErr) }) {
		o.Replies[last] = strings.Replace(o.Replies[last], "close=true", "close=false", 1)
	}
	return o
}

// read parses the replies of a connection and calls replied after each final one.
func read(nc net.Conn, replied func()) (o outcome) {
	r := bufio.NewReaderSize(nc, 32<<10)
	for {
		reply, err := readReply(r)
		o.reset = o.reset || errors.Is(err, syscall.ECONNRESET)
		if reply == "" {
			// A reset and an end differ by what the system had not delivered yet.
			if o.End = "end"; os.IsTimeout(err) {
				o.End = lateEnd
			} else if errors.Is(err, errNotReply) {
				o.End = err.Error()
			}
			return o
		}
		o.Replies = append(o.Replies, reply)
		if !strings.HasPrefix(reply, "1") {
			replied()
		}
	}
}

// lateEnd means that a connection did not end, and is always a failure: no script lets a server wait.
const lateEnd = "time-out"

// errNotReply means that a server sent something else.
var errNotReply = errors.New("not a reply")

// readReply reads one reply, and returns it in a form that can be compared. An empty one means that
// there was none. Where a reply ends may be said in different ways, and is not compared.
func readReply(r *bufio.Reader) (string, error) {
	if _, err := r.Peek(1); err != nil {
		return "", err
	}
	// The reply to a HEAD says so itself, because in a fuzzed pipeline nobody else knows.
	request := &http.Request{Method: http.MethodGet}
	for n := r.Buffered(); ; n = r.Buffered() + 1 {
		head, err := r.Peek(n)
		if end := bytes.Index(head, []byte("\r\n\r\n")); end >= 0 {
			if bytes.Contains(head[:end+2], []byte("\r\nX-Method: HEAD\r\n")) { // and not HEADPOST
				request.Method = http.MethodHead
			}
			break
		}
		if err != nil {
			break // ReadResponse finds it again
		}
	}
	resp, err := http.ReadResponse(r, request)
	if err != nil {
		return "", errors.Join(errNotReply, err)
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	// net/http closes after a refusal. Whether the caller then sees an end or a reset depends on how
	// much had been read by then.
	broken := err != nil && !(resp.Close && errors.Is(err, syscall.ECONNRESET))
	for _, key := range []string{"Content-Length", "Connection"} {
		resp.Header.Del(key)
	}
	if date := resp.Header["Date"]; len(date) == 1 {
		resp.Header.Set("Date", "now")
	}
	return fmt.Sprintf("%d %q close=%t header=%v body=%s trailer=%v broken=%t", resp.StatusCode, resp.Status, resp.Close, resp.Header, body, resp.Trailer, broken), err
}

// compare runs the same script on both and fails if they can be told apart, by the caller or by the
// handler. net/http closes after a refusal without reading the rest, and then the system may drop
// what the caller has not read yet; such a script is run again. If that happens every time, because what is left never
// fits into net/http's buffer, only the calls are compared.
func (p *pair) compare(t testing.TB, s script) {
	t.Helper()
	for left := 10; ; left-- {
		got, want := p.lane.try(t, s), p.std.try(t, s)
		if got.String() == want.String() && want.End != lateEnd {
			return
		}
		if left == 0 && (got.reset || want.reset) && slices.Equal(got.Calls, want.Calls) {
			return
		}
		if left == 0 || !got.reset && !want.reset {
			t.Errorf("%vthe lane: %v\nnet/http: %v", s, got, want)
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
	"GET /do/s204 HTTP/1.1\r\nHost: x\r\n\r\n":                                                                              true,
	"GET /do/s304 HTTP/1.1\r\nHost: x\r\n\r\n":                                                                              true,
	"GET /do/p HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n":                                                true,
	"GET /do/c HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n":                                                true,
	"POST /do/r,f,r,x,r HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\nHost: x\r\n\r\n":             true,
	"POST /do/r3,f,r HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\nHost: x\r\n\r\n":                true,
	"POST /do/f,r HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n":                        true,
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
		p.front.wasHanded()
		p.compare(t, cut([]byte(shape)))
		if handed := p.front.wasHanded(); handed == plain {
			t.Errorf("%q: handed over %t, want %t", shape, handed, !plain)
		}
		p.compare(t, cut([]byte("POST /first HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi"+shape)))
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
		for at := 1; at < len(shape); at += step {
			p.compare(t, cut([]byte(shape), at))
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

// seed returns what random requests are drawn from. It is printed, so that SLUICE_SEED repeats them.
func seed(t *testing.T) uint64 {
	t.Helper()
	n := uint64(time.Now().UnixNano())
	if given := os.Getenv("SLUICE_SEED"); given != "" {
		var err error
		if n, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("SLUICE_SEED=%d", n)
	return n
}

// Random requests, cut at random, are the same to both.
func TestDifferAtRandom(t *testing.T) {
	t.Parallel()
	rounds := 500
	if os.Getenv("SLUICE_SOAK") != "" {
		rounds = 50_000
	}
	r := rand.New(rand.NewPCG(seed(t), 0))
	p := newPair(t)
	for range rounds {
		raw := random(r)
		if p.compare(t, cut(raw, r.IntN(len(raw)+1))); t.Failed() {
			return
		}
	}
}

// FuzzDiffer looks for bytes that the lane and net/http answer differently.
func FuzzDiffer(f *testing.F) {
	for shape := range shapes {
		f.Add([]byte(shape), uint16(len(shape)/2), uint16(len(shape)))
	}
	p := newPair(f)
	f.Fuzz(func(t *testing.T, raw []byte, first, second uint16) {
		if len(raw) > 8<<10 {
			t.Skip("longer than any head that matters")
		}
		p.compare(t, cut(raw, int(first), int(second)))
	})
}
