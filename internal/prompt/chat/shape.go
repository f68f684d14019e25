package chat

import "unicode/utf8"

// Shape lists the keys of an object that somebody reads, in lower case, each with the Shape of its value. A value whose
// Shape is nil is not looked into: it is no object, or its keys are the caller's own, such as those of a JSON schema. An
// array has the Shape of its elements.
//
// Readers of JSON differ: for some, "Model" is the field model, and one of the two wins. So a key that differs from one
// of its Shape only in case is refused like a key that is given twice (docs/api.md#chat-completion-request). A Shape has
// more keys than we read: also those that choose a model, a price, tools or stored objects at a vendor.
type Shape map[string]Shape

// Keys returns a Shape of keys whose values are not looked into.
func Keys(names ...string) Shape {
	s := make(Shape, len(names))
	for _, name := range names {
		s[name] = nil
	}
	return s
}

// With returns s with the keys of another Shape added.
func (s Shape) With(more Shape) Shape {
	for name, inner := range more {
		s[name] = inner
	}
	return s
}

// longestKey bounds the keys of a Shape, in bytes.
const longestKey = 64

// respelled returns the key of the Shape that key is another spelling of; empty if there is none. Two spellings are
// equal under Unicode's simple case folding, as in encoding/json: beside ASCII, ſ is an s and the Kelvin sign a k. Nearly
// every key has neither capitals nor anything beyond ASCII, and then costs one look at its bytes.
func (s Shape) respelled(key []byte) string {
	// For c below 'A' the subtraction wraps around, so one comparison tests both ends of the
	// range.
	odd := false
	for _, c := range key {
		odd = odd || c-'A' < 26 || c >= utf8.RuneSelf
	}
	if !odd {
		return ""
	}
	var room [longestKey]byte
	folded := room[:0]
	for len(key) > 0 {
		r, size := utf8.DecodeRune(key)
		key = key[size:]
		switch {
		case r == 'ſ':
			r = 's'
		case r == '\u212a': // the Kelvin sign
			r = 'k'
		case 'A' <= r && r <= 'Z':
			r += 'a' - 'A'
		case r >= utf8.RuneSelf:
			return ""
		}
		if len(folded) == longestKey {
			return ""
		}
		folded = append(folded, byte(r))
	}
	if _, ok := s[string(folded)]; ok {
		return string(folded)
	}
	return ""
}

// other reads the value of the current member, which the reader of the object does not need. It refuses another spelling
// of a key that is known.
func (s *scanner) other(of Shape) {
	inner, ok := of[string(s.key)]
	if ok || !s.respells(of) {
		s.skipAs(inner)
	}
}

// respells reports whether the current key is another spelling of one that is known. It is refused then.
func (s *scanner) respells(of Shape) bool {
	name := of.respelled(s.key)
	if name != "" {
		s.bad("", "is %s in another spelling, and a field must not be given twice; write it as %s, once", name, name)
	}
	return name != ""
}

// skipAs is skip for a value of a Shape.
func (s *scanner) skipAs(of Shape) {
	if of == nil {
		s.skip()
		return
	}
	switch s.peek() {
	case '{':
		if s.enter(true) {
			for s.member() {
				s.other(of)
			}
		}
	case '[':
		if s.enter(false) {
			for s.element() {
				s.skipAs(of)
			}
		}
	default:
		s.skip()
	}
}

