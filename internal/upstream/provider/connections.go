package provider

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"sluice/internal/kit/plainhttp"
)

const (
	dialPatience  = 10 * time.Second // to connect, TLS included
	firstPatience = 5 * time.Minute  // until the headers come; a model may read a long prompt for minutes before
	idlePatience  = 90 * time.Second // a connection with TLS in the pool; one without has less, see plainhttp
	sessions      = 32               // TLS sessions that are kept for one upstream; a name may stand for many servers
)

// connections is the pool of connections to one upstream. Calls that need no proxy use package plainhttp, which
// costs less than net/http; all others use http.Transport, and so do long requests over TLS.
//
// A server that turns out to speak HTTP/2 alone is remembered in way, and served by full from then
// on.
type connections struct {
	plain  *plainhttp.Transport // nil if full makes every call
	secure *plainhttp.Transport // the same over TLS
	full   *http.Transport
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	start  func(ctx context.Context, network, address string) (net.Conn, error) // the same with TLS
	way    atomic.Pointer[served]                                               // of the last call, which is usually that of all; nil before the first
	onCall bool                                                                 // see PoolOptions
	direct bool                                                                 // no proxy is asked for
}

// way records which transport serves a host, so that the proxy settings are not read for each call.
type served struct {
	scheme, host string
	by           *plainhttp.Transport // nil if it is full
}

// PoolOptions are the choices of Connections; the zero value is the default.
type PoolOptions struct {
	// Standard makes http.Transport serve every call.
	Standard bool
	// OnCall makes connections only for calls: Client.Connect tries none.
	OnCall bool
	// Address is the host and port that every connection is made to, whatever the URLs of calls say, and without a proxy.
	// Names in URLs still are what servers must be able to prove. Empty: as the URLs say.
	Address string
	// TLS has the settings of connections with TLS, such as whom to trust. Default: those of the system.
	TLS *tls.Config
}

// Connections returns a pool that several adapters of one upstream may share as their Transport. connect bounds
// the time that a connection takes to be made. opts may be nil.
func Connections(connect time.Duration, opts *PoolOptions) http.RoundTripper {
	if opts == nil {
		opts = &PoolOptions{}
	}
	c := newConnections(connect, opts.TLS, opts.Address)
	c.onCall = opts.OnCall
	if opts.Standard {
		c.plain = nil
	}
	return c
}

// newConnections returns an empty pool. settings may be nil, and at, which is PoolOptions.Address, empty.
// Both kinds of transport share the cache of TLS sessions.
func newConnections(connect time.Duration, settings *tls.Config, at string) *connections {
	dial, proxy := (&net.Dialer{Timeout: connect, KeepAlive: 30 * time.Second}).DialContext, http.ProxyFromEnvironment
	if at != "" {
		toAny := dial
		dial = func(ctx context.Context, network, _ string) (net.Conn, error) { return toAny(ctx, network, at) }
		proxy = nil
	}
	if settings = settings.Clone(); settings == nil {
		settings = &tls.Config{}
	}
	// Sessions are resumed, so that a new connection costs no signatures.
	settings.ClientSessionCache = tls.NewLRUClientSessionCache(sessions)
	h1 := settings.Clone()
	h1.NextProtos = []string{"http/1.1"}
	start := func(ctx context.Context, network, address string) (net.Conn, error) {
		nc, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return handshake(ctx, nc, address, h1, connect)
	}
	return &connections{
		plain:  plainhttp.New(&plainhttp.Options{Dial: dial, Patience: -1}), // Client.do watches
		secure: plainhttp.New(&plainhttp.Options{Dial: start, Patience: -1, Secure: true, Idle: idlePatience}),
		dial:   dial, start: start, direct: at != "",
		full: &http.Transport{
			Proxy:                 proxy,
			DialContext:           dial,
			TLSClientConfig:       settings,
			TLSHandshakeTimeout:   connect,
			ForceAttemptHTTP2:     true,
			MaxIdleConns:          4096,
			MaxIdleConnsPerHost:   4096, // the default of 2 would make most of many calls dial again
			IdleConnTimeout:       idlePatience,
			ResponseHeaderTimeout: firstPatience,
			DisableCompression:    true, // a compressor holds events back until it has enough of them
		},
	}
}

// errNoHTTP1 means that a server speaks HTTP/2 alone.
var errNoHTTP1 = errors.New("the server does not speak HTTP/1.1")

// handshake starts TLS on a connection.
// It closes the connection if it fails. A handshake that is too slow is a time-out, not a
// cancellation: the caller's context is still alive.
func handshake(ctx context.Context, nc net.Conn, address string, settings *tls.Config, within time.Duration) (net.Conn, error) {
	settings = settings.Clone()
	settings.ServerName, _, _ = net.SplitHostPort(address)
	secure := tls.Client(nc, settings)
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	err := secure.HandshakeContext(limited)
	if err == nil {
		return secure, nil
	}
	_ = nc.Close() // it is of no use
	// The alert has no exported type.
	if strings.Contains(err.Error(), "tls: no application protocol") {
		return nil, fmt.Errorf("%w: %w", errNoHTTP1, err)
	}
	if limited.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("TLS handshake: %w", os.ErrDeadlineExceeded)
	}
	return nil, err
}

// RoundTrip implements http.RoundTripper.
// A long request over TLS goes to full, because plainhttp could not look for an early reply while
// it writes; see plainhttp.MaxSecure.
func (c *connections) RoundTrip(req *http.Request) (*http.Response, error) {
	by := c.choose(req.URL)
	if by == nil || by == c.secure && req.ContentLength > plainhttp.MaxSecure {
		return c.full.RoundTrip(req)
	}
	resp, err := by.RoundTrip(req)
	if by == c.plain || !errors.Is(err, errNoHTTP1) || req.GetBody == nil && req.Body != nil {
		return resp, err
	}
	// Nothing was sent, and no call will try again.
	c.way.Store(&served{scheme: req.URL.Scheme, host: req.URL.Host})
	again := *req
	if req.GetBody != nil {
		if again.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
	}
	return c.full.RoundTrip(&again)
}

// choose returns the transport that serves a URL, or nil if it is full.
func (c *connections) choose(u *url.URL) *plainhttp.Transport {
	if c.plain == nil {
		return nil
	}
	w := c.way.Load()
	if w == nil || w.host != u.Host || w.scheme != u.Scheme {
		w = &served{scheme: u.Scheme, host: u.Host}
		if !c.proxied(u) {
			switch u.Scheme {
			case "http":
				w.by = c.plain
			case "https":
				w.by = c.secure
			}
		}
		c.way.Store(w)
	}
	return w.by
}

// proxied reports whether calls of a URL go through a proxy, or cannot be made because the proxy's settings are wrong.
func (c *connections) proxied(u *url.URL) bool {
	if c.direct {
		return false
	}
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u})
	return proxy != nil || err != nil
}

// reach connects to the host of a URL and closes the connection. A server that speaks HTTP/2 alone is there, too.
func (c *connections) reach(ctx context.Context, u *url.URL) error {
	if c.onCall || c.proxied(u) {
		return ErrNotTried
	}
	connect, port := c.dial, "80"
	if u.Scheme == "https" {
		connect, port = c.start, "443"
	}
	nc, err := connect(ctx, "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port)))
	if errors.Is(err, errNoHTTP1) {
		return nil
	}
	if err != nil {
		return err
	}
	return nc.Close()
}

// close closes idle connections.
func (c *connections) close() {
	if c.plain != nil {
		c.plain.CloseIdleConnections()
		c.secure.CloseIdleConnections()
	}
	c.full.CloseIdleConnections()
}
