package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/line/relay"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/openai"
	"sluice/internal/upstream/provider/providertest"
)

// lab is OpenAI with the models of today: it answers by both APIs, and refuses what OpenAI refuses.
type lab struct {
	mu    sync.Mutex
	asked []string // the APIs of the calls so far, and the effort
	body  map[string]any
}

// taken returns the APIs of the calls since the last time.
func (l *lab) taken() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	asked := strings.Join(l.asked, " ")
	l.asked = nil
	return asked
}

// The fields that each API knows, as far as tests send them.
var labFields = map[string][]string{
	"chat": {
		"model", "messages", "stream", "stream_options", "tools", "tool_choice", "reasoning_effort", "temperature", "top_p", "n", "stop", "seed", "response_format", "max_completion_tokens",
		"logprobs", "top_logprobs", "parallel_tool_calls", "user", "verbosity", "prompt_cache_key",
	},
	"responses": {
		"model", "input", "store", "stream", "tools", "tool_choice", "reasoning", "temperature", "top_p", "text", "max_output_tokens", "include", "parallel_tool_calls", "user", "prompt_cache_key",
		"instructions", "metadata", "prompt_cache_options",
	},
}

// refusal returns what OpenAI says of a request; empty if it takes it.
func (l *lab) refusal(api string, body map[string]any) (status int, message, param string) {
	for name := range body {
		if !slices.Contains(labFields[api], name) {
			return 400, fmt.Sprintf("Unknown parameter: '%s'.", name), name
		}
	}
	model, _ := body["model"].(string)
	effort, _ := body["reasoning_effort"].(string)
	if reasoning, ok := body["reasoning"].(map[string]any); ok {
		effort, _ = reasoning["effort"].(string)
	}
	is := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(model, name) })
	}
	newest := is("gpt-6-astra", "gpt-6.1", "gpt-tomorrow")
	thinks := is("gpt-6", "gpt-5.6", "gpt-tomorrow")
	asked := effort
	if thinks && effort == "" {
		effort = "medium"
	}
	tools, _ := body["tools"].([]any)
	switch {
	case api == "chat" && is("gpt-pro"):
		return 404, "This model is only supported in v1/responses and not in v1/chat/completions.", "model"
	case api == "responses" && is("gpt-sound"):
		return 400, "The requested model 'gpt-sound' is not supported with the Responses API.", "model"
	case (thinks || is("gpt-5.4")) && effort == "minimal", newest && effort == "none", is("gpt-5.4") && effort == "max":
		return 400, fmt.Sprintf("Unsupported value: '%s' does not support '%s' with this model.", "reasoning_effort", effort), "reasoning_effort"
	case api == "chat" && len(tools) > 0 && (thinks && effort != "none" || is("gpt-5.4") && asked != "" && asked != "none"):
		return 400, "Function tools with reasoning_effort are not supported for " + model + " in /v1/chat/completions. Please use /v1/responses instead.", "reasoning_effort"
	}
	for _, name := range []string{"temperature", "top_p", "logprobs", "top_logprobs"} {
		if _, sent := body[name]; sent && effort != "" && effort != "none" {
			return 400, fmt.Sprintf("Unsupported parameter: '%s' is not supported with this model.", name), name
		}
	}
	if api == "responses" && body["store"] != false {
		return 400, "This organization does not store responses.", "store"
	}
	for i, tool := range tools {
		_, flat := tool.(map[string]any)["name"]
		if flat != (api == "responses") {
			return 400, fmt.Sprintf("Missing required parameter: 'tools[%d].name'.", i), "tools"
		}
	}
	return 0, "", ""
}

