package lane

import (
	"net/http"
	"net/url"
)

// poisonBytes overwrites bytes that will be reused.
func poisonBytes(b []byte) {
	for i := range b {
		b[i] = 0xDB
	}
}

// poison makes everything that the handler was given unusable.
func (c *conn) poison(r *http.Request) {
	// A handler that kept the request now finds one that belongs to nobody. Its context stays: it
	// is not reused.
	*r = *(&http.Request{Method: "POISONED", URL: &url.URL{Path: "/poisoned"}}).WithContext(r.Context())
	for _, h := range []http.Header{c.header, c.reply.header} {
		clear(h)
		h["Poisoned"] = []string{"poisoned"}
	}
	// The maps are given up, so that a late write to them is found by the race detector only if it
	// really races, and never reaches the next reply.
	c.header, c.reply.header = make(http.Header, 8), make(http.Header, 16)
	c.url = url.URL{Path: "/poisoned"}
}
