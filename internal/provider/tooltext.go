package provider

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"sluice/internal/jsonscan"
)

// ToolNames are the names of a request's functions, for dialects that know no dots in them.
type ToolNames struct {
	ours map[string]string // by the name that fits
}

// Add makes a name fit; false where another one fits to the same.
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

// Original is the caller's name of a function.
func (n *ToolNames) Original(wire string) string {
	if name, ok := n.ours[wire]; ok {
		return name
	}
	return wire
}

// WireName is a function's name without dots.
func WireName(name string) string { return strings.ReplaceAll(name, ".", "_") }

// WireID is the id of a call of letters, digits, _ and -, at most 64 of them, for dialects that take no
// other. One that another vendor made may hold more: then it is a hash of it.
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

// ObjectSchema is a schema for arguments that says that they are an object; nil: of any kind.
func ObjectSchema(schema []byte) json.RawMessage {
	const object = `{"type":"object"`
	if schema == nil {
		return json.RawMessage(object + "}")
	}
	var w struct {
		Type json.RawMessage `json:"type"`
	}
	inside := bytes.TrimSpace(schema)[1:] // chat lets only objects pass
	switch {
	case json.Unmarshal(schema, &w) == nil && w.Type != nil:
		return schema
	case bytes.TrimSpace(inside)[0] == '}':
		return json.RawMessage(object + "}")
	}
	return append([]byte(object+","), inside...)
}

// ObjectArguments are the arguments of a call as an object. A model may have written none, or nonsense.
func ObjectArguments(s string) json.RawMessage {
	s = strings.TrimSpace(s)
	switch {
	case s == "":
		return json.RawMessage("{}")
	case s[0] == '{' && json.Valid([]byte(s)):
		return json.RawMessage(s)
	}
	return append(jsonscan.AppendQuoted([]byte(`{"arguments":`), s), '}')
}

// ArgumentsText is the text of arguments that came as an object.
func ArgumentsText(raw json.RawMessage) string {
	var b bytes.Buffer
	if len(raw) == 0 || string(raw) == "null" || json.Compact(&b, raw) != nil {
		return "{}"
	}
	return b.String()
}

// ImageData is the type and the base64 of an image in a data: URL; false where the URL is an address.
func ImageData(url string) (mediaType, data string, ok bool) {
	head, data, ok := strings.Cut(url, ",")
	if !ok || !strings.EqualFold(head[:min(len(head), len("data:"))], "data:") {
		return "", "", false
	}
	mediaType, _, _ = strings.Cut(strings.ToLower(head[len("data:"):]), ";")
	if mediaType == "image/jpg" {
		mediaType = "image/jpeg"
	}
	return mediaType, data, true
}
