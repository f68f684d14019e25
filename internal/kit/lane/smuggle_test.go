package lane

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// smuggled hides behind the first request of each attack. A server that finds it there has been led
// to see two requests where others see one.
const smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"

// attacks are the public classes of request smuggling, and what other parsers were found to disagree
// on. Each is a request that must not be served by the lane itself.
var attacks = map[string][]string{
	"CL.CL": {
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 35\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 35\r\nContent-Length: 0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\ncontent-length: 0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0, 35\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 35\r\n\r\n",
		"HEAD / HTTP/1.1\r\nHost: x\r\nContent-Length: 35\r\n\r\n",
	},
	"CL.TE": {
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 40\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	},
	"TE.CL": {
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n23\r\n" + smuggled + "\r\n0\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n",
	},
	"TE.TE": {
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:chunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTRANSFER-ENCODING: CHUNKED\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked,\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\x00\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nX: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nX: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: \r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTE: trailers\r\nTrailer: Content-Length\r\n\r\n",
	},
	"chunks": {
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;\nx\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\nx\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nx\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1_0\r\nx\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000001\r\nx\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\nx\n0\n\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxyy0\r\n\r\n",
	},
	"obs-fold": {
		"POST / HTTP/1.1\r\nHost: x\r\nA: b\r\n Content-Length: 35\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length:\r\n 35\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n 5\r\n\r\n",
		"POST / HTTP/1.1\r\n Host: x\r\nContent-Length: 0\r\n\r\n",
	},
	"bare CR": {
		"POST / HTTP/1.1\rHost: x\rContent-Length: 0\r\r",
		"POST / HTTP/1.1\r\nHost: x\r\nA: b\rContent-Length: 35\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\r\n",
		"GET /\r HTTP/1.1\r\nHost: x\r\n\r\n",
	},
	"bare LF": {
		"POST / HTTP/1.1\nHost: x\nContent-Length: 0\n\n",
		"POST / HTTP/1.1\r\nHost: x\nContent-Length: 0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nA: b\nContent-Length: 35\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nA: \n\r\n\r\n",
	},
	"space before colon": {
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length : 35\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length\t: 35\r\n\r\n",
		"POST / HTTP/1.1\r\nHost : x\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent Length: 35\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\n Content-Length: 35\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length\x0b: 35\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length\xa0: 35\r\n\r\n",
	},
	"NUL": {
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\x00\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-\x00Length: 35\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\x00y\r\n\r\n",
		"POST /\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST / HTTP/1.1\x00\r\nHost: x\r\n\r\n",
		"\x00POST / HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nA: \x00\r\n\r\n",
	},
	"numbers": {
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551651\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4294967331\r\nContent-Length: 0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9223372036854775808\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0x23\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 23h\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 035\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3_5\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3 5\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 35.0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 35;\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: \"35\"\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: \r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length:\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: \xd9\xa3\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\x0b\r\n\r\n",
	},
	"Host": {
		"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nhost: x\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x, y\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x@y\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x/y\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x#y\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x y\r\n\r\n",
		"GET / HTTP/1.1\r\nHost:\r\n\r\n",
		"GET / HTTP/1.1\r\n\r\n",
		"GET / HTTP/1.1\r\nHost\r\n\r\n",
	},
	"target": {
		"GET http://y/ HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET https://y HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET //y/ HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET y HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET * HTTP/1.1\r\nHost: x\r\n\r\n",
		"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /a%2f..%2fb HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /a\\b HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /a#b HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /?\"a HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /a HTTP/1.1 HTTP/1.1\r\nHost: x\r\n\r\n",
	},
	"tabs": {
		"GET\t/ HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /\tHTTP/1.1\r\nHost: x\r\n\r\n",
		"GET / HTTP/1.1\t\r\nHost: x\r\n\r\n",
		"GET / HTTP/1.1\r\n\tHost: x\r\n\r\n",
		"GET  / HTTP/1.1\r\nHost: x\r\n\r\n",
	},
	"first line": {
		"GET /\r\nHost: x\r\n\r\n",
		"GET / HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n",
		"GET / HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n",
		"GET / HTTP/1.2\r\nHost: x\r\n\r\n",
		"GET / HTTP/2.0\r\nHost: x\r\n\r\n",
		"GET / HTTP/01.1\r\nHost: x\r\n\r\n",
		"GET / http/1.1\r\nHost: x\r\n\r\n",
		"get / HTTP/1.1\r\nHost: x\r\n\r\n",
		"Post / HTTP/1.1\r\nHost: x\r\n\r\n",
		"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
		"\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
		" GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	},
	"hop by hop": {
		"POST / HTTP/1.1\r\nHost: x\r\nConnection: close, Content-Length\r\nContent-Length: 0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continuee\r\nContent-Length: 0\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nProxy-Connection: close\r\n\r\n",
	},
	"long": {
		"GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("A: b\r\n", maxLines) + "\r\n",
		"GET /" + strings.Repeat("a", bufferSize) + " HTTP/1.1\r\nHost: x\r\n\r\n",
	},
}

// Every attack is refused, or left to net/http: the lane does not serve it, wherever it is cut, alone
// or behind a request that the lane has served. What is hidden behind it is found only by both.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	step := 40
	if os.Getenv("SLUICE_SOAK") != "" {
		step = 1
	}
	p := newPair(t)
	for class, requests := range attacks {
		for _, request := range requests {
			for name, raw := range map[string]string{"alone": request, "with another behind": request + smuggled, "behind another": "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello" + request + smuggled} {
				p.front.wasHanded()
				p.compare(t, cut([]byte(raw)))
				if !p.front.wasHanded() {
					t.Errorf("%s, %s: %q was served by the lane", class, name, raw)
				}
			}
			for at := 1; at < min(len(request), 300); at += step {
				p.compare(t, cut([]byte(request+smuggled), at))
			}
		}
	}
}

// A head is served up to the last byte of the buffer, and is the same with one byte more.
func TestLongestHead(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	for _, method := range []string{"GET", "POST"} {
		for size := bufferSize - 3; size <= bufferSize+3; size++ {
			end := "\r\n\r\n"
			if method == "POST" {
				end = "\r\nContent-Length: 5\r\n\r\n"
			}
			head := method + " / HTTP/1.1\r\nHost: x\r\nA: "
			head += strings.Repeat("a", size-len(head)-len(end)) + end
			body := "hello"
			if method == "GET" {
				body = ""
			}
			for _, raw := range []string{head + body, head + body + smuggled, smuggled + head + body + smuggled} {
				for _, at := range []int{0, len(raw) / 2, bufferSize - 1, bufferSize, bufferSize + 1} {
					p.front.wasHanded()
					p.compare(t, cut([]byte(raw), at))
					if handed := p.front.wasHanded(); handed != (size > bufferSize) {
						t.Errorf("a head of %d bytes, cut at %d: handed over %t", size, at, handed)
					}
				}
			}
		}
	}
	lines := func(n int) string {
		return fmt.Sprintf("GET / HTTP/1.1\r\nHost: x\r\n%s\r\n", strings.Repeat("A: b\r\n", n-1))
	}
	for n, plain := range map[int]bool{maxLines - 1: true, maxLines: true, maxLines + 1: false} {
		p.front.wasHanded()
		p.compare(t, cut([]byte(lines(n))))
		if p.front.wasHanded() == plain {
			t.Errorf("%d lines: handed over %t", n, !plain)
		}
	}
}
