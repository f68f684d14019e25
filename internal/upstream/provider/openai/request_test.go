package openai_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/openai"
	"sluice/internal/upstream/provider/providertest"
)

const (
	eventStream = "text/event-stream"
	jsonBody    = "application/json"
)

// adapter returns an adapter that talks to the transport alone.
func adapter(t *testing.T, opts openai.Options, tr providertest.Transport) *openai.Adapter {
	t.Helper()
	opts.Transport = tr
	a, err := openai.New("https://upstream.test/v1", &opts)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// ask makes a call of a body that a caller could have sent.
func ask(t *testing.T, body string) *provider.Call {
	t.Helper()
	req, err := chat.Parse([]byte(body))
	if err != nil {
		t.Fatalf("Parse(%s) = %v", body, err)
	}
	return &provider.Call{Request: req, Upstream: "theirs"}
}

const (
	plain    = `{"model":"m","messages":[{"role":"user","content":"Hi"}]}`
	streamed = `{"model":"m","messages":[{"role":"user","content":"Hi"}],"stream":true}`
)

func TestRequestBody(t *testing.T) {
	t.Parallel()
	const options = `"stream_options":{"include_usage":true},`
	tests := map[string]struct {
		body   string
		thinks bool
		want   string
	}{
		"the model alone": {body: plain, want: `{"model":"theirs","messages":[{"role":"user","content":"Hi"}]}`},
		"every other byte stays": {
			body: "\n{ \"temperature\" : 1.50 ,\t\"messages\":[ {\"content\":\"\\u00e9 \\ud83d\\ude00 é\",\"role\":\"user\"} ], \"x_unknown\":{\"b\":1,\"a\":[ ]}, \"model\" : \"m\" ,\"seed\":7}\r\n",
			want: "\n{ \"temperature\" : 1.50 ,\t\"messages\":[ {\"content\":\"\\u00e9 \\ud83d\\ude00 é\",\"role\":\"user\"} ], \"x_unknown\":{\"b\":1,\"a\":[ ]}, \"model\" : \"theirs\" ,\"seed\":7}\r\n",
		},
		"a stream's figures are asked for": {body: streamed, want: `{` + options + `"model":"theirs","messages":[{"role":"user","content":"Hi"}],"stream":true}`},
		"even if the caller wants none": {
			body: `{"model":"m","stream":true,"stream_options":{"include_usage":false,"x":1},"messages":[{"role":"user","content":"Hi"}]}`,
			want: `{"model":"theirs","stream":true,"stream_options":{"include_usage":true,"x":1},"messages":[{"role":"user","content":"Hi"}]}`,
		},
		"and once only": {
			body: `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"Hi"}]}`,
			want: `{"model":"theirs","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"Hi"}]}`,
		},
		"effort for a model that thinks": {
			body: `{"model":"m","reasoning_effort":"high","messages":[{"role":"user","content":"Hi"}]}`, thinks: true,
			want: `{"model":"theirs","reasoning_effort":"high","messages":[{"role":"user","content":"Hi"}]}`,
		},
		"no effort for one that does not": {
			body: `{"model":"m","reasoning_effort":"high","messages":[{"role":"user","content":"Hi"}]}`,
			want: `{"model":"theirs","messages":[{"role":"user","content":"Hi"}]}`,
		},
		"developer is system": {
			body: `{"model":"m","messages":[{"role":"developer","content":"developer"},{"role":"user","content":"Hi"}]}`,
			want: `{"model":"theirs","messages":[{"role":"system","content":"developer"},{"role":"user","content":"Hi"}]}`,
		},
	}
	for name, tt := range tests {
		var got string
		a := adapter(t, openai.Options{}, func(r *http.Request) (*http.Response, error) {
			body, err := io.ReadAll(r.Body)
			if err != nil || r.ContentLength != int64(len(body)) {
				t.Errorf("%s: a body of %d bytes is told to have %d, %v", name, len(body), r.ContentLength, err)
			}
			got = string(body)
			again, err := r.GetBody()
			if err != nil {
				t.Fatal(err)
			}
			if second, _ := io.ReadAll(again); string(second) != got {
				t.Errorf("%s: sent again the body is %s, want %s", name, second, got)
			}
			return providertest.Answer(jsonBody, strings.NewReader(`{}`)), nil
		})
		call := ask(t, tt.body)
		call.Thinks = tt.thinks
		in, err := a.Open(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		in.Close()
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

func TestRequestHead(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ base, key, url, authorization string }{
		{"https://upstream.test/v1", "secret", "https://upstream.test/v1/chat/completions", "Bearer secret"},
		{"https://upstream.test/v1/", "", "https://upstream.test/v1/chat/completions", ""},
		{"http://127.0.0.1:8080", "k", "http://127.0.0.1:8080/chat/completions", "Bearer k"},
	} {
		var got *http.Request
		a, err := openai.New(tt.base, &openai.Options{APIKey: tt.key, Transport: providertest.Transport(func(r *http.Request) (*http.Response, error) {
			got = r
			return providertest.Answer(jsonBody, strings.NewReader(`{}`)), nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		in, err := a.Open(t.Context(), ask(t, plain))
		if err != nil {
			t.Fatal(err)
		}
		in.Close()
		if got.Method != http.MethodPost || got.URL.String() != tt.url || got.Host != got.URL.Host {
			t.Errorf("asked %s %s of %s, want POST %s", got.Method, got.URL, got.Host, tt.url)
		}
		want := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "User-Agent": {"sluice"}}
		if tt.authorization != "" {
			want.Set("Authorization", tt.authorization)
		}
		if diff := cmp.Diff(want, got.Header); diff != "" {
			t.Errorf("header: -want +got\n%s", diff)
		}
	}
	if a, err := openai.New("http://bad host/%zz", nil); err == nil || strings.Contains(err.Error(), "bad") {
		t.Errorf("New of a bad URL = %v, %v, want an error that does not repeat it", a, err)
	}
}

// TestBounds sends bounds of the reply, stops and other things that no upstream is to see as they came.
func TestBounds(t *testing.T) {
	t.Parallel()
	const file = `"messages":[{"role":"user","content":[{"type":"file","file":{"filename":"f","file_data":"data:text/plain;base64,SGk="}}]}]`
	const stored = `"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"f"}}]}]`
	for _, tt := range []struct {
		preset, members string
		want            string // the members that go up, without the model; empty: it is refused
		dropped         string
	}{
		{"", `"max_tokens":10,"max_completion_tokens":20,"messages":[{"role":"user","content":"Hi"}]`, `"max_tokens":10,"messages":[{"role":"user","content":"Hi"}]`, ""},
		{"", `"max_tokens":30,"max_completion_tokens":20,"messages":[{"role":"user","content":"Hi"}]`, `"max_tokens":20,"messages":[{"role":"user","content":"Hi"}]`, ""},
		{"", `"max_tokens":null,"max_completion_tokens":20,"messages":[{"role":"user","content":"Hi"}]`, `"max_tokens":null,"max_completion_tokens":20,"messages":[{"role":"user","content":"Hi"}]`, ""},
		{"", `"max_completion_tokens":128000,"messages":[{"role":"user","content":"Hi"}]`, `"max_completion_tokens":4096,"messages":[{"role":"user","content":"Hi"}]`, "max_completion_tokens"},
		{"", `"max_tokens":128000,"messages":[{"role":"user","content":"Hi"}]`, `"max_tokens":4096,"messages":[{"role":"user","content":"Hi"}]`, "max_tokens"},
		{"vllm", `"max_tokens":10,"max_completion_tokens":20,"messages":[{"role":"user","content":"Hi"}]`, `"max_completion_tokens":10,"messages":[{"role":"user","content":"Hi"}]`, ""},
		{"openai", `"max_tokens":128000,"messages":[{"role":"user","content":"Hi"}]`, `"messages":[{"role":"user","content":"Hi"}],"max_completion_tokens":4096`, "max_tokens"},
		{"openai", `"max_tokens":10,"max_completion_tokens":20,"messages":[{"role":"user","content":"Hi"}]`, `"max_completion_tokens":10,"messages":[{"role":"user","content":"Hi"}]`, ""},
		{"mistral", `"max_completion_tokens":128000,"messages":[{"role":"user","content":"Hi"}]`, `"messages":[{"role":"user","content":"Hi"}],"max_tokens":4096`, "max_completion_tokens"},
		{"", `"stop":["","a"],"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"Hi"}]`, `"stop":["a"],"messages":[{"role":"user","content":"Hi"}]`, ""},
		{"", `"messages":[{"role":"user","content":"Hi"}],"stop":""`, `"messages":[{"role":"user","content":"Hi"}]`, ""},
		{"", `"reasoning_effort":"high","messages":[{"role":"user","content":"Hi"}]`, `"messages":[{"role":"user","content":"Hi"}]`, "reasoning_effort"},
		{"", file, file, ""},
		{"openai", file, file, ""},
		{"", stored, "", ""},
		{"openai", stored, "", ""},
		{"groq", file, "", ""},
		{"ollama", file, "", ""},
	} {
		var got string
		p, _ := openai.PresetOf(tt.preset, "")
		a := adapter(t, openai.Options{Preset: p}, func(r *http.Request) (*http.Response, error) {
			body, _ := io.ReadAll(r.Body)
			got = string(body)
			return providertest.Answer(jsonBody, strings.NewReader(`{}`)), nil
		})
		call := ask(t, `{"model":"m",`+tt.members+`}`)
		call.MaxOutput = 4096
		in, err := a.Open(t.Context(), call)
		if err == nil {
			in.Close()
		}
		if tt.want == "" {
			if !fault.Is(err, fault.Invalid) || got != "" {
				t.Errorf("%s: %s went up as %s, %v, want a 400", tt.preset, tt.members, got, err)
			}
			continue
		}
		if err != nil || decoded(t, got) != decoded(t, `{"model":"theirs",`+tt.want+`}`) {
			t.Errorf("%s: %s went up as %s, %v, want %s", tt.preset, tt.members, got, err, tt.want)
		}
		if dropped := strings.Join(call.Dropped, ", "); dropped != tt.dropped {
			t.Errorf("%s: %s drops %q, want %q", tt.preset, tt.members, dropped, tt.dropped)
		}
	}
}

// decoded is JSON with its members in order.
func decoded(t *testing.T, body string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Only some vendors know the detail original of images; others get the highest that they have.
func TestOriginalDetail(t *testing.T) {
	t.Parallel()
	const image = `{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo=","detail":"original"}}`
	for kind, want := range map[string]string{
		"openai": `"detail":"original"`, "openrouter": `"detail":"original"`, "": `"detail":"original"`,
		"groq": `[{"type":"text","text":"a"},{"type":"image_url","image_url":{"detail":"high","url":"data:image/png;base64,iVBORw0KGgo="}}]`,
	} {
		var sent string
		preset, _ := openai.PresetOf(kind, "")
		a := adapter(t, openai.Options{Preset: preset}, func(r *http.Request) (*http.Response, error) {
			raw, err := io.ReadAll(r.Body)
			sent = string(raw)
			return providertest.Answer(jsonBody, strings.NewReader(writeWhole(nil))), err
		})
		call := ask(t, `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"},`+image+`]}]}`)
		in, err := a.Open(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		in.Close()
		a.Wait()
		if !strings.Contains(sent, want) || (len(call.Dropped) == 1) != (kind == "groq") {
			t.Errorf("%s gets %s, dropped %q; want %s", kind, sent, call.Dropped, want)
		}
	}
}
