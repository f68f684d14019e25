package vendortest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// The failures of OpenAI.
var openaiFaults = map[string]refusal{
	"invalid":    {status: 400, kind: "invalid_request_error", param: "metadata", code: "invalid_value", message: "Invalid value for metadata."},
	"long":       {status: 400, kind: "invalid_request_error", code: "context_length_exceeded", message: "This model's maximum context length is 1050000 tokens. However, your messages resulted in 1200000 tokens. Please reduce the length of the messages."},
	"auth":       {status: 401, kind: "invalid_request_error", code: "invalid_api_key", message: "Incorrect API key provided: vendor-k**."},
	"rate":       {status: 429, kind: "tokens", code: "rate_limit_exceeded", message: "Rate limit reached for organization org-1.", retryAfter: "1"},
	"overloaded": {status: 503, kind: "server_error", message: "The engine is currently overloaded, please try again later"},
	"broken":     {status: 500, kind: "server_error", message: "The server had an error while processing your request."},
	"missing":    {status: 404, kind: "invalid_request_error", message: "No object with id 'obj_123456' was found."},
}

func openaiFail(x *exchange, r *refusal) {
	if r.retryAfter != "" {
		x.w.Header().Set("Retry-After", r.retryAfter)
	}
	x.w.Header().Set("X-Request-Id", "req_vendor")
	x.w.WriteHeader(r.status)
	orNil := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	fmt.Fprint(x.w, encode(object{"error": object{"message": r.message, "type": r.kind, "param": orNil(r.param), "code": orNil(r.code)}}))
}

// keyed checks the key of OpenAI and Azure.
func (x *exchange) keyed() *refusal {
	if x.r.Header.Get("Authorization") == "Bearer vendor-key" || x.r.Header.Get("Api-Key") == "vendor-key" || x.mantle() {
		return nil
	}
	return &refusal{status: http.StatusUnauthorized, kind: "invalid_request_error", code: "invalid_api_key", message: "Incorrect API key provided."}
}

// family is what a model of OpenAI's takes. A model that has none is another vendor's, who speaks the dialect.
type family struct {
	efforts []string
	always  bool // there is no none, and no tools over chat
}

func familyOf(model string) (f family, ok bool) {
	f.efforts = names("none low medium high xhigh max")
	switch {
	case strings.HasPrefix(model, "gpt-6-astra"), strings.HasPrefix(model, "gpt-6.1"):
		return family{f.efforts[1:], true}, true
	case strings.HasPrefix(model, "gpt-6"), strings.HasPrefix(model, "gpt-5.6"):
		return f, true
	}
	return f, false
}

// reasons checks the effort and what is refused beside one. Param is the name of the effort in the dialect.
func reasons(model, effort, param string, body object) *refusal {
	f, ok := familyOf(model)
	if !ok {
		return nil
	}
	if effort != "" && !slices.Contains(f.efforts, effort) {
		return refuse(param, "unsupported_value", "Unsupported value: '%s' is not supported with the '%s' model. Supported values are: '%s'.", effort, model, strings.Join(f.efforts, "', '"))
	}
	if effort == "none" {
		return nil
	}
	for _, name := range names("temperature top_p logprobs top_logprobs") {
		if _, ok := body[name]; ok {
			return refuse(name, "unsupported_parameter", "Unsupported parameter: '%s' is not supported with this model.", name)
		}
	}
	return nil
}

// toolName checks the name of a function.
func toolName(name, param string) *refusal {
	bad := strings.IndexFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-')
	})
	if name == "" || len(name) > 64 || bad >= 0 {
		return refuse(param, "invalid_value", "Invalid '%s': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]{1,64}$'.", param)
	}
	return nil
}

// chatDialect is chat completions (platform.openai.com/docs/api-reference/chat).
var chatDialect = dialect{path: "/chat/completions", read: readChat, write: writeChat, fail: openaiFail, faults: openaiFaults}

var chatFields = names(`model messages stream stream_options max_completion_tokens temperature top_p n stop presence_penalty frequency_penalty logit_bias user seed tools tool_choice
	parallel_tool_calls response_format reasoning_effort logprobs top_logprobs metadata store service_tier prompt_cache_key prompt_cache_options prompt_cache_retention safety_identifier modalities audio prediction
	verbosity web_search_options moderation`)

// What messages and their parts have.
var (
	chatMessageFields = names("role content name tool_calls tool_call_id refusal audio function_call")
	chatPartFields    = names("type text image_url file input_audio refusal prompt_cache_breakpoint")
)

func readChat(x *exchange) (*asked, *refusal) {
	b := x.body
	a := &asked{model: text(b["model"]), stream: b["stream"] == true, schema: text(member(b["response_format"])["type"]) == "json_schema"}
	tools, effort := list(b["tools"]), text(b["reasoning_effort"])
	a.tools = len(tools) > 0 && b["tool_choice"] != "none"
	if wrong := x.keyed(); wrong != nil {
		return nil, wrong
	}
	if f, ok := familyOf(a.model); ok {
		if _, old := b["max_tokens"]; old {
			return nil, refuse("max_tokens", "unsupported_parameter", "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.")
		}
		if name := only(b, chatFields...); name != "" {
			return nil, refuse(name, "unknown_parameter", "Unknown parameter: '%s'.", name)
		}
		if len(tools) > 0 && (f.always || effort != "none") {
			return nil, refuse("reasoning_effort", "", "Function tools with reasoning_effort are not supported for %s in /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'.", a.model)
		}
	} else {
		a.thinks = effort != "" && effort != "none"
	}
	if wrong := reasons(a.model, effort, "reasoning_effort", b); wrong != nil {
		return nil, wrong
	}
	_, strict := familyOf(a.model)
	for i, t := range tools {
		a.offer("", member(member(t)["function"]), "parameters")
		if strict && text(member(t)["type"]) == "function" {
			if wrong := toolName(text(member(member(t)["function"])["name"]), fmt.Sprintf("tools[%d].function.name", i)); wrong != nil {
				return nil, wrong
			}
		}
	}
	return a, readChatMessages(a, list(b["messages"]))
}

