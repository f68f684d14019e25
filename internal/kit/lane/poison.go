package lane

import (
	"errors"
	"net/http"
	"net/url"
)

// poisonBytes overwrites bytes that will be reused.
func poisonBytes(b []byte) {
	for i := range b {
		b[i] = 0xDB
	}
}

// errPoisoned is what a handler gets that uses its reply after it has returned.
var errPoisoned = errors.New("lane: used after its handler has returned")

// poison makes everything that the handler was given unusable, and gives the connection new ones. So
// a late use is found by the race detector if it really races, fails otherwise, and never
// reaches the next request or its reply.
func (c *conn) poison(r *http.Request) {
	// Its context stays: it is not reused.
	*r = *(&http.Request{Method: "POISONED", URL: &url.URL{Path: "/poisoned"}}).WithContext(r.Context())
	for _, h := range []http.Header{c.header, c.reply.header} {
		clear(h)
		h["Poisoned"] = []string{"poisoned"}
	}
	*c.url = url.URL{Path: "/poisoned"}
	c.url, c.header = &url.URL{}, make(http.Header, 8)

	// The copies keep what the connection still has to know of this request.
	b, w := *c.body, *c.reply
	*c.body = body{closed: true}
	*c.reply = reply{conn: c, header: c.reply.header, status: http.StatusOK, begun: true, err: errPoisoned}
	w.header, w.keys, w.trailers = make(http.Header, 16), nil, nil
	c.body, c.reply = &b, &w
}
