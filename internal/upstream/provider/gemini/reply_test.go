package gemini_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/gemini"
	"sluice/internal/upstream/provider/providertest"
)

const (
	eventStream = "text/event-stream"
	jsonBody    = "application/json"

	plain    = `{"model":"m","messages":[{"role":"user","content":"Hi"}]}`
	streamed = `{"model":"m","messages":[{"role":"user","content":"Hi"}],"stream":true}`
)

// adapter returns an adapter that uses only the given transport.
func adapter(t testing.TB, tr providertest.Transport) *gemini.Adapter {
	t.Helper()
	a, err := gemini.New("https://upstream.test/v1beta/", &gemini.Options{APIKey: providertest.Key, Transport: tr})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// open opens the reply.
func open(t testing.TB, body, contentType string, reply io.Reader) provider.Stream {
	t.Helper()
	req, err := chat.Parse([]byte(body))
	if err != nil {
		t.Fatalf("Parse(%s) = %v", body, err)
	}
	a := adapter(t, func(*http.Request) (*http.Response, error) { return providertest.Answer(contentType, reply), nil })
	in, err := a.Open(context.Background(), &provider.Call{Request: req, Upstream: "gemini-x"})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// events is a reply with every kind of event, one per chunk.
var events = []provider.Event{
	{Kind: provider.Reasoning, Text: "Hm."},
	{Kind: provider.Text, Text: "Well"},
	{Kind: provider.Text, Text: ", so."},
	{Kind: provider.ToolCall, Tool: provider.ToolPiece{ID: "call_1", Name: "f", Arguments: `{"a":1}`}},
	{Kind: provider.Finish, Finish: chat.FinishToolCalls},
	{Kind: provider.Usage, Usage: chat.Usage{Prompt: 3, Cached: 1, Completion: 2, Reasoning: 4}},
}

// TestCutAtEveryEvent cuts a stream after each of its bytes. The reply is complete only with all of them.
func TestCutAtEveryEvent(t *testing.T) {
	t.Parallel()
	pieces := writeStream(events)
	body := strings.Join(pieces, "")
	lastChunk := len(body) // an event counts once the blank line behind it has come
	for at := range len(body) + 1 {
		for _, end := range []error{io.EOF, io.ErrUnexpectedEOF} {
			in := open(t, streamed, eventStream, io.MultiReader(strings.NewReader(body[:at]), iotest.ErrReader(end)))
			got := providertest.Collect(t, in)
			in.Close()
			complete := got.Err == nil
			if complete != (at == lastChunk) || complete != (got.Finish != "") || complete != (got.Usage != nil) {
				t.Errorf("cut behind %d of %d bytes with %v: %+v, want it complete: %t", at, len(body), end, got, at == lastChunk)
			}
			if !complete && !fault.Is(got.Err, fault.Unavailable) {
				t.Errorf("cut behind %d bytes: %v, want 503", at, got.Err)
			}
		}
	}
}

// TestOneByteAtATime reads the same reply from a body that arrives byte by byte.
func TestOneByteAtATime(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ body, contentType, reply string }{
		{streamed, eventStream, strings.Join(writeStream(events), "")},
		{streamed, "Text/Event-Stream; charset=utf-8", strings.Join(writeStream(events), "")},
		{plain, jsonBody, writeWhole(events)},
		{streamed, jsonBody, writeWhole(events)},
		{plain, eventStream, strings.Join(writeStream(events), "")},
	} {
		in := open(t, tt.body, tt.contentType, iotest.OneByteReader(strings.NewReader(tt.reply)))
		if diff := cmp.Diff(providertest.Expected(events), providertest.Collect(t, in)); diff != "" {
			t.Errorf("%s as %s: -want +got\n%s", tt.body, tt.contentType, diff)
		}
		if _, err := in.Next(); !errors.Is(err, io.EOF) || !in.Ready() {
			t.Errorf("behind the end: %v, ready %t, want EOF at once", err, in.Ready())
		}
		in.Close()
	}
}

// TestKeyStaysOurs checks that no fault that a reply can cause contains the key.
func TestKeyStaysOurs(t *testing.T) {
	t.Parallel()
	for _, reply := range []string{
		`{"error":{"code":400,"message":"The key KEY is wrong.","status":"INVALID_ARGUMENT"}}`,
		`{"error":{"code":400,"message":"API key KEY not valid.","status":"INVALID_ARGUMENT"}}`,
		`{"error":{"code":403,"message":"KEY","status":"PERMISSION_DENIED"}}`,
		`{"error":{"message":"KEY"}}`,
		`[{"error":{"code":500,"message":"KEY"}}]`,
		`KEY`,
	} {
		reply = strings.ReplaceAll(reply, "KEY", providertest.Key)
		in := open(t, streamed, eventStream, strings.NewReader("data: "+reply+"\n\n"))
		_, err := in.Next()
		in.Close()
		if err == nil || strings.Contains(err.Error(), providertest.Key) {
			t.Errorf("%s: the log reads %v, want no key in it", reply, err)
		}
	}
}

// TestRequestNeverShowsTheKey checks that the key is in neither the URL nor the body.
func TestRequestNeverShowsTheKey(t *testing.T) {
	t.Parallel()
	req, err := chat.Parse([]byte(streamed))
	if err != nil {
		t.Fatal(err)
	}
	for upstream, want := range map[string]string{
		"gemini-x":        "https://upstream.test/v1beta/models/gemini-x:streamGenerateContent?alt=sse",
		"tunedModels/a b": "https://upstream.test/v1beta/tunedModels/a%20b:streamGenerateContent?alt=sse",
	} {
		var got *http.Request
		var body bytes.Buffer
		a := adapter(t, func(r *http.Request) (*http.Response, error) {
			got = r
			_, _ = io.Copy(&body, r.Body)
			return providertest.Answer(eventStream, strings.NewReader("")), nil
		})
		in, err := a.Open(t.Context(), &provider.Call{Request: req, Upstream: upstream})
		if err != nil {
			t.Fatal(err)
		}
		in.Close()
		if got.URL.String() != want || got.Header.Get("X-Goog-Api-Key") != providertest.Key {
			t.Errorf("asked %s with %v, want %s", got.URL, got.Header, want)
		}
		if strings.Contains(got.URL.String()+body.String(), providertest.Key) {
			t.Errorf("the key stands in %s or %s", got.URL, body.String())
		}
	}
	if a, err := gemini.New("http://bad host/%zz", nil); err == nil || strings.Contains(err.Error(), "bad") {
		t.Errorf("New of a bad URL = %v, %v, want an error that does not repeat it", a, err)
	}
}

// TestStatesOfOthers checks calls whose kept state is another adapter's, or missing. Both are sent with the
// signature for calls that were never signed.
func TestStatesOfOthers(t *testing.T) {
	t.Parallel()
	memory := providertest.NewMemory()
	for id, state := range map[string]string{"other": `{"dialect":"messages","call":"c2ln"}`, "garbage": `{`, "empty": `{"vendor":"gemini"}`} {
		if err := memory.Keep(t.Context(), id, []byte(state)); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"other", "garbage", "empty", "unknown"} {
		req, err := chat.Parse([]byte(`{"model":"m","messages":[{"role":"user","content":"Hi"},{"role":"assistant","tool_calls":[{"id":"` + id +
			`","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"` + id + `","content":"1"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		var body bytes.Buffer
		a := adapter(t, func(r *http.Request) (*http.Response, error) {
			_, err := io.Copy(&body, r.Body)
			return providertest.Answer(jsonBody, strings.NewReader(`{}`)), err
		})
		in, err := a.Open(t.Context(), &provider.Call{Request: req, Upstream: "gemini-3-pro-preview", Memory: memory})
		if err != nil {
			t.Fatal(err)
		}
		in.Close()
		if want := `"thoughtSignature":"c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="`; strings.Count(body.String(), "thoughtSignature") != 1 || !strings.Contains(body.String(), want) {
			t.Errorf("the call %s goes up in %s, want %s", id, body.String(), want)
		}
	}
}

func TestModels(t *testing.T) {
	t.Parallel()
	pages := map[string]string{
		"pageSize=1000": `{"models":[
			{"name":"models/gemini-2.5-flash","displayName":"Gemini 2.5 Flash","inputTokenLimit":1048576,"outputTokenLimit":65536,"supportedGenerationMethods":["generateContent","countTokens"]},
			{"name":"models/embedding-001","displayName":"Embedding","inputTokenLimit":2048,"outputTokenLimit":1,"supportedGenerationMethods":["embedContent"]},{"name":"models/veo","supportedGenerationMethods":["predictLongRunning"]}],"nextPageToken":"a&b"}`,
		"pageSize=1000&pageToken=a%26b": `{"models":[{"name":"models/gemma-3","supportedGenerationMethods":["generateContent"]}]}`,
	}
	a := adapter(t, func(r *http.Request) (*http.Response, error) {
		page, ok := pages[r.URL.RawQuery]
		if !ok || r.Method != http.MethodGet || r.URL.Path != "/v1beta/models" || r.Header.Get("X-Goog-Api-Key") != providertest.Key {
			t.Errorf("asked %s %s", r.Method, r.URL)
		}
		return providertest.Answer(jsonBody, strings.NewReader(page)), nil
	})
	got, err := a.Models(t.Context())
	want := []provider.Listed{{ID: "gemini-2.5-flash", Name: "Gemini 2.5 Flash", ContextLength: 1048576, MaxOutput: 65536}, {ID: "embedding-001", Name: "Embedding", ContextLength: 2048, Embeds: true}, {ID: "gemma-3"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("Models() = %v: -want +got\n%s", err, diff)
	}
	bad := adapter(t, func(*http.Request) (*http.Response, error) {
		return providertest.Answer(jsonBody, strings.NewReader("<html>")), nil
	})
	if got, err := bad.Models(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Models() of garbage = %v, %v, want 503", got, err)
	}
}

// FuzzStream checks that the decoder follows the rules of every stream, whatever the body is.
func FuzzStream(f *testing.F) {
	for _, piece := range writeStream(events) {
		f.Add([]byte(piece))
	}
	f.Add([]byte(strings.Join(writeStream(events), "")))
	f.Add([]byte(`data: [{"candidates":[{"index":-1},{"index":9,"content":{"parts":[{}]}}]},{"promptFeedback":{"blockReason":"OTHER"}}]` + "\n\n"))
	f.Add([]byte(`data: {"candidates":[{"content":{"parts":[{"functionCall":{"args":null}},{"functionCall":{"args":[1]}},null]},"finishReason":"OTHER"}],"error":null}` + "\n\n"))
	f.Add([]byte(`data: {"usageMetadata":{"promptTokenCount":-1,"cachedContentTokenCount":99,"candidatesTokenCount":9223372036854775807}}` + "\n\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		in := open(t, streamed, eventStream, bytes.NewReader(body))
		defer in.Close()
		got := providertest.Collect(t, in)
		if got.Err != nil {
			if got.Finish != "" || !fault.Is(got.Err, fault.Unavailable) && !fault.Is(got.Err, fault.Invalid) {
				t.Errorf("the reply ends with %v and finish reason %q, want a fault and none", got.Err, got.Finish)
			}
			return
		}
		if u := got.Usage; u != nil && min(u.Prompt, u.Cached, u.Completion, u.Reasoning) < 0 {
			t.Errorf("usage %+v, want nothing below zero", u)
		}
		for i, c := range got.Calls {
			if c.ID == "" {
				t.Errorf("call %d has no id", i)
			}
		}
	})
}

// BenchmarkStream measures the cost of one chunk of text, including its usage.
func BenchmarkStream(b *testing.B) {
	one := sse(chunk(object{"content": turn(object{"text": " and so it went on"}), "index": 0}, usageMetadata(chat.Usage{Prompt: 9, Completion: 5})))
	const many = 1000
	body := []byte(strings.Repeat(one, many))
	b.ReportAllocs()
	for b.Loop() {
		in := open(b, streamed, eventStream, bytes.NewReader(body))
		n := 0
		for {
			if _, err := in.Next(); err != nil {
				break
			}
			n++
		}
		in.Close()
		if n != many {
			b.Fatal(fmt.Sprint(n, " events"))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/many, "µs/chunk")
}