// RoundTrip answers a call: with a function call if there are tools and the last word is the user's, otherwise with a text.
func (l *lab) RoundTrip(r *http.Request) (*http.Response, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var body map[string]any
	if err := json.Unmarshal(raw, &body); err != nil {
		return nil, err
	}
	api := "responses"
	if strings.HasSuffix(r.URL.Path, "/chat/completions") {
		api = "chat"
	}
	l.mu.Lock()
	l.asked, l.body = append(l.asked, api), body
	l.mu.Unlock()
	if status, message, param := l.refusal(api, body); status != 0 {
		resp := providertest.Answer(jsonBody, strings.NewReader(providertest.Encode(object{"error": object{"message": message, "type": "invalid_request_error", "param": param, "code": nil}})))
		resp.StatusCode = status
		return resp, nil
	}
	finish := chat.FinishStop
	events := []provider.Event{{Kind: provider.Text, Text: "It is "}, {Kind: provider.Text, Text: "cold."}}
	if body["tools"] != nil && !strings.Contains(string(raw), "call_1") {
		finish = chat.FinishToolCalls
		events = []provider.Event{{Kind: provider.ToolCall, Tool: provider.ToolPiece{ID: "call_1", Name: "weather", Arguments: `{"city":"Bern"}`}}}
	}
	events = append(events, provider.Event{Kind: provider.Finish, Finish: finish}, provider.Event{Kind: provider.Usage, Usage: chat.Usage{Prompt: 20, Completion: 7}})
	return l.reply(api, body["stream"] == true, events), nil
}

// reply writes events in the words of an API.
func (l *lab) reply(api string, stream bool, events []provider.Event) *http.Response {
	switch {
	case api == "chat" && stream:
		return providertest.Answer(eventStream, strings.NewReader(strings.Join(writeStream(events), "")))
	case api == "chat":
		return providertest.Answer(jsonBody, strings.NewReader(writeWhole(events)))
	case stream:
		return providertest.Answer(eventStream, strings.NewReader(strings.Join(writeResponseEvents(events), "")))
	}
	return providertest.Answer(jsonBody, strings.NewReader(writeResponse(events)))
}

// atLab returns an adapter for a lab, as the kind makes one.
func atLab(t *testing.T, kind string, l *lab, ways *openai.Ways) *openai.Adapter {
	t.Helper()
	preset, ok := openai.PresetOf(kind, "")
	if !ok {
		t.Fatal(kind)
	}
	return adapter(t, openai.Options{Preset: preset, Ways: ways}, l.RoundTrip)
}

// complete sends a chat completion and returns what its caller gets.
func complete(t *testing.T, a *openai.Adapter, model, members string) (got string, dropped []string, err error) {
	t.Helper()
	call := ask(t, `{"model":"m",`+members+`}`)
	call.Upstream, call.Thinks, call.ID = model, true, "r1"
	in, err := a.Open(t.Context(), call)
	if err != nil {
		return "", nil, err
	}
	defer in.Close()
	rec := httptest.NewRecorder()
	out := relay.New(rec, relay.Head{RequestID: "r1", Created: 1, Model: "lab/m"}, relay.Options{Stream: call.Request.Stream, IncludeUsage: call.Request.IncludeUsage, N: max(1, call.Request.N)})
	defer out.Close()
	out.Relay(t.Context(), in)
	if err := out.Finish(); err != nil {
		t.Fatal(err)
	}
	return rec.Body.String(), call.Dropped, nil
}

const (
	labUser  = `"messages":[{"role":"user","content":"How is it in Bern?"}]`
	labTools = `,"tools":[{"type":"function","function":{"name":"weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}]`
	labTurn  = `"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"How is it?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]},` +
		`{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{}"}}]},{"role":"tool","tool_call_id":"call_1","content":"3 degrees"}]`
)

