package vendortest

import (
	"fmt"
	"slices"
	"strings"
)

// responsesDialect is the Responses API (platform.openai.com/docs/api-reference/responses).
var responsesDialect = dialect{path: "/responses", read: readResponses, write: writeResponses, fail: openaiFail, faults: openaiFaults}

var (
	responsesFields = names(`model input instructions stream stream_options max_output_tokens temperature top_p tools tool_choice parallel_tool_calls text reasoning include store
		previous_response_id truncation metadata user prompt_cache_key prompt_cache_options prompt_cache_retention safety_identifier service_tier max_tool_calls top_logprobs background conversation
		context_management moderation prompt access_programs client_metadata`)
	responseTools = names(`function custom namespace tool_search shell local_shell apply_patch computer computer_use_preview web_search web_search_preview file_search code_interpreter
		image_generation mcp programmatic_tool_calling`)
	responseItems = names(`message function_call function_call_output custom_tool_call custom_tool_call_output reasoning item_reference additional_tools configuration_update compaction
		compaction_trigger tool_search_call tool_search_output shell_call shell_call_output local_shell_call local_shell_call_output apply_patch_call apply_patch_call_output computer_call
		computer_call_output program program_output web_search_call file_search_call code_interpreter_call image_generation_call mcp_list_tools mcp_call mcp_approval_request mcp_approval_response`)
)

func readResponses(x *exchange) (*asked, *refusal) {
	b := x.body
	a := &asked{model: text(b["model"]), stream: b["stream"] == true, schema: text(member(member(b["text"])["format"])["type"]) == "json_schema"}
	effort := text(member(b["reasoning"])["effort"])
	a.thinks = effort != "none" && slices.Contains(list(b["include"]), any("reasoning.encrypted_content"))
	if wrong := x.keyed(); wrong != nil {
		return nil, wrong
	}
	if name := only(b, responsesFields...); name != "" {
		return nil, refuse(name, "unknown_parameter", "Unknown parameter: '%s'.", name)
	}
	if wrong := reasons(strings.TrimPrefix(a.model, "openai."), effort, "reasoning.effort", b); wrong != nil {
		return nil, wrong
	}
	if wrong := a.responseTools("", list(b["tools"]), "tools"); wrong != nil {
		return nil, wrong
	}
	if s, ok := b["input"].(string); ok {
		a.text = s
		return a, nil
	}
	wrong := x.readItems(a, list(b["input"]))
	a.tools = a.tools && b["tool_choice"] != "none"
	return a, wrong
}

func (a *asked) responseTools(namespace string, tools []any, at string) *refusal {
	for i, t := range tools {
		t, path := member(t), fmt.Sprintf("%s[%d]", at, i)
		kind := text(t["type"])
		if !slices.Contains(responseTools, kind) {
			return refuse(path, "invalid_value", "Invalid value: '%s'. Supported values are: '%s'.", kind, strings.Join(responseTools, "', '"))
		}
		if kind == "namespace" {
			if wrong := a.responseTools(text(t["name"]), list(t["tools"]), path+".tools"); wrong != nil {
				return wrong
			}
		}
		if kind == "custom" {
			a.offer(namespace, t, "parameters")
		}
		if kind == "function" {
			a.offer(namespace, t, "parameters")
			if wrong := toolName(text(t["name"]), path+".name"); wrong != nil {
				return wrong
			}
		}
		a.tools = true
	}
	return nil
}

