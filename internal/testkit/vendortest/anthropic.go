package vendortest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// messagesDialect is Anthropic's Messages API (platform.claude.com/docs/en/api/messages), also on Bedrock's mantle.
var messagesDialect = dialect{path: "/v1/messages", read: readMessages, write: writeMessages, fail: failMessages, faults: messagesFaults}

var messagesFaults = map[string]refusal{
	"invalid":    {status: 400, kind: "invalid_request_error", message: "metadata.user_id: Invalid value."},
	"long":       {status: 400, kind: "invalid_request_error", message: "prompt is too long: 1200000 tokens > 1000000 maximum"},
	"auth":       {status: 401, kind: "authentication_error", message: "invalid x-api-key"},
	"rate":       {status: 429, kind: "rate_limit_error", message: "This request would exceed your organization's rate limit.", retryAfter: "1"},
	"overloaded": {status: 529, kind: "overloaded_error", message: "Overloaded"},
	"broken":     {status: 500, kind: "api_error", message: "Internal server error"},
	"missing":    {status: 404, kind: "not_found_error", message: "The thread of obj_123456 is unknown or has expired.", details: object{"error_code": "thread_not_found"}},
}

func failMessages(x *exchange, r *refusal) {
	if r.retryAfter != "" {
		x.w.Header().Set("Retry-After", r.retryAfter)
	}
	x.w.Header().Set("Request-Id", "req_vendor")
	x.w.WriteHeader(r.status)
	e := object{"type": r.kind, "message": r.message}
	if r.details != nil {
		e["details"] = r.details
	}
	fmt.Fprint(x.w, encode(object{"type": "error", "error": e, "request_id": "req_vendor"}))
}

const (
	threadBeta  = "message-threads-2026-08-12"
	bindingBeta = "thinking-binding-controls-2026-08-01"
	newVersion  = "2026-10-21"
)

var (
	messagesFields = names(`model messages max_tokens system tools tool_choice thinking output_config temperature top_p top_k stop_sequences metadata stream cache_control service_tier container
		context_management mcp_servers thread inference_geo speed fallbacks fallback_credit_token diagnostics user_profile_id workspace_id`)
	userBlocks      = names("text image document search_result tool_result container_upload")
	assistantBlocks = names("text tool_use thinking redacted_thinking document server_tool_use web_search_tool_result web_fetch_tool_result tool_search_tool_result code_execution_tool_result compaction")
)

// mantle reports whether a request is for Bedrock's native APIs and is signed for them.
func (x *exchange) mantle() bool {
	return strings.Contains(x.r.Header.Get("Authorization"), "/bedrock-mantle/aws4_request") || x.r.Header.Get("X-Api-Key") == "mantle-key"
}

// beta reports whether the request has a beta.
func (x *exchange) beta(name string) bool {
	return strings.Contains(strings.Join(x.r.Header["Anthropic-Beta"], ","), name)
}

func extra(field string) *refusal { return refuse("", "", "%s: Extra inputs are not permitted", field) }

func readMessages(x *exchange) (*asked, *refusal) {
	b := x.body
	a := &asked{model: text(b["model"]), stream: b["stream"] == true, schema: member(member(b["output_config"])["format"]) != nil}
	version := x.r.Header.Get("Anthropic-Version")
	switch {
	case x.r.Header.Get("X-Api-Key") != "vendor-key" && !x.mantle():
		return nil, &refusal{status: http.StatusUnauthorized, kind: "authentication_error", message: "invalid x-api-key"}
	case version != "2023-06-01" && version != newVersion:
		return nil, refuse("", "", "anthropic-version: %q is not a valid version", version)
	case b["max_tokens"] == nil:
		return nil, refuse("", "", "max_tokens: Field required")
	}
	if name := only(b, messagesFields...); name != "" {
		return nil, extra(name)
	}
	for _, name := range names("temperature top_p top_k") {
		if _, ok := b[name]; ok && version == newVersion {
			return nil, extra(name)
		} else if ok {
			return nil, refuse("", "", "`%s` is deprecated for this model.", name)
		}
	}
	for _, check := range []func(*asked) *refusal{x.checkThread, x.checkThinking, x.checkTools, x.checkBlocks, x.checkMarks, x.checkBinding} {
		if wrong := check(a); wrong != nil {
			return nil, wrong
		}
	}
	return a, x.consult(a, b["tools"])
}

