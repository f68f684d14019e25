package bedrock_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/bedrock"
	"sluice/internal/upstream/provider/providertest"
)

// converse is Converse in front of the strict Claude: it translates requests and replies between the two APIs.
type converse struct{ claude *providertest.Claude }

func (c converse) RoundTrip(r *http.Request) (*http.Response, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var w asked
	if err := json.Unmarshal(raw, &w); err != nil {
		return nil, err
	}
	body, beta := w.native(strings.Split(r.URL.Path, "/")[2])
	request := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(providertest.Encode(body)))
	request.Header.Set("Anthropic-Beta", beta)
	request.Header.Set("X-Api-Key", r.Header.Get("Authorization")[:60]) // its beginning names the key
	recorder := httptest.NewRecorder()
	c.claude.ServeHTTP(recorder, request)
	return answered(recorder, strings.HasSuffix(r.URL.Path, "-stream"))
}

// asked is a request of Converse.
type asked struct {
	System    []object
	Messages  []struct{ Role, Content any }
	Inference object `json:"inferenceConfig"`
	Tools     struct {
		Tools  []struct{ ToolSpec object }
		Choice object `json:"toolChoice"`
	} `json:"toolConfig"`
	Additional object `json:"additionalModelRequestFields"`
	Output     object `json:"outputConfig"`
}

// native returns the request as the Messages API has it, and the feature that it switches on.
func (w *asked) native(model string) (body object, beta string) {
	body = object{"model": model, "max_tokens": w.Inference["maxTokens"]}
	for name, v := range w.Additional {
		if name == "anthropic_beta" {
			beta = fmt.Sprint(v.([]any)[0])
			continue
		}
		body[name] = v
	}
	if e := w.Output["effort"]; e != nil {
		body["output_config"] = object{"effort": e}
	}
	var system, tools, messages []any
	for _, s := range w.System {
		system = append(system, nativeBlock(s))
	}
	for _, t := range w.Tools.Tools {
		tools = append(tools, object{"name": t.ToolSpec["name"], "input_schema": t.ToolSpec["inputSchema"]})
	}
	for _, m := range w.Messages {
		var content []any
		for _, k := range m.Content.([]any) {
			content = append(content, nativeBlock(k.(object)))
		}
		messages = append(messages, object{"role": m.Role, "content": content})
	}
	body["system"], body["tools"], body["messages"] = system, tools, messages
	return body, beta
}

// nativeBlock is a block of Converse as the Messages API has it.
func nativeBlock(k object) object {
	if t, ok := k["toolUse"].(object); ok {
		return object{"type": "tool_use", "id": t["toolUseId"], "name": t["name"], "input": t["input"]}
	}
	if t, ok := k["toolResult"].(object); ok {
		return object{"type": "tool_result", "tool_use_id": t["toolUseId"], "content": t["content"]}
	}
	if t, ok := k["reasoningContent"].(object); ok {
		if text, ok := t["reasoningText"].(object); ok {
			return object{"type": "thinking", "thinking": text["text"], "signature": text["signature"]}
		}
		data, _ := base64.StdEncoding.DecodeString(fmt.Sprint(t["redactedContent"]))
		return object{"type": "redacted_thinking", "data": string(data)}
	}
	return object{"type": "text", "text": k["text"]}
}

// answered is a reply of the Messages API as Converse gives it.
func answered(r *httptest.ResponseRecorder, stream bool) (*http.Response, error) {
	var w struct {
		Content []object
		Stop    string `json:"stop_reason"`
		Error   struct{ Message string }
	}
	if err := json.Unmarshal(r.Body.Bytes(), &w); err != nil {
		return nil, err
	}
	reply := func(status int, body string) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{}, ContentLength: -1, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
	if r.Code != http.StatusOK {
		return reply(r.Code, providertest.Encode(object{"message": w.Error.Message}))
	}
	usage := object{"inputTokens": 5, "outputTokens": 3, "totalTokens": 8}
	var content []any
	var frames string
	event := func(kind string, payload object) {
		frames += frame(kind, payload)
	}
	for i, k := range w.Content {
		var one, delta object
		switch k["type"] {
		case "text":
			one, delta = object{"text": k["text"]}, object{"text": k["text"]}
		case "tool_use":
			one = object{"toolUse": object{"toolUseId": k["id"], "name": k["name"], "input": k["input"]}}
			delta = object{"toolUse": object{"input": providertest.Encode(k["input"])}}
			event("contentBlockStart", object{"contentBlockIndex": i, "start": object{"toolUse": object{"toolUseId": k["id"], "name": k["name"]}}})
		case "thinking":
			text := object{"text": k["thinking"], "signature": k["signature"]}
			one, delta = object{"reasoningContent": object{"reasoningText": text}}, object{"reasoningContent": text}
		default:
			data := object{"redactedContent": base64.StdEncoding.EncodeToString([]byte(fmt.Sprint(k["data"])))}
			one, delta = object{"reasoningContent": data}, object{"reasoningContent": data}
		}
		content = append(content, one)
		event("contentBlockDelta", object{"contentBlockIndex": i, "delta": delta})
		event("contentBlockStop", object{"contentBlockIndex": i})
	}
	event("messageStop", object{"stopReason": w.Stop})
	event("metadata", object{"usage": usage})
	if stream {
		return reply(http.StatusOK, frames)
	}
	return reply(http.StatusOK, providertest.Encode(object{"output": object{"message": object{"role": "assistant", "content": content}}, "stopReason": w.Stop, "usage": usage}))
}

