package app_test

import (
	"net/http"
	"strings"
	"testing"
)

// look gets a path as a browser does that nobody has signed in with.
func (n *node) look(path, accept string) reply {
	n.t.Helper()
	return n.fetch(http.MethodGet, n.scheme+n.Addr()+path, "", map[string]string{"Accept": accept})
}

// Strangers see the public pages, with the names of this server and nothing secret of it.
func TestPublicPages(t *testing.T) {
	t.Parallel()
	const upstream = "127.0.0.1:1"
	n := newSite(t, "public_url: https://api.example.com\nsite: {name: Example AI, headline: Every model, accent: \"#0b6e4f\"}\nproviders:\n- {name: lab, kind: openai, base_url: \"http://"+upstream+"/v1\", api_key: sk-very-secret}\n"+
		"models:\n- {id: lab/one, provider: lab, plan: free, context_length: 1000, max_output: 100, pricing: {input: 1, output: 2}}\n").start(t)
	n.request("POST", "/v1/chat/completions", n.OwnerKey(), `{"model":"sandbox/small","messages":[{"role":"user","content":"Hi"}]}`)
	for path, want := range map[string]string{
		"/": "https://api.example.com/v1/chat/completions", "/models": "lab/one", "/models/lab/one": "$2.00", "/pricing": "$75", "/status": "lab/one",
	} {
		r := n.look(path, "text/html")
		if r.status != 200 || !strings.Contains(r.body, want) || !strings.Contains(r.body, "Example AI") || !strings.Contains(r.body, "/theme.css?v=") {
			t.Errorf("GET %s = %d without %q", path, r.status, want)
		}
		for _, secret := range []string{"sk-very-secret", upstream, "owner@localhost"} {
			if strings.Contains(r.body, secret) {
				t.Errorf("GET %s shows %q", path, secret)
			}
		}
	}
	eventually(t, "the call on the page of its model", func() bool {
		return strings.Contains(n.look("/models/sandbox/small", "text/html").body, "last 3 hours: ")
	})
	// A path that does not exist is a page for browsers, and the error object for everybody else.
	if r := n.look("/nowhere", "text/html,*/*"); r.status != 404 || !strings.Contains(r.body, "There is no page at this address") || !strings.Contains(r.header.Get("Content-Security-Policy"), "script-src 'self'") {
		t.Errorf("GET /nowhere in a browser = %d %.200s", r.status, r.body)
	}
	for _, path := range []string{"/nowhere", "/v1/nowhere"} {
		accept := "*/*"
		if strings.HasPrefix(path, "/v1") {
			accept = "text/html"
		}
		if r := n.look(path, accept); !strings.Contains(r.body, `{"error":`) || r.header.Get("Content-Type") != "application/json" {
			t.Errorf("GET %s with %s = %d %.200s, want the error object", path, accept, r.status, r.body)
		}
	}
	if r := n.look("/favicon.ico", "*/*"); r.status != 200 || !strings.HasPrefix(r.header.Get("Content-Type"), "image/") {
		t.Errorf("GET /favicon.ico = %d %s", r.status, r.header.Get("Content-Type"))
	}
	if r := n.look("/theme.css", "*/*"); r.status != 200 || !strings.Contains(r.body, "#0b6e4f") {
		t.Errorf("GET /theme.css = %d %s", r.status, r.body)
	}
}
