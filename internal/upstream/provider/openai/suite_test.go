package openai_test

import (
	"crypto/tls"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/kit/pulse"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/openai"
	"sluice/internal/upstream/provider/providertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSuite is not parallel: the suite looks for goroutines that are left behind.
func TestSuite(t *testing.T) { suite(t, "openai", nil) }

// TestSuiteStandard is the same with net/http in the place of our own client.
func TestSuiteStandard(t *testing.T) { suite(t, "", &provider.PoolOptions{Standard: true}) }

// TestSuiteSecure is the same over TLS.
func TestSuiteSecure(t *testing.T) {
	suite(t, "", &provider.PoolOptions{TLS: &tls.Config{InsecureSkipVerify: true}}) //nolint:gosec // the suite's certificate
}

// TestDoors plays what every door must be able to say.
func TestDoors(t *testing.T) {
	t.Parallel()
	providertest.Doors(t, harness("", nil))
}

func suite(t *testing.T, name string, pool *provider.PoolOptions) {
	t.Helper()
	providertest.Run(t, harness(name, pool))
}

func harness(name string, pool *provider.PoolOptions) providertest.Harness {
	return providertest.Harness{
		Name: name, Update: *update,
		Start: providertest.HTTP(
			providertest.Dialect{TLS: pool != nil && pool.TLS != nil, Stream: writeStream, Whole: writeWhole, Refuse: writeError, Read: readRequest, Garbage: "data: {\"choices\":[{\"index\":0,\"del\n\n"},
			func(t *testing.T, baseURL string, p *pulse.Pulse) (provider.Adapter, func()) {
				t.Helper()
				a, err := openai.New(baseURL+"/v1", &openai.Options{APIKey: providertest.Key, Pulse: p, Silence: time.Second, Transport: provider.Connections(time.Minute, pool)})
				if err != nil {
					t.Fatal(err)
				}
				return a, a.Close
			}),
	}
}

type object = map[string]any

// writeStream writes the events as OpenAI does: one chunk each, usage null on all but the last.
func writeStream(events []provider.Event) []string {
	out := []string{": hello\n\n", chunk([]any{choice(object{"role": "assistant", "content": ""}, nil)}, nil)}
	ended := false
	for _, ev := range events {
		switch ev.Kind {
		case provider.Text:
			out = append(out, chunk([]any{choice(object{"content": ev.Text}, nil)}, nil))
		case provider.Reasoning:
			out = append(out, chunk([]any{choice(object{"reasoning_content": ev.Text}, nil)}, nil))
		case provider.ToolCall:
			out = append(out, chunk([]any{choice(object{"tool_calls": []any{wireCall(ev.Tool)}}, nil)}, nil))
		case provider.Finish:
			ended = true
			out = append(out, chunk([]any{choice(object{}, ev.Finish)}, nil))
		case provider.Usage:
			out = append(out, chunk([]any{}, wireUsage(ev.Usage)))
		}
	}
	if ended {
		out = append(out, "data: [DONE]\n\n")
	}
	return out
}

func chunk(choices []any, usage any) string {
	return "data: " + providertest.Encode(object{"id": "chatcmpl-x", "object": "chat.completion.chunk", "created": 1, "model": "gpt", "choices": choices, "usage": usage}) + "\n\n"
}

func choice(delta object, finish any) object {
	return object{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": nil}
}

func wireCall(p provider.ToolPiece) object {
	w := object{"index": p.Index, "function": object{"arguments": p.Arguments}}
	if p.ID != "" {
		w["id"], w["type"] = p.ID, "function"
		w["function"] = object{"name": p.Name, "arguments": p.Arguments}
	}
	return w
}

func wireUsage(u chat.Usage) object {
	return object{
		"prompt_tokens": u.PromptTotal(), "completion_tokens": u.CompletionTotal(), "total_tokens": u.Total(),
		"prompt_tokens_details": object{"cached_tokens": u.Cached}, "completion_tokens_details": object{"reasoning_tokens": u.Reasoning},
	}
}

// writeWhole writes the events as one chat.completion.
func writeWhole(events []provider.Event) string {
	r := providertest.Expected(events)
	message := object{"role": "assistant", "content": r.Text, "refusal": nil}
	if r.Reasoning != "" {
		message["reasoning_content"] = r.Reasoning
	}
	for _, c := range r.Calls {
		calls, _ := message["tool_calls"].([]any)
		message["tool_calls"] = append(calls, object{"id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": c.Arguments}})
	}
	w := object{"id": "chatcmpl-x", "object": "chat.completion", "created": 1, "model": "gpt", "choices": []any{object{"index": 0, "message": message, "finish_reason": r.Finish}}}
	if r.Usage != nil {
		w["usage"] = wireUsage(*r.Usage)
	}
	return providertest.Encode(w)
}

func writeError(message string) string {
	return providertest.Encode(object{"error": object{"message": message, "type": "some_error", "param": nil, "code": nil}})
}

// files returns the images, files and sounds among parts.
func files(parts []byte) (all []string) {
	var list []struct {
		Image struct{ URL string } `json:"image_url"`
		File  struct {
			Data string `json:"file_data"`
		}
		Audio struct{ Data, Format string } `json:"input_audio"`
	}
	if err := json.Unmarshal(parts, &list); err != nil {
		panic(err)
	}
	for _, p := range list {
		if p.Audio.Data != "" {
			all = append(all, "audio/"+p.Audio.Format+" "+p.Audio.Data)
		}
		if url := p.Image.URL + p.File.Data; url != "" {
			all = append(all, strings.Replace(strings.TrimPrefix(url, "data:"), ";base64,", " ", 1))
		}
	}
	return all
}

// readRequest understands a request with a decoder that is not ours.
func readRequest(r *http.Request, body []byte) providertest.Asked {
	var w struct {
		Model    string
		Messages []struct{ Content json.RawMessage } // a text, or parts
		Stream   bool
		Options  struct {
			Usage bool `json:"include_usage"`
		} `json:"stream_options"`
		Tools     []struct{ Function struct{ Name string } }
		Choice    json.RawMessage       `json:"tool_choice"`
		Format    struct{ Type string } `json:"response_format"`
		MaxTokens int                   `json:"max_tokens"`
		MaxOutput int                   `json:"max_completion_tokens"` // the newer name
		Effort    string                `json:"reasoning_effort"`
		Stop      []string
	}
	if err := json.Unmarshal(body, &w); err != nil || r.URL.Path != "/v1/chat/completions" || r.Method != http.MethodPost {
		panic("a request that no upstream would understand: " + r.URL.Path + " " + string(body))
	}
	a := providertest.Asked{
		Model: w.Model, Stream: w.Stream, Usage: w.Options.Usage, JSON: w.Format.Type == "json_object",
		MaxTokens: max(w.MaxTokens, w.MaxOutput), Effort: w.Effort, Stop: w.Stop,
		Key: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "),
	}
	for _, m := range w.Messages {
		var text string
		if json.Unmarshal(m.Content, &text) != nil {
			a.Files = append(a.Files, files(m.Content)...)
		}
		a.Texts = append(a.Texts, text)
	}
	for _, tool := range w.Tools {
		a.Tools = append(a.Tools, tool.Function.Name)
	}
	if len(w.Choice) > 0 && json.Unmarshal(w.Choice, &a.Choice) != nil {
		var named struct{ Function struct{ Name string } }
		if err := json.Unmarshal(w.Choice, &named); err != nil {
			panic(err)
		}
		a.Choice = named.Function.Name
	}
	return a
}
