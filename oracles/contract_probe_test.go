package oracles

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sluice/oracles/contracts"
)

// door is a way in, with the models that names are tried on.
type contractDoor struct {
	path string
	body string // a request, without its model
	// own is a model whose provider speaks the dialect of the door, and allows everything. other is one of another dialect;
	// empty: it would show nothing.
	own, other string
	// closed is like own, but allows nothing that costs the operator something.
	closed string
}

var contractDoors = map[string]contractDoor{
	"chat":          {"/chat/completions", `{"messages":[{"role":"user","content":"Hi."}]}`, "lab/chat", "lab/messages", "lab/chat-closed"},
	"responses":     {"/responses", `{"store":false,"input":[{"role":"user","content":"Hi."}]}`, "lab/responses", "lab/chat", "lab/responses-closed"},
	"messages":      {"/messages", `{"max_tokens":2048,"messages":[{"role":"user","content":"Hi."}]}`, "lab/messages", "lab/chat", "lab/messages-closed"},
	"messages-beta": {"/messages", `{"max_tokens":2048,"messages":[{"role":"user","content":"Hi."}]}`, "lab/messages", "lab/chat", "lab/messages-closed"},
	"openrouter":    {"/chat/completions", `{"messages":[{"role":"user","content":"Hi."}]}`, "lab/router", "", "lab/router-closed"},
	"embeddings":    {"/embeddings", `{"input":"Hi."}`, "lab/vectors", "", ""},
}

// startContracts runs a gateway with a model of each dialect.
func startContracts(t *testing.T) *prober {
	t.Helper()
	up := startContractUp(t)
	const model = `plan: free, context_length: 200000, max_output: 8192, tool_calling: true, reasoning: true`
	g := startGateway(t, fmt.Sprintf(`providers:
  - {name: chat, kind: openai, base_url: "%[1]s/v1", api_key: k, allow_image_urls: true}
  - {name: responses, kind: openai, base_url: "%[1]s/v1", api: responses, api_key: k, allow_image_urls: true}
  - {name: messages, kind: anthropic, base_url: "%[1]s", api_key: k, allow_image_urls: true}
  - {name: router, kind: openrouter, base_url: "%[1]s/v1", api_key: k, allow_image_urls: true}
models:
  - {id: lab/chat, provider: chat, allow: all, %[2]s}
  - {id: lab/responses, provider: responses, allow: all, %[2]s}
  - {id: lab/messages, provider: messages, upstream: claude-sonnet-4-5, allow: all, %[2]s}
  - {id: lab/router, provider: router, allow: all, %[2]s}
  - {id: lab/chat-closed, provider: chat, %[2]s}
  - {id: lab/responses-closed, provider: responses, %[2]s}
  - {id: lab/messages-closed, provider: messages, upstream: claude-sonnet-4-5, %[2]s}
  - {id: lab/router-closed, provider: router, %[2]s}
  - {id: lab/vectors, provider: chat, kind: embedding, plan: free, context_length: 8192}
`, up.url, model))
	return &prober{g, up, map[string]*outcome{}}
}

// prober sends requests with one name in them, one after the other.
type prober struct {
	g    *gateway
	up   *contractUp
	seen map[string]*outcome // of requests with plain answers, which many names share
}

// outcome is what became of a request.
type outcome struct {
	status  int
	dropped []string // names in x-sluice-dropped
	heard   any      // what the upstream was asked
	docs    []any    // the reply, or its events
}

// refusal is what the reply says of what is wrong.
func (o *outcome) refusal() string {
	var said strings.Builder
	for _, doc := range o.docs {
		object, _ := doc.(map[string]any)
		e, _ := object["error"].(map[string]any)
		fmt.Fprint(&said, e["param"], " ", e["message"])
	}
	return said.String()
}

// ask sends a request.
func (p *prober) ask(t *testing.T, path string, body, answer any) *outcome {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	same := path + p.g.owner + string(raw)
	if o := p.seen[same]; o != nil && answer == nil {
		return o
	}
	p.up.expect(answer)
	r, err := http.NewRequestWithContext(t.Context(), "POST", p.g.url+path, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+p.g.owner)
	r.Header.Set("Content-Type", "application/json")
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	o := &outcome{status: reply.StatusCode, heard: p.up.asked(), docs: documents(text)}
	if names := reply.Header.Get("X-Sluice-Dropped"); names != "" {
		o.dropped = strings.Split(names, ", ")
	}
	if answer == nil {
		p.seen[same] = o
	}
	return o
}

// documents are the events of a stream, or the one document that a text is.
func documents(text []byte) (docs []any) {
	lines := [][]byte{text}
	if !bytes.HasPrefix(text, []byte("{")) {
		lines = bytes.Split(text, []byte("\n"))
	}
	for _, line := range lines {
		var doc any
		if json.Unmarshal(bytes.TrimPrefix(line, []byte("data: ")), &doc) == nil && doc != nil {
			docs = append(docs, doc)
		}
	}
	return docs
}

