package plainhttp_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/kit/plainhttp"
)

// The tests here put an upstream on the other side that does everything wrong. Two things must hold
// whatever it does. The bytes on each connection are whole requests, one after the other, exactly as
// callers made them, and no request that changes something is sent twice. And every reply belongs to the
// request that asked.

// adversary is an upstream and the bytes that have reached it.
type adversary struct {
	t       *testing.T
	host    string
	play    func(l *link)
	playing sync.WaitGroup

	mu    sync.Mutex
	links []*link
}

// link is one connection of an adversary.
type link struct {
	net.Conn
	reader *bufio.Reader // of the bytes, which are kept
	seen   bytes.Buffer
	index  int
}

// Read keeps what is read.
func (l *link) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	l.seen.Write(p[:n])
	return n, err
}

// next reads the next request and returns the call it belongs to.
func (l *link) next() (call string, ok bool) {
	req, err := http.ReadRequest(l.reader)
	if err != nil {
		return "", false
	}
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return "", false
	}
	return req.Header.Get("X-Call"), true
}

// say writes a reply, or a part of one.
func (l *link) say(s string) {
	if s != "" {
		_, _ = io.WriteString(l, s) // a caller may have left
	}
}

// reset makes the connection break instead of ending it.
func (l *link) reset() { _ = l.Conn.(*net.TCPConn).SetLinger(0) }

// serve plays one connection and reads on until its other side has closed it, or play has.
func (a *adversary) serve(c net.Conn) {
	a.mu.Lock()
	l := &link{Conn: c, index: len(a.links)}
	l.reader = bufio.NewReader(l)
	a.links = append(a.links, l)
	a.mu.Unlock()
	a.playing.Go(func() {
		defer c.Close()
		a.play(l)
	})
}

// overTCP starts an adversary on loopback.
func overTCP(t *testing.T, play func(l *link)) *adversary {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := &adversary{t: t, host: listener.Addr().String(), play: play}
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			a.serve(c)
		}
	})
	t.Cleanup(func() {
		listener.Close()
		accepting.Wait()
		a.check()
	})
	return a
}

// overPipes starts an adversary inside a synctest bubble, and returns the way to it.
func overPipes(t *testing.T, play func(l *link)) (*adversary, *plainhttp.Transport) {
	t.Helper()
	return overPipesWith(t, 0, play)
}

// overPipesWith is overPipes for a transport of this patience.
func overPipesWith(t *testing.T, patience time.Duration, play func(l *link)) (*adversary, *plainhttp.Transport) {
	t.Helper()
	a := &adversary{t: t, host: "upstream.test", play: play}
	tr := plainhttp.New(&plainhttp.Options{Patience: patience, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		a.serve(theirs)
		return ours, nil
	}})
	return a, tr
}

// ownPatience is the default patience, and none, where the caller's context is all that ends a request.
var ownPatience = []time.Duration{0, -1}

// call is the request number n: a POST, or a GET where the number is negative. Its body says which it is,
// and is as long as wanted.
func (a *adversary) call(ctx context.Context, n, size int) *http.Request {
	a.t.Helper()
	method := http.MethodPost
	if n < 0 {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+a.host+"/call", strings.NewReader(content(strconv.Itoa(n), size)))
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header["X-Call"] = []string{strconv.Itoa(n) + ":" + strconv.Itoa(size)}
	// Every other body lends its bytes.
	if n%2 != 0 {
		req.Body = newLender(content(strconv.Itoa(n), size))
		req.GetBody = func() (io.ReadCloser, error) { return newLender(content(strconv.Itoa(n), size)), nil }
	}
	return req
}

// lender is a body that the transport need not copy. What it lends ends at odd places.
type lender struct{ *bytes.Buffer }

func newLender(text string) lender { return lender{bytes.NewBufferString(text)} }

func (l lender) Borrow(n int) []byte { return l.Next(min(n, 100_003)) }
func (l lender) Close() error        { return nil }

