package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sluice/internal/testkit/vendortest"
)

// stableColumns are the adapters whose requests are compared from turn to turn.
var stableColumns = []column{
	{name: "compatible", door: "chat", provider: `kind: openai, base_url: "%s/v1", api_key: vendor-key`, upstream: "lab-model"},
	{name: "deepseek", door: "chat", provider: `kind: deepseek, base_url: "%s/v1", api_key: vendor-key`, upstream: "lab-model"},
	{name: "openrouter", door: "chat", provider: `kind: openrouter, base_url: "%s/v1", api_key: vendor-key`, upstream: "anthropic/claude-sonnet-5-5"},
	{name: "mistral", door: "chat", provider: `kind: mistral, base_url: "%s/v1", api_key: vendor-key`, upstream: "lab-model"},
	{name: "responses", door: "responses", provider: `kind: azure, base_url: %q, api_key: vendor-key, api: responses`, upstream: "gpt-6-sol"},
	{name: "azure", door: "responses", provider: `kind: azure, base_url: %q, api_key: vendor-key`, upstream: "gpt-6-sol"},
	{name: "anthropic", door: "messages", provider: `kind: anthropic, base_url: %q, api_key: vendor-key`, upstream: "claude-sonnet-5-5"},
	{name: "older", door: "messages", provider: `kind: anthropic, base_url: %q, api_key: vendor-key`, upstream: "claude-opus-4-6"},
	{name: "bedrock", provider: `kind: bedrock, base_url: %q, access_key_id: vendor-id, secret_access_key: vendor-key, region: us-east-1`, upstream: "anthropic.claude-sonnet-5-5"},
	{name: "mantle", door: "messages", provider: `kind: bedrock, api: native, base_url: %q, access_key_id: vendor-id, secret_access_key: vendor-key, region: us-east-1`, upstream: "anthropic.claude-sonnet-5-5"},
	{name: "gemini", provider: `kind: gemini, base_url: %q, api_key: vendor-key`, upstream: "gemini-3.8-flash"},
}

// talk is a conversation of which the requests to the vendor are compared.
type talk struct {
	*doorClient
	vendor  *vendortest.Vendor
	servers string   // the address of an MCP server
	firsts  []string // the first request of each turn
	all     [][]string
}

// ask sends a turn as the caller's program writes it, and notes what the vendor was sent.
func (k *talk) ask(a asking, write func(object) ([]byte, error), change ...func(object)) (said, error) {
	b := k.body(a)
	for _, c := range change {
		c(b)
	}
	body, err := write(b)
	if err != nil {
		return said{}, err
	}
	k.vendor.Take()
	s := k.n.post(k.door, string(body), nil)
	k.history = append(k.history, s.read(k.door, a.stream)...)
	var sent []string
	for _, h := range k.vendor.Take() {
		if h.Refused != "" {
			return s, fmt.Errorf("the vendor refused: %s\n%s", h.Refused, h.Body)
		}
		sent = append(sent, h.Body)
	}
	if s.status != http.StatusOK || len(sent) == 0 {
		return s, fmt.Errorf("%s", s.brief())
	}
	k.firsts, k.all = append(k.firsts, sent[0]), append(k.all, sent)
	return s, nil
}

// compact is how most programs write JSON.
func compact(b object) ([]byte, error) { return json.Marshal(b) }

// spaced writes JSON with spaces, in a form that has none of Go's escapes.
func spaced(b object) ([]byte, error) {
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	err := e.Encode(b)
	return []byte(out.String()), err
}

// instruct adds a message of the system.
func (k *talk) instruct(text string) {
	if k.door == "responses" {
		k.history = append(k.history, object{"type": "message", "role": "developer", "content": []any{object{"type": "input_text", "text": text}}})
		return
	}
	k.history = append(k.history, object{"role": "system", "content": text})
}

