package httpapi

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sluice/internal/account/auth"
	"sluice/internal/kit/fault"
)

// Requests of foreign pages, and under foreign names, are refused.
func TestMCPSource(t *testing.T) {
	t.Parallel()
	const public = "https://api.example.com"
	here, there := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 8080}
	listed, any := []string{"https://app.example.com"}, []string{"*"}
	for _, tt := range []struct {
		local        net.Addr
		host, origin string
		cors         []string
		ok           bool
	}{
		{here, "127.0.0.1:8080", "", any, true},
		{here, "localhost:8080", "http://localhost:8080", any, true},
		{here, "[::1]:8080", "", any, true},
		{here, "localhost", "", any, true},
		{here, "api.example.com", "", any, true}, // behind a proxy on this machine
		{here, "evil.example.com", "", any, false},
		{here, "evil.example.com:8080", "http://evil.example.com:8080", any, false},
		{here, "localhost.evil.example.com", "", any, false},
		{here, "127.0.0.1.evil.example.com", "", any, false},
		{here, "", "", any, false},
		{there, "any.example.com", "", any, true}, // a name cannot be bound to it behind the owner's back
		{nil, "any.example.com", "", any, true},
		{there, "api.example.com", "https://app.example.com", listed, true},
		{there, "api.example.com", public, listed, true},
		{there, "api.example.com", "https://evil.example.com", listed, false},
		{there, "api.example.com", "null", listed, false},
		{there, "api.example.com", "https://app.example.com", nil, false},
	} {
		x := &exchange{settings: &Settings{CORSOrigins: tt.cors, PublicURL: public}}
		r := httptest.NewRequest(http.MethodPost, mcpPath, nil)
		r.Host = tt.host
		if tt.origin != "" {
			r.Header.Set("Origin", tt.origin)
		}
		if tt.local != nil {
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, tt.local))
		}
		if err := x.checkSource(r); (err == nil) != tt.ok || err != nil && fault.From(err).Kind.Status() != 403 {
			t.Errorf("checkSource(%v, Host %q, Origin %q, %v) = %v, want it to pass: %t", tt.local, tt.host, tt.origin, tt.cors, err, tt.ok)
		}
	}
}

// The MCP server gets a bounded body, the caller and how deep the request is nested; what it returns is
// answered like everything else.
func TestMCP(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &Options{MCP: func(rw http.ResponseWriter, _ *http.Request, body []byte, caller auth.Caller, depth int) error {
		if depth == 0 {
			return fault.New(fault.Invalid, "%s says %s", caller.Account.ID, body)
		}
		_, err := io.WriteString(rw, strings.Repeat("+", depth))
		return err
	}}, nil)
	call := func(h http.Handler, body string) (int, string) {
		r := httptest.NewRequest(http.MethodPost, mcpPath, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+w.good)
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		return rec.Code, rec.Body.String()
	}
	if status, body := call(w.api, "hello"); status != 400 || !strings.Contains(body, "says hello") || !strings.Contains(body, `"type":"invalid_request_error"`) {
		t.Errorf("POST /mcp = %d %s, want the fault", status, body)
	}
	if status, body := call(w.api.Nested(2), "hello"); status != 200 || body != "++" {
		t.Errorf("POST /mcp, nested = %d %s, want the depth", status, body)
	}
	if status, body := call(w.api, strings.Repeat("x", maxMCPBody+1)); status != 413 {
		t.Errorf("POST /mcp with a large message = %d %s, want 413", status, body)
	}
}