func content(call string, size int) string {
	return strings.Repeat(call+" ", size/(len(call)+1)+1)[:size]
}

// wire is what a call looks like to an upstream.
func (a *adversary) wire(call string) string {
	n, text, _ := strings.Cut(call, ":")
	size, err := strconv.Atoi(text)
	if err != nil {
		return "no call"
	}
	method := "POST"
	if strings.HasPrefix(n, "-") {
		method = "GET"
	}
	length := "Content-Length: " + text + "\r\n"
	return method + " /call HTTP/1.1\r\nHost: " + a.host + "\r\nX-Call: " + call + "\r\n" + length + "\r\n" + content(n, size)
}

// check holds the bytes of each connection against the calls that were made. A connection that ended early
// may have a part of a request at its end.
func (a *adversary) check() {
	a.t.Helper()
	a.playing.Wait()
	times := map[string]int{}
	for _, l := range a.links {
		rest := l.seen.String()
		for rest != "" {
			_, after, _ := strings.Cut(rest, "X-Call: ")
			call, _, whole := strings.Cut(after, "\r\n")
			want := a.wire(call)
			if !whole || len(rest) < len(want) && strings.HasPrefix(want, rest) {
				break
			}
			if !strings.HasPrefix(rest, want) {
				a.t.Fatalf("connection %d carried %.200q, want a request that a caller made", l.index, rest)
			}
			times[call]++
			rest = rest[len(want):]
		}
	}
	for call, n := range times {
		if n > 1 && !strings.HasPrefix(call, "-") || n > 2 {
			a.t.Errorf("the call %s was sent %d times", call, n)
		}
	}
}

// reply is one that names its call, in the given form.
func reply(form, call string) string {
	text := "reply to " + call
	switch form {
	case "length":
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	case "chunked":
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2;a=b\r\n%s\r\n%x\r\n%s\r\n0\r\nX-Sum: 1\r\n\r\n", text[:2], len(text)-2, text[2:])
	case "interim":
		return "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + reply("length", call)
	case "old":
		return "HTTP/1.0 200 OK\r\n\r\n" + text
	}
	return "no such form"
}

var forms = []string{"length", "chunked", "interim", "old"}

// ask makes a call and returns the body of its reply.
func ask(tr *plainhttp.Transport, req *http.Request) (string, error) {
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// want makes a call that must succeed.
func (a *adversary) want(tr *plainhttp.Transport, n int) {
	a.t.Helper()
	if got, err := ask(tr, a.call(a.t.Context(), n, 10)); err != nil || got != "reply to "+strconv.Itoa(n)+":10" {
		a.t.Errorf("call %d = %q, %v, want its own reply", n, got, err)
	}
}

// Replies are cut behind every byte, on a new connection and on one that was used before, by an end and by a
// reset. None that is cut looks whole, unless the end of the connection is all that ends it.
func TestCutAnywhere(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		for _, used := range []bool{false, true} {
			for _, reset := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s used %t reset %t", form, used, reset), func(t *testing.T) {
					t.Parallel()
					cuts := make(chan int, 1)
					a := overTCP(t, func(l *link) {
						for {
							call, ok := l.next()
							if !ok {
								return
							}
							select {
							case n := <-cuts:
								l.say(reply(form, call)[:n])
								if reset {
									l.reset()
								}
								return
							default:
								l.say(reply("length", call))
							}
						}
					})
					tr := plainhttp.New(nil)
					defer tr.CloseIdleConnections()
					head := strings.Index(reply("old", ""), "\r\n\r\n") + 4
					for n := 0; n <= len(reply(form, "1000:10")); n++ {
						if used {
							a.want(tr, 3000+n)
						} else {
							tr.CloseIdleConnections()
						}
						cuts <- n
						got, err := ask(tr, a.call(t.Context(), 1000+n, 10))
						whole := "reply to " + strconv.Itoa(1000+n) + ":10"
						switch {
						case reset && err != nil: // a reset may overtake what was written before it
						case form == "old" && n >= head:
							if err != nil || !strings.HasPrefix(whole, got) {
								t.Errorf("cut behind %d bytes: %q, %v, want a beginning of %q", n, got, err, whole)
							}
						case n < len(reply(form, "1000:10")):
							if err == nil {
								t.Errorf("cut behind %d bytes: %q, want an error", n, got)
							}
						case err != nil || got != whole:
							t.Errorf("not cut: %q, %v, want %q", got, err, whole)
						}
						if err == nil {
							tr.CloseIdleConnections() // the server closes the connection any moment now
						}
						a.want(tr, 2000+n)
					}
				})
			}
		}
	}
}

