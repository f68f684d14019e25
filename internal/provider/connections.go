package provider

import (
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"sluice/internal/plainhttp"
)

const (
	dialPatience  = 10 * time.Second // to connect, TLS included
	firstPatience = 5 * time.Minute  // until the headers come; a model may read a long prompt for minutes before
)

// connections is the pool of connections to one upstream. Calls that need neither TLS nor a proxy use package
// plainhttp, which costs less than net/http; all others use http.Transport.
type connections struct {
	plain *plainhttp.Transport // nil if full makes every call
	full  *http.Transport
	way   atomic.Pointer[way] // of the last call, which is usually that of all; nil before the first
}

// way records which transport serves a host, so that the proxy settings are not read for each call.
type way struct {
	scheme, host string
	plain        bool
}

// PoolOptions are the choices of Connections; the zero value is the default.
type PoolOptions struct {
	// Standard makes http.Transport serve every call, also those without TLS.
	Standard bool
}

// Connections returns a pool that several adapters of one upstream may share as their Transport. connect bounds
// the time that a connection takes to be made. opts may be nil.
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
		plain: plainhttp.New(&plainhttp.Options{Dial: dial, Patience: -1}), // Client.do watches
		full: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           dial,
			TLSHandshakeTimeout:   connect,
			ForceAttemptHTTP2:     true,
			MaxIdleConns:          4096,
			MaxIdleConnsPerHost:   4096, // the default of 2 would make most of many calls dial anew
			IdleConnTimeout:       90 * time.Second,
			ResponseHeaderTimeout: firstPatience,
			DisableCompression:    true, // a compressor holds events back until it has enough of them
		},
	}
}

// RoundTrip implements http.RoundTripper.
func (c *connections) RoundTrip(req *http.Request) (*http.Response, error) {
	if c.isPlain(req.URL) {
		return c.plain.RoundTrip(req)
	}
	return c.full.RoundTrip(req)
}

// isPlain reports whether calls of a URL need neither TLS nor a proxy.
func (c *connections) isPlain(u *url.URL) bool {
	if c.plain == nil {
		return false
	}
	w := c.way.Load()
	if w == nil || w.host != u.Host || w.scheme != u.Scheme {
		proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u})
		w = &way{scheme: u.Scheme, host: u.Host, plain: u.Scheme == "http" && proxy == nil && err == nil}
		c.way.Store(w)
	}
	return w.plain
}

// close closes idle connections.
func (c *connections) close() {
	if c.plain != nil {
		c.plain.CloseIdleConnections()
	}
	c.full.CloseIdleConnections()
}