// unknown stands for a value and a variant that nobody knows.
const unknown = "sluice_unknown"

// sampleRequest returns a request with a name in it, and the same without it: without the member, or with a variant or value that
// nobody knows.
func sampleRequest(s *contracts.Samples, n contracts.Name, d contractDoor, model string) (with, without any) {
	base := decoded(d.body).(map[string]any)
	base["model"] = model
	with = s.Of(n.Root, base, n.Path, n.Least)
	switch end := n.Path[len(n.Path)-1]; end.Kind {
	case contracts.Value:
		without = s.Of(n.Root, base, n.Path, unknown)
	case contracts.Variant:
		without = s.Of(n.Root, base, n.Path, map[string]any{"type": unknown})
	default:
		without = remove(s.Of(n.Root, base, n.Path, gone{}))
	}
	if m, ok := with.(map[string]any); ok && n.Path.String() == "model" {
		m["model"] = model
	}
	return complete(with), complete(without)
}

// gone marks what remove leaves out.
type gone struct{}

func remove(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			if v[key] = remove(inner); v[key] == (gone{}) {
				delete(v, key)
			}
		}
	case []any:
		for i := range v {
			v[i] = remove(v[i])
		}
	}
	return v
}

func decoded(text string) (v any) {
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		panic(err) // a literal of these files
	}
	return v
}

// complete adds what the rest of a request needs: a conversation around a message, tools for a choice.
func complete(body any) any {
	object, ok := body.(map[string]any)
	if !ok {
		return body
	}
	for field, needed := range map[string]struct {
		name  string
		value any
	}{"top_logprobs": {"logprobs", true}, "stream_options": {"stream", true}, "tool_choice": {"tools", someTools(object)}, "parallel_tool_calls": {"tools", someTools(object)}} {
		if object[field] != nil && object[needed.name] == nil {
			object[needed.name] = needed.value
		}
	}
	for field, number := range map[string]any{"temperature": 0.5, "top_p": 0.5, "n": 2} {
		if object[field] != nil {
			object[field] = number // 1 is what they are without it
		}
	}
	if thinking, ok := object["thinking"].(map[string]any); ok && thinking["budget_tokens"] != nil {
		thinking["budget_tokens"] = 1024
	}
	if choice, ok := object["tool_choice"].(map[string]any); ok && choice["type"] == "allowed_tools" && object["input"] != nil && choice["tools"] != nil {
		choice["tools"] = decoded(`[{"type":"function","name":"a"}]`)
	}
	if list, ok := object["messages"].([]any); ok && len(list) == 1 {
		object["messages"] = conversation(list[0], object["max_tokens"] != nil)
	}
	if list, ok := object["input"].([]any); ok && len(list) == 1 && object["max_tokens"] == nil {
		mend(list)
		object["input"] = turns(list[0])
	}
	return object
}

// someTools are a function that is called a, in the dialect of a request.
func someTools(object map[string]any) any {
	switch {
	case object["input"] != nil:
		return decoded(`[{"type":"function","name":"a","parameters":{"type":"object"}},{"type":"custom","name":"b"}]`)
	case object["max_tokens"] != nil:
		return decoded(`[{"name":"a","input_schema":{"type":"object"}}]`)
	}
	return decoded(`[{"type":"function","function":{"name":"a"}}]`)
}

// mend adds the content that a part of Responses must have, which its type leaves open.
func mend(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			mend(e)
		}
	case map[string]any:
		if v["type"] == "input_image" && v["image_url"] == nil && v["file_id"] == nil {
			v["image_url"] = "https://example.com/a"
		}
		if v["type"] == "input_file" && v["file_data"] == nil && v["file_id"] == nil && v["file_url"] == nil {
			v["file_data"] = "data:text/plain;base64,YQ=="
		}
		for _, inner := range v {
			mend(inner)
		}
	}
}