// Replies stall behind every byte. Before the end of the head the transport's own patience ends the call,
// behind it the caller's.
func TestStallAnywhere(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		whole := reply(form, "1:10")
		head := strings.LastIndex(whole, "\r\n\r\n") + 4
		if form == "chunked" {
			head = strings.Index(whole, "\r\n\r\n") + 4
		}
		for n := range whole {
			synctest.Test(t, func(t *testing.T) {
				gone := make(chan struct{})
				a, tr := overPipes(t, func(l *link) {
					call, ok := l.next()
					if call == "1:10" {
						l.say(whole[:n])
						l.next() // until the caller has left
						close(gone)
						return
					}
					for ; ok; call, ok = l.next() {
						l.say(reply("length", call))
					}
				})
				late := errors.New("late")
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, late)
				defer cancel()
				start := time.Now()
				_, err := ask(tr, a.call(ctx, 1, 10))
				took := time.Since(start)
				if n < head && (!errors.Is(err, os.ErrDeadlineExceeded) || took != 5*time.Minute) {
					t.Errorf("%s stalled behind %d bytes: %v after %v, want a time-out after 5m", form, n, err, took)
				}
				if n >= head && (!errors.Is(err, late) || took != time.Hour) {
					t.Errorf("%s stalled behind %d bytes: %v after %v, want the caller's patience to end it", form, n, err, took)
				}
				<-gone
				a.want(tr, 2)
				tr.CloseIdleConnections()
				a.check()
			})
		}
	}
}

// A caller leaves while the request is written, before the reply, within its head and within its body.
func TestLeaveAnywhere(t *testing.T) {
	t.Parallel()
	left := errors.New("left")
	for phase, play := range map[string]func(l *link, leave func()){
		"nothing is read":          func(_ *link, leave func()) { leave() },
		"a part of the head":       func(l *link, leave func()) { _, _ = io.CopyN(io.Discard, l, 20); leave() },
		"a part of the body":       func(l *link, leave func()) { _, _ = io.CopyN(io.Discard, l, 300_000); leave() },
		"all is read":              func(l *link, leave func()) { l.next(); leave() },
		"an interim reply":         func(l *link, leave func()) { l.next(); l.say("HTTP/1.1 100 Continue\r\n\r\n"); leave() },
		"a part of the reply head": func(l *link, leave func()) { l.next(); l.say("HTTP/1.1 200 OK\r\nContent-"); leave() },
		"a part of the reply": func(l *link, leave func()) {
			l.next()
			l.say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok")
			leave()
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			first := true
			a, tr := overPipes(t, func(l *link) {
				if first {
					first = false
					play(l, func() { synctest.Wait(); cancel(left) })
					_, _ = io.Copy(io.Discard, l)
					return
				}
				for {
					call, ok := l.next()
					if !ok {
						return
					}
					l.say(reply("length", call))
				}
			})
			start := time.Now()
			if _, err := ask(tr, a.call(ctx, 1, 1<<20)); !errors.Is(err, left) {
				t.Errorf("%s: %v, want the cause", phase, err)
			}
			if took := time.Since(start); took > time.Second {
				t.Errorf("%s: it took %v to leave", phase, took)
			}
			a.want(tr, 2)
			tr.CloseIdleConnections()
			a.check()
		})
	}
}

