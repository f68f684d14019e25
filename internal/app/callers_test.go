package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
)

// doorClient is a client that speaks the dialect of one door and keeps the conversation as its official SDK does.
type doorClient struct {
	n       *node
	door    string // chat, responses or messages
	model   string
	history []any
}

type object = map[string]any

// asking is what a caller asks for beside the conversation.
type asking struct {
	stream, tools, schema bool
	effort                string
	header                http.Header
	more                  object // further members
}

// said is what came back, whatever the dialect.
type said struct {
	status   int
	dropped  string
	text     string
	thinking string
	calls    []called
	finish   string // in the words of chat completions
	complete bool   // the reply has its end
	written  float64
	fault    object // the error, of the reply or of its stream
	raw      string
}

type called struct{ id, name, arguments string }

// onePixel is an image.
const onePixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="

// say adds a message of the user. With marks, its text shall be kept in a cache.
func (c *doorClient) say(text string, image, marks bool) {
	var part, picture object
	switch c.door {
	case "chat":
		part, picture = object{"type": "text", "text": text}, object{"type": "image_url", "image_url": object{"url": "data:image/png;base64," + onePixel}}
	case "responses":
		part, picture = object{"type": "input_text", "text": text}, object{"type": "input_image", "image_url": "data:image/png;base64," + onePixel}
	case "messages":
		part, picture = object{"type": "text", "text": text}, object{"type": "image", "source": object{"type": "base64", "media_type": "image/png", "data": onePixel}}
	}
	if marks && c.door == "responses" {
		part["prompt_cache_breakpoint"] = object{"mode": "explicit"}
	} else if marks {
		part["cache_control"] = object{"type": "ephemeral", "ttl": "1h"}
	}
	content := []any{part}
	if image {
		content = append(content, picture)
	}
	c.history = append(c.history, object{"role": "user", "content": content})
}

// result adds the results of all calls, in their order.
func (c *doorClient) result(calls []called, texts ...string) {
	var blocks []any
	for i, call := range calls {
		switch c.door {
		case "chat":
			c.history = append(c.history, object{"role": "tool", "tool_call_id": call.id, "content": texts[i]})
		case "responses":
			c.history = append(c.history, object{"type": "function_call_output", "call_id": call.id, "output": texts[i]})
		case "messages":
			blocks = append(blocks, object{"type": "tool_result", "tool_use_id": call.id, "content": texts[i]})
		}
	}
	if blocks != nil {
		c.history = append(c.history, object{"role": "user", "content": blocks})
	}
}

// body returns the request.
func (c *doorClient) body(a asking) object {
	b := object{"model": c.model, "stream": a.stream}
	city := object{"type": "object", "properties": object{"city": object{"type": "string"}}, "required": []any{"city"}, "additionalProperties": false}
	none := object{"type": "object", "properties": object{}}
	set := func(ok bool, name string, value any) {
		if ok {
			b[name] = value
		}
	}
	switch c.door {
	case "chat":
		b["messages"], b["max_tokens"] = c.history, 4000
		set(a.stream, "stream_options", object{"include_usage": true})
		set(a.effort != "", "reasoning_effort", a.effort)
		set(a.schema, "response_format", object{"type": "json_schema", "json_schema": object{"name": "place", "schema": city, "strict": true}})
		set(a.tools, "tools", []any{object{"type": "function", "function": object{"name": "get_weather", "parameters": city}}, object{"type": "function", "function": object{"name": "get_time", "parameters": none}}})
	case "responses":
		b["input"], b["max_output_tokens"], b["store"] = c.history, 4000, false
		set(a.effort != "", "include", []any{"reasoning.encrypted_content"})
		set(a.effort != "", "reasoning", object{"effort": a.effort, "summary": "auto"})
		set(a.schema, "text", object{"format": object{"type": "json_schema", "name": "place", "schema": city, "strict": true}})
		set(a.tools, "tools", []any{object{"type": "function", "name": "get_weather", "parameters": city, "strict": false}, object{"type": "function", "name": "get_time", "parameters": none, "strict": false}})
	case "messages":
		b["messages"], b["max_tokens"] = c.history, 4000
		config := object{}
		switch a.effort {
		case "":
		case "none":
			b["thinking"] = object{"type": "disabled"}
		default:
			b["thinking"], config["effort"] = object{"type": "adaptive", "display": "summarized"}, a.effort
		}
		if a.schema {
			config["format"] = object{"type": "json_schema", "schema": city}
		}
		set(len(config) > 0, "output_config", config)
		set(a.tools, "tools", []any{object{"name": "get_weather", "input_schema": city}, object{"name": "get_time", "input_schema": none}})
	}
	return b
}