// checkThread checks a thread (platform.claude.com/docs/en/build-with-claude/message-threads).
func (x *exchange) checkThread(*asked) *refusal {
	thread := member(x.body["thread"])
	switch {
	case thread == nil:
	case !x.beta(threadBeta) || x.mantle():
		return extra("thread")
	case thread["type"] == "continue":
		x.mu.Lock()
		known := x.messages[text(thread["previous_message_id"])]
		x.mu.Unlock()
		if !known {
			r := messagesFaults["missing"]
			return &r
		}
		if x.body["system"] != nil || x.body["tools"] != nil {
			return refuse("", "", "thread: system and tools cannot be given when a thread continues")
		}
	}
	return nil
}

// checkThinking checks how the model shall think. The models of the fake are of the generation 5.5.
func (x *exchange) checkThinking(a *asked) *refusal {
	thinking, effort := member(x.body["thinking"]), text(member(x.body["output_config"])["effort"])
	kind := text(thinking["type"])
	if effort != "" && !slices.Contains(names("low medium high xhigh max"), effort) {
		return refuse("", "", "output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'")
	}
	switch kind {
	case "", "adaptive":
		a.thinks = true
	case "between_tools":
		if !strings.Contains(a.model, "sonnet") || slices.Contains(names("xhigh max"), effort) {
			return refuse("", "", "thinking.type: between_tools is not supported with this model and effort")
		}
	case "disabled":
		if !strings.Contains(a.model, "haiku") || slices.Contains(names("xhigh max"), effort) {
			return refuse("", "", "thinking.type: disabled is not supported for this model")
		}
	default:
		return refuse("", "", "thinking.type: %s is not supported for this model. Use thinking.type.adaptive and output_config.effort to control thinking behavior.", kind)
	}
	if thinking["block_binding"] != nil && (!x.beta(bindingBeta) || kind != "adaptive") {
		return extra("thinking.block_binding")
	}
	return nil
}

func (x *exchange) checkTools(a *asked) *refusal {
	for i, t := range list(x.body["tools"]) {
		t := member(t)
		a.offer("", t, "input_schema")
		if kind := text(t["type"]); kind == "" || kind == "custom" {
			if wrong := toolName(text(t["name"]), ""); wrong != nil {
				return refuse("", "", "tools.%d.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'", i)
			}
			if text(member(t["input_schema"])["type"]) != "object" {
				return refuse("", "", "tools.%d.custom.input_schema.type: Field required", i)
			}
			if bad := only(t, names("type name description input_schema cache_control strict defer_loading input_examples eager_input_streaming allowed_callers")...); bad != "" {
				return extra(fmt.Sprintf("tools.%d.custom.%s", i, bad))
			}
		}
	}
	choice := text(member(x.body["tool_choice"])["type"])
	if (choice == "any" || choice == "tool") && strings.Contains(a.model, "fable") {
		return refuse("", "", "tool_choice: forced tool use is not supported with this model")
	}
	a.tools = len(list(x.body["tools"])) > 0 && choice != "none"
	return nil
}

// checkBlocks checks the turns: their order, their blocks, and that each call has its result.
func (x *exchange) checkBlocks(a *asked) *refusal {
	messages := list(x.body["messages"])
	if len(messages) == 0 {
		return refuse("", "", "messages: at least one message is required")
	}
	var open []string // calls of the message before
	before := ""
	for i, m := range messages {
		m := member(m)
		role := text(m["role"])
		content, at := parts(m["content"]), fmt.Sprintf("messages.%d", i)
		if wrong := position(i, len(messages), before, role, messages); wrong != nil {
			return wrong
		}
		if len(content) == 0 && i < len(messages)-1 {
			return refuse("", "", "%s: all messages must have non-empty content except for the optional final assistant message", at)
		}
		var results []string
		for j, block := range content {
			if wrong := x.checkBlock(a, member(block), role, fmt.Sprintf("%s.content.%d", at, j), open, &results); wrong != nil {
				return wrong
			}
		}
		for _, id := range open {
			if !slices.Contains(results, id) {
				return refuse("", "", "messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. Each `tool_use` block must have a corresponding `tool_result` block in the next message.", i-1, id)
			}
		}
		if open = nil; role == "assistant" {
			for _, block := range content {
				if b := member(block); b["type"] == "tool_use" {
					open = append(open, text(b["id"]))
				}
			}
		}
		before = role
	}
	switch {
	case open != nil:
		return refuse("", "", "messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s.", len(messages)-1, open[0])
	case before == "assistant":
		return refuse("", "", "This model does not support assistant message prefill. The conversation must end with a user message.")
	}
	return nil
}