// A server may answer and read no further, at any point of a long request. The answer counts, and the
// connection, on which a part of the request is missing, is not used again.
func TestAnswerWithoutReading(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	for _, read := range []int64{1, 30, 64 << 10, 64<<10 + 1, 200_000, size} {
		for i, before := range []string{"", "HTTP/1.1 100 Continue\r\n\r\n"} {
			synctest.Test(t, func(t *testing.T) {
				a, tr := overPipesWith(t, ownPatience[i], func(l *link) {
					if l.index == 0 {
						_, _ = io.CopyN(io.Discard, l, read)
						l.say(before)
						l.say("HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
						_, _ = io.Copy(io.Discard, onlyAfter{l, time.Hour})
						return
					}
					for {
						call, ok := l.next()
						if !ok {
							return
						}
						l.say(reply("length", call))
					}
				})
				start := time.Now()
				resp, err := tr.RoundTrip(a.call(t.Context(), 1, size))
				if err != nil || resp.StatusCode != 413 {
					t.Fatalf("answered behind %d bytes: %v, want 413", read, err)
				}
				if b, err := io.ReadAll(resp.Body); string(b) != "no" || err != nil {
					t.Errorf("answered behind %d bytes: %q, %v, want no", read, b, err)
				}
				resp.Body.Close()
				if took := time.Since(start); took > time.Second {
					t.Errorf("the answer was noticed after %v", took)
				}
				a.want(tr, 2)
				tr.CloseIdleConnections()
				time.Sleep(2 * time.Hour) // the bubble's clock
				a.check()
			})
		}
	}
}

// onlyAfter begins to read after a while.
type onlyAfter struct {
	net.Conn
	d time.Duration
}

func (o onlyAfter) Read(p []byte) (int, error) {
	time.Sleep(o.d) // the bubble's clock
	return o.Conn.Read(p)
}

// A server that takes a long request slowly, or tells in between that it goes on, gets all of it.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	for i, between := range []string{"", "HTTP/1.1 102 Processing\r\n\r\n"} {
		synctest.Test(t, func(t *testing.T) {
			a, tr := overPipesWith(t, ownPatience[i], func(l *link) {
				l.reader.Reset(&slow{link: l, between: between})
				for call, ok := l.next(); ok; call, ok = l.next() {
					l.say(reply("length", call))
				}
			})
			if got, err := ask(tr, a.call(t.Context(), 1, 300_000)); err != nil || got != "reply to 1:300000" {
				t.Errorf("RoundTrip = %q, %v", got, err)
			}
			a.want(tr, 2)
			if len(a.links) != 1 {
				t.Errorf("%d connections, want 1", len(a.links))
			}
			tr.CloseIdleConnections()
			a.check()
		})
	}
}

// slow reads a little each second. The first few times it says something before.
type slow struct {
	*link
	between string
	said    int
}

func (s *slow) Read(p []byte) (int, error) {
	time.Sleep(time.Second) // the bubble's clock
	if s.said < 3 {
		s.said++
		s.say(s.between)
	}
	return s.link.Read(p)
}

