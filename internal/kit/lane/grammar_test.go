package lane

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"
)

// choices is a list of decisions, one byte each. What a generator makes depends on nothing else, so
// the fuzzer changes requests by changing decisions. At the end of the list every decision is 0,
// which is the plain one.
type choices []byte

// n decides between n things, at most 256.
func (c *choices) n(n int) int {
	if len(*c) == 0 {
		return 0
	}
	b := (*c)[0]
	*c = (*c)[1:]
	return int(b) % n
}

// of decides between texts: in one of sixteen cases for an odd one.
func (c *choices) of(plain, odd []string) string {
	if i := c.n(256); i < 240 {
		return plain[i%len(plain)]
	}
	return odd[c.n(len(odd))]
}

// What requests are made of: what the lane serves, and what it must not be sure of.
var (
	methodWords = []string{"GET", "POST", "POST", "HEAD"}
	oddMethods  = []string{"PUT", "DELETE", "OPTIONS", "CONNECT", "TRACE", "PATCH", "get", "Post", "GE T", "POST\t", "", "X-Y", "G\x00T", "PRI", "POSTS", " GET"}

	targets = []string{"/", "/x", "/v1/chat/completions", "/a?b=c", "/unread", "/stream", "/a/../b", "/$&+=,;", "/x?y=%41&z=1"}
	// steps are below /do/, see mirror.
	steps      = []string{"r", "r3", "w5", "w2000", "w9000", "f", "s200", "s204", "s304", "s404", "s799", "l5", "l0", "l9000", "c0", "c1", "p", "e", "h1", "h2", "k", "n0", "n1", "z", "d", "t1", "x"}
	oddTargets = []string{"*", "http://h/p", "https://h", "//h/p", "/a%2fb", "/%", "/a b", "/x?", "/x??y", "/x#f", "x", "", "/\x00", "/\x7f", "/ä", "/a\tb", "/\\", "/x?\"", "/x?<", "/x?[]", "h:443", "/!", "/a%41", "/'", "/(", "/|", "/x?a|b", "/x?`", "/a:b", "/?/?"}

	versions    = []string{"HTTP/1.1"}
	oddVersions = []string{"HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "HTTP/0.9", "HTTP/1.1 ", " HTTP/1.1", "http/1.1", "HTTP/01.1", "HTTP/1.10", "HTTP/1,1", "HTTP/11", "", "HTTP/1.1\t", "HTTP/1.1\r", "HTTP/1", "HTTP/+1.1"}

	hosts    = []string{"Host: x", "host: h.example:80", "HOST:  [::1]:8080 "}
	oddHosts = []string{"Host:", "Host: ", "", "Host: x\r\nHost: y", "Host: x\r\nhost: x", "Host : x", "Host: x y", "Host: x/y", "Host: x,y", "Host: \x00", "Host: ä", "Host:\tx", " Host: x", "Host: u@x", "Host: x\r\n y", "Host: %41", "Host: ]["}

	lines    = []string{"A: b", "a:b", "Accept: */*", "Authorization: Bearer k", "Cookie: a=b", "User-Agent: x y", "X-Empty:", "X-Tabs:\ta\tb\t", "X-High: \xe4\xff", "Connection: keep-alive", "Connection: close", "Connection: Keep-Alive", "Content-Type: application/json", "x-LONG-name_1!#$%&'*+.^`|~: v", "Content-length-x: 7"}
	oddLines = []string{
		"Connection: Close", "Connection: close, keep-alive", "Connection: keep-alive, close", "Connection: upgrade", "Connection:", "Connection: x", "Connection: close\r\nConnection: keep-alive", "Proxy-Connection: close", "Keep-Alive: timeout=5",
		"Expect: 100-continue", "Expect: 100-Continue", "Expect: x", "Expect:", "Upgrade: h2c", "Upgrade: websocket\r\nConnection: Upgrade", "HTTP2-Settings: x", "TE: trailers", "Trailer: X-T", "Trailer: Content-Length", "Pragma: no-cache",
		"A : b", "A\t: b", " A: b", "\tA: b", "A: b\r\n c", "A: b\r\n\tc", "A", ":", ": b", "A\x00: b", "A: \x00", "A: b\x7f", "A: b\rC: d", "A: b\nC: d", "A: b\r\r", "Ä: b", "A(: b", "A: \x0b", "A: \x1f", "\"A\": b", "A: b\n", "\r", "Cache-Control: x\r\nPragma: no-cache",
	}

	lengths    = []string{"", "="}
	oddLengths = []string{"+=", "-=", "0=", "0x=", "=, =", "=,", " = ", "=\t", "= =", "==", "=.0", "=e0", "-0", "-1", "99999999999999999999", "18446744073709551616", "9223372036854775807", "x", "\"=\"", "=;", "_=", "=\r\nContent-Length: =", "=\r\nContent-Length: 0", "=\r\ncontent-length: =", "٣", "=\x00", "4294967296", "00", "\r\n ="}

	codings    = []string{""}
	oddCodings = []string{"chunked", "Chunked", "chunked, chunked", "gzip, chunked", "identity", "chunked;x", " chunked", "chunked\t", "\x0bchunked", "xchunked", "chunked, identity", "\"chunked\"", "", "chunked\r\nTransfer-Encoding: x", "chunked\r\nTransfer-Encoding: chunked", "chunked\x00", "chu\r\n nked", "chunked,", ",chunked", "x"}

	bodies    = []string{"", "hello", "{}", "a"}
	oddBodies = []string{"\r\n", "\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "0\r\n\r\n", "\x00\xff", "5\r\nhello\r\n0\r\n\r\n"}

	// chunks are written for bodies that say they are chunked. @ stands for the body's size in hex and = for the body.
	chunkForms = []string{"@\r\n=\r\n0\r\n\r\n"}
	oddChunks  = []string{"@;x=y\r\n=\r\n0\r\n\r\n", "@ \r\n=\r\n0\r\n\r\n", "0@\r\n=\r\n00\r\n\r\n", "0x@\r\n=\r\n0\r\n\r\n", "@\n=\n0\n\n", "@\r\n=\r\n0\r\nX-T: v\r\n\r\n", "@\r\n=0\r\n\r\n", "@\r\n=\r\n0\r\n", "@\r\n=\r\n", "-@\r\n=\r\n0\r\n\r\n", "+@\r\n=\r\n0\r\n\r\n", "ffffffffffffffff\r\n=", "@\r\n=\r\n0\r\n\r\n\r\n", "@\r\n=\r\n0\r\nContent-Length: 9\r\n\r\n", "\r\n", "@\r=\r\n0\r\n\r\n", "@;\r\n=\r\n0;\r\n\r\n", "@\r\n=xx0\r\n\r\n"}

	ends    = []string{"\r\n"}
	oddEnds = []string{"\n", "\r", "\r\r\n", "", "\n\r", " \r\n", "\r\n\r\n", "\x00\r\n"}

	// gaps are between two requests.
	gaps    = []string{""}
	oddGaps = []string{"\r\n", "\n", "\r\n\r\n", "\r\n\r\n\r\n", "\n\n\n\n", " ", "\x00", "garbage", "\r", "G", "0\r\n\r\n", "\r\nG"}
)

// request generates one request.
func (c *choices) request() []byte {
	var b []byte
	end := func() { b = append(b, c.of(ends, oddEnds)...) }
	method := c.of(methodWords, oddMethods)
	b = append(append(b, method...), ' ')
	if c.n(3) == 2 {
		b = append(b, "/do/"...)
		for range c.n(6) {
			b = append(append(b, steps[c.n(len(steps))]...), ',')
		}
	} else {
		b = append(b, c.of(targets, oddTargets)...)
	}
	b = append(append(b, ' '), c.of(versions, oddVersions)...)
	end()
	if host := c.of(hosts, oddHosts); host != "" {
		b = append(b, host...)
		end()
	}
	for range c.n(4) {
		b = append(b, c.of(lines, oddLines)...)
		end()
	}
	if c.n(60) == 59 { // around the end of the buffer
		b = fmt.Appendf(b, "X-Long: %s\r\n", strings.Repeat("l", bufferSize-len(b)%bufferSize-70+c.n(140)))
	}
	body := c.of(bodies, oddBodies)
	if method == "GET" || method == "HEAD" {
		body = ""
	}
	length, coding := c.of(lengths, oddLengths), c.of(codings, oddCodings)
	if body != "" && length == "" && coding == "" {
		length = "="
	}
	before := c.n(2) == 0
	if length != "" && before {
		b = fmt.Appendf(b, "Content-Length: %s", strings.ReplaceAll(length, "=", fmt.Sprint(len(body))))
		end()
	}
	if coding != "" {
		b = append(append(b, "Transfer-Encoding: "...), coding...)
		end()
		if c.n(4) != 3 {
			form := strings.ReplaceAll(c.of(chunkForms, oddChunks), "@", fmt.Sprintf("%x", len(body)))
			body = strings.ReplaceAll(form, "=", body)
		}
	}
	if length != "" && !before {
		b = fmt.Appendf(b, "Content-Length: %s", strings.ReplaceAll(length, "=", fmt.Sprint(len(body))))
		end()
	}
	end()
	b = append(b, body...)
	if c.n(40) == 39 { // cut off, or with something lost
		at := c.n(len(b))
		b = append(b[:at:at], b[min(len(b), at+c.n(256)):]...)
	}
	return b
}

// script generates a pipeline of one to five requests, cut into parts. The last one tells in which
// state the others have left the connection.
func (c *choices) script() script {
	var s script
	waits, cuts := c.n(2) == 1, c.n(3)
	for range 1 + c.n(5) {
		one := c.request()
		s = append(s, part{bytes: one, wait: waits && len(one) > 0 && isWhole(append(s.bytes(), one...))})
		if gap := c.of(gaps, oddGaps); gap != "" {
			s = append(s, part{bytes: []byte(gap)})
		}
	}
	s = append(s, part{bytes: []byte("GET /last HTTP/1.1\r\nHost: x\r\n\r\n")})
	if !waits {
		s = script{{bytes: s.bytes()}}
	}
	for range cuts {
		i := c.n(len(s))
		whole := s[i]
		at := (c.n(256)<<8 | c.n(256)) % (len(whole.bytes) + 1)
		s = append(s[:i:i], append(script{{bytes: whole.bytes[:at]}, {bytes: whole.bytes[at:], wait: whole.wait}}, s[i+1:]...)...)
	}
	return s
}

// bytes returns all that is sent.
func (s script) bytes() (b []byte) {
	for _, p := range s {
		b = append(b, p.bytes...)
	}
	return b
}

// isWhole reports whether b is nothing but requests that net/http can read, so that a server replies
// to the last one without reading more, or has closed the connection before.
func isWhole(b []byte) bool {
	for r := bufio.NewReader(bytes.NewReader(b)); ; {
		req, err := http.ReadRequest(r)
		if err != nil || req.ProtoMajor != 1 {
			return false
		}
		if _, err = io.Copy(io.Discard, req.Body); err != nil {
			return false
		}
		if _, err = r.Peek(1); err != nil {
			return true
		}
	}
}

// Generated pipelines are the same to the lane and to net/http.
func TestGenerated(t *testing.T) {
	t.Parallel()
	rounds := 500
	if os.Getenv("SLUICE_SOAK") != "" {
		rounds = 50_000
	}
	seed := seed(t)
	p := newPair(t)
	r := rand.New(rand.NewPCG(seed, 1))
	served, aside := 0, 0
	for range rounds {
		c := make(choices, 400)
		for i := range c {
			// As many zeros as others: an odd part shows its effect best among plain ones.
			if r.IntN(2) == 0 {
				c[i] = byte(r.Uint32())
			}
		}
		p.front.wasHanded()
		if p.compare(t, c.script()); t.Failed() {
			return
		}
		if p.front.wasHanded() {
			aside++
		} else {
			served++
		}
	}
	// A generator that makes only one kind tests nothing.
	if served < rounds/20 || aside < rounds/20 {
		t.Errorf("%d pipelines were served by the lane alone and %d were handed over, want many of both", served, aside)
	}
}

// FuzzGenerated looks for pipelines that the lane and net/http answer differently.
func FuzzGenerated(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 30 {
		c := make([]byte, 100)
		for i := range c {
			if r.IntN(2) == 0 {
				c[i] = byte(r.Uint32())
			}
		}
		f.Add(c)
	}
	p := newPair(f)
	f.Fuzz(func(t *testing.T, decisions []byte) {
		if len(decisions) > 1000 {
			t.Skip("more decisions than a pipeline has")
		}
		c := choices(decisions)
		p.compare(t, c.script())
	})
}