// system returns a change that puts instructions in front, in two pieces, of which the first is marked if marks is set.
func (k *talk) system(text string, marks bool) func(object) {
	return func(b object) {
		one, two := object{"type": "text", "text": text}, object{"type": "text", "text": "Today is a day <like> any & other."}
		switch k.door {
		case "messages":
			if marks {
				one["cache_control"] = object{"type": "ephemeral", "ttl": "1h"}
			}
			b["system"] = []any{one, two}
		case "chat":
			if marks {
				one["cache_control"] = object{"type": "ephemeral", "ttl": "1h"}
			}
			b["messages"] = append([]any{object{"role": "system", "content": []any{one, two}}}, arr(b["messages"])...)
		default:
			if !marks {
				b["instructions"] = text
				return
			}
			one["type"], one["prompt_cache_breakpoint"] = "input_text", object{"mode": "explicit"}
			two["type"] = "input_text"
			b["input"] = append([]any{object{"role": "developer", "content": []any{one, two}}}, arr(b["input"])...)
		}
	}
}

// moving returns a change that marks the last message, as agents do in each of their calls. What is in the history stays
// without the mark.
func (k *talk) moving(b object) {
	name := map[string]string{"chat": "messages", "messages": "messages", "responses": "input"}[k.door]
	list := slices.Clone(arr(b[name]))
	for i := len(list) - 1; i >= 0; i-- {
		last := obj(list[i])
		content := arr(last["content"])
		if len(content) == 0 {
			continue
		}
		marked := object{}
		for key, v := range obj(content[len(content)-1]) {
			marked[key] = v
		}
		if k.door == "responses" {
			marked["prompt_cache_breakpoint"] = object{"mode": "explicit"}
		} else {
			marked["cache_control"] = object{"type": "ephemeral"}
		}
		message := object{}
		for key, v := range last {
			message[key] = v
		}
		message["content"] = append(slices.Clone(content[:len(content)-1]), marked)
		list[i] = message
		break
	}
	b[name] = list
}

// remote returns a change that gives the model the tools of an MCP server.
func (k *talk) remote(b object) {
	if k.door == "messages" {
		b["mcp_servers"] = []any{object{"type": "url", "url": k.servers, "name": "town"}}
		return
	}
	b["tools"] = []any{object{"type": "mcp", "server_label": "town", "server_url": k.servers, "require_approval": "never"}}
}

// townTools is an MCP server with the tools that the script calls. It lists them in another order each time that it is asked.
func townTools(t *testing.T) string {
	t.Helper()
	type input struct {
		City string `json:"city,omitempty"`
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "town", Version: "1"}, nil)
	for _, name := range []string{"get_weather", "get_time", "a_map"} {
		mcp.AddTool(s, &mcp.Tool{Name: name}, func(context.Context, *mcp.CallToolRequest, input) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "Mild"}}}, nil, nil
		})
	}
	server := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	t.Cleanup(server.Close)
	return server.URL
}

// turns asks n times.
func (k *talk) turns(n int, a asking, write func(object) ([]byte, error), change ...func(object)) error {
	for i := range n {
		k.say(fmt.Sprintf("Hello <%d> & you?", i), false, false)
		if _, err := k.ask(a, write, change...); err != nil {
			return fmt.Errorf("turn %d: %w", i+1, err)
		}
	}
	return nil
}

// works lets the model call two tools, and answers.
func (k *talk) works(a asking, write func(object) ([]byte, error), change ...func(object)) error {
	a.tools = true
	k.say("What is the weather?", false, false)
	s, err := k.ask(a, write, change...)
	if err != nil || len(s.calls) != 2 {
		return fmt.Errorf("no calls: %w", err)
	}
	k.result(s.calls, "Sunny", "Noon")
	_, err = k.ask(a, write, change...)
	return err
}

