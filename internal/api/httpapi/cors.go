package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"sluice/internal/video"
)

// exposed lists the reply headers that a browser script may read. CORS has no wildcard for
// prefixes.
var exposed = []string{"x-request-id, request-id, retry-after, retry-after-ms, x-should-retry, " +
	"x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests, " +
	"x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens, " +
	"idempotent-replayed, x-sluice-version, x-sluice-model, x-sluice-provider, x-sluice-attempts, x-sluice-affinity, " +
	"x-sluice-dropped, x-sluice-route-reason, x-sluice-mcp-calls, x-sluice-overhead-ms, x-sluice-cost, x-sluice-resume, x-sluice-receipt, sunset, deprecation, mcp-session-id"}

var anyOrigin = []string{"*"}

// cors lets pages of the allowed origins call /v1 and follow links to videos. Keys are sent in
// a header and never in a cookie, so credentials are not allowed and "*" is safe.
func (a *API) cors(next handler) handler {
	return func(x *exchange, r *http.Request) error {
		origin := r.Header.Get("Origin")
		if origin == "" || !isAPI(r) && !strings.HasPrefix(r.URL.Path, video.LinkPath) {
			return next(x, r)
		}
		h := x.Header()
		switch {
		case slices.Contains(x.settings.CORSOrigins, "*"):
			h["Access-Control-Allow-Origin"] = anyOrigin
		// Caches must not serve this reply to another origin, hence Vary.
		case slices.Contains(x.settings.CORSOrigins, origin):
			h["Access-Control-Allow-Origin"] = []string{origin}
			h.Add("Vary", "Origin")
		// Without the headers the browser hides the reply. The request itself is served: it
		// needs a key anyway.
		default:
			h.Add("Vary", "Origin")
			return next(x, r)
		}
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			h["Access-Control-Allow-Methods"] = []string{"GET, HEAD, POST, PATCH, DELETE"}
			if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
				h["Access-Control-Allow-Headers"] = []string{asked}
			}
			h["Access-Control-Max-Age"] = []string{"7200"}
			x.event.Route = "preflight"
			x.WriteHeader(http.StatusNoContent)
			return nil
		}
		h["Access-Control-Expose-Headers"] = exposed
		return next(x, r)
	}
}
