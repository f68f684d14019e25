package openai_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/embeddings"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/openai"
)

// embedAt asks an upstream that replies with a status and a body, and returns what it was sent.
func embedAt(t *testing.T, req *embeddings.Request, opts *openai.Options, status int, reply string) (sent string, v *embeddings.Vectors, err error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent = r.URL.RequestURI() + " " + r.Header.Get("Authorization") + r.Header.Get("Api-Key") + " " + string(body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, reply)
	}))
	defer server.Close()
	a, err := openai.New(server.URL+"/v1", opts)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	v, err = provider.Embed(context.Background(), a, &provider.Call{Upstream: "vec-1"}, req)
	return sent, v, err
}

func TestEmbed(t *testing.T) {
	t.Parallel()
	two := &embeddings.Request{Model: "lab/vec", Inputs: []embeddings.Input{{Text: "a\"b"}, {Tokens: []int{1, 2}}}, Base64: true, Dimensions: 2, User: "u"}
	sent, v, err := embedAt(t, two, &openai.Options{APIKey: "sk-1"}, 200,
		`{"object":"list","data":[{"index":1,"embedding":"AAAAPwAAgL8="},{"index":0,"embedding":[1, 0.5]}],"model":"x","usage":{"prompt_tokens":5,"total_tokens":5}}`)
	if want := `/v1/embeddings Bearer sk-1 {"model":"vec-1","input":["a\"b",[1,2]],"encoding_format":"base64","dimensions":2,"user":"u"}`; sent != want {
		t.Errorf("Embed sent %s, want %s", sent, want)
	}
	if err != nil || v.Tokens != 5 {
		t.Fatalf("Embed = %+v, %v", v, err)
	}
	const want = `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1, 0.5]},{"object":"embedding","index":1,"embedding":[0.5,-1]}],"model":"m","usage":{"prompt_tokens":5,"total_tokens":5}}`
	if got := string(v.Append(nil, "m", false, v.Tokens)); got != want {
		t.Errorf("the reply is %s, want %s", got, want)
	}

	// Azure with a version has a path for each deployment.
	azure, _ := openai.PresetOf("azure", "")
	one := &embeddings.Request{Model: "lab/vec", Inputs: []embeddings.Input{{Text: "a"}}}
	sent, _, err = embedAt(t, one, &openai.Options{Preset: azure, APIKey: "k", APIVersion: "2024-10-21"}, 200, `{"data":[{"index":0,"embedding":[1]}]}`)
	if want := `/v1/openai/deployments/vec-1/embeddings?api-version=2024-10-21 k {"model":"vec-1","input":["a"]}`; err != nil || sent != want {
		t.Errorf("Embed at Azure sent %s, want %s (%v)", sent, want, err)
	}
}

func TestEmbedRefused(t *testing.T) {
	t.Parallel()
	one := &embeddings.Request{Model: "lab/vec", Inputs: []embeddings.Input{{Text: "a"}}}
	for _, tt := range []struct {
		name   string
		status int
		reply  string
		kind   fault.Kind
	}{
		{"the caller's mistake", 400, `{"error":{"message":"too long"}}`, fault.Invalid},
		{"our key", 401, `{"error":{"message":"bad key sk-1"}}`, fault.Unavailable},
		{"out of order", 500, `oops`, fault.Unavailable},
		{"not JSON", 200, `<html>`, fault.Unavailable},
		{"cut", 200, `{"data":[{"index":0,"embed`, fault.Unavailable},
		{"none", 200, `{"data":[]}`, fault.Unavailable},
		{"too many", 200, `{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1]}]}`, fault.Unavailable},
		{"a wrong index", 200, `{"data":[{"index":1,"embedding":[1]}]}`, fault.Unavailable},
		{"a negative index", 200, `{"data":[{"index":-1,"embedding":[1]}]}`, fault.Unavailable},
		{"an empty vector", 200, `{"data":[{"index":0,"embedding":[]}]}`, fault.Unavailable},
		{"no vector", 200, `{"data":[{"index":0}]}`, fault.Unavailable},
		{"texts", 200, `{"data":[{"index":0,"embedding":["x"]}]}`, fault.Unavailable},
		{"a long vector", 200, `{"data":[{"index":0,"embedding":[` + strings.Repeat("1,", 65_536) + `1]}]}`, fault.Unavailable},
	} {
		_, v, err := embedAt(t, one, &openai.Options{APIKey: "sk-1"}, tt.status, tt.reply)
		if err == nil || !fault.Is(err, tt.kind) || strings.Contains(fault.From(err).Message, "sk-1") {
			t.Errorf("%s: Embed = %+v, %v, want %v without our key", tt.name, v, err, tt.kind)
		}
		if err != nil && !provider.WasSent(err) {
			t.Errorf("%s: the error does not say that the upstream got the texts", tt.name)
		}
	}
	two := &embeddings.Request{Model: "lab/vec", Inputs: []embeddings.Input{{Text: "a"}, {Text: "b"}}}
	if _, v, err := embedAt(t, two, nil, 200, `{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}`); err == nil {
		t.Errorf("the same index twice: Embed = %+v, want an error", v)
	}
	if _, v, err := embedAt(t, two, nil, 200, `{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1,2]}]}`); err == nil {
		t.Errorf("vectors of different lengths: Embed = %+v, want an error", v)
	}
}