// Heads that two readers could understand differently are refused, and the connection with them. What is
// merely unusual is not.
func TestHeads(t *testing.T) {
	t.Parallel()
	many := func(n int) string { return strings.Repeat("A: b\r\n", n) }
	for head, want := range map[string]string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok":                                                      "ok",
		"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok":                                                         "ok",
		"HTTP/1.1 200 \r\ncontent-length:2 \r\n\r\nok":                                                        "ok",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nEmpty:\r\n\r\nok":                                            "ok",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n":                           "ok",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2;x\r\nok\r\n0\r\nA: b\r\n\r\n":                 "ok",
		"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok":                            "ok",
		"HTTP/1.1 200 OK\r\n" + many(255) + "Content-Length: 2\r\n\r\nok":                                     "ok",
		"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 60<<10) + "\r\nContent-Length: 2\r\n\r\nok":            "ok",
		"HTTP/1.1 204 None\r\n\r\n":                                                                           "",
		"HTTP/1.1 204 None\r\nContent-Length: 2\r\n\r\nok":                                                    "",
		"HTTP/1.1 304 Same\r\nContent-Length: 2\r\n\r\n":                                                      "",
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nsurplus":                                                 "",
		strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 5) + "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n": "",

		"HTTP/1.1 200 OK\r\n" + many(257) + "\r\n":                                                                "!",
		"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 65<<10) + "\r\n\r\n":                                       "!",
		"HTTP/1.1 200 OK\r\n" + strings.Repeat("x", 70<<10):                                                       "!",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok":                                     "!",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\ncontent-length: 2\r\n\r\nok":                                     "!",
		"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok":                                                       "!",
		"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok":                                                         "!",
		"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok":                                                         "!",
		"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nok":                                                            "!",
		"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nok":                                       "!",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n":          "!",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n":                         "!",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nok":                                                "!",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n": "!",
		"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n":                               "!",
		"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 2\r\n\r\nok":                                            "!",
		"HTTP/1.1 200 OK\r\n A: b\r\nContent-Length: 2\r\n\r\nok":                                                 "!",
		"HTTP/1.1 200 OK\nContent-Length: 2\n\nok":                                                                "!",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\n\r\nok":                                                            "!",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\nok":                                                            "!",
		"HTTP/1.1 200 OK\r\nA: b\rContent-Length: 9\r\nContent-Length: 2\r\n\r\nok":                               "!",
		"HTTP/1.1 200 OK\r\nA: b\x00\r\nContent-Length: 2\r\n\r\nok":                                              "!",
		"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok":                                                         "!",
		"HTTP/1.1 200 OK\r\nno colon\r\nContent-Length: 2\r\n\r\nok":                                              "!",
		"HTTP/1.1 200 OK\r\n: empty\r\nContent-Length: 2\r\n\r\nok":                                               "!",
		"HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok":                                                          "!",
		"HTTP/1.2 200 OK\r\nContent-Length: 2\r\n\r\nok":                                                          "!",
		"ICY 200 OK\r\nContent-Length: 2\r\n\r\nok":                                                               "!",
		"HTTP/1.1  200 OK\r\nContent-Length: 2\r\n\r\nok":                                                         "!",
		"HTTP/1.1 20 OK\r\nContent-Length: 2\r\n\r\nok":                                                           "!",
		"HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\nok":                                                         "!",
		"HTTP/1.1 099 OK\r\nContent-Length: 2\r\n\r\nok":                                                          "!",
		"HTTP/1.1 +20 OK\r\nContent-Length: 2\r\n\r\nok":                                                          "!",
		"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n":                                                            "!",
		"HTTP/1.1 103 Hints\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok":         "!",
		strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 6) + "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n":     "!",

		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\nok\n0\n\n":                                                      "!",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\nok\r\n0\r\n\r\n":                                             "!",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x2\r\nok\r\n0\r\n\r\n":                                            "!",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000002\r\nok\r\n0\r\n\r\n":                              "!",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok!\r\n0\r\n\r\n":                                             "!",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;" + strings.Repeat("x", 5000) + "\r\nok\r\n0\r\n\r\n":            "!",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1;"+strings.Repeat("x", 1000)+"\r\no\r\n", 30): "!",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n" + strings.Repeat("A: b\r\n", 1000) + "\r\n":      "!",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nno colon\r\n\r\n":                                  "!",
	} {
		a := overTCP(t, func(l *link) {
			for call, ok := l.next(); ok; call, ok = l.next() {
				if call == "1:10" {
					l.say(head)
				} else {
					l.say(reply("length", call))
				}
				if call == "1:10" && want == "!" {
					return
				}
			}
		})
		tr := plainhttp.New(nil)
		got, err := ask(tr, a.call(t.Context(), 1, 10))
		if want == "!" && err == nil || want != "!" && (err != nil || got != want) {
			t.Errorf("%.120q = %q, %v, want %q", head, got, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "xxx") {
			t.Errorf("%.120q: the error repeats the reply: %.200q", head, err)
		}
		a.want(tr, 2)
		tr.CloseIdleConnections()
	}
}

