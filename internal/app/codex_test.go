package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// strictVendor is an upstream in OpenAI's two dialects that refuses what the vendor refuses of an agent's requests.
type strictVendor struct {
	mu    sync.Mutex
	heard []string
}

func (v *strictVendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	v.mu.Lock()
	v.heard = append(v.heard, string(raw))
	v.mu.Unlock()
	var body map[string]any
	if err := json.Unmarshal(raw, &body); err != nil {
		http.Error(w, "no JSON", http.StatusBadRequest)
		return
	}
	problem, answer := checkChat(body), chatCall
	if strings.HasSuffix(r.URL.Path, "/responses") {
		problem, answer = checkResponses(body), responsesCall
	}
	if problem != "" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, `{"error":{"message":%q,"type":"invalid_request_error","param":null,"code":null}}`, problem)
		return
	}
	if bytes.Contains(raw, []byte("3 hits")) { // the result of the call is there
		answer = chatEnd
		if strings.HasSuffix(r.URL.Path, "/responses") {
			answer = responsesEnd
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, answer)
}

// last returns the last request, and forgets all.
func (v *strictVendor) last() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.heard) == 0 {
		return ""
	}
	last := v.heard[len(v.heard)-1]
	v.heard = nil
	return last
}

const (
	chatCall = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"x","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"mcp__gw__search","arguments":"{\"q\":"}}]},"finish_reason":null}]}

data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"x","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"x\"}"}}]},"finish_reason":"tool_calls"}]}

data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"x","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13}}

data: [DONE]

`
	chatEnd = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"x","choices":[{"index":0,"delta":{"role":"assistant","content":"Three."},"finish_reason":"stop"}]}

data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"x","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13}}

data: [DONE]

`
	responsesCall = `event: response.created
data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_up","object":"response","status":"in_progress","model":"x","output":[]}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"fc_up","type":"function_call","status":"in_progress","call_id":"call_1","name":"search","namespace":"mcp__gw","arguments":""}}

event: response.function_call_arguments.done
data: {"type":"response.function_call_arguments.done","sequence_number":2,"item_id":"fc_up","output_index":0,"name":"search","arguments":"{\"q\":\"x\"}"}

event: response.output_item.done
data: {"type":"response.output_item.done","sequence_number":3,"output_index":0,"item":{"id":"fc_up","type":"function_call","status":"completed","call_id":"call_1","name":"search","namespace":"mcp__gw","arguments":"{\"q\":\"x\"}"}}

event: response.completed
data: {"type":"response.completed","sequence_number":4,"response":{"id":"resp_up","object":"response","status":"completed","model":"x","output":[{"id":"fc_up","type":"function_call","status":"completed","call_id":"call_1","name":"search","namespace":"mcp__gw","arguments":"{\"q\":\"x\"}"}],"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":3},"output_tokens":4,"total_tokens":13}}}

`
	responsesEnd = `event: response.created
data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_up2","object":"response","status":"in_progress","model":"x","output":[]}}

event: response.completed
data: {"type":"response.completed","sequence_number":1,"response":{"id":"resp_up2","object":"response","status":"completed","model":"x","output":[{"id":"msg_up","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Three.","annotations":[]}]}],"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":3,"cache_write_tokens":2},"output_tokens":4,"output_tokens_details":{"reasoning_tokens":1},"total_tokens":13}}}

`
)

// functionName is what names of functions may look like.
var functionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// checkChat returns why a chat completion is refused; empty if it is not.
func checkChat(body map[string]any) string {
	for key := range body {
		if !strings.Contains(" model messages tools tool_choice parallel_tool_calls stream stream_options reasoning_effort max_completion_tokens max_tokens verbosity prompt_cache_key response_format ", " "+key+" ") {
			return "Unrecognized request argument supplied: " + key
		}
	}
	seen := map[string]bool{}
	tools, _ := body["tools"].([]any)
	for _, t := range tools {
		tool := t.(map[string]any)
		f, _ := tool["function"].(map[string]any)
		name, _ := f["name"].(string)
		if tool["type"] != "function" || len(tool) != 2 || !functionName.MatchString(name) || seen[name] {
			return fmt.Sprintf("Invalid tool: %v", tool)
		}
		seen[name] = true
	}
	messages, _ := body["messages"].([]any)
	open := map[string]bool{}
	for _, m := range messages {
		message := m.(map[string]any)
		calls, _ := message["tool_calls"].([]any)
		for _, c := range calls {
			call := c.(map[string]any)
			name, _ := call["function"].(map[string]any)["name"].(string)
			if !seen[name] {
				return "Unknown function in tool_calls: " + name
			}
			open[call["id"].(string)] = true
		}
		if id, ok := message["tool_call_id"].(string); message["role"] == "tool" && (!ok || !open[id]) {
			return "No tool call for " + id
		}
	}
	return ""
}