// position checks the role of message i.
func position(i, n int, before, role string, messages []any) *refusal {
	switch role {
	case "user":
	case "assistant":
		if i == 0 {
			return refuse("", "", "messages: first message must use the \"user\" role")
		}
	case "system":
		if i == 0 || before != "user" || i < n-1 && text(member(messages[i+1])["role"]) != "assistant" {
			return refuse("", "", "messages.%d: a system message must follow a user turn and precede an assistant turn or the end", i)
		}
	default:
		return refuse("", "", "messages.%d.role: Input should be 'user', 'assistant' or 'system'", i)
	}
	return nil
}

func (x *exchange) checkBlock(a *asked, b object, role, at string, open []string, results *[]string) *refusal {
	kind := text(b["type"])
	allowed := map[string][]string{"user": userBlocks, "assistant": assistantBlocks, "system": names("text tool_addition tool_removal")}[role]
	if !slices.Contains(allowed, kind) {
		return refuse("", "", "%s: Input tag '%s' found using 'type' does not match any of the expected tags: '%s'", at, kind, strings.Join(allowed, "', '"))
	}
	isNew := x.r.Header.Get("Anthropic-Version") == newVersion
	switch {
	case kind == "text" && text(b["text"]) == "":
		return refuse("", "", "%s: text content blocks must be non-empty", strings.Replace(at, ".content", ": content", 1))
	case isNew && kind == "document" && role == "assistant":
		return refuse("", "", "%s: Input tag 'document' is not permitted in assistant messages", at)
	case isNew && kind == "text" && role == "user" && len(list(b["citations"])) > 0:
		return extra(at + ".citations")
	case kind == "tool_result":
		id := text(b["tool_use_id"])
		if !slices.Contains(open, id) {
			return refuse("", "", "%s: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", at, id)
		}
		*results = append(*results, id)
	}
	if role != "user" {
		return nil
	}
	switch kind {
	case "tool_result":
		if len(*results) == 1 {
			a.results, a.text = nil, ""
		}
		a.returns(joined(b["content"]))
	case "image":
		a.images++
	case "text":
		a.results, a.text = nil, text(b["text"])
		a.Said = append(a.Said, a.text)
	}
	return nil
}

// checkMarks counts what shall be kept in a cache: four at most, three with a thread.
func (x *exchange) checkMarks(a *asked) *refusal {
	a.marks = strings.Count(encode(x.body), `"cache_control":{`)
	if most := 4; a.marks > most || x.body["thread"] != nil && a.marks > most-1 {
		return refuse("", "", "A maximum of %d blocks with cache_control may be provided. Found %d.", most, a.marks)
	}
	return nil
}

// checkBinding checks that signed thinking stands in the conversation that it was made in, byte by byte, and that what is
// kept of it has no gap (platform.claude.com/docs/en/build-with-claude/preserved-thinking).
func (x *exchange) checkBinding(a *asked) *refusal {
	prefix := bare(x.body["system"]) + bare(x.body["tools"])
	for i, m := range list(x.body["messages"]) {
		m := member(m)
		for j, block := range parts(m["content"]) {
			if b := member(block); b["type"] == "thinking" {
				signature := text(b["signature"])
				if wrong := x.bound(a, signature, prefix); wrong != "" && !x.drops() {
					return refuse("", "", "messages.%d.content.%d: Invalid `signature` in `thinking` block. %s", i, j, wrong)
				}
				a.last = signature
			}
		}
		prefix += "\n" + text(m["role"]) + bare(m["content"])
	}
	a.prefix = prefix
	return nil
}

// drops reports whether thinking that belongs elsewhere is left out in place of an error.
func (x *exchange) drops() bool {
	return member(member(x.body["thinking"])["block_binding"])["prefix_mismatch_behavior"] == "drop_block"
}

// bound returns what is wrong with a signature behind a prefix; empty: nothing.
func (x *exchange) bound(a *asked, signature, prefix string) string {
	t, ok := x.signed(signature)
	switch {
	case !ok:
		return "The signature cannot be read."
	case t.prefix != prefix, a.last != "" && t.before != a.last:
		return "The block is bound to a different conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\"."
	}
	return ""
}