func (x *exchange) readItems(a *asked, items []any) *refusal {
	calls := map[string]bool{} // whether each call has its result
	for i, item := range items {
		item, at := member(item), fmt.Sprintf("input[%d]", i)
		kind := text(item["type"])
		if kind == "" {
			kind = "message"
		}
		if !slices.Contains(responseItems, kind) {
			return refuse(at+".type", "invalid_value", "Invalid value: '%s'. Supported values are: '%s'.", kind, strings.Join(responseItems, "', '"))
		}
		switch kind {
		case "additional_tools":
			if wrong := a.responseTools("", list(item["tools"]), at+".tools"); wrong != nil {
				return wrong
			}
		case "reasoning":
			if _, ok := x.signed(text(item["encrypted_content"])); !ok {
				return refuse("input", "invalid_encrypted_content", "The encrypted content for item %s could not be verified. Reason: Encrypted content could not be decrypted or parsed.", text(item["id"]))
			}
		case "function_call", "custom_tool_call":
			calls[text(item["call_id"])] = false
		case "function_call_output", "custom_tool_call_output":
			id := text(item["call_id"])
			if done, ok := calls[id]; !ok || done {
				return refuse("input", "", "No tool call found for function call output with call_id %s.", id)
			}
			calls[id] = true
			a.returns(joined(item["output"]))
			for _, p := range list(item["output"]) {
				if member(p)["prompt_cache_breakpoint"] != nil {
					a.marks++
				}
			}
		case "message":
			if wrong := a.responseMessage(item, at); wrong != nil {
				return wrong
			}
		}
	}
	for id, done := range calls {
		if !done {
			return refuse("input", "", "No tool output found for function call %s.", id)
		}
	}
	return nil
}

func (a *asked) responseMessage(item object, at string) *refusal {
	role := text(item["role"])
	if !slices.Contains(names("user assistant system developer"), role) {
		return refuse(at+".role", "invalid_value", "Invalid value: '%s'. Supported values are: 'assistant', 'system', 'developer', and 'user'.", role)
	}
	if role == "user" {
		a.results, a.text = nil, ""
	}
	if s, ok := item["content"].(string); ok {
		if role == "user" {
			a.text, a.Said = s, append(a.Said, s)
		}
		return nil
	}
	for j, p := range list(item["content"]) {
		p := member(p)
		kind := text(p["type"])
		if want := either(role == "assistant", "output_text refusal", "input_text input_image input_file input_audio"); !slices.Contains(names(want), kind) {
			return refuse(fmt.Sprintf("%s.content[%d]", at, j), "invalid_value", "Invalid value: '%s'. Supported values are: '%s'.", kind, strings.Join(names(want), "', '"))
		}
		if role == "user" {
			a.text += text(p["text"])
			a.Said = append(a.Said, text(p["text"]))
		}
		if kind == "input_image" {
			a.images++
		}
		if p["prompt_cache_breakpoint"] != nil {
			a.marks++
		}
	}
	return nil
}

// responseOutput returns the items of a reply.
func (x *exchange) responseOutput(r *reply) []any {
	output := []any{}
	if r.signature != "" {
		output = append(output, object{"type": "reasoning", "id": x.id("rs_"), "summary": []any{object{"type": "summary_text", "text": r.thinking}}, "encrypted_content": r.signature})
	}
	for _, c := range r.calls {
		item := object{"type": "function_call", "id": x.id("fc_"), "call_id": c.id, "name": c.name, "arguments": c.arguments, "status": "completed"}
		if c.custom {
			item = object{"type": "custom_tool_call", "id": x.id("ctc_"), "call_id": c.id, "name": c.name, "input": c.arguments, "status": "completed"}
		}
		if c.namespace != "" {
			item["namespace"] = c.namespace
		}
		output = append(output, item)
	}
	if r.text != nil {
		output = append(output, object{"type": "message", "id": x.id("msg_"), "role": "assistant", "status": "completed", "content": []any{object{"type": "output_text", "text": strings.Join(r.text, ""), "annotations": []any{}, "logprobs": []any{}}}})
	}
	return output
}

