package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"sluice/api"
	"sluice/internal/buildinfo"
)

// healthz reports that the process is running. It checks nothing else; see readyz.
func (a *API) healthz(x *exchange, _ *http.Request) error {
	return x.json([]byte(`{"status":"ok","version":"` + buildinfo.Version + `"}`))
}

// readiness is the reply of /readyz.
type readiness struct {
	Status string        `json:"status"`
	Checks []checkResult `json:"checks"`
}

// checkResult is the outcome of one check. Message is for everybody, so it contains no
// details.
type checkResult struct {
	Name    string `json:"name"`
	OK      bool   `json:"ok"`
	Message string `json:"message,omitempty"`
}

// readyz reports whether new work should be sent here, and if not, why. The errors themselves
// are only logged: everybody can read this page.
func (a *API) readyz(x *exchange, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), checksPatience)
	defer cancel()
	out := readiness{Status: "ok", Checks: []checkResult{}}
	add := func(name string, err error) {
		c := checkResult{Name: name, OK: err == nil}
		if err != nil {
			c.Message = "not available; the log says more"
			out.Status = "unavailable"
			a.log.Warn("not ready", "check", name, "error", err.Error())
		}
		out.Checks = append(out.Checks, c)
	}
	for _, c := range a.checks {
		var err error
		if c.Run != nil {
			err = c.Run(ctx)
		}
		add(c.Name, err)
		if last := &out.Checks[len(out.Checks)-1]; last.OK && c.Note != nil {
			last.Message = c.Note()
		}
	}
	if a.draining.Load() {
		out.Status = "unavailable"
		out.Checks = append(out.Checks, checkResult{Name: "shutdown", Message: "stopping; no new work"})
	}
	body, err := json.Marshal(out)
	if err != nil {
		return err
	}
	x.Header()["Content-Type"] = jsonType
	if out.Status != "ok" {
		x.WriteHeader(http.StatusServiceUnavailable)
	}
	_, err = x.Write(body)
	return clientGone(err)
}

// openAPI serves the OpenAPI description of this API.
func (a *API) openAPI(x *exchange, r *http.Request) error {
	return x.document(r, x.settings.Description.OpenAPI(), "application/json")
}

// reference serves the same description as an HTML page.
func (a *API) reference(x *exchange, r *http.Request) error {
	x.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; img-src data:")
	return x.document(r, x.settings.Description.Reference(), "text/html; charset=utf-8")
}

// document sends a document, or 304 if the caller has the current version.
func (x *exchange) document(r *http.Request, d api.Document, contentType string) error {
	h := x.Header()
	h.Set("ETag", d.ETag)
	h.Set("Cache-Control", "no-cache") // a reload of the configuration may change it
	for tag := range strings.SplitSeq(strings.Join(r.Header.Values("If-None-Match"), ","), ",") {
		if tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/"); tag == d.ETag || tag == "*" {
			x.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	h.Set("Content-Type", contentType)
	_, err := x.Write(d.Body)
	return clientGone(err)
}
