package responses

import "sluice/internal/prompt/chat"

// bodyShape is the shape of a request: the keys that we read, and those that choose models, prices, tools or stored
// objects at a vendor. Objects whose keys are the caller's own, such as metadata and schemas, have none.
var bodyShape = func() chat.Shape {
	part := chat.Keys("type", "text", "refusal", "image_url", "file_url", "file_id", "file_data", "filename", "detail", "annotations", "logprobs").With(chat.Shape{
		"input_audio": chat.Keys("data", "format"),
	})
	text := chat.Keys("verbosity").With(chat.Shape{"format": chat.Keys("type", "name", "description", "schema", "strict")})
	reasoning := chat.Keys("effort", "summary", "generate_summary", "context", "mode")
	item := chat.Keys(
		"type", "id", "role", "status", "phase", "call_id", "name", "namespace", "arguments", "input", "encrypted_content", "approval_request_id", "approve", "reason", "error",
		"server_label", "action", "code", "container_id", "queries", "results", "result", "operation", "environment", "execution", "acknowledged_safety_checks", "pending_safety_checks",
		"max_output_length",
	).With(chat.Shape{"content": part, "output": part, "summary": part, "reasoning": reasoning, "text": text})
	filter := chat.Keys("tool_names", "read_only")
	tool := chat.Keys(
		"type", "name", "namespace", "description", "parameters", "strict", "server_url", "server_label", "server_description", "connector_id", "headers", "authorization",
		"vector_store_ids", "max_num_results", "ranking_options", "filters", "search_context_size", "environment", "display_width", "display_height", "execution",
		"model", "quality", "size", "background", "moderation", "output_format", "output_compression", "partial_images", "input_fidelity", "action",
		"defer_loading", "external_web_access", "max_uses",
	).With(chat.Shape{
		"format": chat.Keys("type", "syntax", "definition"), "allowed_tools": filter, "require_approval": chat.Shape{"always": filter, "never": filter},
		"container": chat.Keys("type", "file_ids", "memory_limit", "network_policy"), "input_image_mask": chat.Keys("image_url", "file_id"),
		"user_location": chat.Keys("type", "city", "country", "region", "timezone"),
	})
	tool["tools"], item["tools"] = tool, tool // of a namespace, and what a search for tools has found
	choice := chat.Keys("type", "name", "namespace", "mode", "server_label").With(chat.Shape{"tools": chat.Keys("type", "name", "namespace", "server_label")})
	return chat.Keys(
		"model", "instructions", "stream", "store", "previous_response_id", "max_output_tokens", "max_tool_calls", "temperature", "top_p", "top_logprobs",
		"parallel_tool_calls", "metadata", "include", "truncation", "service_tier", "user", "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "background",
		// Of other dialects and of vendors.
		"messages", "max_tokens", "max_completion_tokens", "response_format", "reasoning_effort", "verbosity", "stop", "n", "seed", "frequency_penalty", "presence_penalty",
		"logit_bias", "logprobs", "functions", "function_call", "modalities", "models", "route", "provider", "plugins", "transforms", "preset", "fallbacks", "speed",
		"inference_geo", "container", "vector_store_ids", "mcp_servers", "betas", "access_programs", "moderation", "top_k", "min_p", "max_cost", "auto_cache", "session_id", "extra_body",
	).With(chat.Shape{
		"input": item, "tools": tool, "tool_choice": choice,
		"text": text, "reasoning": reasoning, "prompt_cache_options": chat.Keys("mode", "ttl", "prewarm", "comparison_response_id"), "stream_options": chat.Keys("include_usage", "include_obfuscation"),
		"conversation": chat.Keys("id"), "prompt": chat.Keys("id", "version", "variables"), "context_management": chat.Keys("type", "compact_threshold"), "usage": chat.Keys("include"), "budget": chat.Keys("clamp"),
	})
}()