func writeResponses(x *exchange, a *asked, r *reply) {
	output := x.responseOutput(r)
	done := object{
		"id": x.id("resp_"), "object": "response", "created_at": 1, "status": "completed", "model": a.model, "output": output, "service_tier": "default", "error": nil, "incomplete_details": nil,
		"usage": object{
			"input_tokens": 20, "output_tokens": r.output, "total_tokens": 20 + r.output, "input_tokens_details": object{"cached_tokens": 0, "cache_write_tokens": 7 * a.marks},
			"output_tokens_details": object{"reasoning_tokens": 2},
		},
	}
	if r.refused {
		done["status"], done["incomplete_details"] = "incomplete", object{"reason": "content_filter"}
	}
	if !a.stream {
		fmt.Fprint(x.w, encode(done))
		return
	}
	number := -1
	say := func(kind string, o object) {
		number++
		o["type"], o["sequence_number"] = kind, number
		x.event(kind, o)
	}
	begun := object{"id": done["id"], "object": "response", "created_at": 1, "status": "in_progress", "model": a.model, "output": []any{}}
	say("response.created", object{"response": begun})
	say("response.in_progress", object{"response": begun})
	for i, item := range output {
		if !x.streamItem(say, i, member(item), r) {
			return
		}
	}
	say(either(r.refused, "response.incomplete", "response.completed"), object{"response": done})
}

// streamItem writes the events of one item. It reports false if the stream ends there.
func (x *exchange) streamItem(say func(string, object), i int, item object, r *reply) bool {
	id := item["id"]
	begun := object{"type": item["type"], "id": id}
	for _, name := range names("role call_id name namespace") {
		if item[name] != nil {
			begun[name] = item[name]
		}
	}
	switch item["type"] {
	case "reasoning":
		begun["summary"] = []any{}
		say("response.output_item.added", object{"output_index": i, "item": begun})
		part := object{"type": "summary_text", "text": r.thinking}
		at := func(o object) object { o["item_id"], o["output_index"], o["summary_index"] = id, i, 0; return o }
		say("response.reasoning_summary_part.added", at(object{"part": object{"type": "summary_text", "text": ""}}))
		say("response.reasoning_summary_text.delta", at(object{"delta": r.thinking}))
		say("response.reasoning_summary_text.done", at(object{"text": r.thinking}))
		say("response.reasoning_summary_part.done", at(object{"part": part}))
	case "function_call":
		begun["arguments"], begun["status"] = "", "in_progress"
		say("response.output_item.added", object{"output_index": i, "item": begun})
		say("response.function_call_arguments.delta", object{"item_id": id, "output_index": i, "delta": item["arguments"]})
		say("response.function_call_arguments.done", object{"item_id": id, "output_index": i, "arguments": item["arguments"]})
	case "custom_tool_call":
		begun["input"], begun["status"] = "", "in_progress"
		say("response.output_item.added", object{"output_index": i, "item": begun})
		say("response.custom_tool_call_input.delta", object{"item_id": id, "output_index": i, "delta": item["input"]})
		say("response.custom_tool_call_input.done", object{"item_id": id, "output_index": i, "input": item["input"]})
	case "message":
		begun["content"], begun["status"] = []any{}, "in_progress"
		say("response.output_item.added", object{"output_index": i, "item": begun})
		at := func(o object) object { o["item_id"], o["output_index"], o["content_index"] = id, i, 0; return o }
		say("response.content_part.added", at(object{"part": object{"type": "output_text", "text": "", "annotations": []any{}, "logprobs": []any{}}}))
		for _, s := range r.text {
			say("response.output_text.delta", at(object{"delta": s, "logprobs": []any{}}))
			if r.cut {
				x.abort()
			}
			if r.late {
				say("response.failed", object{"response": object{"id": "resp_late", "object": "response", "created_at": 1, "status": "failed", "output": []any{}, "error": object{"code": "server_error", "message": "The model failed."}}})
				return false
			}
		}
		say("response.output_text.done", at(object{"text": strings.Join(r.text, ""), "logprobs": []any{}}))
		say("response.content_part.done", at(object{"part": list(item["content"])[0]}))
	}
	say("response.output_item.done", object{"output_index": i, "item": item})
	return true
}
