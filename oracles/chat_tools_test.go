package oracles

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"
)

// cityTool is a function of a city.
func cityTool(name, description string) openai.ChatCompletionToolUnionParam {
	return openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
		Name: name, Description: openai.String(description),
		Parameters: shared.FunctionParameters{
			"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []string{"city"},
		},
	})
}

func withTools(p openai.ChatCompletionNewParams) openai.ChatCompletionNewParams {
	p.Tools = []openai.ChatCompletionToolUnionParam{cityTool("get_weather", "Get the weather"), cityTool("get_time", "Get the local time")}
	return p
}

func choice(mode string) openai.ChatCompletionToolChoiceOptionUnionParam {
	switch mode {
	case "":
		return openai.ChatCompletionToolChoiceOptionUnionParam{}
	case "auto", "none", "required":
		return openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String(mode)}
	}
	return openai.ToolChoiceOptionFunctionToolChoice(openai.ChatCompletionNamedToolChoiceFunctionParam{Name: mode})
}

// told are the calls of a message, one a line.
func told(calls []openai.ChatCompletionMessageToolCallUnion) string {
	var lines []string
	for _, c := range calls {
		lines = append(lines, c.Function.Name+" "+c.Function.Arguments)
	}
	return strings.Join(lines, "\n")
}

// TestTools has openai-go receive calls, whole and in pieces.
func TestTools(t *testing.T) {
	t.Parallel()
	g, _ := startWithUpstream(t)
	tests := []struct {
		name, model, text, choice string
		want                      string // a line for each call
	}{
		{"one", small, "What is the weather in Paris?", "", `get_weather {"city":"Paris"}`},
		{"several", small, "What's the weather in Paris and what time is it in Tokyo?", "auto", `get_weather {"city":"Paris"}` + "\n" + `get_time {"city":"Tokyo"}`},
		{"forced", small, "What is the weather in Paris?", "get_time", `get_time {"city":"Paris"}`},
		{"none", small, "Use get_weather for Paris", "none", ""},
		{"required", small, "Hello, weather friend in Rome!", "required", `get_weather {"city":"Rome"}`},
		{"unneeded", small, "What is 6 * 7?", "auto", ""},
		{"upstream", faked, script{Do: "call"}.String(), "", `get_weather {"city":"Paris"}` + "\n" + `get_time {"city":"Tokyo"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, g, g.owner)
			p := withTools(params(tt.model, tt.text))
			p.ToolChoice = choice(tt.choice)
			finish := "tool_calls"
			if tt.want == "" {
				finish = "stop"
			}
			reply, err := c.Chat.Completions.New(soon(t), p)
			if err != nil {
				t.Fatalf("New(%s) = %v", tt.text, err)
			}
			got := reply.Choices[0]
			if told(got.Message.ToolCalls) != tt.want || got.FinishReason != finish || (got.Message.Content == "") != (tt.want != "") {
				t.Errorf("New(%s) = %s, want %q and %s", tt.text, reply.RawJSON(), tt.want, finish)
			}
			s := follow(t, c, p)
			if s.err != nil || told(s.Choices[0].Message.ToolCalls) != tt.want || s.finish != finish {
				t.Errorf("NewStreaming(%s) = %q and %s, %v, want %q and %s", tt.text, told(s.Choices[0].Message.ToolCalls), s.finish, s.err, tt.want, finish)
			}
			if calls := len(got.Message.ToolCalls); s.pieces < 2*calls {
				t.Errorf("NewStreaming(%s) sent %d calls in %d pieces, want more pieces", tt.text, calls, s.pieces)
			}
			for i, call := range got.Message.ToolCalls {
				if call.ID == "" || call.Type != "function" || tt.model == small && s.Choices[0].Message.ToolCalls[i].ID != call.ID {
					t.Errorf("call %d = %s, want an id, the same streamed or not, and the type function", i, call.RawJSON())
				}
			}
		})
	}
}

// TestToolRoundTrip runs the calls that a reply asks for and sends the results back, on both kinds of
// models, from whole and from streamed replies.
func TestToolRoundTrip(t *testing.T) {
	t.Parallel()
	g, _ := startWithUpstream(t)
	run := func(call openai.ChatCompletionMessageToolCallUnion) string {
		if call.Function.Name == "get_time" {
			return `{"time":"09:41"}`
		}
		return `{"temperature":18}`
	}
	for _, model := range []string{small, faked} {
		for _, streaming := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s streamed %t", strings.ReplaceAll(model, "/", " "), streaming), func(t *testing.T) {
				t.Parallel()
				c := newClient(t, g, g.owner)
				p := withTools(params(model, "What's the weather in Paris and what time is it in Tokyo?"))
				if model == faked {
					p = withTools(params(model, script{Do: "call"}.String()))
				}
				turn := func() openai.ChatCompletionMessage {
					t.Helper()
					if streaming {
						s := follow(t, c, p)
						if s.err != nil || len(s.Choices) != 1 {
							t.Fatalf("NewStreaming = %+v, %v", s.ChatCompletion, s.err)
						}
						return s.Choices[0].Message
					}
					reply, err := c.Chat.Completions.New(soon(t), p)
					if err != nil {
						t.Fatalf("New = %v", err)
					}
					return reply.Choices[0].Message
				}
				message := turn()
				if len(message.ToolCalls) != 2 {
					t.Fatalf("the first turn = %q, want two calls", told(message.ToolCalls))
				}
				p.Messages = append(p.Messages, message.ToParam())
				for _, call := range message.ToolCalls {
					p.Messages = append(p.Messages, openai.ToolMessage(run(call), call.ID))
				}
				final := turn()
				if len(final.ToolCalls) != 0 || !strings.Contains(final.Content, "18") || !strings.Contains(final.Content, "09:41") {
					t.Errorf("the second turn = %q and calls %q, want 18, 09:41 and no call", final.Content, told(final.ToolCalls))
				}
			})
		}
	}
}