// By which API each model is asked, and what its caller loses.
func TestAuto(t *testing.T) {
	t.Parallel()
	l := &lab{}
	a := atLab(t, "openai", l, nil)
	for _, tt := range []struct{ model, members, api, dropped string }{
		{"gpt-4.1", labUser + labTools + `,"temperature":0.5`, "chat", "temperature"}, // the test says that it thinks
		{"gpt-4.1", labUser, "chat", ""},
		{"gpt-5.2", labUser + labTools + `,"reasoning_effort":"high"`, "chat", ""},
		{"gpt-5.4", labUser + labTools, "chat", ""},
		{"gpt-5.4", labUser + labTools + `,"reasoning_effort":"none"`, "chat", ""},
		{"gpt-5.4", labUser + labTools + `,"reasoning_effort":"low"`, "responses", ""},
		{"gpt-5.4-mini", labUser + labTools + `,"reasoning_effort":"max"`, "responses", "reasoning_effort"},
		{"gpt-5.4", labUser + `,"reasoning_effort":"low"`, "chat", ""},
		{"gpt-5.6-sol", labUser + labTools, "responses", ""},
		{"gpt-5.6-sol", labUser + labTools + `,"reasoning_effort":"none","temperature":0.5`, "chat", ""},
		{"gpt-5.6-luna", labUser + labTools + `,"reasoning_effort":"minimal"`, "responses", "reasoning_effort"},
		{"gpt-6-sol", labUser + labTools + `,"reasoning_effort":"max"`, "responses", ""},
		{"gpt-6-sol", labUser + labTools + `,"temperature":0.2,"stop":["x"]`, "responses", "temperature, stop"},
		{"gpt-6-sol", labUser + `,"temperature":0.2,"stop":["x"]`, "chat", "temperature"},
		{"gpt-6-sol", labTurn + labTools, "responses", ""},
		{"gpt-6-luna", labUser + labTools + `,"reasoning_effort":"none"`, "chat", ""},
		{"gpt-6-astra", labUser + labTools + `,"reasoning_effort":"none"`, "responses", "reasoning_effort"},
		{"gpt-6.1-sol", labUser + labTools + `,"reasoning_effort":"minimal","metadata":{"a":"b"}`, "responses", "reasoning_effort"},
		{"gpt-6.1-sol", labUser, "chat", ""},
		{"gpt-6.1-terra", labUser + labTools + `,"stream":true`, "responses", ""},
		{"gpt-6.1-sol", labUser + labTools + `,"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"object"}}},"verbosity":"low"`, "responses", ""},
	} {
		_, dropped, err := complete(t, a, tt.model, tt.members)
		if api, names := l.taken(), strings.Join(dropped, ", "); err != nil || api != tt.api || names != tt.dropped {
			t.Errorf("%s with %s: %v by %s, dropped %q; want %s, %q", tt.model, tt.members, err, api, names, tt.api, tt.dropped)
		}
	}
	// Responses gives one reply, so that the vendor decides.
	_, _, err := complete(t, a, "gpt-6-sol", labUser+labTools+`,"n":2`)
	if api := l.taken(); api != "chat" || !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "Function tools") {
		t.Errorf("n = 2 by %s: %v, want the vendor's 400 for chat completions", api, err)
	}
}

// A caller of chat completions sees no difference between the two APIs.
func TestAutoIsTheSame(t *testing.T) {
	t.Parallel()
	l := &lab{}
	a := atLab(t, "openai", l, nil)
	for _, members := range []string{labUser + labTools, labTurn + labTools, labTurn + labTools + `,"response_format":{"type":"json_object"}`} {
		for _, stream := range []string{"", `,"stream":true`, `,"stream":true,"stream_options":{"include_usage":true}`} {
			older, _, err := complete(t, a, "gpt-4.1", members+stream)
			newer, _, wrong := complete(t, a, "gpt-6.1-sol", members+stream)
			if asked := l.taken(); err != nil || wrong != nil || asked != "chat responses" {
				t.Fatalf("%s: %v, %v by %s", members+stream, err, wrong, asked)
			}
			// The pieces of arguments may be cut elsewhere.
			if joined(t, older) != joined(t, newer) {
				t.Errorf("%s\nby chat completions %s\nby Responses %s", members+stream, older, newer)
			}
		}
	}
}

