package httpapi

import (
	"net/http"
	"strings"

	"sluice/api"
	"sluice/internal/kit/buildinfo"
	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/health"
)

// healthz reports that the process is running. It checks nothing else; see readyz.
func (a *API) healthz(x *exchange, _ *http.Request) error {
	x.event.Probe = true
	return x.json([]byte(`{"status":"ok","version":"` + buildinfo.Version() + `"}`))
}

// hello serves GET and HEAD /api/hello, by which Claude Code finds out at its start whether there is anybody.
func (a *API) hello(x *exchange, _ *http.Request) error {
	x.event.Probe = true
	return x.json([]byte(`{"message":"hello"}`))
}

// readiness is the reply of /readyz.
type readiness struct {
	Status string          `json:"status"`
	Checks []health.Result `json:"checks"`
}

// readyz reports whether new work should be sent here, and if not, why. Everybody can read this page, so
// the errors themselves are only logged.
func (a *API) readyz(x *exchange, r *http.Request) error {
	x.event.Probe = true
	results, ready := a.opts.Health.Report(r.Context())
	if a.draining.Load() {
		results, ready = append(results, health.Result{Name: "shutdown", Message: "stopping; no new work"}), false
	}
	out := readiness{Status: "ok", Checks: results}
	if !ready {
		out.Status = "unavailable"
	}
	x.Header()["Content-Type"] = jsonType
	if !ready {
		x.WriteHeader(http.StatusServiceUnavailable)
	}
	return x.encode(out)
}

// openAPI serves the OpenAPI description of this API.
func (a *API) openAPI(x *exchange, r *http.Request) error {
	return x.document(r, x.settings.Description.OpenAPI(), "application/json")
}

// reference serves the same description as pages of HTML. Its scripts search it, and ask for what a search finds.
func (a *API) reference(x *exchange, r *http.Request) error {
	page, ok := x.settings.Description.Page(r.PathValue("page"))
	if !ok {
		return fault.New(fault.NotFound, "There is no page %s in the reference. It begins at /docs.", excerpt.Of(r.PathValue("page"), maxEcho))
	}
	x.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	return x.document(r, page, "text/html; charset=utf-8")
}

// document sends a document, or 304 if the caller has the current version.
func (x *exchange) document(r *http.Request, d api.Document, contentType string) error {
	h := x.Header()
	body, etag, zipped := d.Body, d.ETag, strings.TrimSuffix(d.ETag, `"`)+`-gzip"`
	h.Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		body, etag = d.Zipped, zipped // another encoding is another entity
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", etag)
	h.Set("Cache-Control", "no-cache") // a reload of the configuration may change it
	for tag := range strings.SplitSeq(strings.Join(r.Header.Values("If-None-Match"), ","), ",") {
		if tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/"); tag == d.ETag || tag == zipped || tag == "*" {
			h.Del("Content-Encoding")
			x.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	h.Set("Content-Type", contentType)
	_, err := x.Write(body)
	return clientGone(err)
}
