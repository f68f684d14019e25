package responses

import (
	"maps"
	"slices"
	"strings"

	"sluice/internal/prompt/chat"
)

// The members that items and content parts have, by their type. No chat completion has others, and an upstream of the dialect
// in the operator's network gets none: it might take an address from them, and fetch it (docs/security.md#what-is-guaranteed).
var (
	partMembers = map[string][]string{
		"input_text": {"text"}, "output_text": {"text", "annotations", "logprobs"}, "text": {"text"}, "refusal": {"refusal"},
		"input_image": {"image_url", "detail"}, "input_file": {"file_data", "filename"}, "input_audio": {"input_audio"},
	}
	itemMembers = map[string][]string{
		"message":              {"role", "content", "status", "phase"},
		"function_call":        {"call_id", "name", "namespace", "arguments", "status"},
		"function_call_output": {"call_id", "output", "status", "name", "namespace"},
		"custom_tool_call":     {"call_id", "name", "namespace", "input", "status"}, "custom_tool_call_output": {"call_id", "output", "status"},
		"reasoning":        {"summary", "content", "encrypted_content", "status"},
		"item_reference":   {},
		"additional_tools": {"role", "tools"}, "configuration_update": {"reasoning", "text"},
		"tool_search_call": {"call_id", "arguments", "execution", "status"}, "tool_search_output": {"call_id", "tools", "execution", "status"},
	}
)

// breakpoint is the member that marks the end of a part as the end of what is to be kept in a cache.
const breakpoint = "prompt_cache_breakpoint"

// vet notes which other members an object has than these, and type and id, which every object may have. Sub leads to it from
// its item, without indexes.
func (p *parser) vet(v chat.Value, known []string, sub string) {
	if p.failed() {
		return
	}
	for walk := v.Walk(); walk.Next(); {
		m := walk.Value
		if string(walk.Key) == "type" || string(walk.Key) == "id" || slices.Contains(known, string(walk.Key)) {
			continue
		}
		if string(walk.Key) == breakpoint {
			p.mark, p.marked = chat.CacheOf(m, true)
			continue
		}
		if m.Holds() { // nothing else can be an address
			p.req.loose = true
		}
		if chat.Asks(m.Raw()) {
			p.leave(p.items() + sub + "." + string(walk.Key))
		}
	}
}

// kinds are the types of items that are known, and partKinds those of content parts.
var kinds, partKinds = slices.Sorted(maps.Keys(itemMembers)), slices.Sorted(maps.Keys(partMembers))

// items returns the path that all items of the kind that is being read have.
func (p *parser) items() string {
	if p.where == "" {
		return "input[]"
	}
	return indexes.Replace(p.where)
}

// indexes takes the numbers out of a path: input[2].content[0] becomes input[].content[].
var indexes = strings.NewReplacer("0", "", "1", "", "2", "", "3", "", "4", "", "5", "", "6", "", "7", "", "8", "", "9", "")

// vetItem is vet for an item. Of an item whose members are not known only addresses matter, wherever they stand in it.
func (p *parser) vetItem(kind string, v chat.Value) {
	if known, ok := itemMembers[kind]; ok {
		p.vet(v, known, "")
		return
	}
	p.req.loose = p.req.loose || addressed(v)
}

// addressed reports whether something in a value is named like an address, or the id of a file, and is not data.
func addressed(v chat.Value) bool {
	for walk := v.Walk(); walk.Next(); {
		key, m := string(walk.Key), walk.Value
		if (strings.HasSuffix(key, "url") || key == "uri" || key == "file_id") && m.IsText() && !strings.HasPrefix(m.Text(), "data:") || addressed(m) {
			return true
		}
	}
	return false
}