// checkResponses returns why a request to the Responses API is refused; empty if it is not.
func checkResponses(body map[string]any) string {
	if body["store"] != false || body["previous_response_id"] != nil {
		return "Nothing is stored here."
	}
	input, _ := body["input"].([]any)
	known := map[string]bool{}
	for i, it := range input {
		item := it.(map[string]any)
		switch item["type"] {
		case "additional_tools":
			if item["role"] != "developer" {
				return fmt.Sprintf("Invalid value: input[%d].role", i)
			}
			for _, t := range item["tools"].([]any) {
				tool := t.(map[string]any)
				inner, _ := tool["tools"].([]any)
				for _, f := range append(inner, t) {
					known[fmt.Sprint(tool["name"], " ", f.(map[string]any)["name"])] = true
				}
			}
		case "function_call":
			if item["id"] != nil || !known[fmt.Sprint(item["namespace"], " ", item["name"])] {
				return fmt.Sprintf("Item with id %v not found, or no tool for input[%d].", item["id"], i)
			}
		}
	}
	return ""
}

// codexTools is what Codex sends to models that take their tools in the input.
const codexTools = `{"type":"additional_tools","role":"developer","tools":[
	{"type":"function","name":"exec_command","description":"Runs a command.","strict":false,"parameters":{"type":"object","properties":{"cmd":{"type":"string"}},"required":["cmd"]}},
	{"type":"custom","name":"apply_patch","description":"Edits files.","format":{"type":"grammar","syntax":"lark","definition":"start: \"x\""}},
	{"type":"namespace","name":"mcp__gw","description":"Tools of gw.","tools":[
		{"type":"function","name":"search","description":"Searches.","strict":false,"parameters":{"type":"object","properties":{"q":{"type":"string"}}}},
		{"type":"function","name":"a_tool_whose_name_is_so_long_that_it_does_not_fit_beside_its_namespace","strict":false,"parameters":{"type":"object"}}]},
	{"type":"namespace","name":"multi_agent","description":"Agents.","tools":[{"type":"function","name":"search","strict":false,"parameters":{"type":"object"}}]}]}`

// codexTurn is a request of Codex with some items.
func codexTurn(model, items string) string {
	return `{"model":"` + model + `","instructions":"You are a coding agent.","input":[` + codexTools + `,{"type":"message","role":"developer","content":[{"type":"input_text","text":"Rules."}]},` + items + `],
		"tool_choice":"auto","parallel_tool_calls":false,"reasoning":{"effort":"medium","summary":"auto","context":"all_turns"},"store":false,"stream":true,"include":["reasoning.encrypted_content"],
		"prompt_cache_key":"0199","text":{"verbosity":"low"},"client_metadata":{"x":"y"}}`
}

// doneItem returns the item of the first event that ends one.
func doneItem(t *testing.T, stream string) (item struct {
	Type, Name, Namespace, Arguments string
	CallID                           string `json:"call_id"`
},
) {
	t.Helper()
	_, rest, ok := strings.Cut(stream, "event: response.output_item.done\ndata: ")
	line, _, _ := strings.Cut(rest, "\n")
	var ev struct{ Item json.RawMessage }
	if !ok || json.Unmarshal([]byte(line), &ev) != nil || json.Unmarshal(ev.Item, &item) != nil {
		t.Fatalf("no item ends in %s", stream)
	}
	return item
}

