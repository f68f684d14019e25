package oracles

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
)

// newAnthropic returns a client of the Messages API as people make one.
func newAnthropic(g *gateway, key string, more ...option.RequestOption) anthropic.Client {
	base := strings.TrimSuffix(g.url, "/v1")
	return anthropic.NewClient(append([]option.RequestOption{option.WithBaseURL(base), option.WithAPIKey(key)}, more...)...)
}

func message(model, text string) anthropic.MessageNewParams {
	return anthropic.MessageNewParams{
		Model: anthropic.Model(model), MaxTokens: 2000,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(text))},
	}
}

// spoken returns the text of a message, and its calls, one a line.
func spoken(m *anthropic.Message) (text, calls string) {
	for _, b := range m.Content {
		switch b.Type {
		case "text":
			text += b.Text
		case "tool_use":
			calls += b.Name + " " + string(b.Input) + "\n"
		}
	}
	return text, calls
}

// accumulate reads a stream to its end.
func accumulate(t *testing.T, c *anthropic.Client, p anthropic.MessageNewParams) (*anthropic.Message, error) {
	t.Helper()
	stream := c.Messages.NewStreaming(soon(t), p)
	defer stream.Close()
	var m anthropic.Message
	for stream.Next() {
		if err := m.Accumulate(stream.Current()); err != nil {
			t.Errorf("Accumulate = %v", err)
		}
	}
	return &m, stream.Err()
}

// TestAnthropicGo has anthropic-sdk-go, unchanged, call models of the catalog.
func TestAnthropicGo(t *testing.T) {
	t.Parallel()
	g, _ := startWithUpstream(t)
	c := newAnthropic(g, g.owner)
	city := anthropic.ToolUnionParam{OfTool: &anthropic.ToolParam{
		Name: "get_weather", Description: anthropic.String("Get the weather"),
		InputSchema: anthropic.ToolInputSchemaParam{Properties: map[string]any{"city": map[string]any{"type": "string"}}, Required: []string{"city"}},
	}}

	t.Run("text", func(t *testing.T) {
		t.Parallel()
		p := message(faked, script{Do: "say", Key: t.Name()}.String())
		whole, err := c.Messages.New(soon(t), p)
		if err != nil {
			t.Fatal(err)
		}
		streamed, err := accumulate(t, &c, p)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []*anthropic.Message{whole, streamed} {
			text, _ := spoken(m)
			if text != strings.Join(said, "") || m.StopReason != anthropic.StopReasonEndTurn || string(m.Model) != faked || !strings.HasPrefix(m.ID, "msg_") || m.Usage.OutputTokens != 9 {
				t.Errorf("message = %s", m.RawJSON())
			}
		}
		if whole.Usage.InputTokens != 16 || whole.Usage.CacheReadInputTokens != 5 {
			t.Errorf("usage = %s, want 16 and 5 from a cache", whole.Usage.RawJSON())
		}
	})

	t.Run("tools", func(t *testing.T) {
		t.Parallel()
		p := message(small, "What is the weather in Paris and London?")
		p.Tools = []anthropic.ToolUnionParam{city}
		first, err := accumulate(t, &c, p)
		if err != nil {
			t.Fatal(err)
		}
		if _, calls := spoken(first); first.StopReason != anthropic.StopReasonToolUse || calls != "get_weather {\"city\":\"Paris\"}\nget_weather {\"city\":\"London\"}\n" {
			t.Fatalf("calls = %q, %s", calls, first.StopReason)
		}
		var results []anthropic.ContentBlockParamUnion
		for _, b := range first.Content {
			if b.Type == "tool_use" {
				results = append(results, anthropic.NewToolResultBlock(b.ID, "18 degrees", false))
			}
		}
		p.Messages = append(p.Messages, first.ToParam(), anthropic.NewUserMessage(results...))
		second, err := c.Messages.New(soon(t), p)
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := spoken(second); !strings.Contains(text, "18 degrees") {
			t.Errorf("text = %q, want the results", text)
		}
	})

	t.Run("thinking", func(t *testing.T) {
		t.Parallel()
		p := message(faked, script{Do: "think", Key: t.Name()}.String())
		p.Thinking = anthropic.ThinkingConfigParamOfEnabled(1024)
		m, err := accumulate(t, &c, p)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Content) != 2 || m.Content[0].Thinking != strings.Join(thought, "") || m.Content[0].Signature == "" {
			t.Fatalf("content = %+v, want thinking with a signature, and text", m.Content)
		}
		p.Messages = append(p.Messages, m.ToParam(), anthropic.NewUserMessage(anthropic.NewTextBlock(script{Do: "say", Key: t.Name()}.String())))
		if _, err := c.Messages.New(soon(t), p); err != nil {
			t.Errorf("with the thinking sent back: %v", err)
		}
	})

	t.Run("count", func(t *testing.T) {
		t.Parallel()
		n, err := c.Messages.CountTokens(soon(t), anthropic.MessageCountTokensParams{
			Model: small, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(strings.Repeat("word ", 1000)))},
		})
		if err != nil || n.InputTokens < 1000 || n.InputTokens > 1100 {
			t.Errorf("CountTokens = %+v, %v, want about 1000", n, err)
		}
	})

	t.Run("models", func(t *testing.T) {
		t.Parallel()
		found := false
		pages := c.Models.ListAutoPaging(soon(t), anthropic.ModelListParams{Limit: anthropic.Int(2)})
		for pages.Next() {
			found = found || pages.Current().ID == small
		}
		if pages.Err() != nil || !found {
			t.Errorf("list: %v, has %s: %t", pages.Err(), small, found)
		}
	})

	t.Run("errors", func(t *testing.T) {
		t.Parallel()
		for _, tt := range []struct {
			key, model, kind string
			status           int
		}{
			{g.owner, "nobody", "invalid_request_error", 400},
			{"service-0123456789", small, "authentication_error", 401},
			{g.suspended(t), small, "permission_error", 423},
		} {
			other := newAnthropic(g, tt.key, option.WithMaxRetries(0))
			_, err := other.Messages.New(soon(t), message(tt.model, "Hi"))
			failed, ok := errors.AsType[*anthropic.Error](err)
			if !ok || failed.StatusCode != tt.status || failed.RequestID == "" {
				t.Errorf("%s: %v, want status %d and a request id", tt.model, err, tt.status)
				continue
			}
			var body struct {
				Error     struct{ Type, Message string }
				RequestID string `json:"request_id"`
			}
			if err := json.Unmarshal([]byte(failed.RawJSON()), &body); err != nil || body.Error.Type != tt.kind || body.RequestID != failed.RequestID {
				t.Errorf("%s: %s, want %s and the id %s", tt.model, failed.RawJSON(), tt.kind, failed.RequestID)
			}
		}
		if m, err := accumulate(t, &c, message(faked, script{Do: "cut", Key: t.Name()}.String())); err == nil || m.StopReason != "" {
			t.Errorf("a stream that is cut: %v, stop reason %q, want an error and none", err, m.StopReason)
		}
	})
}
