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
	// Header values that are the same in every reply, allocated once.
	versionHeader = []string{buildinfo.Version}
	nosniff       = []string{"nosniff"}
	closing       = []string{"close"}
)

// observe gives the request an id and the reply its fixed headers. At the end it writes the
// log event and updates the metrics.
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
		if a.draining.Load() {
			h["Connection"] = closing
		}
		a.metrics.RequestStarted()
		defer func() {
			if e.Status == 0 {
				e.Status = statusNone // nothing was sent: the caller disconnected
			}
			took := time.Since(e.Start)
			a.metrics.RequestEnded(e, took)
			e.Log(r.Context(), a.log, took)
		}()
		return next(x, r)
	}
}

// statusNone is the status in the log, as in nginx, if the caller disconnected before any
// reply.
const statusNone = 499

// newRequestID returns 128 random bits in hex. They must be unpredictable: ids of tool calls
// are derived from them, and data for a later turn is sealed under those ids.
func newRequestID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// remote returns the client's address. It reads X-Forwarded-For of a trusted proxy from right
// to left: the first address that is not a trusted proxy is the last one that a trusted proxy
// has seen. Everything to its left could be forged.
func remote(r *http.Request, trusted []netip.Prefix) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	// Without trusted proxies the header is ignored: anyone can send it.
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

// within reports whether one of the prefixes contains addr.
func within(addr netip.Addr, prefixes []netip.Prefix) bool {
	for _, p := range prefixes {
		if p.Contains(addr.Unmap()) {
			return true
		}
	}
	return false
}
