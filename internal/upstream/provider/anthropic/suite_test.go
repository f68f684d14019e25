package anthropic_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/kit/pulse"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/anthropic"
	"sluice/internal/upstream/provider/claude"
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
		Name: "anthropic", Update: *update, Deaf: true,
		Start: providertest.HTTP(
			providertest.Dialect{Stream: writeStream, Whole: writeWhole, Refuse: writeError, Read: readRequest, Garbage: "event: content_block_delta\ndata: {\"type\":\"content_block_de\n\n"},
			func(t *testing.T, baseURL string, p *pulse.Pulse) (provider.Adapter, func()) {
				t.Helper()
				a, err := anthropic.New(baseURL, &anthropic.Options{APIKey: providertest.Key, Pulse: p, Silence: time.Second})
				if err != nil {
					t.Fatal(err)
				}
				return a, a.Close
			}),
	}
}

type object = map[string]any

// script writes events as Anthropic does: each text, thought and call is a block of its own.
type script struct {
	out   []string
	index int
	open  string // the kind of the block that has begun, with the number of a call
}

func (s *script) event(kind string, members object) {
	members["type"] = kind
	s.out = append(s.out, "event: "+kind+"\ndata: "+providertest.Encode(members)+"\n\n")
}

// block begins a block unless it is the open one.
func (s *script) block(kind string, block object) {
	if s.open == kind {
		return
	}
	s.close()
	s.open = kind
	s.event("content_block_start", object{"index": s.index, "content_block": block})
}

func (s *script) close() {
	if s.open != "" {
		s.event("content_block_stop", object{"index": s.index})
		s.open = ""
		s.index++
	}
}

func (s *script) delta(d object) {
	s.event("content_block_delta", object{"index": s.index, "delta": d})
}

// writeStream writes the events as a stream.
func writeStream(events []provider.Event) []string {
	s := &script{}
	usage := usageOf(events)
	start := object{"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []any{}, "stop_reason": nil, "stop_sequence": nil}
	if usage != nil {
		start["usage"] = object{"input_tokens": usage.Prompt, "cache_read_input_tokens": usage.Cached, "output_tokens": 1}
	}
	s.event("message_start", object{"message": start})
	s.event("ping", object{})
	for _, ev := range events {
		switch ev.Kind {
		case provider.Text:
			s.block("text", object{"type": "text", "text": ""})
			s.delta(object{"type": "text_delta", "text": ev.Text})
		case provider.Reasoning:
			s.block("thinking", object{"type": "thinking", "thinking": "", "signature": ""})
			s.delta(object{"type": "thinking_delta", "thinking": ev.Text})
		case provider.ToolCall:
			s.block(fmt.Sprint("tool_use", ev.Tool.Index), object{"type": "tool_use", "id": ev.Tool.ID, "name": ev.Tool.Name, "input": object{}})
			s.delta(object{"type": "input_json_delta", "partial_json": ev.Tool.Arguments})
		case provider.Finish:
			s.close()
			end := object{"delta": object{"stop_reason": stopReason(ev.Finish), "stop_sequence": nil}}
			if usage != nil {
				end["usage"] = wireUsage(usage)
			}
			s.event("message_delta", end)
			s.event("message_stop", object{})
		}
	}
	return s.out
}

func usageOf(events []provider.Event) *chat.Usage {
	return providertest.Expected(events).Usage
}

func wireUsage(u *chat.Usage) object {
	return object{
		"input_tokens": u.Prompt, "cache_read_input_tokens": u.Cached, "cache_creation_input_tokens": 0,
		"output_tokens": u.CompletionTotal(), "output_tokens_details": object{"thinking_tokens": u.Reasoning},
	}
}

func stopReason(f chat.Finish) string {
	return map[chat.Finish]string{
		chat.FinishStop: "end_turn", chat.FinishLength: "max_tokens", chat.FinishToolCalls: "tool_use", chat.FinishContentFilter: "refusal",
	}[f]
}

// writeWhole writes the events as one message.
func writeWhole(events []provider.Event) string {
	r := providertest.Expected(events)
	content := []any{}
	if r.Reasoning != "" {
		content = append(content, object{"type": "thinking", "thinking": r.Reasoning, "signature": "s"})
	}
	if r.Text != "" {
		content = append(content, object{"type": "text", "text": r.Text})
	}
	for _, c := range r.Calls {
		content = append(content, object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": json.RawMessage(c.Arguments)})
	}
	w := object{"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content, "stop_reason": stopReason(r.Finish), "stop_sequence": nil}
	if r.Usage != nil {
		w["usage"] = wireUsage(r.Usage)
	}
	return providertest.Encode(w)
}

func writeError(message string) string {
	return providertest.Encode(object{"type": "error", "error": object{"type": "some_error", "message": message}, "request_id": "req_1"})
}

// block is a part of a message, as far as it is compared.
type block struct {
	Text   string
	Source struct {
		Type, Data string
		MediaType  string `json:"media_type"`
	}
	Content words
}

// words is a text, or blocks.
type words []block

func (w *words) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		*w = words{{Text: text}}
		return nil
	}
	return json.Unmarshal(raw, (*[]block)(w))
}

// files returns the images and documents, also those in results of tools.
func (w words) files() (files []string) {
	for _, b := range w {
		if b.Source.Type == "base64" {
			files = append(files, b.Source.MediaType+" "+b.Source.Data)
		}
		files = append(files, b.Content.files()...)
	}
	return files
}

// readRequest understands a request with a decoder that is not ours.
func readRequest(r *http.Request, body []byte) providertest.Asked {
	var w struct {
		Model     string
		MaxTokens int `json:"max_tokens"`
		System    words
		Messages  []struct {
			Role    string
			Content words
		}
		Stream   bool
		Tools    []struct{ Name string }
		Choice   struct{ Type, Name string } `json:"tool_choice"`
		Stop     []string                    `json:"stop_sequences"`
		Thinking struct {
			Budget int `json:"budget_tokens"`
		}
	}
	if err := json.Unmarshal(body, &w); err != nil || r.URL.Path != "/v1/messages" || r.Method != http.MethodPost || r.Header.Get("Anthropic-Version") != "2023-06-01" {
		panic("a request that no upstream would understand: " + r.URL.Path + " " + string(body))
	}
	a := providertest.Asked{Model: w.Model, Stream: w.Stream, Usage: true, MaxTokens: w.MaxTokens, Stop: w.Stop, Key: r.Header.Get("X-Api-Key")}
	if w.MaxTokens >= 8192 {
		a.MaxTokens = 0 // the adapter's own, since the field is required
	}
	for _, s := range w.System {
		a.Texts = append(a.Texts, s.Text)
	}
	instruction := claude.JSONInstruction(chat.Format{})
	if i := slices.Index(a.Texts, instruction); i >= 0 {
		a.JSON, a.Texts = true, slices.Delete(a.Texts, i, i+1)
	}
	for _, m := range w.Messages {
		a.Texts = append(a.Texts, m.Content[0].Text)
		a.Files = append(a.Files, m.Content.files()...)
	}
	for _, tool := range w.Tools {
		a.Tools = append(a.Tools, tool.Name)
	}
	switch w.Choice.Type {
	case "any":
		a.Choice = "required"
	case "none":
		a.Choice = "none"
	default:
		a.Choice = w.Choice.Name
	}
	if w.Thinking.Budget == 24576 {
		a.Effort = "high"
	}
	return a
}
