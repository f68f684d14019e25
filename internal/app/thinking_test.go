package app_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"sluice/internal/operate/admin"
	"sluice/internal/testkit/pgtest"
	"sluice/internal/upstream/provider/providertest"
)

// conversation is one with a strict Claude, through one door and two nodes in turn.
type conversation struct {
	t      *testing.T
	nodes  []*node
	key    string
	model  string
	stream bool
	tools  bool

	sent    int   // requests so far
	history []any // messages, or items
	last    string
}

type fields = map[string]any

// send sends a request to the next node, and returns the JSON of the reply or the events of a stream.
func (c *conversation) send(path string, body fields) []string {
	c.t.Helper()
	body["model"], body["stream"] = c.model, c.stream
	raw, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	r := c.nodes[c.sent%len(c.nodes)].request("POST", path, c.key, string(raw))
	c.sent++
	if r.status != 200 || strings.Contains(r.header.Get("X-Sluice-Dropped"), "thinking") {
		c.t.Fatalf("%s, %s: %d %s, dropped %q", path, c.model, r.status, r.body, r.header.Get("X-Sluice-Dropped"))
	}
	if !c.stream {
		return []string{r.body}
	}
	var events []string
	for line := range strings.SplitSeq(r.body, "\n") {
		if data, ok := strings.CutPrefix(line, "data: "); ok && data != "[DONE]" {
			events = append(events, data)
		}
	}
	return events
}

// chat asks through chat completions, and answers calls until there is a text.
func (c *conversation) chat(question string) {
	c.t.Helper()
	c.history = append(c.history, fields{"role": "user", "content": question})
	for {
		body := fields{"messages": append([]any{fields{"role": "system", "content": "Be brief."}}, c.history...)}
		if c.tools {
			body["tools"] = []any{fields{"type": "function", "function": fields{"name": "look", "parameters": fields{"type": "object"}}}}
		}
		type call struct {
			ID       string `json:"id"`
			Type     string `json:"type"`
			Function struct {
				Name      string `json:"name"`
				Arguments string `json:"arguments"`
			} `json:"function"`
		}
		type message struct {
			Content string `json:"content"`
			Calls   []call `json:"tool_calls"`
		}
		var whole message
		for _, event := range c.send("/v1/chat/completions", body) {
			var w struct {
				Choices []struct{ Message, Delta message }
			}
			if err := json.Unmarshal([]byte(event), &w); err != nil {
				c.t.Fatal(err)
			}
			for _, choice := range w.Choices {
				m := choice.Message
				if c.stream {
					m = choice.Delta
				}
				whole.Content += m.Content
				for _, made := range m.Calls {
					if made.ID != "" {
						whole.Calls = append(whole.Calls, made)
					} else {
						whole.Calls[len(whole.Calls)-1].Function.Arguments += made.Function.Arguments
					}
				}
			}
		}
		reply := fields{"role": "assistant", "content": whole.Content}
		if len(whole.Calls) > 0 {
			reply["tool_calls"] = whole.Calls
		}
		c.history = append(c.history, reply)
		for _, made := range whole.Calls {
			c.history = append(c.history, fields{"role": "tool", "tool_call_id": made.ID, "content": "42"})
		}
		if len(whole.Calls) == 0 {
			return
		}
	}
}

// respond asks through Responses. If stored is set, each request names the response before it; otherwise the client sends
// all items.
func (c *conversation) respond(question string, stored bool) {
	c.t.Helper()
	next := []any{fields{"role": "user", "content": question}}
	for len(next) > 0 {
		body := fields{"instructions": "Be brief.", "store": stored}
		if c.tools {
			body["tools"] = []any{fields{"type": "function", "name": "look", "parameters": fields{"type": "object"}}}
		}
		c.history = append(c.history, next...)
		if body["input"] = c.history; stored {
			body["input"] = next
			if c.last != "" {
				body["previous_response_id"] = c.last
			}
		}
		events := c.send("/v1/responses", body)
		var w struct {
			ID       string `json:"id"`
			Output   []fields
			Response struct {
				ID     string `json:"id"`
				Output []fields
			} `json:"response"`
		}
		if err := json.Unmarshal([]byte(events[len(events)-1]), &w); err != nil {
			c.t.Fatal(err)
		}
		if c.stream {
			w.ID, w.Output = w.Response.ID, w.Response.Output
		}
		next, c.last = nil, w.ID
		for _, item := range w.Output {
			c.history = append(c.history, item)
			if item["type"] == "function_call" {
				next = append(next, fields{"type": "function_call_output", "call_id": item["call_id"], "output": "42"})
			}
		}
	}
}

// All thinking of a conversation goes back to a Claude that checks every byte before it: through chat completions and
// Responses, streamed and not, with tools and without, on two nodes in turn. The thinking of Sonnet belongs to a key, and
// its conversations stay with one of two.
func TestThinkingComesBack(t *testing.T) {
	t.Parallel()
	vendor := &providertest.Claude{}
	server := httptest.NewServer(vendor)
	t.Cleanup(server.Close)
	const unlimited = "{requests_per_minute: unlimited, concurrent: unlimited, tokens_per_minute: unlimited}"
	yaml := "plans: {basic: " + unlimited + "}\ndatabase: " + pgtest.URL(t) + "\n" + oneSecret + fmt.Sprintf(`cluster: approximate
providers:
  - {name: claude, kind: anthropic, base_url: %q, api_keys: [key-one, key-two]}
models:
  - {id: lab/opus, provider: claude, upstream: claude-opus-5-5, plan: free, context_length: 100000, max_output: 9000, tool_calling: true, reasoning: true}
  - {id: lab/sonnet, provider: claude, upstream: claude-sonnet-5-5, plan: free, context_length: 100000, max_output: 9000, tool_calling: true, reasoning: true}
`, server.URL)
	nodes := []*node{newSite(t, yaml).start(t)}
	nodes = append(nodes, newSite(t, yaml).start(t))
	key := must[admin.CreatedAccount](nodes[0], "account.create", admin.NewAccount{Actor: "t", Email: "a@example.com", Plan: "basic"}).MasterKey
	nodes[1].within(key, 200)
	doors := map[string]func(c *conversation, question string){
		"chat":                         (*conversation).chat,
		"Responses, all items":         func(c *conversation, question string) { c.respond(question, false) },
		"Responses, after another one": func(c *conversation, question string) { c.respond(question, true) },
	}
	for name, ask := range doors {
		for i := range 8 {
			c := &conversation{t: t, nodes: nodes, key: key, model: []string{"lab/opus", "lab/sonnet"}[i%2], stream: i/2%2 == 1, tools: i/4 == 1}
			what := fmt.Sprintf("%s, %s, stream %t, tools %t", name, c.model, c.stream, c.tools)
			for turn := range 5 {
				ask(c, fmt.Sprintf("%s: please look, %d", what, turn))
			}
			all := vendor.Requests()
			if want := 5 + 5*(i/4); len(all) != want {
				t.Errorf("%s: %d requests, want %d", what, len(all), want)
			}
			for n, r := range all {
				if r.Refused != "" || r.Dropped > 0 || r.Turns != n || r.Thoughts < n {
					t.Errorf("%s, request %d: %+v, want all thinking of %d turns", what, n, r, n)
				}
				if c.model == "lab/sonnet" && r.Key != all[0].Key {
					t.Errorf("%s, request %d: under %s, want %s", what, n, r.Key, all[0].Key)
				}
			}
		}
	}
}