// inOrder runs steps until one fails.
func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// stableTalks are the conversations.
var stableTalks = []struct {
	name string
	run  func(k *talk, a asking) error
}{
	{"plain", func(k *talk, a asking) error { return k.turns(3, a, compact) }},
	{"spaces in the JSON", func(k *talk, a asking) error {
		a.tools = true
		return inOrder(func() error { return k.turns(2, a, spaced, k.system("Be brief.", false)) }, func() error { return k.works(a, spaced, k.system("Be brief.", false)) },
			func() error { return k.turns(1, a, spaced, k.system("Be brief.", false)) })
	}},
	{"long system prompt", func(k *talk, a asking) error {
		return k.turns(3, a, compact, k.system(strings.Repeat("Be brief and kind. ", 2000), false))
	}},
	{"system in the middle", func(k *talk, a asking) error {
		return inOrder(func() error { return k.turns(2, a, compact) }, func() error {
			k.say("Go on.", false, false)
			k.instruct("From here on, be formal.")
			_, err := k.ask(a, compact)
			return err
		}, func() error { return k.turns(2, a, compact) })
	}},
	{"tools", func(k *talk, a asking) error { a.tools = true; return k.turns(3, a, compact) }},
	{"parallel tools with results", func(k *talk, a asking) error {
		return inOrder(func() error { return k.works(a, compact) }, func() error { return k.works(a, compact) }, func() error { a.tools = true; return k.turns(1, a, compact) })
	}},
	{"tools and thinking", func(k *talk, a asking) error {
		a.effort = "high"
		return inOrder(func() error { return k.works(a, compact) }, func() error { a.tools = true; return k.turns(1, a, compact) }, func() error { return k.works(a, compact) })
	}},
	{"images", func(k *talk, a asking) error {
		return inOrder(func() error { k.say("What is it?", true, false); _, err := k.ask(a, compact); return err }, func() error { return k.turns(2, a, compact) })
	}},
	{"thinking", func(k *talk, a asking) error { a.effort = "high"; return k.turns(3, a, compact) }},
	{"JSON", func(k *talk, a asking) error { a.schema = true; return k.turns(3, a, compact) }},
	{"tools on an MCP server", func(k *talk, a asking) error {
		return inOrder(func() error { return k.turns(1, a, compact, k.remote) }, func() error {
			k.say("What is the weather?", false, false)
			_, err := k.ask(a, compact, k.remote)
			return err
		}, func() error { return k.turns(2, a, compact, k.remote) })
	}},
	{"marks", func(k *talk, a asking) error {
		a.tools = true
		change := []func(object){k.moving, k.system("Be brief.", true)}
		return inOrder(func() error { return k.turns(2, a, compact, change...) }, func() error { return k.works(a, compact, change...) },
			func() error { return k.turns(2, a, compact, change...) })
	}},
	{"tools in any order", func(k *talk, a asking) error {
		a.tools = true
		turn := 0
		return k.turns(4, a, compact, func(b object) {
			list := slices.Clone(arr(b["tools"]))
			if turn++; turn%2 == 0 {
				slices.Reverse(list)
			}
			b["tools"] = list
		})
	}},
}

// TestPrefixStability holds conversations through every door with every adapter, and compares what the vendor is sent from
// turn to turn: what was there in the turn before, up to its end, stands there byte by byte. Marks for a cache are not
// counted: callers move them.
func TestPrefixStability(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var doors sync.WaitGroup
	results, compared := map[string]string{}, 0
	server := townTools(t)
	for _, door := range threeDoors {
		vendor := &vendortest.Vendor{}
		upstream := httptest.NewServer(vendor)
		t.Cleanup(upstream.Close)
		n := startStable(t, upstream.URL)
		doors.Go(func() {
			for i := range stableColumns {
				for _, conversation := range stableTalks {
					if c := &stableColumns[i]; conversation.name == "tools in any order" && c.door == door.name {
						continue // the vendor gets the caller's own words, whatever their order is
					}
					for _, stream := range []bool{false, true} {
						k := &talk{doorClient: &doorClient{n: n, door: door.name, model: "m/" + stableColumns[i].name}, vendor: vendor, servers: server}
						wrong := ""
						if err := conversation.run(k, asking{stream: stream}); err != nil {
							wrong = err.Error()
						} else {
							wrong = k.changed()
						}
						mu.Lock()
						results[fmt.Sprintf("%s/%s/%s/stream=%t", door.name, stableColumns[i].name, conversation.name, stream)] = wrong
						compared += len(k.all)
						mu.Unlock()
					}
				}
			}
		})
	}
	doors.Wait()
	bad := 0
	for _, key := range keys(results) {
		if results[key] != "" {
			bad++
			t.Errorf("%s: %s", key, results[key])
		}
	}
	t.Logf("%d conversations with %d turns, %d of them changed", len(results), compared, bad)
}

