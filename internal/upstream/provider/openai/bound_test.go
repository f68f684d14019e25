package openai_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"sluice/internal/upstream/provider/openai"
	"sluice/internal/upstream/provider/providertest"
)

// An upstream that must not write more than is paid for is told so even if the caller has set no bound, under the name that it knows.
func TestBounded(t *testing.T) {
	t.Parallel()
	const hi = `"messages":[{"role":"user","content":"Hi"}]`
	for name, kinds := range map[string][]string{
		"max_tokens":            {"", "mistral", "deepseek", "together", "perplexity", "nvidia", "lmstudio", "ollama"},
		"max_completion_tokens": {"openai", "azure", "openrouter", "groq", "xai", "fireworks", "cerebras", "vllm", "llamacpp"},
	} {
		for _, kind := range kinds {
			for _, tt := range []struct {
				members string
				bounded bool
				want    string
			}{
				{hi, false, hi},
				{hi, true, `"` + name + `":700,` + hi},
				{`"max_tokens":null,"max_completion_tokens":null,` + hi, true, `"` + name + `":700,` + hi},
			} {
				var got string
				p, ok := openai.PresetOf(kind, "")
				if !ok && kind != "" {
					t.Fatalf("there is no preset %s", kind)
				}
				a := adapter(t, openai.Options{Preset: p}, func(r *http.Request) (*http.Response, error) {
					body, _ := io.ReadAll(r.Body)
					got = string(body)
					return providertest.Answer(jsonBody, strings.NewReader(`{}`)), nil
				})
				call := ask(t, `{"model":"m",`+tt.members+`}`)
				call.MaxOutput, call.Bounded = 700, tt.bounded
				in, err := a.Open(t.Context(), call)
				if err != nil {
					t.Errorf("%s: %s = %v", kind, tt.members, err)
					continue
				}
				in.Close()
				if decoded(t, got) != decoded(t, `{"model":"theirs",`+tt.want+`}`) {
					t.Errorf("%q: %s bounded %t went up as %s, want %s", kind, tt.members, tt.bounded, got, tt.want)
				}
			}
		}
	}
}
