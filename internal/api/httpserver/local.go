package httpserver

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"

	"sluice/internal/kit/datadir"
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
	ended atomic.Bool
	dir   *datadir.Dir
	open  func() []string
	log   *slog.Logger
}

// NewLocal returns a Local. The data folder remembers the first foreign request, so that a restart
// opens nothing again. open returns what is open to everybody until then because the operator has
// not decided about it.
func NewLocal(dir *datadir.Dir, open func() []string, log *slog.Logger) *Local {
	l := &Local{dir: dir, open: open, log: log}
	l.ended.Store(datadir.Proxied(dir.Path()) != "")
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
				l.end(why)
			}
		}
		next.ServeHTTP(w, r)
	})
}

// end stores that it is over, and why. It runs once, before the request that ended it is served.
func (l *Local) end(why string) {
	if err := l.dir.RecordProxied(why); err != nil {
		l.log.Error("the fact that requests come through a proxy could not be stored; after a restart, sign-up and the test card are open until the next such request", "error", err.Error())
	}
	// An operator who has decided about the doors needs no warning.
	if open := l.open(); len(open) > 0 {
		l.log.Warn("a request came through a proxy or for another host: what is open on a developer's machine is closed from now on",
			"by", why, "closed", strings.Join(open, ", "), "hint", "set public_url, signup and billing.processor")
	}
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
