package httpapi

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"sluice/internal/kit/buildinfo"
	"sluice/internal/kit/telemetry"
)

var (
	// Header values that are the same in every reply, allocated once.
	versionHeader = []string{buildinfo.Version()}
	nosniff       = []string{"nosniff"}
	closing       = []string{"close"}
)

// observe gives the request an id and the reply its fixed headers. At the end it writes the
// log event and updates the metrics.
func (a *API) observe(next handler) handler {
	return func(x *exchange, r *http.Request) error {
		e := &x.event
		if e.Start.IsZero() { // a request with a body has read the clock
			e.Start = time.Now()
		}
		e.CallID = newRequestID(e.Start)
		e.RequestID = e.CallID
		e.Method, e.Path = r.Method, r.URL.Path
		var proxy bool
		if e.Remote, proxy = remote(r, x.settings.TrustedProxies); proxy {
			e.RequestID = cmp.Or(givenID(r.Header["X-Request-Id"]), e.CallID)
		}
		x.body.Address = e.Remote
		if trace := r.Header["Traceparent"]; len(trace) == 1 {
			e.TraceID = telemetry.TraceID(trace[0])
		}
		x.wait.Arrived(e.Start)
		if isAPI(r) {
			x.measured = true
			a.beginTrace(e, r, proxy)
		}
		h := x.Header()
		h["X-Request-Id"] = []string{e.RequestID}
		if isMessages(r) { // where clients of Anthropic's API look for it
			h["Request-Id"] = h["X-Request-Id"]
		}
		h["X-Sluice-Version"] = versionHeader
		h["X-Content-Type-Options"] = nosniff
		if a.closing.Load() {
			h["Connection"] = closing
		}
		a.opts.Metrics.RequestStarted()
		defer func() {
			if e.Status == 0 {
				e.Status = statusNone // nothing was sent: the caller disconnected
			}
			took := time.Since(e.Start)
			a.opts.Metrics.RequestEnded(e, took)
			e.Span.Answered(e)
			e.Log(r.Context(), a.opts.Log, took)
		}()
		return next(x, r)
	}
}

// beginTrace begins the trace of a request if it is to be traced, and passes on the trace of a caller if it
// is not. Without a tracer it costs a comparison.
func (a *API) beginTrace(e *telemetry.Event, r *http.Request, trusted bool) {
	if a.opts.Tracer == nil {
		return
	}
	e.Span = a.opts.Tracer.Begin(r.Method, r.Header["Traceparent"], r.Header["Tracestate"], trusted, e.Start)
}

// statusNone is the status in the log, as in nginx, if the caller disconnected before any
// reply.
const statusNone = 499

// newRequestID returns the second and 96 random bits in hex. The random ones must be unpredictable:
// ids of tool calls are derived from them, and data for a later turn is sealed under those ids. The
// second comes first so that the database, whose key of a settlement begins with its time, finds requests by
// their id without an index of its own; see secondOf in sqlstore/calls.
func newRequestID(now time.Time) string {
	var b [16]byte
	_, _ = rand.Read(b[4:]) // never fails
	binary.BigEndian.PutUint32(b[:], uint32(now.Unix()))
	return hex.EncodeToString(b[:])
}

// maxGivenID is the maximum length of a request id that a proxy sends.
const maxGivenID = 128

// givenID returns the request id that a trusted proxy sent, or "" if there is none, more than one, or
// one that is not plain: it is written to the log and sent back. Only proxies are believed, so that a
// caller cannot pretend that its request is another one. Nothing is stored under such an id.
func givenID(values []string) string {
	if len(values) != 1 || len(values[0]) > maxGivenID {
		return ""
	}
	id := values[0]
	for i := range len(id) {
		c := id[i]
		plain := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-_.:=+/@", c) >= 0
		if !plain {
			return ""
		}
	}
	return id
}

// remote returns the client's address, and whether the request came from a trusted proxy. It reads X-Forwarded-For of a trusted proxy from right
// to left: the first address that is not a trusted proxy is the last one that a trusted proxy
// has seen. Everything to its left could be forged.
func remote(r *http.Request, trusted []netip.Prefix) (client string, proxy bool) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr, false
	}
	// Without trusted proxies the header is ignored: anyone can send it.
	if len(trusted) == 0 {
		return host, false
	}
	addr, err := netip.ParseAddr(host)
	if err != nil || !within(addr, trusted) {
		return host, false
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
	return addr.String(), true
}

// within reports whether one of the prefixes contains addr.
func within(addr netip.Addr, prefixes []netip.Prefix) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(addr.Unmap()) })
}
