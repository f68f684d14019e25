package httpapi

import (
	"crypto/rand"
	"encoding/hex"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"sluice/internal/buildinfo"
)

var (
	versionHeader = []string{buildinfo.Version}
	nosniff       = []string{"nosniff"}
)

// observe gives the request its id and every reply its fixed headers, and tells log and metrics in
// the end how it went.
func (a *API) observe(next handler) handler {
	return func(x *exchange, r *http.Request) error {
		e := &x.event
		e.Start = time.Now()
		e.RequestID = newRequestID()
		e.Method, e.Path = r.Method, r.URL.Path
		e.Remote = remote(r, x.settings.TrustedProxies)
		h := x.Header()
		h["X-Request-Id"] = []string{e.RequestID}
		h["X-Sluice-Version"] = versionHeader
		h["X-Content-Type-Options"] = nosniff
		a.metrics.RequestStarted()
		defer func() {
			if e.Status == 0 {
				e.Status = statusNone // nothing was sent: the connection is gone
			}
			took := time.Since(e.Start)
			a.metrics.RequestEnded(e, took)
			e.Log(r.Context(), a.log, took)
		}()
		return next(x, r)
	}
}

// statusNone is logged for a request whose caller left before any reply, as nginx does.
const statusNone = 499

// newRequestID is 128 random bits that cannot be guessed: ids of tool calls are made of them, under which
// what a later turn needs is sealed.
func newRequestID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// remote is the client's address. A trusted proxy's X-Forwarded-For is read from its right end: the
// first address that is not itself a trusted proxy was seen by one that is.
func remote(r *http.Request, trusted []netip.Prefix) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	if len(trusted) == 0 {
		return host
	}
	addr, err := netip.ParseAddr(host)
	if err != nil || !within(addr, trusted) {
		return host
	}
	hops := strings.Split(strings.Join(r.Header["X-Forwarded-For"], ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		addr = hop
		if !within(hop, trusted) {
			break
		}
	}
	return addr.String()
}

func within(addr netip.Addr, prefixes []netip.Prefix) bool {
	for _, p := range prefixes {
		if p.Contains(addr.Unmap()) {
			return true
		}
	}
	return false
}
