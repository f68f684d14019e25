package bedrock_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"go.uber.org/goleak"

	"sluice/internal/kit/pulse"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/bedrock"
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
		Name: "bedrock", Update: *update,
		Lumps: true, Deaf: true,
		Unsupported: map[string]string{
			"no tool": "emulated, the tools are left out, since Converse has no such choice",
		},
		Start: providertest.HTTP(
			providertest.Dialect{Stream: writeStream, Whole: writeWhole, Refuse: writeError, Read: readRequest, Garbage: "this is no frame at all, but long enough for one"},
			func(t *testing.T, baseURL string, p *pulse.Pulse) (provider.Adapter, func()) {
				t.Helper()
				a, err := bedrock.New("us-east-1", bedrock.Keys{AccessKeyID: providertest.Key, SecretAccessKey: "secret"}, &bedrock.Options{BaseURL: baseURL, Pulse: p, Silence: time.Second})
				if err != nil {
					t.Fatal(err)
				}
				return a, a.Close
			}),
	}
}

type object = map[string]any

// frame is an event of a stream.
func frame(kind string, payload any) string {
	return rawFrame("event", ":event-type", kind, providertest.Encode(payload))
}

func rawFrame(messageType, header, kind, payload string) string {
	m := eventstream.Message{Payload: []byte(payload)}
	m.Headers.Set(":message-type", eventstream.StringValue(messageType))
	m.Headers.Set(header, eventstream.StringValue(kind))
	m.Headers.Set(":content-type", eventstream.StringValue("application/json"))
	var b bytes.Buffer
	if err := eventstream.NewEncoder().Encode(&b, m); err != nil {
		panic(err) // the test's own values always encode
	}
	return b.String()
}

// script writes events as Bedrock does: each text, thought and call is a block of its own.
type script struct {
	out   []string
	index int
	open  string
}

func (s *script) block(kind string) bool {
	if s.open == kind {
		return false
	}
	s.close()
	s.open = kind
	return true
}

func (s *script) close() {
	if s.open != "" {
		s.out = append(s.out, frame("contentBlockStop", object{"contentBlockIndex": s.index}))
		s.open = ""
		s.index++
	}
}

func (s *script) delta(d object) {
	s.out = append(s.out, frame("contentBlockDelta", object{"contentBlockIndex": s.index, "delta": d, "p": "abcdefgh"}))
}

// writeStream writes the events as a stream.
func writeStream(events []provider.Event) []string {
	s := &script{out: []string{frame("messageStart", object{"role": "assistant", "p": "abc"})}}
	for _, ev := range events {
		switch ev.Kind {
		case provider.Text:
			s.block("text")
			s.delta(object{"text": ev.Text})
		case provider.Reasoning:
			s.block("reasoning")
			s.delta(object{"reasoningContent": object{"text": ev.Text}})
		case provider.ToolCall:
			if s.block(string(rune('0' + ev.Tool.Index))) {
				s.out = append(s.out, frame("contentBlockStart", object{"contentBlockIndex": s.index, "start": object{"toolUse": object{"toolUseId": ev.Tool.ID, "name": ev.Tool.Name}}}))
			}
			s.delta(object{"toolUse": object{"input": ev.Tool.Arguments}})
		case provider.Finish:
			s.close()
			s.out = append(s.out, frame("messageStop", object{"stopReason": stopReason(ev.Finish)}))
		case provider.Usage:
			s.out = append(s.out, frame("metadata", object{"usage": wireUsage(ev.Usage), "metrics": object{"latencyMs": 7}}))
		}
	}
	return s.out
}

func wireUsage(u chat.Usage) object {
	return object{"inputTokens": u.Prompt, "cacheReadInputTokens": u.Cached, "cacheWriteInputTokens": 0, "outputTokens": u.CompletionTotal(), "totalTokens": u.Total()}
}

func stopReason(f chat.Finish) string {
	return map[chat.Finish]string{
		chat.FinishStop: "end_turn", chat.FinishLength: "max_tokens", chat.FinishToolCalls: "tool_use", chat.FinishContentFilter: "content_filtered",
	}[f]
}

// writeWhole writes the events as one reply.
func writeWhole(events []provider.Event) string {
	r := providertest.Expected(events)
	content := []any{}
	if r.Reasoning != "" {
		content = append(content, object{"reasoningContent": object{"reasoningText": object{"text": r.Reasoning, "signature": "s"}}})
	}
	if r.Text != "" {
		content = append(content, object{"text": r.Text})
	}
	for _, c := range r.Calls {
		content = append(content, object{"toolUse": object{"toolUseId": c.ID, "name": c.Name, "input": json.RawMessage(c.Arguments)}})
	}
	w := object{"output": object{"message": object{"role": "assistant", "content": content}}, "stopReason": stopReason(r.Finish), "metrics": object{"latencyMs": 7}}
	if r.Usage != nil {
		w["usage"] = wireUsage(*r.Usage)
	}
	return providertest.Encode(w)
}

func writeError(message string) string { return providertest.Encode(object{"message": message}) }

// readRequest understands a request with a decoder that is not ours.
func readRequest(r *http.Request, body []byte) providertest.Asked {
	var w struct {
		System   []struct{ Text string }
		Messages []struct {
			Content []struct {
				Text            string
				Image, Document struct {
					Format, Name string
					Source       struct{ Bytes string }
				}
			}
		}
		InferenceConfig struct {
			MaxTokens     int
			StopSequences []string
		}
		ToolConfig struct {
			Tools []struct {
				ToolSpec struct{ Name string }
			}
			ToolChoice struct {
				Any  *struct{}
				Tool struct{ Name string }
			}
		}
		OutputConfig struct{ Effort string }
	}
	model, method, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/model/"), "/")
	if err := json.Unmarshal(body, &w); err != nil || r.Method != http.MethodPost || method != "converse" && method != "converse-stream" {
		panic("a request that no upstream would understand: " + r.URL.Path + " " + string(body))
	}
	_, key, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	key, _, _ = strings.Cut(key, "/")
	a := providertest.Asked{
		Model: model, Key: key, Stream: method == "converse-stream", Usage: true, MaxTokens: w.InferenceConfig.MaxTokens,
		Stop: w.InferenceConfig.StopSequences, Choice: w.ToolConfig.ToolChoice.Tool.Name, Effort: w.OutputConfig.Effort,
	}
	for _, s := range w.System {
		a.Texts = append(a.Texts, s.Text)
	}
	if i := slices.Index(a.Texts, claude.JSONInstruction(chat.Format{})); i >= 0 {
		a.JSON, a.Texts = true, slices.Delete(a.Texts, i, i+1)
	}
	for _, m := range w.Messages {
		a.Texts = append(a.Texts, m.Content[0].Text)
		for _, c := range m.Content {
			if c.Image.Format != "" {
				a.Files = append(a.Files, "image/"+c.Image.Format+" "+c.Image.Source.Bytes)
			}
			if c.Document.Name != "" {
				a.Files = append(a.Files, "application/"+c.Document.Format+" "+c.Document.Source.Bytes)
			}
		}
	}
	for _, tool := range w.ToolConfig.Tools {
		a.Tools = append(a.Tools, tool.ToolSpec.Name)
	}
	if w.ToolConfig.ToolChoice.Any != nil {
		a.Choice = "required"
	}
	return a
}
