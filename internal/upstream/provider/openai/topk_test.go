package openai

import (
	"slices"
	"strings"
	"testing"

	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// top_k is a field of the Messages API. Upstreams get it from there only if they are known to take it.
func TestTopK(t *testing.T) {
	t.Parallel()
	parse := func() *chat.Request {
		req, err := chat.Parse([]byte(`{"model":"m","top_k":40,"messages":[{"role":"user","content":"hi"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		return req
	}
	direct, translated := parse(), parse()
	translated.Original = &chat.Original{Dialect: chat.DialectMessages}
	for _, kind := range append([]string{""}, Kinds()...) {
		preset, _ := PresetOf(kind, "")
		a := &Adapter{preset: preset}
		for _, tt := range []struct {
			req   *chat.Request
			takes bool
		}{
			{translated, slices.Contains([]string{"openrouter", "together", "fireworks", "perplexity", "vllm", "llamacpp", "lmstudio"}, kind)},
			{direct, !slices.Contains([]string{"openai", "azure", "groq", "mistral"}, kind)},
		} {
			call := &provider.Call{Request: tt.req, Upstream: "up"}
			p, err := a.patch(t.Context(), call)
			if err != nil {
				t.Fatal(err)
			}
			sent := strings.Contains(string(tt.req.AppendUpstream(nil, p)), "top_k")
			if sent != tt.takes || slices.Contains(call.Dropped, "top_k") == tt.takes {
				t.Errorf("%q gets top_k: %t, dropped %q; want %t", kind, sent, call.Dropped, tt.takes)
			}
		}
	}
}