// joined returns the pieces of a streamed reply together: texts, calls, finish reason, usage. The members of a whole reply are
// sorted.
func joined(t *testing.T, stream string) string {
	t.Helper()
	if !strings.HasPrefix(stream, "data:") {
		var whole any
		if err := json.Unmarshal([]byte(stream), &whole); err != nil {
			t.Fatalf("%s: %v", stream, err)
		}
		return providertest.Encode(whole)
	}
	var text, calls, rest string
	for line := range strings.Lines(stream) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var c struct {
			ID      string
			Choices []struct {
				Delta struct {
					Content   string
					ToolCalls []struct {
						ID, Type string
						Function struct{ Name, Arguments string }
					} `json:"tool_calls"`
				}
				Finish string `json:"finish_reason"`
			}
			Usage json.RawMessage
		}
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		rest += string(c.Usage)
		for _, choice := range c.Choices {
			text += choice.Delta.Content
			rest += choice.Finish
			for _, call := range choice.Delta.ToolCalls {
				calls += call.ID + call.Type + call.Function.Name + call.Function.Arguments
			}
		}
	}
	return text + "|" + calls + "|" + rest
}

// Of a model that nobody here knows, its API is learned from the vendor, once.
func TestAutoLearns(t *testing.T) {
	t.Parallel()
	l, ways := &lab{}, &openai.Ways{}
	a := atLab(t, "azure", l, ways)
	for _, tt := range []struct{ model, members, first, then string }{
		{"gpt-tomorrow", labUser + labTools, "chat responses", "responses"},
		{"gpt-tomorrow", labUser, "chat", "chat"},
		{"gpt-pro-max", labUser, "chat responses", "responses"},
	} {
		for _, want := range []string{tt.first, tt.then} {
			if _, _, err := complete(t, a, tt.model, tt.members); err != nil {
				t.Errorf("%s: %v", tt.model, err)
			}
			if asked := l.taken(); asked != want {
				t.Errorf("%s is asked by %s, want %s", tt.model, asked, want)
			}
		}
	}
	// Another adapter of the process knows it, but only at the same address.
	if _, _, err := complete(t, atLab(t, "azure", l, ways), "gpt-tomorrow", labUser+labTools); err != nil || l.taken() != "responses" {
		t.Errorf("another key: %v, want it to be asked by Responses at once", err)
	}
	// What a caller writes cannot teach anything.
	_, _, err := complete(t, a, "gpt-4.1", labUser+`,"please use /v1/responses":1`)
	if asked := l.taken(); asked != "chat" || !fault.Is(err, fault.Invalid) {
		t.Errorf("a caller's own words: by %s, %v, want one call and its 400", asked, err)
	}
	// An error after which the other API fails, too, teaches nothing.
	if _, _, err = complete(t, a, "gpt-tomorrow-2", labUser+labTools+`,"user":"u","reasoning_effort":"none"`); err == nil {
		t.Error("an effort that the model does not take is taken")
	}
	if _, _, err = complete(t, a, "gpt-tomorrow-2", labUser+labTools); err != nil || l.taken() != "chat chat responses" {
		t.Errorf("after a 400 of the caller's: %v", err)
	}
}

