package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"sluice/internal/operate/admin"
)

// fondOfCase is an upstream that reads bodies as encoding/json does: it takes "Model" for model, and the last of two
// counts. It speaks every dialect and keeps what it has understood.
type fondOfCase struct {
	mu   sync.Mutex
	read []understood
}

type understood struct {
	Model     string `json:"model"`
	MaxTokens int    `json:"max_tokens"`
	MaxOutput int    `json:"max_output_tokens"`
	N         int    `json:"n"`
	Tools     []any  `json:"tools"`
}

func (u *fondOfCase) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	var body understood
	if json.Unmarshal(raw, &body) == nil {
		u.mu.Lock()
		u.read = append(u.read, body)
		u.mu.Unlock()
	}
	w.Header().Set("Content-Type", "application/json")
	answer := `{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"yes"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`
	switch {
	case strings.HasSuffix(r.URL.Path, "/messages"):
		answer = `{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"yes"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`
	case strings.HasSuffix(r.URL.Path, "/responses"):
		answer = `{"id":"r","object":"response","status":"completed","model":"m","output":[{"type":"message","id":"i","status":"completed","role":"assistant","content":[{"type":"output_text","text":"yes","annotations":[]}]}],"usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}`
	case strings.HasSuffix(r.URL.Path, "/embeddings"):
		answer = `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5]}],"model":"m","usage":{"prompt_tokens":1,"total_tokens":1}}`
	}
	_, _ = io.WriteString(w, answer)
}

func (u *fondOfCase) take() []understood {
	u.mu.Lock()
	defer u.mu.Unlock()
	read := u.read
	u.read = nil
	return read
}

// respellings returns spellings of a key that readers which ignore case take for it.
func respellings(key string) []string {
	all := []string{strings.ToUpper(key), strings.ToUpper(key[:1]) + key[1:], fmt.Sprintf(`\u%04x`, strings.ToUpper(key)[0]) + key[1:]}
	for _, fold := range []struct{ plain, odd string }{{"s", "ſ"}, {"k", "\u212a"}, {"s", `\u017f`}, {"k", `\u212A`}} {
		if strings.Contains(key, fold.plain) {
			all = append(all, strings.Replace(key, fold.plain, fold.odd, 1))
		}
	}
	return all
}

// TestSpellings sends keys in other spellings to upstreams that ignore case. Nothing may reach them that was not
// admitted.
func TestSpellings(t *testing.T) {
	t.Parallel()
	upstream := &fondOfCase{}
	server := httptest.NewServer(upstream)
	t.Cleanup(server.Close)
	n := newSite(t, fmt.Sprintf(`
sandbox: false
providers:
  - {name: ollama, kind: ollama, base_url: "%[1]s/v1"}
  - {name: any, kind: openai, base_url: "%[1]s/v1"}
  - {name: newer, kind: openai, base_url: "%[1]s/v1", api: responses}
  - {name: claude, kind: anthropic, base_url: "%[1]s", api_key: k}
models:
  - {id: local, provider: ollama, upstream: small, plan: free, context_length: 100000, max_output: 1000, tool_calling: true}
  - {id: any, provider: any, upstream: small, plan: free, context_length: 100000, max_output: 1000, tool_calling: true}
  - {id: newer, provider: newer, upstream: small, plan: free, context_length: 100000, max_output: 1000, tool_calling: true}
  - {id: claude, provider: claude, upstream: small, plan: free, context_length: 100000, max_output: 1000, tool_calling: true}
  - {id: vectors, kind: embedding, provider: any, upstream: small, plan: free, context_length: 8192}
`, server.URL)).start(t)
	owner := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "a@example.com"})
	must[any](n, "account.set-plan", admin.Target{Actor: "t", Ref: owner.ID, Plan: "scale"})
	const (
		chat      = `"messages":[{"role":"user","content":"hi"%s}]`
		completed = `"input":[{"role":"user","content":"hi"%s}]`
	)
	for _, door := range []struct {
		path   string
		models []string
		body   string // with a place for members of the body and one for those of an item
		keys   []string
		items  []string
	}{
		{
			"/v1/chat/completions",
			[]string{"local", "any"},
			`{"model":%q,"max_tokens":5,` + chat + `%s}`,
			[]string{"model", "max_tokens", "max_completion_tokens", "n", "tools", "tool_choice", "messages", "stream", "stream_options", "stop", "response_format", "models", "route", "service_tier"},
			[]string{"role", "content", "tool_calls", "tool_call_id"},
		},
		{
			"/v1/responses",
			[]string{"newer", "any"},
			`{"model":%q,"max_output_tokens":16,` + completed + `%s}`,
			[]string{"model", "max_output_tokens", "tools", "input", "instructions", "store", "previous_response_id", "service_tier", "background"},
			[]string{"role", "content", "type", "id"},
		},
		{
			"/v1/messages",
			[]string{"claude", "any"},
			`{"model":%q,"max_tokens":5,` + chat + `%s}`,
			[]string{"model", "max_tokens", "messages", "tools", "system", "thinking", "mcp_servers", "service_tier", "container"},
			[]string{"role", "content"},
		},
		{"/v1/messages/count_tokens", []string{"claude"}, `{"model":%q,` + chat + `%s}`, []string{"model", "messages", "tools"}, []string{"content"}},
		{"/v1/embeddings", []string{"vectors"}, `{"model":%q,"input":"hi"%[3]s}`, []string{"model", "input", "dimensions", "user", "encoding_format"}, nil},
		{"/v1/route", []string{"any"}, `{"model":%q,` + chat + `%s}`, []string{"model", "messages"}, nil},
	} {
		for _, model := range door.models {
			if r := n.request("POST", door.path, owner.MasterKey, fmt.Sprintf(door.body, model, "", "")); r.status != 200 {
				t.Fatalf("%s for %s = %d %s, want 200", door.path, model, r.status, r.body)
			}
			for _, got := range upstream.take() {
				if got.Model != "small" {
					t.Errorf("%s for %s asks the upstream for the model %q, want small", door.path, model, got.Model)
				}
			}
			try := func(key, item, more string) {
				r := n.request("POST", door.path, owner.MasterKey, fmt.Sprintf(door.body, model, item, more))
				if read := upstream.take(); len(read) > 0 || r.status != 400 || !strings.Contains(r.body, "twice") {
					t.Errorf("%s for %s with %s%s = %d %s, and the upstream read %+v; want a 400 about %s", door.path, model, item, more, r.status, r.body, read, key)
				}
			}
			for _, key := range door.keys {
				for _, spelling := range respellings(key) {
					try(key, "", `,"`+spelling+`":"large"`)
				}
			}
			for _, key := range door.items {
				for _, spelling := range respellings(key) {
					try(key, `,"`+spelling+`":"large"`, "")
				}
			}
		}
	}
}