// Codex sends its tools as an item, those of MCP servers in namespaces. Two turns work with a model behind chat completions
// and with one behind the Responses API.
func TestCodex(t *testing.T) {
	t.Parallel()
	v := &strictVendor{}
	up := httptest.NewServer(v)
	t.Cleanup(up.Close)
	n := newSite(t, fmt.Sprintf(`
providers:
- {name: chat, kind: openai, base_url: "%[1]s/v1", api: chat}
- {name: native, kind: openai, base_url: "%[1]s/v1", api: responses}
models:
- {id: lab/chat, provider: chat, plan: free, context_length: 8192, max_output: 100, tool_calling: true, reasoning: true}
- {id: lab/native, provider: native, plan: free, context_length: 8192, max_output: 100, tool_calling: true, reasoning: true}
`, up.URL)).start(t)
	key := n.OwnerKey()
	const question = `{"type":"message","role":"user","content":[{"type":"input_text","text":"Search x."}]}`
	for _, tt := range []struct{ model, dropped, sent string }{
		{"lab/chat", "tools.namespace.description, reasoning.context, client_metadata", `"name":"mcp__gw__search"`},
		{"lab/native", "", `{"type":"additional_tools","role":"developer"`},
	} {
		r := n.request("POST", responsesPath, key, codexTurn(tt.model, question))
		heard := v.last()
		if got := r.header.Get("X-Sluice-Dropped"); r.status != 200 || got != tt.dropped || !strings.Contains(heard, tt.sent) {
			t.Fatalf("first turn of %s = %d %s, dropped %q, want %q; the upstream got %s", tt.model, r.status, r.body, got, tt.dropped, heard)
		}
		call := doneItem(t, r.body)
		if call.Type != "function_call" || call.Name != "search" || call.Namespace != "mcp__gw" || call.CallID != "call_1" || call.Arguments != `{"q":"x"}` {
			t.Errorf("the call of %s = %+v", tt.model, call)
		}
		if !strings.Contains(finalEvent(r.body), `"namespace":"mcp__gw"`) || !strings.Contains(finalEvent(r.body), `"cache_write_tokens":0`) || !strings.Contains(finalEvent(r.body), `"reasoning_tokens":0`) {
			t.Errorf("the end of %s = %s", tt.model, finalEvent(r.body))
		}
		r = n.request("POST", responsesPath, key, codexTurn(tt.model, question+`,{"type":"function_call","id":"fc_1","call_id":"call_1","name":"search","namespace":"mcp__gw","arguments":"{\"q\":\"x\"}"},{"type":"function_call_output","call_id":"call_1","output":"3 hits"}`))
		if heard := v.last(); r.status != 200 || !strings.Contains(finalEvent(r.body), `"text":"Three."`) {
			t.Errorf("second turn of %s = %d %s; the upstream got %s", tt.model, r.status, r.body, heard)
		}
	}
}

// Tools that an item has offered stay with a conversation that is stored here, and so do namespaces and efforts.
func TestCodexStored(t *testing.T) {
	t.Parallel()
	v := &strictVendor{}
	up := httptest.NewServer(v)
	t.Cleanup(up.Close)
	n := newSite(t, fmt.Sprintf(`
providers:
- {name: chat, kind: openai, base_url: "%[1]s/v1", api: chat}
models:
- {id: lab/chat, provider: chat, plan: free, context_length: 8192, max_output: 100, tool_calling: true, reasoning: true}
`, up.URL)).start(t)
	key := n.OwnerKey()
	r := n.request("POST", responsesPath, key, `{"model":"lab/chat","stream":true,"input":[`+codexTools+`,{"type":"configuration_update","reasoning":{"effort":"high"}},{"role":"user","content":"Search x."}]}`)
	var last struct{ Response responseReply }
	if err := json.Unmarshal([]byte(finalEvent(r.body)), &last); err != nil || r.status != 200 || !last.Response.Store {
		t.Fatalf("first turn = %d %s", r.status, r.body)
	}
	id := last.Response.ID
	if stored := n.get(responsesPath+"/"+id, key); !strings.Contains(stored.body, `"name":"search","namespace":"mcp__gw"`) || !strings.Contains(stored.body, `"cache_write_tokens":0`) {
		t.Errorf("GET = %d %s", stored.status, stored.body)
	}
	v.last()
	r = n.request("POST", responsesPath, key, `{"model":"lab/chat","stream":true,"previous_response_id":"`+id+`","input":[{"type":"function_call_output","call_id":"call_1","output":"3 hits"}],"reasoning":{"effort":"low"}}`)
	heard := v.last()
	if r.status != 200 || !strings.Contains(r.body, "Three.") || !strings.Contains(heard, `"reasoning_effort":"high"`) || strings.Count(heard, `"name":"mcp__gw__search"`) != 2 {
		t.Errorf("second turn = %d %s; the upstream got %s", r.status, r.body, heard)
	}
}