// What a caller of Responses gets natively goes by Responses, except where the vendor does not serve the model there.
func TestAutoNative(t *testing.T) {
	t.Parallel()
	l := &lab{}
	a := atLab(t, "openai", l, nil)
	for _, tt := range []struct{ model, want string }{{"gpt-4.1", "responses"}, {"gpt-sound", "responses chat"}, {"gpt-sound", "chat"}, {"gpt-audio-2", "chat"}} {
		_, call := native(t, `{"model":"m","input":"Hi","store":false}`, nil)
		call.Upstream = tt.model
		in, err := a.Open(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		in.Close()
		if asked := l.taken(); asked != tt.want || call.Quoted != strings.HasSuffix(tt.want, "responses") {
			t.Errorf("%s is asked by %s, quoted %t; want %s", tt.model, asked, call.Quoted, tt.want)
		}
	}
	a.Wait()
}

// Which API each kind has if none is configured.
func TestDefaultAPI(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ kind, base, version, api, want string }{
		{"openai", "", "", "", "responses"},
		{"openai", "https://elsewhere.test/v1", "", "", "chat"},
		{"openai", "https://elsewhere.test/v1", "", openai.APIAuto, "responses"},
		{"openai", "", "", openai.APIChat, "chat"},
		{"azure", "https://mine.test", "", "", "responses"},
		{"azure", "https://mine.test", "2024-10-21", "", "chat"},
		{"azure", "https://mine.test", "2025-04-01-preview", "", "responses"},
		{"openrouter", "", "", "", "chat"},
	} {
		preset, _ := openai.PresetOf(tt.kind, tt.base)
		var path string
		a, err := openai.New(tt.base, &openai.Options{Preset: preset, API: tt.api, APIVersion: tt.version, Transport: providertest.Transport(func(r *http.Request) (*http.Response, error) {
			path = r.URL.String()
			return nil, errors.New("not today")
		})})
		if err != nil {
			t.Fatal(err)
		}
		call := ask(t, `{"model":"m",`+labUser+labTools+`}`)
		call.Upstream, call.Thinks = "gpt-6-sol", true
		if _, err := a.Open(t.Context(), call); err == nil || !strings.Contains(path, "/"+tt.want) {
			t.Errorf("%s at %q with version %q and api %q: asked %s, want %s", tt.kind, tt.base, tt.version, tt.api, path, tt.want)
		}
	}
}

// The requests of Azure have a path that begins with a slash, with and without one in the base URL.
func TestAzurePaths(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ base, version, want string }{
		{"https://mine.test", "", "/openai/v1/chat/completions"},
		{"https://mine.test/openai/v1/", "", "/openai/v1/chat/completions"},
		{"https://mine.test/proxy/openai", "", "/proxy/openai/v1/chat/completions"},
		{"https://mine.test", "2024-10-21", "/openai/deployments/theirs/chat/completions?api-version=2024-10-21"},
	} {
		preset, _ := openai.PresetOf("azure", tt.base)
		var path string
		a, err := openai.New(tt.base, &openai.Options{Preset: preset, APIVersion: tt.version, Transport: providertest.Transport(func(r *http.Request) (*http.Response, error) {
			path = r.URL.RequestURI()
			return nil, errors.New("not today")
		})})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Open(t.Context(), ask(t, plain)); err == nil || path != tt.want {
			t.Errorf("%s with version %q: asked %s, want %s", tt.base, tt.version, path, tt.want)
		}
	}
}

// shelf is a store of ways that several nodes share.
type shelf struct {
	mu    sync.Mutex
	ways  map[string]string
	wrong error
}

func (s *shelf) Ways(context.Context) (map[string]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.ways), s.wrong
}

func (s *shelf) AddWay(_ context.Context, name, way string, _ time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wrong == nil {
		s.ways[name] = way
	}
	return s.wrong
}

// What one node learns, others know: by its message, or within a minute. It outlives a store that is away, and a restart.
func TestWaysAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		store := &shelf{ways: map[string]string{"upstream.test/gpt-old": "responses", "upstream.test/gpt-odd": "by pigeon"}}
		here, told, deaf := &openai.Ways{}, &openai.Ways{}, &openai.Ways{}
		var wg sync.WaitGroup
		for _, w := range []*openai.Ways{here, told, deaf} {
			tell := func(_ context.Context, message string) error {
				told.Heard(message)
				return nil
			}
			if err := w.Open(ctx, store, &openai.WayOptions{Shared: true, Tell: tell, Log: slog.New(slog.DiscardHandler)}); err != nil {
				t.Fatal(err)
			}
			wg.Go(func() { w.Run(ctx) })
		}
		l := &lab{}
		asks := func(w *openai.Ways, model string) string {
			t.Helper()
			if _, _, err := complete(t, atLab(t, "azure", l, w), model, labUser+labTools); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return l.taken()
		}
		if got := asks(here, "gpt-old") + ", " + asks(here, "gpt-tomorrow") + ", " + asks(told, "gpt-tomorrow"); got != "responses, chat responses, responses" {
			t.Errorf("asked by %s", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := asks(deaf, "gpt-tomorrow"); got != "responses" {
			t.Errorf("a node that got no message asks by %s after a minute", got)
		}
		store.mu.Lock()
		store.wrong = errors.New("away")
		store.mu.Unlock()
		asks(here, "gpt-tomorrow-2")
		store.mu.Lock()
		store.wrong = nil
		store.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		cancel()
		wg.Wait()
		again := &openai.Ways{}
		if err := again.Open(t.Context(), store, nil); err != nil {
			t.Fatal(err)
		}
		if got := asks(again, "gpt-tomorrow-2"); got != "responses" {
			t.Errorf("after a restart asked by %s", got)
		}
	})
}

