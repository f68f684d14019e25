package httpserver

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"

	"sluice/internal/kit/excerpt"
)

// Local tracks whether all requests so far came from this machine and were meant for it. Some
// things are open to everybody on a developer's machine, such as sign-up and test cards. They
// must not be open behind a proxy, and a server on loopback can recognise a proxy on the same
// machine only by what its requests contain.
//
// The first request that names another host, or that a proxy has forwarded, ends it
// permanently. That request itself is already refused these things, and no later request opens
// them again.
type Local struct {
	ended   atomic.Bool
	foreign func(why string)
}

// NewLocal returns a Local. ended reports whether it is over already, from an earlier run.
// foreign is called once, with a description of the first foreign request, before that request
// is served.
func NewLocal(ended bool, foreign func(why string)) *Local {
	l := &Local{foreign: foreign}
	l.ended.Store(ended)
	return l
}

// Holds reports whether all requests so far came from this machine.
func (l *Local) Holds() bool { return !l.ended.Load() }

// Watch returns a handler that judges every request before next serves it. Requests made in
// process do not pass here. Once it is over, a request costs one atomic load; until then a few
// comparisons of header names, and no allocation.
func (l *Local) Watch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !l.ended.Load() {
			if why := foreign(r); why != "" && l.ended.CompareAndSwap(false, true) {
				l.foreign(why)
			}
		}
		next.ServeHTTP(w, r)
	})
}

// foreign returns what shows that a request comes from another machine, or "" if nothing does.
func foreign(r *http.Request) string {
	if !isLocalHost(r.Host) {
		return "the host " + excerpt.Of(r.Host, maxEcho)
	}
	for name := range r.Header {
		if isForwarding(name) {
			return "the header " + excerpt.Of(name, maxEcho)
		}
	}
	// What nginx speaks to an upstream unless told otherwise, with the upstream's own address as the host. No
	// browser and no client library does.
	if r.ProtoMajor == 1 && r.ProtoMinor == 0 {
		return "HTTP/1.0, as proxies speak it"
	}
	// A browser that takes the request for one within a site names that site.
	if r.Header.Get("Sec-Fetch-Site") == "same-origin" {
		for _, name := range [...]string{"Origin", "Referer"} {
			if _, rest, ok := strings.Cut(r.Header.Get(name), "://"); ok {
				if host, _, _ := strings.Cut(rest, "/"); !isLocalHost(host) {
					return "a page of " + excerpt.Of(host, maxEcho)
				}
			}
		}
	}
	return ""
}

// isForwarding reports whether a header, in canonical form, is one that proxies add.
func isForwarding(name string) bool {
	switch name {
	case "Forwarded", "Via", "X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "Client-Ip", "True-Client-Ip", "Fastly-Client-Ip", "Cdn-Loop":
		return true
	}
	return strings.HasPrefix(name, "X-Forwarded") || strings.HasPrefix(name, "Cf-") || strings.HasPrefix(name, "X-Original-") || strings.HasPrefix(name, "X-Envoy-")
}

// isLocalHost reports whether a Host header names this machine: localhost, a name below it, or
// a loopback address, each with or without a port.
func isLocalHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	} else if n := len(host); n > 1 && host[0] == '[' && host[n-1] == ']' {
		name = host[1 : n-1]
	}
	name = strings.TrimSuffix(name, ".")
	const localhost = "localhost"
	if strings.EqualFold(name, localhost) {
		return true
	}
	if i := len(name) - len(localhost) - 1; i > 0 && name[i] == '.' && strings.EqualFold(name[i+1:], localhost) {
		return true // RFC 6761: names below localhost never leave the machine
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Unmap().IsLoopback()
}