// What a server says unasked is nobody's reply, whether it comes with another one or later.
func TestSurplus(t *testing.T) {
	t.Parallel()
	poison := "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"
	for _, first := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		"HTTP/1.1 204 None\r\n\r\n",
		"HTTP/1.1 304 Same\r\nContent-Length: 2\r\n\r\n",
	} {
		for _, surplus := range []string{poison, "\r\n", "x", ""} { // "": it closes the connection
			for _, later := range []bool{false, true} {
				ready := make(chan struct{})
				a := overTCP(t, func(l *link) {
					for call, ok := l.next(); ok; call, ok = l.next() {
						switch {
						case l.index > 0:
							l.say(reply("length", call))
							continue
						case later:
							l.say(first)
							<-ready
							l.say(surplus)
						default:
							l.say(first + surplus)
						}
						if surplus == "" {
							return
						}
					}
				})
				var conns []net.Conn
				tr := plainhttp.New(&plainhttp.Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
					c, err := new(net.Dialer).DialContext(ctx, network, address)
					conns = append(conns, c)
					return c, err
				}})
				if _, err := ask(tr, a.call(t.Context(), 1, 10)); err != nil {
					t.Errorf("%q, then %q: %v", first, surplus, err)
				}
				close(ready)
				if later || surplus == "" {
					awaitInput(t, conns[0])
				}
				a.want(tr, 2)
				if len(conns) != 2 {
					t.Errorf("%q, then %q, later %t: %d connections, want 2", first, surplus, later, len(conns))
				}
				tr.CloseIdleConnections()
			}
		}
	}
}

// The same where the system cannot tell whether there is something to read.
func TestSurplusUnseen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, tr := overPipes(t, func(l *link) {
			for call, ok := l.next(); ok; call, ok = l.next() {
				l.say(reply("length", call))
				if l.index == 0 {
					l.say("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison")
				}
			}
		})
		a.want(tr, 1)
		a.want(tr, 2)
		a.want(tr, 3)
		if len(a.links) != 2 {
			t.Errorf("%d connections, want 2", len(a.links))
		}
		tr.CloseIdleConnections()
		a.check()
	})
}

// A connection dies in the moment it is used again. Requests that change nothing are sent once more, on a new
// connection; others only where not a byte of them has left.
func TestStale(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		call   int
		size   int
		unsent bool // the system refuses the write
		again  bool // the call succeeds
		sent   int  // requests that the upstream has read
	}{
		{"POST", 7, 10, false, false, 1},
		{"POST, long", 7, 200_000, false, false, 1},
		{"POST, not sent", 7, 10, true, true, 1},
		{"POST that outgrows a buffer, not sent", 7, 9000, true, true, 1},
		{"POST, long, not sent", 7, 200_000, true, true, 1},
		{"GET", -7, 10, false, true, 2},
		{"GET that outgrows a buffer", -7, 9000, false, true, 2},
		{"GET, not sent", -7, 9000, true, true, 1},
	} {
		for _, replayable := range []bool{true, false} {
			name := fmt.Sprintf("%s:%d", strconv.Itoa(tt.call), tt.size)
			var mu sync.Mutex
			sent := 0
			a := overTCP(t, func(l *link) {
				for call, ok := l.next(); ok; call, ok = l.next() {
					if call == name {
						mu.Lock()
						sent++
						mu.Unlock()
						if l.index == 0 {
							return
						}
					}
					l.say(reply("length", call))
				}
			})
			var last *refusing
			tr := plainhttp.New(&plainhttp.Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				c, err := new(net.Dialer).DialContext(ctx, network, address)
				if err != nil {
					return nil, err
				}
				last = &refusing{TCPConn: c.(*net.TCPConn)}
				return last, nil
			}})
			a.want(tr, 1)
			last.refuses = tt.unsent
			req := a.call(t.Context(), tt.call, tt.size)
			if !replayable {
				req.GetBody = nil
			}
			got, err := ask(tr, req)
			if want := tt.again && replayable; want != (err == nil) || want && got != "reply to "+name {
				t.Errorf("%s, replayable %t: %q, %v, want success: %t", tt.name, replayable, got, err, want)
			}
			a.want(tr, 2)
			tr.CloseIdleConnections()
			mu.Lock()
			want := tt.sent
			if !replayable {
				want = 1
				if tt.unsent {
					want = 0
				}
			}
			if sent != want {
				t.Errorf("%s, replayable %t: the upstream read it %d times, want %d", tt.name, replayable, sent, want)
			}
			mu.Unlock()
		}
	}
}

