package provider

import (
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"sluice/internal/plainhttp"
)

const (
	dialPatience  = 10 * time.Second
	firstPatience = 5 * time.Minute // a long prompt may be read for minutes before anything comes
)

// connections is the pool to one upstream: calls are many and long. What needs neither TLS nor a proxy
// goes the plain way, which costs less: see package plainhttp.
type connections struct {
	plain *plainhttp.Transport // nil: everything goes through full
	full  *http.Transport
	way   atomic.Pointer[way] // of the last call; mostly that of all
}

// way says which of the two serves a host.
type way struct {
	scheme, host string
	plain        bool
}

// PoolOptions are the choices of Connections; the zero value is the default.
type PoolOptions struct {
	// Standard has http.Transport make every call, those without TLS as well.
	Standard bool
}

// Connections is a pool that several adapters of one upstream may share, as their Transport. A
// connection may take as long as connect to be made.
func Connections(connect time.Duration, opts *PoolOptions) http.RoundTripper {
	c := newConnections(connect)
	if opts != nil && opts.Standard {
		c.plain = nil
	}
	return c
}

func newConnections(connect time.Duration) *connections {
	dial := (&net.Dialer{Timeout: connect, KeepAlive: 30 * time.Second}).DialContext
	return &connections{
		plain: plainhttp.New(&plainhttp.Options{Dial: dial, Patience: firstPatience}),
		full: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           dial,
			TLSHandshakeTimeout:   connect,
			ForceAttemptHTTP2:     true,
			MaxIdleConns:          4096,
			MaxIdleConnsPerHost:   4096,
			IdleConnTimeout:       90 * time.Second,
			ResponseHeaderTimeout: firstPatience,
			DisableCompression:    true, // a compressed stream would be held back
		},
	}
}

// RoundTrip implements http.RoundTripper.
func (c *connections) RoundTrip(req *http.Request) (*http.Response, error) {
	if c.plain == nil {
		return c.full.RoundTrip(req)
	}
	w := c.way.Load()
	if w == nil || w.host != req.URL.Host || w.scheme != req.URL.Scheme {
		proxy, err := http.ProxyFromEnvironment(req)
		w = &way{scheme: req.URL.Scheme, host: req.URL.Host, plain: req.URL.Scheme == "http" && proxy == nil && err == nil}
		c.way.Store(w)
	}
	if w.plain {
		return c.plain.RoundTrip(req)
	}
	return c.full.RoundTrip(req)
}

// close drops the connections that nobody uses.
func (c *connections) close() {
	if c.plain != nil {
		c.plain.CloseIdleConnections()
	}
	c.full.CloseIdleConnections()
}
