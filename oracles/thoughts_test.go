package oracles

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"
)

// thinker is a fake vendor of OpenAI's dialect that wants its thoughts back with the results of calls.
type thinker struct {
	thought string // the members of a message, or of a delta, in which it thinks

	mu    sync.Mutex
	asked [][]map[string]any // the messages of each request
}

const thinkerCalls = `"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Paris\"}"}},{"index":1,"id":"call_b","type":"function","function":{"name":"get_time","arguments":"{\"city\":\"Tokyo\"}"}}]`

func (u *thinker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var req struct {
		Messages []map[string]any `json:"messages"`
		Stream   bool             `json:"stream"`
	}
	if json.Unmarshal(body, &req) != nil || r.Header.Get("Authorization") != "Bearer "+upstreamKey {
		http.Error(w, `{"error":{"message":"what?"}}`, http.StatusUnauthorized)
		return
	}
	u.mu.Lock()
	u.asked = append(u.asked, req.Messages)
	u.mu.Unlock()
	thought, said, finish := u.thought, thinkerCalls, "tool_calls"
	if req.Messages[len(req.Messages)-1]["role"] == "tool" {
		thought, said, finish = "", `"content":"18 and 09:41."`, "stop"
	}
	if !req.Stream {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"1","object":"chat.completion","created":1,"model":"x","choices":[{"index":0,"message":{"role":"assistant",%s%s},"finish_reason":%q}],"usage":%s}`, thought, said, finish, upUsage)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, delta := range []string{`{"role":"assistant","content":null}`, `{` + strings.TrimSuffix(thought, ",") + `}`, `{` + said + `}`} {
		fmt.Fprintf(w, "data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"x\",\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":null}]}\n\n", delta)
	}
	fmt.Fprintf(w, "data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"x\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":%q}]}\n\ndata: [DONE]\n\n", finish)
}

// TestThoughtsComeBack has openai-go, which sends standard fields alone, do two turns with parallel
// calls with vendors of the same dialect that want their thoughts back.
func TestThoughtsComeBack(t *testing.T) {
	t.Parallel()
	for kind, tt := range map[string]struct{ thought, member, want string }{
		"deepseek":   {`"reasoning_content":"Both \"are\" needed.",`, "reasoning_content", `"Both \"are\" needed."`},
		"openrouter": {`"reasoning":"Both.","reasoning_details":[{"type":"reasoning.text","text":"Both.","signature":"c2ln","index":0}],`, "reasoning_details", `[{"index":0,"signature":"c2ln","text":"Both.","type":"reasoning.text"}]`},
	} {
		for _, streaming := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s streamed %t", kind, streaming), func(t *testing.T) {
				t.Parallel()
				up := &thinker{thought: tt.thought}
				server := httptest.NewServer(up)
				t.Cleanup(server.Close)
				g := startGateway(t, fmt.Sprintf(`providers: [{name: vendor, kind: %s, base_url: "%s/v1", api_key: "%s"}]
models: [{id: vendor/thinker, provider: vendor, plan: basic, context_length: 100000, max_output: 8192, tool_calling: true, reasoning: true}]
`, kind, server.URL, upstreamKey))
				c := newClient(t, g, g.owner)
				p := withTools(params("vendor/thinker", "Weather in Paris, time in Tokyo?"))
				p.ReasoningEffort = shared.ReasoningEffortHigh
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
					p.Messages = append(p.Messages, openai.ToolMessage("ok", call.ID))
				}
				if final := turn(); final.Content != "18 and 09:41." {
					t.Errorf("the second turn = %q, want the answer", final.Content)
				}
				got, err := json.Marshal(up.asked[1][1][tt.member])
				if err != nil || string(got) != tt.want {
					t.Errorf("%s came back as %s, want %s", tt.member, got, tt.want)
				}
			})
		}
	}
}