// refusing is a connection whose writes can fail before a byte has left.
type refusing struct {
	*net.TCPConn
	refuses bool
}

func (r *refusing) Write(p []byte) (int, error) {
	if r.refuses {
		return 0, errors.New("broken pipe")
	}
	return r.TCPConn.Write(p)
}

// An upstream that closes every connection as it is used again has a request sent twice at most, however
// many connections there are.
func TestStaleOnce(t *testing.T) {
	t.Parallel()
	const idle = 5
	begun, held := make(chan struct{}, idle), make(chan struct{})
	a := overTCP(t, func(l *link) {
		for call, ok := l.next(); ok; call, ok = l.next() {
			if strings.HasPrefix(call, "-") {
				return
			}
			begun <- struct{}{}
			<-held
			l.say(reply("length", call))
		}
	})
	tr := plainhttp.New(nil)
	defer tr.CloseIdleConnections()
	var calls sync.WaitGroup
	for i := range idle {
		calls.Go(func() { a.want(tr, i+1) })
	}
	for range idle { // all of them are under way at once
		<-begun
	}
	close(held)
	calls.Wait()
	if got, err := ask(tr, a.call(t.Context(), -1, 10)); err == nil {
		t.Errorf("GET = %q, want an error", got)
	} // how often it was sent is what check looks at
}

// Many callers share connections to an upstream that does something else each time.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	if text := os.Getenv("SLUICE_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	a := overTCP(t, func(l *link) {
		random := rand.New(rand.NewPCG(seed, uint64(l.index)))
		for call, ok := l.next(); ok; call, ok = l.next() {
			whole := reply(forms[random.IntN(3)], call)
			switch random.IntN(12) {
			case 0:
				return
			case 1:
				l.say(whole[:random.IntN(len(whole))])
				return
			case 2:
				l.say(whole[:random.IntN(len(whole))])
				l.reset()
				return
			case 3:
				l.say(whole)
				return
			case 4:
				l.say(whole + reply("length", "nobody"))
			case 5:
				l.say(reply("old", call))
				return
			default:
				l.say(whole)
			}
		}
	})
	tr := plainhttp.New(nil)
	defer tr.CloseIdleConnections()
	var callers sync.WaitGroup
	for caller := range 8 {
		callers.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(1000+caller)))
			for i := range 100 {
				n, size := caller*1000+i+1, []int{0, 10, 5000, 70_000}[random.IntN(4)]
				if random.IntN(3) == 0 {
					n = -n
				}
				got, err := ask(tr, a.call(t.Context(), n, size))
				if whole := fmt.Sprintf("reply to %d:%d", n, size); err == nil && got != whole {
					t.Errorf("SLUICE_SEED=%d: call %d = %q, want %q or an error", seed, n, got, whole)
				}
			}
		})
	}
	callers.Wait()
}