// conversation puts a message into one that ends with the user.
func conversation(message any, anthropic bool) []any {
	m, _ := message.(map[string]any)
	user := map[string]any{"role": "user", "content": "Hi."}
	switch {
	case m["role"] == "tool":
		return []any{user, decoded(`{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"a","arguments":"{}"}}]}`), m}
	case m["role"] == "assistant" && m["content"] == nil && m["tool_calls"] == nil && m["function_call"] == nil:
		m["content"] = "Yes."
		return []any{user, m, user}
	case m["tool_calls"] != nil:
		return []any{user, m, decoded(`{"role":"tool","tool_call_id":"a","content":"a"}`)}
	case anthropic && holds(m["content"], "tool_result"):
		return []any{user, decoded(`{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"a","input":{}}]}`), m}
	case anthropic && holds(m["content"], "tool_use"):
		m["role"] = "assistant"
		return []any{user, m, decoded(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"a"}]}`)}
	case m["role"] == "user":
		return []any{m}
	}
	return []any{user, m, user}
}

func holds(content any, kind string) bool {
	list, _ := content.([]any)
	return slices.ContainsFunc(list, func(v any) bool {
		block, _ := v.(map[string]any)
		return block["type"] == kind
	})
}

// turns puts an item of Responses behind what it answers, and in front of a question.
func turns(item any) []any {
	m, _ := item.(map[string]any)
	kind, _ := m["type"].(string)
	user := map[string]any{"role": "user", "content": "Hi."}
	list := []any{user}
	if kind == "message" && (holds(m["content"], "input_image") || holds(m["content"], "input_file")) {
		m["role"] = "user"
	}
	if m["call_id"] == nil && (kind == "function_call_output" || kind == "custom_tool_call_output") {
		m["call_id"] = "a"
	}
	if call, ok := strings.CutSuffix(kind, "_output"); ok && m["call_id"] != nil {
		if call == "function_call" || call == "custom_tool_call" {
			list = append(list, map[string]any{"type": call, "call_id": m["call_id"], "name": "a", "arguments": "{}", "input": "a"})
		}
	}
	list = append(list, m)
	if kind == "function_call" || kind == "custom_tool_call" {
		list = append(list, map[string]any{"type": kind + "_output", "call_id": m["call_id"], "output": "a"})
	}
	return append(list, user)
}

// verdict is what the gateway does with a name.
type verdict struct {
	where  string // native: at a provider of the same dialect; translated: at another one; empty: it does not matter
	what   string
	detail string         // what the gateway says
	on     contracts.Path // the name it is on, or the one around it that shares its fate
}

func (v verdict) String() string { return strings.TrimSpace(v.where + " " + v.what) }

// What the gateway does with a name. The first three and sent are fine, others need a decision.
const (
	passedOn = "passed on"
	read     = "read"
	dropped  = "dropped by name"
	refused  = "refused" // by name: the message is about it
	lost     = "lost"    // the request is answered as if it were not there, and nobody is told
	unclear  = "unclear" // refused, but not because of it: the sample is no good
	sent     = "sent"
	notSent  = "not sent"
	absent   = "not in the code" // that speaks to a vendor
	exposed  = "exposed"         // passed on although the operator allows nothing, and its name is that of a model, a price or a stored object
)

// costly are names of what may choose a model, a price, tools or stored objects at a vendor. The list of them is package
// allowance; this finds those that it might lack.
var costly = regexp.MustCompile(`(^|_)(models?|tier|speed|price|budget|ids?|store|stored|programs?|container|geo|priority|preset|profile|route|plugins?|search|prewarm)(_|$)`)

// within are ids of what is in the request itself.
var within = regexp.MustCompile(`^(id|.*call_id|caller_id|tool_use_id)$`)

// expose tells whether a name that may cost something reaches a provider without the operator's permission.
func (p *prober) expose(t *testing.T, samples *contracts.Samples, n contracts.Name, d contractDoor) bool {
	t.Helper()
	last := n.Path[len(n.Path)-1]
	if d.closed == "" || last.Kind != contracts.Member || !costly.MatchString(last.Text) || within.MatchString(last.Text) || n.Path.String() == "model" {
		return false
	}
	with, without := sampleRequest(samples, n, d, d.closed)
	what, _ := judge(n, p.ask(t, d.path, with, nil), p.ask(t, d.path, without, nil))
	return what == passedOn
}

// judge compares a request that has a name with the one that has it not.
func judge(n contracts.Name, with, without *outcome) (what, detail string) {
	if with.status != http.StatusOK {
		said, last := with.refusal(), n.Path.Last()
		if strings.Contains(said, last) && (without.status == http.StatusOK || without.refusal() != said) {
			return refused, said
		}
		return unclear, said
	}
	if found := n.Path.Find(with.heard); slices.ContainsFunc(found, func(v any) bool { return reflect.DeepEqual(v, n.Least) }) {
		return passedOn, ""
	}
	if slices.ContainsFunc(with.dropped, func(name string) bool { return !slices.Contains(without.dropped, name) }) {
		return dropped, ""
	}
	if without.status != http.StatusOK || !reflect.DeepEqual(with.heard, without.heard) || !same(with.docs, without.docs) {
		return read, ""
	}
	if slices.ContainsFunc(with.dropped, func(name string) bool { return strings.Contains(name, n.Path.Last()) }) {
		return dropped, ""
	}
	return lost, ""
}

// same reports whether two replies have the same members.
func same(a, b []any) bool {
	return reflect.DeepEqual(membersOf(a), membersOf(b))
}

func membersOf(v any) any {
	switch v := v.(type) {
	case map[string]any:
		all := maps.Clone(v)
		for key := range all {
			all[key] = membersOf(all[key])
		}
		return all
	case []any:
		all := []any{}
		for _, e := range v {
			all = append(all, membersOf(e))
		}
		return all
	}
	return nil
}
