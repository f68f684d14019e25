// Package netguard makes HTTP clients for addresses that callers name.
//
// Such a client reaches the internet and nothing else: an address is judged when it is dialed, after
// its name was resolved, so neither a clever spelling nor a name that changes its mind gets past, and
// every redirect is judged again. What the caller sends along goes to the named server alone.
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

// ErrRefused means that an address is not one of the internet and not allowed by the operator.
var ErrRefused = errors.New("the address is not a public one")

// Options are the choices of New; the zero value is the default.
type Options struct {
	// Allow lists hosts that may be reached whatever their addresses are: names or addresses, with a
	// port or without.
	Allow []string
	// Resolver looks names up; nil: the system's.
	Resolver *net.Resolver
}

// Guard dials for all clients it makes.
type Guard struct {
	allowed   map[string]bool // hosts, and hosts with a port, as hostKey writes them
	open      net.Dialer      // for hosts that are allowed by name
	guarded   net.Dialer
	transport *http.Transport
}

const (
	dialTimeout = 10 * time.Second
	idleTimeout = 30 * time.Second
	maxHeader   = 64 << 10
)

// notPublic are addresses that route like public ones and lead to the inside of a cloud.
var notPublic = netip.MustParsePrefix("168.63.129.16/32")

// New returns a guard. Close lets its idle connections go.
func New(opts *Options) *Guard {
	if opts == nil {
		opts = &Options{}
	}
	g := &Guard{allowed: make(map[string]bool, len(opts.Allow))}
	for _, entry := range opts.Allow {
		host, port, err := net.SplitHostPort(entry)
		if err != nil {
			host, port = strings.Trim(entry, "[]"), ""
		}
		g.allowed[hostKey(host, port)] = true
	}
	g.open = net.Dialer{Timeout: dialTimeout, KeepAlive: idleTimeout, Resolver: opts.Resolver}
	g.guarded = g.open
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
		Proxy:                  nil, // a proxy would dial in our place, unguarded
		DialContext:            g.dial,
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    dialTimeout,
		IdleConnTimeout:        idleTimeout,
		MaxIdleConns:           256,
		MaxIdleConnsPerHost:    8,
		MaxResponseHeaderBytes: maxHeader,
		DisableCompression:     true, // what is small on the wire stays small
	}
	return g
}

// Close lets idle connections go.
func (g *Guard) Close() { g.transport.CloseIdleConnections() }

// dial connects to what a URL names. A host that is allowed by its name may have any address.
func (g *Guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if host, port, err := net.SplitHostPort(address); err == nil && g.allows(host, port) {
		return g.open.DialContext(ctx, network, address)
	}
	return g.guarded.DialContext(ctx, network, address)
}

func (g *Guard) allows(host, port string) bool {
	return g.allowed[hostKey(host, "")] || g.allowed[hostKey(host, port)]
}

// hostKey writes a host in the one way it is compared in: names in lower case without the dot of the
// root, addresses in their shortest form.
func hostKey(host, port string) string {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if addr, err := netip.ParseAddr(host); err == nil {
		host = addr.Unmap().WithZone("").String()
	}
	return net.JoinHostPort(host, port)
}
