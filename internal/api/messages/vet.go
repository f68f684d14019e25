package messages

import (
	"maps"
	"slices"

	"sluice/internal/prompt/chat"
)

// blockMembers are the members that blocks have, by their type, and those of a source. An upstream in the operator's network gets no
// others: it might take an address from them, and fetch it (docs/security.md#what-is-guaranteed).
var blockMembers = map[string][]string{
	"text":              {"text", "citations"},
	"image":             {"source"},
	"document":          {"source", "title", "context", "citations"},
	"search_result":     {"source", "title", "content", "citations"},
	"tool_use":          {"id", "name", "input", "caller"},
	"tool_result":       {"tool_use_id", "content", "is_error"},
	"tool_reference":    {"tool_name"},
	"thinking":          {"thinking", "signature"},
	"redacted_thinking": {"data"},
	"source":            {"media_type", "data", "url", "content"},
}

// kinds are the types that are known.
var kinds = slices.Sorted(maps.Keys(blockMembers))

// vet notes whether a block, or a source, has other members than those of its type, and type and cache_control, which all
// of them may have. Of a type that is not known here, every member is one.
func (p *parser) vet(kind string, v chat.Value) {
	known := blockMembers[kind]
	for w := v.Walk(); w.Next(); {
		if w.Value.Holds() && string(w.Key) != "type" && string(w.Key) != "cache_control" && !slices.Contains(known, string(w.Key)) {
			p.loose = true
		}
	}

	// An address in a source of another type is one that nobody reads here.
	if t := v.Member("type"); kind == "source" && v.Member("url").Exists() && t.IsText() && !t.Is("url") {
		p.loose = true
	}
}