// What only chat completions nest, Responses has flat: custom tools, their calls and results, and a choice among tools.
func TestResponsesCustomTools(t *testing.T) {
	t.Parallel()
	l := &lab{}
	a := atLab(t, "openai", l, nil)
	const custom = `{"type":"custom","custom":{"type":"web_search","name":"patch","description":"Edits.","format":{"type":"grammar","grammar":{"syntax":"lark","definition":"start: X"}}}}`
	const messages = `"messages":[{"role":"user","content":[{"type":"text","text":"Go","prompt_cache_breakpoint":{"mode":"explicit"}}]},` +
		`{"role":"assistant","content":[{"type":"refusal","refusal":"No."}],"tool_calls":[{"id":"call_1","type":"custom","custom":{"name":"patch","input":"a b"}}]},{"role":"tool","tool_call_id":"call_1","content":"done"}]`
	for choice, want := range map[string]string{
		`{"type":"custom","custom":{"name":"patch"}}`: `{"name":"patch","type":"custom"}`,
		`{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}},{"type":"custom","custom":{"name":"patch"}}]}}`: `{"mode":"auto","tools":[{"name":"f","type":"function"},{"name":"patch","type":"custom"}],"type":"allowed_tools"}`,
	} {
		_, dropped, err := complete(t, a, "gpt-6-sol", messages+`,"tools":[{"type":"function","function":{"name":"f"}},`+custom+`],"prompt_cache_options":{"ttl":"30m","comparison_response_id":"resp_1"},"tool_choice":`+choice)
		if err != nil || strings.Join(dropped, ", ") != "prompt_cache_options" || l.taken() != "responses" {
			t.Fatalf("dropped %q: %v", dropped, err)
		}
		got := providertest.Encode(object{"cache": l.body["prompt_cache_options"], "choice": l.body["tool_choice"], "tools": l.body["tools"], "input": l.body["input"]})
		if want := `{"cache":{"ttl":"30m"},"choice":` + want + `,"input":[{"content":[{"prompt_cache_breakpoint":{"mode":"explicit"},"text":"Go","type":"input_text"}],"role":"user"},{"content":"No.","role":"assistant"},` +
			`{"call_id":"call_1","input":"a b","name":"patch","type":"custom_tool_call"},{"call_id":"call_1","output":[{"text":"done","type":"input_text"}],"type":"custom_tool_call_output"}],` +
			`"tools":[{"name":"f","parameters":{"properties":{},"type":"object"},"strict":false,"type":"function"},{"description":"Edits.","format":{"definition":"start: X","syntax":"lark","type":"grammar"},"name":"patch","type":"custom"}]}`; got != want {
			t.Errorf("sent %s\nwant %s", got, want)
		}
	}
	for members, param := range map[string]string{
		`"messages":[{"role":"assistant","audio":{"id":"a"}},{"role":"user","content":"Hi"}]`:                                                                  "messages[0].audio",
		`"messages":[{"role":"assistant","content":[{"type":"file","file":{"file_data":"data:application/pdf;base64,AAAA"}}]},{"role":"user","content":"Hi"}]`: "messages[0].content[0]",
	} {
		if _, _, err := complete(t, a, "gpt-6-sol", members+labTools); !fault.Is(err, fault.Invalid) || fault.From(err).Param != param {
			t.Errorf("%s: %v, want a 400 at %s", members, err, param)
		}
	}
}
