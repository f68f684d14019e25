// Package netguard makes HTTP clients for URLs that callers supply.
//
// Such a client reaches the public internet and nothing else, which prevents server-side request
// forgery. An address is checked when it is dialed, after name resolution, so neither an unusual
// spelling nor a name that resolves differently the second time gets past the check. Every redirect
// is checked in the same way. The caller's headers go to the named server only.
package netguard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"time"
)

// ErrRefused means that an address is not public and the operator has not allowed it.
var ErrRefused = errors.New("the address is not public")

// Options are the optional settings of New. The zero value is the default.
type Options struct {
	// Allow lists hosts that may be reached whatever addresses they have: names or IP addresses,
	// with or without a port.
	Allow []string
	// Resolver resolves names. If nil, the system's resolver is used.
	Resolver *net.Resolver
}

// Guard dials for all the clients that it makes. They share one pool of connections. A Guard is
// safe for concurrent use.
type Guard struct {
	// allowed holds the allowed hosts, with and without a port, in the form that hostKey returns.
	// It does not change after New.
	allowed map[string]bool
	// open dials hosts that are allowed by name. guarded dials everything else and checks each
	// address that the name resolves to.
	open      net.Dialer
	guarded   net.Dialer
	transport *http.Transport
}

const (
	// dialTimeout bounds connecting and, separately, the TLS handshake.
	dialTimeout = 10 * time.Second
	// idleTimeout is how long an unused connection is kept, and the interval of TCP keep-alives.
	idleTimeout = 30 * time.Second
	// maxIdlePerHost is how many unused connections to one host are kept. Callers of a popular server would dial for nearly
	// every request if it were smaller than the number of those who call at once.
	maxIdlePerHost = 64
	// maxHeader bounds the response headers in bytes, so that a server cannot fill our memory.
	maxHeader = 64 << 10
)

// notPublic is Azure's platform address. It looks like a public address but leads to the virtual
// machine's host, so it exposes the inside of a cloud.
var notPublic = netip.MustParsePrefix("168.63.129.16/32")

// New returns a guard. A nil opts means the defaults. Call Close to release idle connections.
func New(opts *Options) *Guard {
	if opts == nil {
		opts = &Options{}
	}
	g := &Guard{allowed: make(map[string]bool, len(opts.Allow))}
	for _, entry := range opts.Allow {
		host, port, err := net.SplitHostPort(entry)
		if err != nil {
			// The entry has no port. An IPv6 address may still be in brackets.
			host, port = strings.Trim(entry, "[]"), ""
		}
		g.allowed[hostKey(host, port)] = true
	}
	g.open = net.Dialer{Timeout: dialTimeout, KeepAlive: idleTimeout, Resolver: opts.Resolver}
	g.guarded = g.open
	// Control runs for each resolved address, right before connect. This is the only place where
	// the check cannot be bypassed by a name that resolves differently the next time.
	g.guarded.Control = func(network, address string, c syscall.RawConn) error {
		if host, port, err := net.SplitHostPort(address); err == nil && g.allows(host, port) {
			return nil
		}
		if err := internet().Safe(network, address, c); err != nil {
			return fmt.Errorf("%w: %w", ErrRefused, err)
		}
		return nil
	}
	g.transport = &http.Transport{
		Proxy:                  nil, // a proxy would dial for us, without the check
		DialContext:            g.dial,
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    dialTimeout,
		IdleConnTimeout:        idleTimeout,
		MaxIdleConns:           256,
		MaxIdleConnsPerHost:    maxIdlePerHost,
		MaxResponseHeaderBytes: maxHeader,
		DisableCompression:     true, // a small compressed reply could expand to a huge one
	}
	return g
}

// Close closes idle connections. Connections in use are not affected.
func (g *Guard) Close() { g.transport.CloseIdleConnections() }

// dial connects to the host and port of a URL. A host that is allowed by name may have any address.
func (g *Guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if host, port, err := net.SplitHostPort(address); err == nil && g.allows(host, port) {
		return g.open.DialContext(ctx, network, address)
	}
	return g.guarded.DialContext(ctx, network, address)
}

// allows reports whether the operator allowed the host, on every port or on this one.
func (g *Guard) allows(host, port string) bool {
	return g.allowed[hostKey(host, "")] || g.allowed[hostKey(host, port)]
}

// hostKey returns the canonical form in which hosts are compared: names in lower case without the
// trailing dot, addresses in their shortest form and without a zone. An empty port means every
// port.
func hostKey(host, port string) string {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if addr, err := netip.ParseAddr(host); err == nil {
		host = addr.Unmap().WithZone("").String()
	}
	return net.JoinHostPort(host, port)
}