var doorPaths = map[string]string{"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}

// send asks, reads the reply, and adds it to the conversation.
func (c *doorClient) send(a asking) said {
	c.n.t.Helper()
	b := c.body(a)
	maps.Copy(b, a.more)
	body, _ := json.Marshal(b)
	s := c.n.post(c.door, string(body), a.header)
	turn := s.read(c.door, a.stream)
	c.history = append(c.history, turn...)
	return s
}

// post sends a body to a door.
func (n *node) post(door, body string, header http.Header) said {
	n.t.Helper()
	req, err := http.NewRequestWithContext(n.t.Context(), http.MethodPost, n.scheme+n.Addr()+doorPaths[door], strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+n.OwnerKey())
	req.Header.Set("Content-Type", "application/json")
	if door == "messages" {
		req.Header.Set("Anthropic-Version", "2023-06-01")
	}
	for name, values := range header {
		req.Header[name] = values
	}
	r := n.answered(req)
	return said{status: r.status, dropped: r.header.Get("X-Sluice-Dropped"), raw: r.body}
}

// read reads the reply, and returns what it adds to the conversation.
func (s *said) read(door string, stream bool) []any {
	if s.status != http.StatusOK || !stream {
		var whole object
		_ = json.Unmarshal([]byte(s.raw), &whole)
		if s.status != http.StatusOK {
			s.fault, _ = whole["error"].(object)
			return nil
		}
		s.complete = true
		switch door {
		case "chat":
			return s.completion(whole)
		case "responses":
			return s.response(whole)
		}
		return s.message(whole)
	}
	events := s.events()
	switch door {
	case "chat":
		return s.chunks(events)
	case "responses":
		for _, e := range events {
			switch e["type"] {
			case "response.output_text.delta":
				s.text += str(e["delta"])
			case "response.completed", "response.incomplete":
				s.complete, s.text = true, ""
				return s.response(obj(e["response"]))
			case "response.failed":
				s.fault = obj(obj(e["response"])["error"])
			}
		}
		return nil
	}
	return s.blocks(events)
}

// events returns the events of a stream.
func (s *said) events() (all []object) {
	for line := range strings.SplitSeq(s.raw, "\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		if data == "[DONE]" {
			s.complete = true
		}
		var e object
		if ok && json.Unmarshal([]byte(data), &e) == nil {
			all = append(all, e)
		}
	}
	return all
}

func obj(v any) object { o, _ := v.(object); return o }
func arr(v any) []any  { l, _ := v.([]any); return l }
func str(v any) string { s, _ := v.(string); return s }
func num(v any) float64 {
	f, _ := v.(float64)
	return f
}

func (s *said) completion(o object) []any {
	s.written = num(obj(obj(o["usage"])["prompt_tokens_details"])["cache_write_tokens"])
	if len(arr(o["choices"])) == 0 {
		return nil
	}
	choice := obj(arr(o["choices"])[0])
	m := obj(choice["message"])
	s.text, s.thinking, s.finish = str(m["content"]), str(m["reasoning_content"]), str(choice["finish_reason"])
	back := object{"role": "assistant", "content": m["content"]}
	for _, c := range arr(m["tool_calls"]) {
		f := obj(obj(c)["function"])
		s.calls = append(s.calls, called{str(obj(c)["id"]), str(f["name"]), str(f["arguments"])})
		back["tool_calls"] = m["tool_calls"]
	}
	return []any{back}
}

