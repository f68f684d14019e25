package app_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"sluice/internal/admin"
)

// TestImageAddresses is a model server on this machine, which would fetch whatever a caller names.
func TestImageAddresses(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var bodies []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if strings.HasSuffix(r.URL.Path, "/chat/completions") {
			mu.Lock()
			bodies = append(bodies, string(raw))
			mu.Unlock()
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"a cat"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)
	}))
	t.Cleanup(server.Close)
	n := newSite(t, fmt.Sprintf(`
sandbox: false
providers:
  - {name: guarded, kind: openai, base_url: "%[1]s/v1"}
  - {name: trusted, kind: openai, base_url: "%[1]s/v1", allow_image_urls: true}
models:
  - {id: eyes, provider: guarded, plan: free, context_length: 100000, max_output: 1000}
  - {id: open-eyes, provider: trusted, plan: free, context_length: 100000, max_output: 1000}
`, server.URL)).start(t)
	owner := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "a@example.com"})
	must[any](n, "account.set-plan", admin.Target{Actor: "t", Ref: owner.ID, Plan: "scale"})
	const public, metadata, pixel = "https://example.com/a.png", "http://169.254.169.254/latest/meta-data/", "data:image/png;base64,AAAA"
	for _, tt := range []struct {
		model, url string
		status     int
		reaches    bool
	}{
		{"eyes", pixel, 200, true},
		{"eyes", public, 400, false},
		{"eyes", metadata, 400, false},
		{"open-eyes", public, 200, true},
		{"open-eyes", metadata, 400, false},
		{"open-eyes", "http://0xa9fea9fe/latest/", 400, false},
		{"service/auto", public, 200, true}, // by the one that may
		{"service/auto", metadata, 400, false},
	} {
		mu.Lock()
		bodies = nil
		mu.Unlock()
		r := n.request("POST", "/v1/chat/completions", owner.MasterKey, `{"model":"`+tt.model+`","messages":[{"role":"user","content":[{"type":"text","text":"What is this?"},{"type":"image_url","image_url":{"url":"`+tt.url+`"}}]}]}`)
		mu.Lock()
		reached := len(bodies) > 0
		mu.Unlock()
		if r.status != tt.status || reached != tt.reaches {
			t.Errorf("%s with %s = %d %s, reached the server: %t; want %d and %t", tt.model, tt.url, r.status, r.body, reached, tt.status, tt.reaches)
		}
		if tt.status == 400 && !strings.Contains(r.body, `"param":"messages[0].content[1].image_url.url"`) {
			t.Errorf("%s with %s: %s does not name the image", tt.model, tt.url, r.body)
		}
	}
}
