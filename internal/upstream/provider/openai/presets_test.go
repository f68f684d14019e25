package openai_test

import (
	"flag"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/kit/fault"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/openai"
	"sluice/internal/upstream/provider/providertest"
)

var update = flag.Bool("update", false, "write what went up and what callers got in testdata/*.txtar anew")

// TestPresets plays the transcripts of each preset: what it wants otherwise, and what it sends.
func TestPresets(t *testing.T) {
	t.Parallel()
	played := map[string]bool{}
	providertest.Transcripts(t, *update, func(file string, wire http.RoundTripper) (provider.Adapter, error) {
		kind, version, _ := strings.Cut(file, "_")
		base := ""
		if kind == "azure" {
			base = "https://mine.openai.azure.com"
		}
		p, ok := openai.PresetOf(kind, base)
		if !ok {
			t.Fatalf("PresetOf(%s) finds none", kind)
		}
		played[kind] = true
		return openai.New(base, &openai.Options{Preset: p, APIKey: providertest.Key, APIVersion: version, Transport: wire})
	}, "Authorization", "Api-Key")
	for _, kind := range openai.Kinds() {
		if !played[kind] {
			t.Errorf("no transcript of %s", kind)
		}
	}
}

func TestPresetOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind, base string
		want       string
		ok         bool
	}{
		{"openai", "", "openai", true},
		{"openai", "https://api.openai.com/v1/", "openai", true},
		{"openai", "http://127.0.0.1:8080/v1", "", true},
		{"groq", "", "groq", true},
		{"groq", "http://127.0.0.1:8080/v1", "groq", true},
		{"anthropic", "", "", false},
	} {
		if p, ok := openai.PresetOf(tt.kind, tt.base); p.Kind != tt.want || ok != tt.ok {
			t.Errorf("PresetOf(%s, %s) = %s, %t, want %s, %t", tt.kind, tt.base, p.Kind, ok, tt.want, tt.ok)
		}
	}
	if kinds := openai.Kinds(); len(kinds) != 16 || !slices.Contains(kinds, "azure") {
		t.Errorf("Kinds() = %v, want the 16 of the table", kinds)
	}
}

func TestModels(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		reply string
		want  []provider.Listed
	}{
		"openai":     {`{"object":"list","data":[{"id":"gpt-x","object":"model","created":1686935002,"owned_by":"openai"}]}`, []provider.Listed{{ID: "gpt-x"}}},
		"openrouter": {`{"data":[{"id":"a/b","name":"A: B","created":1.7e9,"context_length":1000,"top_provider":{"context_length":900,"max_completion_tokens":90},"pricing":{"prompt":"0"}},{"id":"c","top_provider":{"max_completion_tokens":null}},{"id":"e","architecture":{"output_modalities":["embeddings"]}}]}`, []provider.Listed{{ID: "a/b", Name: "A: B", ContextLength: 1000, MaxOutput: 90}, {ID: "c"}, {ID: "e", Embeds: true}}},
		"together":   {`[{"id":"x","object":"model","created":0,"display_name":"X","type":"chat","context_length":8192},{"id":"e","type":"embedding","context_length":512}]`, []provider.Listed{{ID: "x", Name: "X", ContextLength: 8192}, {ID: "e", ContextLength: 512, Embeds: true}}},
		"fireworks":  {`{"data":[{"id":"f","kind":"HF_BASE_MODEL"},{"id":"e","kind":"EMBEDDING_MODEL"}]}`, []provider.Listed{{ID: "f"}, {ID: "e", Embeds: true}}},
		"other":      {`{"data":[{"id":"o","type":{"name":"embedding"},"kind":7,"architecture":"llama"}]}`, []provider.Listed{{ID: "o"}}},
		"groq":       {`{"data":[{"id":"g","context_window":131072,"max_completion_tokens":32768}]}`, []provider.Listed{{ID: "g", ContextLength: 131072, MaxOutput: 32768}}},
		"mistral":    {`{"data":[{"id":"m","max_context_length":32768,"capabilities":{}}]}`, []provider.Listed{{ID: "m", ContextLength: 32768}}},
		"vllm":       {`{"data":[{"id":"v","max_model_len":4096}]}`, []provider.Listed{{ID: "v", ContextLength: 4096}}},
		"llama.cpp":  {`{"data":[{"id":"l","meta":{"n_ctx_train":2048}}]}`, []provider.Listed{{ID: "l", ContextLength: 2048}}},
		"empty":      {`{"object":"list","data":[]}`, nil},
	} {
		var asked string
		a := adapter(t, openai.Options{APIKey: "k"}, func(r *http.Request) (*http.Response, error) {
			asked = r.Method + " " + r.URL.String() + " " + r.Header.Get("Authorization")
			return providertest.Answer(jsonBody, strings.NewReader(tt.reply)), nil
		})
		got, err := a.Models(t.Context())
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%s: Models() = %v: -want +got\n%s", name, err, diff)
		}
		if want := "GET https://upstream.test/v1/models Bearer k"; asked != want {
			t.Errorf("%s: asked %s, want %s", name, asked, want)
		}
	}
	bad := adapter(t, openai.Options{}, func(*http.Request) (*http.Response, error) {
		return providertest.Answer(jsonBody, strings.NewReader(`<html>`)), nil
	})
	if got, err := bad.Models(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Models() of garbage = %v, %v, want 503", got, err)
	}
}

// An upstream that repeats our key in an error inside of its reply does not get it into a log.
func TestKeyStaysOurs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ body, contentType, reply string }{
		{streamed, eventStream, "data: {\"error\":{\"message\":\"Wrong key " + providertest.Key + ".\"}}\n\n"},
		{plain, jsonBody, `{"error":{"code":403,"message":"Wrong key ` + providertest.Key + `."}}`},
	} {
		a := adapter(t, openai.Options{APIKey: providertest.Key}, func(*http.Request) (*http.Response, error) {
			return providertest.Answer(tt.contentType, strings.NewReader(tt.reply)), nil
		})
		in, err := a.Open(t.Context(), ask(t, tt.body))
		if err != nil {
			t.Fatal(err)
		}
		got := providertest.Collect(t, in)
		in.Close()
		a.Wait()
		if got.Err == nil || !strings.Contains(got.Err.Error(), "Wrong key") || strings.Contains(got.Err.Error(), providertest.Key) {
			t.Errorf("%s: the log reads %v, want the reason without the key", tt.reply, got.Err)
		}
	}
}