// startStable starts a server with an upstream of each kind.
func startStable(t *testing.T, url string) *node {
	t.Helper()
	providers, models := "providers:\n", "models:\n"
	for i := range stableColumns {
		c := &stableColumns[i]
		providers += fmt.Sprintf("- {name: %s, allow_image_urls: true, "+c.provider+"}\n", c.name, url)
		models += fmt.Sprintf("- {id: m/%s, provider: %s, upstream: %q, plan: free, context_length: 1000000, max_output: 64000, tool_calling: true, reasoning: true}\n", c.name, c.name, c.upstream)
	}
	return newSite(t, "mcp: {allow_hosts: [127.0.0.1]}\nplans: {scale: {requests_per_minute: unlimited, concurrent: unlimited, tokens_per_minute: unlimited}}\n"+providers+models).start(t)
}

// changed returns the first difference between a request and the one before it; empty: there is none. The first requests
// of turns are compared, and the requests within a turn.
func (k *talk) changed() string {
	for i, sent := range k.all {
		for j := 1; j < len(sent); j++ {
			if wrong := differs(sent[j-1], sent[j]); wrong != "" {
				return fmt.Sprintf("turn %d, request %d: %s", i+1, j+1, wrong)
			}
		}
	}
	for i := 1; i < len(k.firsts); i++ {
		if wrong := differs(k.firsts[i-1], k.firsts[i]); wrong != "" {
			return fmt.Sprintf("turn %d: %s", i+1, wrong)
		}
	}
	return ""
}

// What stands in front of the messages, and the messages, by their names in all dialects.
var (
	inFront  = []string{"system", "systemInstruction", "instructions", "tools", "toolConfig"}
	messages = []string{"messages", "contents", "input"}
	// marksOut are marks as they are written.
	marksOut = regexp.MustCompile(`"(cache_control|prompt_cache_breakpoint)":\s*\{[^}]*\},|,"(cache_control|prompt_cache_breakpoint)":\s*\{[^}]*\}|,\{"cachePoint":\{[^}]*\}\}`)
)

// differs returns where the later request differs from the earlier one, up to the end of the latter.
func differs(earlier, later string) string {
	var was, is map[string]json.RawMessage
	if json.Unmarshal([]byte(marksOut.ReplaceAllString(earlier, "")), &was) != nil || json.Unmarshal([]byte(marksOut.ReplaceAllString(later, "")), &is) != nil {
		return "a request is no JSON"
	}
	for _, name := range inFront {
		if a, b := was[name], is[name]; string(a) != string(b) {
			return fmt.Sprintf("%s was %.400s, is %.400s", name, a, b)
		}
	}
	for _, name := range messages {
		var before, after []json.RawMessage
		_ = json.Unmarshal(was[name], &before)
		_ = json.Unmarshal(is[name], &after)
		for i := range before {
			if i >= len(after) || string(before[i]) != string(after[i]) {
				got := "nothing"
				if i < len(after) {
					got = string(after[i])
				}
				return fmt.Sprintf("%s[%d] of %d was %.600s, is %.600s", name, i, len(before), before[i], got)
			}
		}
	}
	return ""
}