// Clients that try a WebSocket first are told to use HTTP, by the one status that they understand.
func TestResponsesOverWebSocket(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	ask := func(upgrade, key string) reply {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.scheme+n.Addr()+responsesPath, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+n.OwnerKey())
		if upgrade != "" {
			req.Header.Set("Connection", "Upgrade")
			req.Header.Set("Upgrade", upgrade)
			req.Header.Set("Sec-WebSocket-Version", "13")
		}
		if key != "" {
			req.Header.Set("Sec-WebSocket-Key", key)
		}
		r, err := n.try(req)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, upgrade := range []string{"WebSocket", ""} { // a proxy has taken it away
		r := ask(upgrade, "dGhlIHNhbXBsZSBub25jZQ==")
		if r.status != http.StatusUpgradeRequired || r.header.Get("Upgrade") != "websocket" || !strings.Contains(r.body, `"code":426`) || !strings.Contains(r.body, "POST /v1/responses") {
			t.Errorf("GET with Upgrade %q = %d %v %s", upgrade, r.status, r.header, r.body)
		}
	}
	for _, upgrade := range []string{"", "h2c"} {
		if r := ask(upgrade, ""); r.status != http.StatusMethodNotAllowed || r.header.Get("Allow") != "POST" || r.header.Get("Upgrade") != "" {
			t.Errorf("GET with Upgrade %q = %d %v %s", upgrade, r.status, r.header, r.body)
		}
	}
	if r := n.request("POST", responsesPath+"/compact", n.OwnerKey(), `{"model":"sandbox/small","input":"x"}`); r.status != 404 || !strings.Contains(r.body, "truncation") {
		t.Errorf("compact = %d %s", r.status, r.body)
	}
}

// The tokens of an input are counted as those of a message, for one request and without a call of a model.
func TestInputTokens(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	d := newDescription(t)
	key, before := n.OwnerKey(), settled(n.App)
	const path = responsesPath + "/input_tokens"
	r := n.request("POST", path, key, `{"model":"sandbox/heavy","input":"one two three four five"}`)
	d.check(t, "POST", path, r)
	same := n.askMessages("/v1/messages/count_tokens", key, `{"model":"sandbox/heavy","messages":[{"role":"user","content":"one two three four five"}]}`)
	if want := strings.Replace(same.body, "{", `{"object":"response.input_tokens",`, 1); r.status != 200 || r.body != want || settled(n.App) != before {
		t.Errorf("count = %d %s, want %s; %d settlements", r.status, r.body, want, settled(n.App)-before)
	}
	var a, b int
	fmt.Sscan(r.header.Get("X-Ratelimit-Remaining-Requests"), &a)
	fmt.Sscan(same.header.Get("X-Ratelimit-Remaining-Requests"), &b)
	if a-b != 1 {
		t.Errorf("requests left: %d, then %d", a, b)
	}
	first := n.respond(key, `{"model":"sandbox/small","input":"Say hello."}`)
	if r := n.request("POST", path, key, `{"model":"sandbox/small","previous_response_id":"`+first.ID+`","input":"And?"}`); r.status != 200 || r.body == `{"object":"response.input_tokens","input_tokens":5}` {
		t.Errorf("count of a conversation = %d %s", r.status, r.body)
	}
	if r := n.request("POST", path, key, `{"model":"sandbox/small","input":[{"role":"user"}]}`); r.status != 400 || !strings.Contains(r.body, `"param":"input[0].content"`) {
		t.Errorf("count of a bad input = %d %s", r.status, r.body)
	}
}