func readChatMessages(a *asked, messages []any) *refusal {
	if len(messages) == 0 {
		return refuse("messages", "empty_array", "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.")
	}
	_, strict := familyOf(a.model)
	open := map[string]bool{} // calls without a result
	for i, m := range messages {
		m := member(m)
		role := text(m["role"])
		if bad := only(m, chatMessageFields...); strict && bad != "" {
			return refuse(fmt.Sprintf("messages[%d].%s", i, bad), "unknown_parameter", "Unknown parameter: 'messages[%d].%s'.", i, bad)
		}
		for j, p := range list(m["content"]) {
			if bad := only(member(p), chatPartFields...); strict && bad != "" {
				return refuse(fmt.Sprintf("messages[%d].content[%d].%s", i, j, bad), "unknown_parameter", "Unknown parameter: 'messages[%d].content[%d].%s'.", i, j, bad)
			}
			if member(p)["prompt_cache_breakpoint"] != nil {
				a.marks++
			}
		}
		if len(open) > 0 && role != "tool" {
			return refuse("messages", "", "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.")
		}
		switch role {
		case "developer":
			if !strict { // servers that are compatible know it seldom
				return refuse("messages", "", "Unexpected message role: developer")
			}
		case "system":
		case "user":
			a.results, a.text = nil, ""
			for _, p := range parts(m["content"]) {
				p := member(p)
				switch text(p["type"]) {
				case "text":
					a.text += text(p["text"])
					a.Said = append(a.Said, text(p["text"]))
				case "image_url":
					a.images++
				case "file", "input_audio":
				default:
					return refuse(fmt.Sprintf("messages[%d].content", i), "invalid_value", "Invalid value: '%s'.", text(p["type"]))
				}
			}
		case "assistant":
			for _, c := range list(m["tool_calls"]) {
				open[text(member(c)["id"])] = true
			}
		case "tool":
			id := text(m["tool_call_id"])
			if !open[id] {
				return refuse("messages", "", "messages with role 'tool' must be a response to a preceding message with 'tool_calls'.")
			}
			delete(open, id)
			a.returns(joined(m["content"]))
		default:
			return refuse(fmt.Sprintf("messages[%d].role", i), "invalid_value", "Invalid value: '%s'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.", role)
		}
	}
	if len(open) > 0 {
		return refuse("messages", "", "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.")
	}
	return nil
}

func chatUsage(a *asked) object {
	return object{
		"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25,
		"prompt_tokens_details":     object{"cached_tokens": 0, "cache_write_tokens": 7 * a.marks},
		"completion_tokens_details": object{"reasoning_tokens": 2},
	}
}

func writeChat(x *exchange, a *asked, r *reply) {
	finish := either(len(r.calls) > 0, "tool_calls", either(r.refused, "content_filter", "stop"))
	head := func(choices []any) object {
		return object{"id": "chatcmpl-vendor", "object": either(a.stream, "chat.completion.chunk", "chat.completion"), "created": 1, "model": a.model, "choices": choices}
	}
	calls := []any{}
	for i, c := range r.calls {
		one := object{"id": c.id, "type": "function", "function": object{"name": c.name, "arguments": c.arguments}}
		if a.stream {
			one["index"] = i
		}
		calls = append(calls, one)
	}
	if !a.stream {
		m := object{"role": "assistant", "content": strings.Join(r.text, "")}
		if len(calls) > 0 {
			m["content"], m["tool_calls"] = nil, calls
		}
		if r.thinking != "" {
			m["reasoning_content"] = r.thinking
		}
		o := head([]any{object{"index": 0, "message": m, "finish_reason": finish}})
		o["usage"] = chatUsage(a)
		fmt.Fprint(x.w, encode(o))
		return
	}
	chunk := func(delta object, finish any) {
		x.event("", head([]any{object{"index": 0, "delta": delta, "finish_reason": finish}}))
	}
	chunk(object{"role": "assistant"}, nil)
	if r.thinking != "" {
		chunk(object{"reasoning_content": r.thinking}, nil)
	}
	for _, s := range r.text {
		chunk(object{"content": s}, nil)
		if r.cut {
			x.abort()
		}
		if r.late {
			x.event("", object{"error": object{"message": "The server had an error.", "type": "server_error", "code": nil, "param": nil}})
			return
		}
	}
	for _, c := range calls {
		chunk(object{"tool_calls": []any{c}}, nil)
	}
	chunk(object{}, finish)
	if member(x.body["stream_options"])["include_usage"] == true {
		o := head([]any{})
		o["usage"] = chatUsage(a)
		x.event("", o)
	}
	x.event("", "[DONE]")
}
