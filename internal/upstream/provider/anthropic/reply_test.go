package anthropic_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/anthropic"
	"sluice/internal/upstream/provider/providertest"
)

// wire answers every request with a body.
type wire struct {
	body        string
	contentType string
}

func (w wire) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {w.contentType}}, ContentLength: -1, Body: io.NopCloser(strings.NewReader(w.body))}, nil
}

// open asks a model, which answers with the body.
func open(t testing.TB, w wire) provider.Stream {
	t.Helper()
	a, err := anthropic.New("", &anthropic.Options{APIKey: providertest.Key, Transport: w})
	if err != nil {
		t.Fatal(err)
	}
	req, err := chat.Parse([]byte(`{"model":"m","messages":[{"role":"user","content":"Hello"}],"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	in, err := a.Open(context.Background(), &provider.Call{Request: req, Upstream: "claude-sonnet-4-5", Thinks: true})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// long is a reply with everything in it.
var long = writeStream(providertest.Everything("toolu_1"))

// TestCutAnywhere ends a stream behind each of its events: only with its stop reason it is complete.
func TestCutAnywhere(t *testing.T) {
	t.Parallel()
	for n := range len(long) + 1 {
		in := open(t, wire{strings.Join(long[:n], ""), "text/event-stream"})
		got := providertest.Collect(t, in)
		in.Close()
		if complete := n >= len(long)-1; (got.Err == nil) != complete || (got.Finish != "") != complete {
			t.Errorf("%d of %d events: finish %q, %v, want it complete: %t", n, len(long), got.Finish, got.Err, complete)
		}
		if got.Err != nil && !fault.Is(got.Err, fault.Unavailable) {
			t.Errorf("%d of %d events: %v, want a fault", n, len(long), got.Err)
		}
	}
}

// What is written to a cache is counted by how long it is kept. Replies of older models do not say how long. Steps that are
// not in the figures of the whole are added.
func TestUsage(t *testing.T) {
	t.Parallel()
	for usage, want := range map[string]chat.Usage{
		`{"input_tokens":10,"cache_creation_input_tokens":7,"cache_creation":{"ephemeral_5m_input_tokens":4,"ephemeral_1h_input_tokens":3},"output_tokens":2}`:                                                                                                                                                                   {Prompt: 17, Completion: 2, CacheWrite5m: 4, CacheWrite1h: 3},
		`{"input_tokens":10,"output_tokens":2,"iterations":[{"type":"compaction","input_tokens":180,"output_tokens":35,"cache_creation_input_tokens":5,"cache_creation":{"ephemeral_1h_input_tokens":5}},{"type":"message","input_tokens":10,"output_tokens":2},{"type":"advisor_message","input_tokens":3,"output_tokens":1}]}`: {Prompt: 198, Completion: 38, CacheWrite1h: 5},
		`{"input_tokens":10,"cache_creation_input_tokens":7,"output_tokens":2}`:                                                  {Prompt: 17, Completion: 2, CacheWrite5m: 7},
		`{"input_tokens":10,"cache_creation_input_tokens":7,"cache_creation":null,"output_tokens":2}`:                            {Prompt: 17, Completion: 2, CacheWrite5m: 7},
		`{"input_tokens":10,"cache_creation_input_tokens":7,"cache_creation":{"ephemeral_1h_input_tokens":9},"output_tokens":2}`: {Prompt: 17, Completion: 2, CacheWrite1h: 7},
	} {
		in := open(t, wire{`{"type":"message","content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn","usage":` + usage + `}`, "application/json"})
		got := providertest.Collect(t, in)
		in.Close()
		if got.Err != nil || got.Usage == nil || *got.Usage != want {
			t.Errorf("%s: %+v, %v, want %+v", usage, got.Usage, got.Err, want)
		}
	}
}

// Calls of tools that the vendor has run count by what the reply shows or by its figures, whichever is more.
func TestVendorCalls(t *testing.T) {
	t.Parallel()
	const search = `{"type":"server_tool_use","id":"s","name":"web_search","input":{}},`
	for body, want := range map[string]int{
		`"content":[` + search + search + `{"type":"text","text":"Hi"}],"usage":{"output_tokens":2}`:                                                                                       2,
		`"content":[` + search + `{"type":"text","text":"Hi"}],"usage":{"output_tokens":2,"server_tool_use":{"web_search_requests":2,"web_fetch_requests":1,"code_execution_requests":1}}`: 4,
		`"content":[{"type":"text","text":"Hi"}],"usage":{"output_tokens":2,"server_tool_use":{"web_search_requests":-5}}`:                                                                 0,
		`"content":[{"type":"text","text":"Hi"}],"usage":{"output_tokens":2,"server_tool_use":null}`:                                                                                       0,
	} {
		in := open(t, wire{`{"type":"message","stop_reason":"end_turn",` + body + `}`, "application/json"})
		got := providertest.Collect(t, in)
		if n := provider.BillOf(in).Calls; n != want || got.Err != nil {
			t.Errorf("VendorCalls(%s) = %d, %v, want %d", body, n, got.Err, want)
		}
		in.Close()
	}
}

// TestKeyStaysSecret has every kind of failure repeat our key.
func TestKeyStaysSecret(t *testing.T) {
	t.Parallel()
	message := `{"type":"error","error":{"type":"KIND","message":"No. ` + providertest.Key + ` is wrong"}}`
	for _, kind := range []string{
		"invalid_request_error", "authentication_error", "billing_error", "permission_error", "not_found_error", "request_too_large",
		"rate_limit_error", "timeout_error", "overloaded_error", "api_error", "another_error",
	} {
		body := strings.Replace(message, "KIND", kind, 1)
		for _, w := range []wire{{"event: error\ndata: " + body + "\n\n", "text/event-stream"}, {body, "application/json"}} {
			in := open(t, w)
			_, err := in.Next()
			in.Close()
			f, ok := errors.AsType[*fault.Fault](err)
			if !ok || strings.Contains(f.Error(), providertest.Key) {
				t.Errorf("%s: %v, want a fault without our key", kind, err)
			}
			if caused := kind == "invalid_request_error" || kind == "request_too_large"; caused != (f.Kind == fault.Invalid) {
				t.Errorf("%s: %v, want it to be the caller's: %t", kind, f.Kind, caused)
			}
		}
	}
}

func TestModels(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/models" || r.Header.Get("X-Api-Key") != providertest.Key {
			http.NotFound(w, r)
			return
		}
		switch r.URL.Query().Get("after_id") {
		case "":
			_, _ = io.WriteString(w, `{"data":[{"type":"model","id":"claude-opus-5","display_name":"Claude Opus 5","created_at":"2026-07-24T00:00:00Z","max_input_tokens":1000000,"max_tokens":128000}],"has_more":true,"first_id":"claude-opus-5","last_id":"claude-opus-5"}`)
		case "claude-opus-5":
			_, _ = io.WriteString(w, `{"data":[{"type":"model","id":"claude-old","display_name":"Old","created_at":"1970-01-01T00:00:00Z"}],"has_more":false,"last_id":"claude-old"}`)
		}
	}))
	defer server.Close()
	a, err := anthropic.New(server.URL+"/v1/", &anthropic.Options{APIKey: providertest.Key})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	got, err := a.Models(t.Context())
	want := []provider.Listed{{ID: "claude-opus-5", Name: "Claude Opus 5", ContextLength: 1000000, MaxOutput: 128000}, {ID: "claude-old", Name: "Old"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("Models = %v: -want +got\n%s", err, diff)
	}
	a2, err := anthropic.New(server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a2.Close()
	if _, err := a2.Models(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Models without a key = %v, want a fault", err)
	}
}

// FuzzStream feeds streams of all sorts. None may panic, and none is complete without a stop reason.
func FuzzStream(f *testing.F) {
	f.Add(strings.Join(long, ""))
	f.Add("data: {\"type\":\"content_block_delta\",\"index\":-1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\"}}\n\n")
	f.Add("data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"input_tokens\":-5,\"output_tokens\":1e3}}\n\ndata: {\"type\":\"message_stop\"}\n\n")
	f.Add("data: {\"type\":\"error\",\"error\":null}\n\n")
	f.Add("data: null\n\ndata: {\"type\":\"message_start\",\"message\":null}\n\n")
	f.Fuzz(func(t *testing.T, body string) {
		in := open(t, wire{body, "text/event-stream"})
		defer in.Close()
		got := providertest.Collect(t, in)
		if got.Err == nil && !strings.Contains(body, "stop_reason") {
			t.Errorf("%q is taken for a complete reply", body)
		}
		if u := got.Usage; u != nil && (u.Prompt < 0 || u.Cached < 0 || u.Completion < 0 || u.Reasoning < 0) {
			t.Errorf("usage %+v, want no negative figures", u)
		}
	})
}

func BenchmarkStream(b *testing.B) {
	providertest.BenchmarkStream(b, writeStream, func(body string) provider.Stream { return open(b, wire{body, "text/event-stream"}) })
}

// BenchmarkRequest is a request of 200 KB.
func BenchmarkRequest(b *testing.B) {
	a, err := anthropic.New("", &anthropic.Options{Transport: wire{long[0], "text/event-stream"}})
	if err != nil {
		b.Fatal(err)
	}
	line := strings.Repeat(`The quick brown fox \"jumps\" over the lazy dog. Über den Zaun.\n`, 60)
	body := `{"model":"m","messages":[` + strings.Repeat(`{"role":"user","content":"`+line+`"},{"role":"assistant","content":"`+line+`"},`, 25) + `{"role":"user","content":"Hello"}],"stream":true}`
	req, err := chat.Parse([]byte(body))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		in, err := a.Open(context.Background(), &provider.Call{Request: req, Upstream: "claude-sonnet-4-5"})
		if err != nil {
			b.Fatal(err)
		}
		in.Close()
	}
}
