package httpapi

import (
	"strings"
	"testing"
)

func TestCORS(t *testing.T) {
	t.Parallel()
	everywhere, listed, nowhere := []string{"*"}, []string{"https://a.example", "https://b.example:8443"}, []string(nil)
	preflight := []string{"Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization, content-type"}
	const origin = "Origin: https://a.example"
	tests := []struct {
		name    string
		origins []string
		method  string
		target  string
		keyed   bool
		header  []string
		status  int
		allow   string // Access-Control-Allow-Origin
		vary    string
		asked   bool // a preflight that is granted
	}{
		{"any origin", everywhere, "GET", "/v1/models", true, []string{origin}, 200, "*", "", false},
		{"a listed origin", listed, "GET", "/v1/models", true, []string{origin}, 200, "https://a.example", "Origin", false},
		{"another listed origin", listed, "GET", "/v1/models", true, []string{"Origin: https://b.example:8443"}, 200, "https://b.example:8443", "Origin", false},
		{"an origin that is not listed", listed, "GET", "/v1/models", true, []string{"Origin: https://c.example"}, 200, "", "Origin", false},
		{"an origin that begins alike", listed, "GET", "/v1/models", true, []string{"Origin: https://a.example.evil.example"}, 200, "", "Origin", false},
		{"no origins allowed", nowhere, "GET", "/v1/models", true, []string{origin}, 200, "", "Origin", false},
		{"no browser", everywhere, "GET", "/v1/models", true, nil, 200, "", "", false},
		{"outside the API", everywhere, "GET", "/healthz", false, []string{origin}, 200, "", "", false},

		// A page must be able to read why it was refused.
		{"no key", everywhere, "GET", "/v1/models", false, []string{origin}, 401, "*", "", false},
		{"unknown path", everywhere, "GET", "/v1/nothing", true, []string{origin}, 404, "*", "", false},
		{"wrong method", everywhere, "PUT", "/v1/models", true, []string{origin}, 405, "*", "", false},

		// A preflight carries no key.
		{"preflight", everywhere, "OPTIONS", "/v1/models", false, append([]string{origin}, preflight...), 204, "*", "", true},
		{"preflight, listed", listed, "OPTIONS", "/v1/chat/completions", false, append([]string{origin}, preflight...), 204, "https://a.example", "Origin", true},
		{"preflight, not listed", listed, "OPTIONS", "/v1/models", false, append([]string{"Origin: https://c.example"}, preflight...), 401, "", "Origin", false},
		{"preflight without an origin", everywhere, "OPTIONS", "/v1/models", false, preflight, 401, "", "", false},
		{"options that are no preflight", everywhere, "OPTIONS", "/v1/models", true, []string{origin}, 405, "*", "", false},
		{"preflight outside the API", everywhere, "OPTIONS", "/healthz", false, append([]string{origin}, preflight...), 405, "", "", false},
	}
	w := newWorld(t, nil, nil)
	for _, tt := range tests {
		s := *w.api.settings.Load()
		s.CORSOrigins = tt.origins
		w.api.Apply(s)
		key := ""
		if tt.keyed {
			key = w.good
		}
		got := w.send(t, tt.method, tt.target, key, tt.header...)
		checkFixed(t, tt.name, got)
		h := got.header
		if got.status != tt.status || h.Get("Access-Control-Allow-Origin") != tt.allow || h.Get("Vary") != tt.vary {
			t.Errorf("%s = %d, allowed for %q, vary %q, want %d, %q, %q", tt.name, got.status, h.Get("Access-Control-Allow-Origin"), h.Get("Vary"), tt.status, tt.allow, tt.vary)
		}
		if h.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: credentials are allowed, want never", tt.name)
		}
		methods, headers, age := h.Get("Access-Control-Allow-Methods"), h.Get("Access-Control-Allow-Headers"), h.Get("Access-Control-Max-Age")
		if tt.asked {
			if methods != "GET, HEAD, POST, PATCH, DELETE" || headers != "authorization, content-type" || age == "" || got.body != "" {
				t.Errorf("%s: methods %q, headers %q, age %q, body %q, want what was asked for and no body", tt.name, methods, headers, age, got.body)
			}
			continue
		}
		if methods+headers+age != "" {
			t.Errorf("%s: methods %q, headers %q, age %q, want none", tt.name, methods, headers, age)
		}
		exposed := h.Get("Access-Control-Expose-Headers")
		if (exposed != "") != (tt.allow != "") {
			t.Errorf("%s: exposed headers %q, want them exactly where the origin is allowed", tt.name, exposed)
		}
		for _, name := range []string{"x-request-id", "x-ratelimit-limit-requests", "x-ratelimit-remaining-tokens", "retry-after", "retry-after-ms", "x-should-retry", "x-sluice-version"} {
			if exposed != "" && !strings.Contains(exposed+",", name+",") {
				t.Errorf("%s: %s is not exposed", tt.name, name)
			}
		}
	}
	for _, e := range w.logged(t, "request") {
		if e["status"] == 204.0 && e["account"] != nil {
			t.Errorf("a preflight is logged with an account: %v", e)
		}
	}
}