// bare returns content without what signatures do not cover: thinking, marks of caches, how the arguments of a tool are streamed, and
// whether a text is a block.
func bare(content any) string {
	var kept []any
	for _, p := range parts(content) {
		b := object{}
		for k, v := range member(p) {
			if k != "cache_control" && k != "cachePoint" && k != "eager_input_streaming" {
				b[k] = v
			}
		}
		if b["type"] != "thinking" && b["type"] != "redacted_thinking" && b["reasoningContent"] == nil && len(b) > 0 {
			kept = append(kept, b)
		}
	}
	return encode(kept)
}

func writeMessages(x *exchange, a *asked, r *reply) {
	content := []any{}
	if r.signature != "" {
		shown := either(text(member(x.body["thinking"])["display"]) == "summarized", r.thinking, "")
		content = append(content, object{"type": "thinking", "thinking": shown, "signature": r.signature})
	}
	if r.text != nil {
		content = append(content, object{"type": "text", "text": strings.Join(r.text, "")})
	}
	for _, c := range r.calls {
		content = append(content, object{"type": "tool_use", "id": strings.Replace(c.id, "call_", "toolu_", 1), "name": c.name, "input": decoded(c.arguments)})
	}
	stop := either(len(r.calls) > 0, "tool_use", either(r.refused, "refusal", "end_turn"))
	hour := strings.Contains(encode(x.body), `"ttl":"1h"`)
	written := object{"ephemeral_5m_input_tokens": 7 * a.marks, "ephemeral_1h_input_tokens": 0}
	if hour {
		written = object{"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 7 * a.marks}
	}
	input, read, all := 20, 0, 7*a.marks
	if f := a.kept; f != nil {
		input, read, all = f.Fresh, f.Read, f.Short+f.Long
		written = object{"ephemeral_5m_input_tokens": f.Short, "ephemeral_1h_input_tokens": f.Long}
	}
	id := x.id("msg_")
	x.mu.Lock()
	if x.messages == nil {
		x.messages = map[string]bool{}
	}
	x.messages[id] = true
	x.mu.Unlock()
	message := object{
		"id": id, "type": "message", "role": "assistant", "model": a.model, "content": content, "stop_reason": stop, "stop_sequence": nil,
		"usage": object{"input_tokens": input, "output_tokens": r.output, "cache_creation_input_tokens": all, "cache_read_input_tokens": read, "cache_creation": written, "service_tier": "standard"},
	}
	x.w.Header().Set("Request-Id", "req_vendor")
	if !a.stream {
		fmt.Fprint(x.w, encode(message))
		return
	}
	x.streamMessage(message, content, r)
}

// streamMessage writes a message as events.
func (x *exchange) streamMessage(message object, content []any, r *reply) {
	stop := message["stop_reason"]
	message["content"], message["stop_reason"] = []any{}, nil
	say := func(kind string, o object) { o["type"] = kind; x.event(kind, o) }
	say("message_start", object{"message": message})
	say("ping", object{})
	for i, block := range content {
		b := member(block)
		delta := func(o object) { say("content_block_delta", object{"index": i, "delta": o}) }
		switch b["type"] {
		case "thinking":
			say("content_block_start", object{"index": i, "content_block": object{"type": "thinking", "thinking": "", "signature": ""}})
			if b["thinking"] != "" {
				delta(object{"type": "thinking_delta", "thinking": b["thinking"]})
			}
			delta(object{"type": "signature_delta", "signature": b["signature"]})
		case "text":
			say("content_block_start", object{"index": i, "content_block": object{"type": "text", "text": ""}})
			for _, s := range r.text {
				delta(object{"type": "text_delta", "text": s})
				if r.cut {
					x.abort()
				}
				if r.late {
					say("error", object{"error": object{"type": "overloaded_error", "message": "Overloaded"}})
					return
				}
			}
		case "tool_use":
			say("content_block_start", object{"index": i, "content_block": object{"type": "tool_use", "id": b["id"], "name": b["name"], "input": object{}}})
			delta(object{"type": "input_json_delta", "partial_json": encode(b["input"])})
		}
		say("content_block_stop", object{"index": i})
	}
	say("message_delta", object{"delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": object{"output_tokens": r.output}})
	say("message_stop", object{})
}
