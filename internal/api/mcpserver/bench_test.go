package mcpserver

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"sluice/internal/account"
	"sluice/internal/account/auth"
)

// BenchmarkServe is what a call of a tool costs, without the request that it makes of the API.
func BenchmarkServe(b *testing.B) {
	s := New(Sources{API: func(int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, whole) })
	}}, nil)
	for b.Loop() {
		r := httptest.NewRequest("POST", "/mcp", nil)
		body := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_models","arguments":{}}}`)
		w := httptest.NewRecorder()
		if err := s.Serve(w, r, body, auth.Caller{Account: &account.Account{ID: "a"}}, 0); err != nil || w.Code != 200 {
			b.Fatal(err, w.Code)
		}
	}
}
