package openai_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"sluice/internal/upstream/provider/openai"
	"sluice/internal/upstream/provider/providertest"
)

// The name of a conversation goes to the vendors who document a place for it, and to nobody else. A caller's own one stays.
func TestHints(t *testing.T) {
	t.Parallel()
	const name = "0123456789abcdef0123456789abcdef"
	for _, tt := range []struct{ kind, version, api, members, body, header string }{
		{"openai", "", "chat", "", "prompt_cache_key=" + name, ""},
		{"openai", "", "responses", "", "prompt_cache_key=" + name, ""},
		{"openai", "", "chat", `,"prompt_cache_key":"mine"`, "prompt_cache_key=mine", ""},
		{"openai", "", "responses", `,"prompt_cache_key":"mine"`, "prompt_cache_key=mine", ""},
		{"openai", "", "chat", `,"prompt_cache_key":null`, "prompt_cache_key=" + name, ""},
		{"azure", "", "chat", "", "prompt_cache_key=" + name, ""},
		{"azure", "2024-10-21", "chat", "", "", ""},
		{"openrouter", "", "chat", "", "session_id=" + name, ""},
		{"openrouter", "", "chat", `,"session_id":"mine"`, "session_id=mine", ""},
		{"mistral", "", "chat", "", "prompt_cache_key=" + name, ""},
		{"xai", "", "chat", "", "", "X-Grok-Conv-Id"},
		{"xai", "", "responses", "", "prompt_cache_key=" + name, ""},
		{"fireworks", "", "chat", "", "", "X-Session-Affinity"},
		{"groq", "", "chat", "", "", ""},
		{"vllm", "", "chat", "", "", ""},
		{"deepseek", "", "chat", "", "", ""},
		{"", "", "chat", "", "", ""},
	} {
		preset, _ := openai.PresetOf(tt.kind, "https://upstream.test/v1")
		if tt.kind == "openai" {
			preset, _ = openai.PresetOf(tt.kind, "")
		}
		var body map[string]any
		var header http.Header
		a := adapter(t, openai.Options{Preset: preset, API: tt.api, APIVersion: tt.version}, func(r *http.Request) (*http.Response, error) {
			raw, _ := io.ReadAll(r.Body)
			header = r.Header
			if err := json.Unmarshal(raw, &body); err != nil {
				t.Errorf("%s: %s: %v", tt.kind, raw, err)
			}
			return providertest.Answer(jsonBody, strings.NewReader(`{}`)), nil
		})
		call := ask(t, `{"model":"m","messages":[{"role":"user","content":"Hi"}]`+tt.members+`}`)
		call.Upstream, call.Conversation = "gpt-x", name
		if in, err := a.Open(t.Context(), call); err == nil {
			in.Close()
		}
		a.Wait()
		got := ""
		for _, key := range []string{"prompt_cache_key", "session_id"} {
			if v, ok := body[key].(string); ok {
				got += key + "=" + v
			}
		}
		if got != tt.body {
			t.Errorf("%s, %s%s: the body has %q, want %q", tt.kind, tt.api, tt.members, got, tt.body)
		}
		for _, key := range []string{"X-Grok-Conv-Id", "X-Session-Affinity"} {
			if has := header.Get(key) == name; has != (key == tt.header) {
				t.Errorf("%s, %s: the header %s is sent: %t", tt.kind, tt.api, key, has)
			}
		}
	}
}