// The shapes of a chat completion request, from the inside out. Objects whose keys are the caller's own, such as metadata
// and the parameters of a function, have none.
var (
	cacheShape    = Keys("type", "ttl")
	imageShape    = Keys("url", "detail", "format")
	fileShape     = Keys("file_data", "file_id", "file_url", "filename", "format", "url")
	audioShape    = Keys("data", "format", "url")
	locationShape = Keys("type", "city", "country", "region", "timezone").With(Shape{"approximate": Keys("city", "country", "region", "timezone")})

	partShape = Keys("type", "text", "refusal", "image", "audio", "video", "document", "image_embeds", "uuid", "source", "thinking").With(Shape{
		"image_url": imageShape, "video_url": imageShape, "audio_url": imageShape, "file": fileShape, "input_audio": audioShape,
		"cache_control": cacheShape, "prompt_cache_breakpoint": Keys("mode", "ttl"),
	})

	calledShape   = Keys("name", "arguments", "input")
	toolCallShape = Keys("id", "type", "index").With(Shape{"function": calledShape, "custom": calledShape})

	messageShape = Keys("role", "name", "tool_call_id", "refusal", "reasoning", "reasoning_content", "reasoning_details", "annotations", "prefix", "images", "tool_name", "function_call").With(Shape{
		"content": partShape, "tool_calls": toolCallShape,
		"audio": Keys("id", "data", "expires_at", "transcript"), "cache_control": cacheShape,
	})

	functionShape = Keys("name", "description", "parameters", "strict")
	customShape   = Keys("name", "description").With(Shape{"format": Keys("type", "syntax", "definition").With(Shape{"grammar": Keys("syntax", "definition")})})
	filterShape   = Keys("tool_names", "read_only")
	toolShape     = Keys("type", "server_url", "server_label", "server_description", "connector_id", "headers", "authorization", "vector_store_ids", "container").With(Shape{
		"function": functionShape, "custom": customShape, "allowed_tools": filterShape, "cache_control": cacheShape,
		"require_approval": Shape{"always": filterShape, "never": filterShape},
	})

	chosenShape = Keys("type", "name").With(Shape{"function": Keys("name"), "custom": Keys("name")})
	choiceShape = Keys("mode").With(chosenShape).With(Shape{"allowed_tools": Keys("mode").With(Shape{"tools": chosenShape})})

	schemaShape  = Keys("name", "description", "schema", "strict")
	formatShape  = Keys("type", "schema", "grammar").With(Shape{"json_schema": schemaShape})
	usageShape   = Keys("include")
	budgetShape  = Keys("clamp")
	optionsShape = Keys("include_usage", "include_obfuscation", "resumable", "continuous_usage_stats", "chunk_include_usage")

	requestShape = Keys(
		// OpenAI's reference.
		"model", "stream", "max_tokens", "max_completion_tokens", "n", "temperature", "top_p", "frequency_penalty", "presence_penalty", "stop",
		"reasoning_effort", "seed", "parallel_tool_calls", "user", "functions", "function_call", "logit_bias", "logprobs", "top_logprobs", "metadata",
		"modalities", "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "service_tier", "store", "verbosity",
		// What vendors and model servers add.
		"models", "route", "provider", "plugins", "transforms", "preset", "fallbacks", "speed", "inference_geo", "container", "vector_store_ids",
		"mcp_servers", "betas", "context_management", "background", "prompt", "input", "instructions", "conversation", "previous_response_id", "truncation",
		"include", "max_output_tokens", "max_tool_calls", "text", "output_config", "output_format", "system", "stop_sequences", "top_k", "top_a", "min_p", "min_tokens", "repetition_penalty",
		"include_reasoning", "reasoning_format", "enable_thinking", "thinking_budget", "chat_template", "chat_template_kwargs", "random_seed", "safe_prompt", "prompt_mode",
		"search_parameters", "search_mode", "search_domain_filter", "enable_search", "web_search", "return_images", "deferred", "best_of", "echo", "suffix", "ignore_eos",
		"stop_token_ids", "guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs", "grammar", "json_schema", "format", "options",
		"keep_alive", "think", "draft_model", "ttl", "cache_prompt", "id_slot", "lora", "documents", "extra_body", "max_cost", "auto_cache", "session_id", "dimensions",
		"encoding_format", "compound_custom", "citation_options",
	).With(Shape{
		"messages": messageShape, "tools": toolShape, "tool_choice": choiceShape, "response_format": formatShape, "stream_options": optionsShape,
		"web_search_options": Keys("search_context_size").With(Shape{"user_location": locationShape}),
		"audio":              Keys("format", "voice"), "prediction": Keys("type").With(Shape{"content": partShape}),
		"reasoning": Keys("effort", "max_tokens", "exclude", "enabled", "summary", "generate_summary"), "thinking": Keys("type", "budget_tokens"),
		"usage": usageShape, "budget": budgetShape,
	})
)
