package mcpserver

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A completion that is streamed to report progress comes to the same as a whole one.
func TestProgress(t *testing.T) {
	t.Parallel()
	const head = `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m/one","choices":`
	chunk := func(choices string) string { return "data: " + head + choices + "}\n\n" }
	const tail = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m/one","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}` + "\n\ndata: [DONE]\n\n"
	// What the API adds to a whole reply is there as well.
	streamed := strings.NewReplacer(`"content":"Hello there"`, `"content":"Hello there","refusal":null`, `},"finish_reason"`, `},"logprobs":null,"finish_reason"`).
		Replace(strings.TrimSuffix(whole, "}") + `,"system_fingerprint":null}`)
	for _, tt := range []struct {
		name   string
		writes []string
		want   string // the result, or the text of the error
		told   string // the progress messages together
		fails  bool
	}{
		{
			"text", []string{
				chunk(`[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]`),
				": still here\n",
				chunk(`[{"index":0,"delta":{"content":"Hel"},"finish_reason":null}]`) + chunk(`[{"index":0,"delta":{"content":"lo"},"finish_reason":null}]`)[:30],
				chunk(`[{"index":0,"delta":{"content":"lo"},"finish_reason":null}]`)[30:] + chunk(`[{"index":0,"delta":{"content":" there"},"finish_reason":null}]`),
				chunk(`[{"index":0,"delta":{},"finish_reason":"stop"}]`), tail,
			}, streamed, "Hello there", false,
		},
		{
			"calls and thoughts",
			[]string{
				chunk(`[{"index":0,"delta":{"role":"assistant","reasoning_content":"Let me "},"finish_reason":null}]`),
				chunk(`[{"index":0,"delta":{"reasoning_content":"see."},"finish_reason":null}]`),
				chunk(`[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\""}}]},"finish_reason":null}]`),
				chunk(`[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}},{"index":1,"id":"c2","type":"function","function":{"name":"g","arguments":"{}"}}]},"finish_reason":null}]`),
				chunk(`[{"index":0,"delta":{},"finish_reason":"tool_calls"}]`), tail,
			},
			`{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m/one","choices":[{"index":0,"message":{"role":"assistant","content":null,"refusal":null,"reasoning_content":"Let me see.","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":"{}"}}]},"logprobs":null,"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3},"system_fingerprint":null}`,
			"", false,
		},
		{
			"two choices",
			[]string{
				chunk(`[{"index":1,"delta":{"role":"assistant","content":"B"},"finish_reason":null}]`), chunk(`[{"index":0,"delta":{"role":"assistant","content":"A"},"finish_reason":null}]`),
				chunk(`[{"index":0,"delta":{},"finish_reason":"stop"}]`), chunk(`[{"index":1,"delta":{},"finish_reason":"length"}]`), tail,
			},
			`{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m/one","choices":[{"index":0,"message":{"role":"assistant","content":"A","refusal":null},"logprobs":null,"finish_reason":"stop"},{"index":1,"message":{"role":"assistant","content":"B","refusal":null},"logprobs":null,"finish_reason":"length"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3},"system_fingerprint":null}`,
			"A", false,
		},
		{
			"empty",
			[]string{chunk(`[{"index":0,"delta":{"role":"assistant"},"finish_reason":null}]`), chunk(`[{"index":0,"delta":{},"finish_reason":"stop"}]`), tail},
			strings.Replace(streamed, "Hello there", "", 1), "", false,
		},
		{
			"late error",
			[]string{chunk(`[{"index":0,"delta":{"role":"assistant","content":"Hel"},"finish_reason":null}]`), `data: {"error":{"message":"The upstream failed.","type":"service_unavailable","code":503}}` + "\n\n"},
			"The upstream failed.", "Hel", true,
		},
		{"broken off", []string{chunk(`[{"index":0,"delta":{"role":"assistant","content":"Hel"},"finish_reason":null}]`)}, "The reply broke off.", "Hel", true},
		{"nothing", nil, "The reply broke off.", "", true},
		{"without an end", slices.Repeat([]string{chunk(`[{"index":0,"delta":{"role":"assistant","reasoning_content":"` + strings.Repeat("x", 1<<20) + `"},"finish_reason":null}]`)}, 7), "The reply is longer than 2 MiB, the maximum for a tool. Ask for less, or use the API.", "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var asked map[string]any
			var clock time.Time // each look at it is a while later
			s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
				_ = json.NewDecoder(r.Body).Decode(&asked)
				w.Header().Set("Content-Type", "text/event-stream")
				for _, text := range tt.writes {
					_, _ = io.WriteString(w, text)
					w.(http.Flusher).Flush()
				}
			}, &books{}, &Options{Now: func() time.Time { clock = clock.Add(60 * time.Millisecond); return clock }})
			told := make(chan *mcp.ProgressNotificationParams, 100)
			c := connect(t, listen(t, s), "2025-06-18", &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { told <- r.Params }})
			params := &mcp.CallToolParams{Name: "chat_completion", Arguments: json.RawMessage(`{"model":"m/one"}`)}
			params.SetProgressToken("p")
			got, err := c.CallTool(t.Context(), params)
			if err != nil || got.IsError != tt.fails || said(got) != tt.want {
				t.Errorf("CallTool = %s, %v, want %s", encode(t, got), err, tt.want)
			}
			if asked["stream"] != true || encode(t, asked["stream_options"]) != `{"include_usage":true}` {
				t.Errorf("CallTool asked for %v, want a stream with usage", asked)
			}
			_ = c.Close() // all that came has been handed over then
			close(told)
			var text string
			last := 0.0
			for p := range told {
				if p.Progress <= last || p.ProgressToken != "p" {
					t.Errorf("progress %v after %v for %v, want more for p", p.Progress, last, p.ProgressToken)
				}
				last = p.Progress
				text += p.Message
			}
			if text != tt.told {
				t.Errorf("the progress messages say %q, want %q", text, tt.told)
			}
		})
	}
}