// chunks puts the chunks of a stream together.
func (s *said) chunks(events []object) []any {
	m := object{"content": nil}
	var calls []any
	var finish, usage any
	for _, e := range events {
		if e["error"] != nil {
			s.fault = obj(e["error"])
		}
		if e["usage"] != nil {
			usage = e["usage"]
		}
		for _, choice := range arr(e["choices"]) {
			delta := obj(obj(choice)["delta"])
			for _, name := range []string{"content", "reasoning_content"} {
				if t := str(delta[name]); t != "" {
					m[name] = str(m[name]) + t
				}
			}
			for _, piece := range arr(delta["tool_calls"]) {
				piece := obj(piece)
				if int(num(piece["index"])) >= len(calls) {
					calls = append(calls, object{"id": piece["id"], "type": "function", "function": object{"name": obj(piece["function"])["name"], "arguments": ""}})
				}
				f := obj(obj(calls[int(num(piece["index"]))])["function"])
				f["arguments"] = str(f["arguments"]) + str(obj(piece["function"])["arguments"])
			}
			if f := obj(choice)["finish_reason"]; f != nil {
				finish = f
			}
		}
	}
	if calls != nil {
		m["tool_calls"] = calls
	}
	back := s.completion(object{"usage": usage, "choices": []any{object{"message": m, "finish_reason": finish}}})
	if !s.complete {
		return nil
	}
	return back
}

func (s *said) response(o object) []any {
	s.written = num(obj(obj(o["usage"])["input_tokens_details"])["cache_write_tokens"])
	s.finish = map[string]string{"completed": "stop", "incomplete": "length"}[str(o["status"])]
	if obj(o["incomplete_details"])["reason"] == "content_filter" {
		s.finish = "content_filter"
	}
	for _, item := range arr(o["output"]) {
		item := obj(item)
		switch item["type"] {
		case "reasoning":
			for _, p := range arr(item["summary"]) {
				s.thinking += str(obj(p)["text"])
			}
		case "message":
			for _, p := range arr(item["content"]) {
				s.text += str(obj(p)["text"])
			}
		case "function_call":
			s.finish = "tool_calls"
			s.calls = append(s.calls, called{str(item["call_id"]), str(item["name"]), str(item["arguments"])})
		}
	}
	return arr(o["output"])
}

func (s *said) message(o object) []any {
	s.written = num(obj(o["usage"])["cache_creation_input_tokens"])
	if by := obj(obj(o["usage"])["cache_creation"]); by == nil || num(by["ephemeral_1h_input_tokens"])+num(by["ephemeral_5m_input_tokens"]) != s.written {
		s.written = -1 // the SDK's types have it by the time that it is kept
	}
	s.finish = map[string]string{"end_turn": "stop", "max_tokens": "length", "tool_use": "tool_calls", "refusal": "content_filter"}[str(o["stop_reason"])]
	for _, b := range arr(o["content"]) {
		b := obj(b)
		switch b["type"] {
		case "text":
			s.text += str(b["text"])
		case "thinking":
			s.thinking += str(b["thinking"])
		case "tool_use":
			arguments := &bytes.Buffer{}
			input, _ := json.Marshal(b["input"])
			_ = json.Compact(arguments, input)
			s.calls = append(s.calls, called{str(b["id"]), str(b["name"]), arguments.String()})
		}
	}
	return []any{object{"role": "assistant", "content": o["content"]}}
}

// blocks puts the events of a stream together.
func (s *said) blocks(events []object) []any {
	var content []any
	m := object{}
	for _, e := range events {
		switch e["type"] {
		case "message_start":
			m["usage"] = obj(e["message"])["usage"]
		case "content_block_start":
			content = append(content, e["content_block"])
		case "content_block_delta":
			b, d := obj(content[len(content)-1]), obj(e["delta"])
			for _, name := range []string{"text", "thinking", "signature"} {
				if d[name] != nil {
					b[name] = str(b[name]) + str(d[name])
				}
			}
			if piece := str(d["partial_json"]); piece != "" {
				b["partial"] = str(b["partial"]) + piece
			}
		case "content_block_stop":
			b := obj(content[len(content)-1])
			if partial := str(b["partial"]); partial != "" {
				var input any
				_ = json.Unmarshal([]byte(partial), &input)
				b["input"] = input
				delete(b, "partial")
			}
		case "message_delta":
			m["stop_reason"] = obj(e["delta"])["stop_reason"]
			for name, value := range obj(e["usage"]) {
				obj(m["usage"])[name] = value
			}
		case "message_stop":
			s.complete = true
		case "error":
			s.fault = obj(e["error"])
		}
	}
	m["content"] = content
	back := s.message(m)
	if !s.complete {
		return nil
	}
	return back
}

// brief says what came back, for messages of tests.
func (s *said) brief() string {
	return fmt.Sprintf("%d, text %q, thinking %q, calls %v, finish %q, complete %t, dropped %q, fault %v, %.600s", s.status, s.text, s.thinking, s.calls, s.finish, s.complete, s.dropped, s.fault, s.raw)
}
