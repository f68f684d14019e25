package claude

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// Tool is a function that the model may call, as the Messages API lists it.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"`
	Strict      bool            `json:"strict,omitempty"`
	Cache       *CacheControl   `json:"cache_control,omitempty"`
}

// Tools calls add for each function of the request, in order, and enters its name into names. MCP servers
// are skipped: their tools have become functions before a model is asked. Two functions whose names are
// equal on the wire are refused.
func (m Model) Tools(call *provider.Call, marks *Marks, names *ToolNames, add func(Tool)) error {
	for i, t := range call.Request.ListedTools() {
		f := t.Function
		if f == nil {
			continue
		}
		name, ok := names.Add(f.Name)
		if !ok {
			return fault.New(fault.Invalid, "This model knows no dots in names, and without them %q is the name of two functions; rename one of them", name).At(fmt.Sprintf("tools[%d].function.name", i))
		}
		strict := f.Strict && m.Structured
		if f.Strict && !strict {
			call.Omit("tools[].function.strict")
		}
		tool := Tool{Name: name, Description: f.Description, InputSchema: ObjectSchema(f.Parameters), Strict: strict}
		if call.Request.Marked() {
			if asked, ok := t.Cache(); ok {
				tool.Cache = marks.tool(asked)
			}
		}
		add(tool)
	}
	return nil
}

// ToolChoice is the tool_choice of the Messages API. Converse passes it to Claude unchanged where its own
// field cannot say the same.
type ToolChoice struct {
	Type  string `json:"type"`           // auto, any, tool or none
	Name  string `json:"name,omitempty"` // of the tool that must be called, for the type tool
	Alone bool   `json:"disable_parallel_tool_use,omitempty"`
}

// ChoiceOf translates tool_choice and parallel_tool_calls. It returns nil if the request asks only for
// the default: any tool or none, several at a time.
func ChoiceOf(req *chat.Request) *ToolChoice {
	alone := req.ParallelToolCalls != nil && !*req.ParallelToolCalls
	switch req.ToolChoice.Mode {
	case chat.ChoiceNone:
		return &ToolChoice{Type: "none"}
	case chat.ChoiceRequired:
		return &ToolChoice{Type: "any", Alone: alone}
	case chat.ChoiceNamed:
		return &ToolChoice{Type: "tool", Name: WireName(req.ToolChoice.Name), Alone: alone}
	}
	if !alone {
		return nil
	}
	return &ToolChoice{Type: "auto", Alone: true}
}

// Choose is ChoiceOf for a model: it refuses what the model does.
func (m Model) Choose(req *chat.Request) (*ToolChoice, error) {
	choice := ChoiceOf(req)
	if m.Unforced && choice.Forced() {
		return nil, fault.New(fault.Invalid, "This model decides itself whether it calls a tool: tool_choice must be auto or none. Ask for the call in the prompt, or use a model that can be forced, such as Claude Haiku 5.5, Opus 5 or Sonnet 5.").At("tool_choice")
	}
	return choice, nil
}

// Forced reports whether the model must call a tool. c may be nil.
func (c *ToolChoice) Forced() bool { return c != nil && (c.Type == "any" || c.Type == "tool") }

// ToolNames translates the names of a request's functions. Claude accepts no dots in names; callers may use
// them, and must get their own names back. The zero value is ready for use.
type ToolNames struct {
	ours map[string]string // the caller's names by those on the wire; nil until the first Add
}

// Add returns the name to use on the wire. It reports false if another function already has that name there.
func (n *ToolNames) Add(name string) (string, bool) {
	wire := WireName(name)
	if _, taken := n.ours[wire]; taken {
		return wire, false
	}
	if n.ours == nil {
		n.ours = map[string]string{}
	}
	n.ours[wire] = name
	return wire, true
}

// Original returns the caller's name of a function that the model called. A name that was never added is
// returned as it is: models make up tools.
func (n *ToolNames) Original(wire string) string {
	if name, ok := n.ours[wire]; ok {
		return name
	}
	return wire
}

// WireName returns a function's name with underscores for dots.
func WireName(name string) string { return strings.ReplaceAll(name, ".", "_") }

// WireID returns a form of a tool call's id that Claude accepts: at most 64 letters, digits, _ and -. An id
// made by another vendor may be longer or have other characters; it becomes a hash of itself, so that a call
// and its result still have the same id.
func WireID(id string) string {
	strange := func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || '9' < r) && (r < 'a' || 'z' < r) && (r < 'A' || 'Z' < r)
	}
	if len(id) <= 64 && !strings.ContainsFunc(id, strange) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:12])
}

// ObjectSchema returns a schema of arguments with the type object, which Claude requires, added where the
// schema names no type. A nil schema becomes that of any object.
// The member is added to the JSON as text, so that the order of the caller's properties, which
// guides the model, stays as it is.
func ObjectSchema(schema []byte) json.RawMessage {
	const object = `{"type":"object"`
	if schema == nil {
		return json.RawMessage(object + "}")
	}
	var w struct {
		Type json.RawMessage `json:"type"`
	}
	inside := bytes.TrimSpace(schema)[1:] // package chat accepts only objects
	switch {
	case json.Unmarshal(schema, &w) == nil && w.Type != nil:
		return schema
	case bytes.TrimSpace(inside)[0] == '}':
		return json.RawMessage(object + "}")
	}
	return append([]byte(object+","), inside...)
}
