package messages

import "sluice/internal/prompt/chat"

// bodyShape is the shape of a request: the keys that we read, and those that choose models, prices, tools or stored
// objects at a vendor. Objects whose keys are the caller's own, such as the input of a tool and its schema, have none.
var bodyShape = func() chat.Shape {
	cache := chat.Keys("type", "ttl")
	block := chat.Keys(
		"type", "text", "title", "context", "citations", "id", "name", "input", "caller", "tool_use_id", "is_error", "thinking", "signature", "data", "file_id", "tool_name", "server_name", "transformations",
	).With(chat.Shape{"cache_control": cache})
	block["source"] = chat.Keys("type", "media_type", "data", "url", "file_id").With(chat.Shape{"content": block})
	block["content"] = block
	tool := chat.Keys(
		"type", "name", "description", "input_schema", "input_examples", "strict", "defer_loading", "allowed_callers", "eager_input_streaming", "mcp_server_name", "configs",
		"max_uses", "allowed_domains", "blocked_domains", "max_content_tokens", "max_characters", "display_width_px", "display_height_px", "display_number", "enable_zoom", "model",
	).With(chat.Shape{
		"cache_control": cache, "default_config": chat.Keys("enabled", "defer_loading"), "citations": chat.Keys("enabled"),
		"user_location": chat.Keys("type", "city", "country", "region", "timezone"),
	})
	block["tool"] = chat.Keys("type", "name", "server_name").With(chat.Shape{"definition": tool}) // of tool_addition and tool_removal
	server := chat.Keys("type", "url", "name", "authorization_token").With(chat.Shape{"tool_configuration": chat.Keys("enabled", "allowed_tools")})
	format := chat.Keys("type", "name", "schema")
	return chat.Keys(
		"model", "max_tokens", "stream", "temperature", "top_p", "top_k", "stop_sequences", "service_tier", "speed", "inference_geo", "fallbacks", "betas", "user_profile_id", "workspace_id",
		// Of other dialects and of vendors.
		"input", "tool_resources", "max_completion_tokens", "max_output_tokens", "n", "stop", "models", "route", "provider", "plugins", "transforms", "preset", "reasoning_effort",
		"response_format", "stream_options", "max_cost", "auto_cache", "session_id", "extra_body",
	).With(chat.Shape{
		"messages": chat.Keys("role", "clear_at").With(chat.Shape{"content": block, "output_config": chat.Keys("effort")}), "system": block, "tools": tool, "mcp_servers": server, "cache_control": cache,
		"metadata": chat.Keys("user_id"), "tool_choice": chat.Keys("type", "name", "disable_parallel_tool_use"), "thinking": chat.Keys("type", "budget_tokens", "display").With(chat.Shape{"block_binding": chat.Keys("prefix_mismatch_behavior")}),
		"output_config": chat.Keys("effort", "task_budget").With(chat.Shape{"format": format}), "output_format": format,
		"container": chat.Keys("id").With(chat.Shape{"skills": chat.Keys("type", "skill_id", "version")}), "thread": chat.Keys("type", "previous_message_id"), "diagnostics": chat.Keys("previous_message_id"),
		"context_management": chat.Shape{"edits": chat.Keys("type", "trigger", "keep", "clear_at_least", "exclude_tools", "clear_tool_inputs", "instructions")}, "usage": chat.Keys("include"), "budget": chat.Keys("clamp"),
	})
}()
