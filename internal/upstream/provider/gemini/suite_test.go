package gemini_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/kit/pulse"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/gemini"
	"sluice/internal/upstream/provider/providertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSuite is not parallel: the suite looks for goroutines that are left behind.
func TestSuite(t *testing.T) { providertest.Run(t, harness()) }

// TestDoors plays what every door must be able to say.
func TestDoors(t *testing.T) {
	t.Parallel()
	providertest.Doors(t, harness())
}

func harness() providertest.Harness {
	return providertest.Harness{
		Name: "gemini", Update: *update,
		Start: providertest.HTTP(
			providertest.Dialect{Stream: writeStream, Whole: writeWhole, Refuse: writeError, Read: readRequest, Garbage: "data: {\"candidates\":[{\"content\n\n"},
			func(t *testing.T, baseURL string, p *pulse.Pulse) (provider.Adapter, func()) {
				t.Helper()
				a, err := gemini.New(baseURL+"/v1beta", &gemini.Options{APIKey: providertest.Key, Pulse: p, Silence: time.Second})
				if err != nil {
					t.Fatal(err)
				}
				return a, a.Close
			}),
	}
}

type object = map[string]any

// writeStream writes the events as Gemini does: calls whole, the finish reason and the last figures
// in one chunk.
func writeStream(events []provider.Event) []string {
	var out []string
	var last object
	var figures any
	r := providertest.Expected(events)
	send := func(p object) { out = append(out, sse(chunk(object{"content": turn(p), "index": 0}, nil))) }
	for _, ev := range events {
		switch ev.Kind {
		case provider.Text:
			send(object{"text": ev.Text})
		case provider.Reasoning:
			send(object{"text": ev.Text, "thought": true})
		case provider.ToolCall:
			if ev.Tool.ID != "" {
				send(callPart(r.Calls[ev.Tool.Index]))
			}
		case provider.Finish:
			last = object{"content": turn(object{"text": ""}), "finishReason": finishReason(ev.Finish), "index": 0}
		case provider.Usage:
			figures = usageMetadata(ev.Usage)
		}
	}
	if last != nil {
		out = append(out, sse(chunk(last, figures)))
	}
	return out
}

func sse(v object) string { return "data: " + providertest.Encode(v) + "\r\n\r\n" }

func chunk(candidate object, usage any) object {
	w := object{"candidates": []any{candidate}, "modelVersion": "gemini-x", "responseId": "abc"}
	if usage != nil {
		w["usageMetadata"] = usage
	}
	return w
}

func turn(parts ...any) object { return object{"role": "model", "parts": parts} }

func callPart(c chat.ToolCall) object {
	return object{"functionCall": object{"id": c.ID, "name": c.Name, "args": json.RawMessage(c.Arguments)}}
}

func finishReason(f chat.Finish) string {
	switch f {
	case chat.FinishLength:
		return "MAX_TOKENS"
	case chat.FinishContentFilter:
		return "SAFETY"
	}
	return "STOP"
}

func usageMetadata(u chat.Usage) object {
	return object{
		"promptTokenCount": u.PromptTotal(), "cachedContentTokenCount": u.Cached, "candidatesTokenCount": u.Completion,
		"thoughtsTokenCount": u.Reasoning, "totalTokenCount": u.Total(),
		"promptTokensDetails": []any{object{"modality": "TEXT", "tokenCount": u.PromptTotal()}},
	}
}

// writeWhole writes the events as one reply.
func writeWhole(events []provider.Event) string {
	r := providertest.Expected(events)
	var parts []any
	if r.Reasoning != "" {
		parts = append(parts, object{"text": r.Reasoning, "thought": true})
	}
	if r.Text != "" {
		parts = append(parts, object{"text": r.Text})
	}
	for _, c := range r.Calls {
		parts = append(parts, callPart(c))
	}
	var usage any
	if r.Usage != nil {
		usage = usageMetadata(*r.Usage)
	}
	return providertest.Encode(chunk(object{"content": turn(parts...), "finishReason": finishReason(r.Finish), "index": 0}, usage))
}

func writeError(message string) string {
	return providertest.Encode(object{"error": object{"code": 0, "message": message, "status": "SOME_STATUS"}})
}

// readRequest reads a request with a decoder that shares no code with the adapter.
func readRequest(r *http.Request, body []byte) providertest.Asked {
	type turn struct {
		Parts []struct {
			Text       string
			InlineData struct{ MIMEType, Data string }
		}
	}
	var w struct {
		SystemInstruction turn
		Contents          []turn
		Tools             []struct {
			FunctionDeclarations []struct{ Name string }
		}
		ToolConfig struct {
			FunctionCallingConfig struct {
				Mode                 string
				AllowedFunctionNames []string
			}
		}
		GenerationConfig struct {
			MaxOutputTokens  int
			StopSequences    []string
			ResponseMimeType string
			ThinkingConfig   struct{ ThinkingLevel string }
		}
	}
	model, method, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1beta/models/"), ":")
	stream := method == "streamGenerateContent"
	if err := json.Unmarshal(body, &w); err != nil || !ok || r.Method != http.MethodPost || !stream && method != "generateContent" || (r.URL.RawQuery == "alt=sse") != stream {
		panic("a request that no upstream would understand: " + r.URL.String() + " " + string(body))
	}
	g := w.GenerationConfig
	a := providertest.Asked{
		Model: model, Stream: stream, Usage: true, JSON: g.ResponseMimeType == "application/json", MaxTokens: g.MaxOutputTokens,
		Effort: strings.ToLower(g.ThinkingConfig.ThinkingLevel), Stop: g.StopSequences, Key: r.Header.Get("X-Goog-Api-Key"),
	}
	for _, c := range append([]turn{w.SystemInstruction}, w.Contents...) {
		for _, p := range c.Parts {
			a.Texts = append(a.Texts, p.Text)
			if d := p.InlineData; d.Data != "" {
				a.Files = append(a.Files, d.MIMEType+" "+d.Data)
			}
		}
	}
	for _, box := range w.Tools {
		for _, f := range box.FunctionDeclarations {
			a.Tools = append(a.Tools, f.Name)
		}
	}
	switch c := w.ToolConfig.FunctionCallingConfig; {
	case c.Mode == "NONE":
		a.Choice = "none"
	case c.Mode == "ANY" && len(c.AllowedFunctionNames) == 1:
		a.Choice = c.AllowedFunctionNames[0]
	case c.Mode == "ANY":
		a.Choice = "required"
	}
	return a
}