// talk is a conversation over Converse with the strict Claude.
type talk struct {
	t        *testing.T
	vendor   *providertest.Claude
	adapter  *bedrock.Adapter
	memories providertest.Memories
	model    string
	stream   bool
	messages string
	dropped  []string // by the last request
}

func newTalk(t *testing.T, model string, stream bool) *talk {
	t.Helper()
	c := &talk{t: t, vendor: &providertest.Claude{}, model: model, stream: stream, messages: `{"role":"system","content":"Be brief."}`}
	var err error
	if c.adapter, err = bedrock.New("us-east-1", keys, &bedrock.Options{Transport: converse{c.vendor}}); err != nil {
		t.Fatal(err)
	}
	return c
}

// turn sends the conversation with more members, adds the reply and the results of its calls, and returns how many there
// were and what became of the request.
func (c *talk) turn(more string) (calls int, r providertest.ClaudeRequest) {
	c.t.Helper()
	req, err := chat.Parse(fmt.Appendf(nil, `{"model":"m","stream":%t,"messages":[%s]%s}`, c.stream, c.messages, more))
	if err != nil {
		c.t.Fatal(err)
	}
	call := &provider.Call{Request: req, Upstream: c.model, Thinks: true, Memory: c.memories.Memory()}
	in, err := c.adapter.Open(c.t.Context(), call)
	if err != nil {
		c.t.Fatalf("%s, stream %t, %s: %v", c.model, c.stream, more, err)
	}
	got := providertest.Collect(c.t, in)
	in.Close()
	c.messages += "," + said(got)
	c.dropped = call.Dropped
	all := c.vendor.Requests()
	return len(got.Calls), all[len(all)-1]
}

const lookTool = `,"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object"}}}]`

// All thinking of a conversation goes back over Converse, too, with tools and without, also if a call may use none.
func TestFiveTurns(t *testing.T) {
	t.Parallel()
	for _, model := range []string{"claude-opus-4-6", "claude-opus-5-5", "claude-haiku-5-5"} {
		for _, stream := range []bool{true, false} {
			for more, want := range map[string]int{"": 5, lookTool: 9} {
				c, turns := newTalk(t, model, stream), 0
				for i := range 5 {
					c.messages += fmt.Sprintf(`,{"role":"user","content":"Please look, %d"}`, i)
					choice := ""
					if more != "" && i == 3 {
						choice = `,"tool_choice":"none"`
					}
					for calls := 1; calls > 0; turns++ {
						var r providertest.ClaudeRequest
						if calls, r = c.turn(more + choice); r.Dropped > 0 || r.Thoughts < turns || len(c.dropped) > 0 {
							t.Errorf("%s, stream %t, %s, turn %d: %+v, dropped %q, want all thinking", model, stream, more, turns, r, c.dropped)
						}
					}
				}
				if turns != want {
					t.Errorf("%s, stream %t, %s: %d turns, want %d", model, stream, more, turns, want)
				}
			}
		}
	}
}

// Converse knows no system messages between the others. A later one is a part of the user's turn, so that what stands before
// it, and the thinking in it, stay as they are.
func TestLateInstruction(t *testing.T) {
	t.Parallel()
	c := newTalk(t, "claude-opus-5-5", true)
	c.messages += `,{"role":"user","content":"Please look"}`
	for calls := 1; calls > 0; {
		calls, _ = c.turn(lookTool)
	}
	c.messages += `,{"role":"system","content":"Be kind."},{"role":"user","content":"And now?"}`
	for i, want := range []int{3, 4} {
		_, r := c.turn(lookTool)
		if r.Refused != "" || r.Dropped != 0 || r.Thoughts != want || slices.Contains(c.dropped, "thinking") {
			t.Errorf("request %d after the instruction: %+v, dropped %q, want %d blocks of thinking", i, r, c.dropped, want)
		}
		c.messages += `,{"role":"user","content":"And then?"}`
	}
}

// said is a reply as its caller sends it back, with the results of its calls.
func said(r providertest.Reply) string {
	message := object{"role": "assistant", "content": r.Text}
	var list []any
	results := ""
	for _, c := range r.Calls {
		list = append(list, object{"id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": c.Arguments}})
		results += `,{"role":"tool","tool_call_id":"` + c.ID + `","content":"42"}`
	}
	if list != nil {
		message["tool_calls"] = list
	}
	return providertest.Encode(message) + results
}
