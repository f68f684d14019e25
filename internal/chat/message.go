package chat

import (
	"strings"

	"sluice/internal/jsonscan"
)

// Role is who speaks in a message. The wire's "developer" is read as RoleSystem.
type Role uint8

const (
	RoleSystem Role = iota + 1
	RoleUser
	RoleAssistant
	RoleTool
)

// Message is one turn of the conversation.
type Message struct {
	Role       Role
	Name       string
	Content    Content
	ToolCalls  []ToolCall // on assistant messages
	ToolCallID string     // on tool messages

	raw []byte
}

// Raw is the caller's JSON of the message; nil for a message that did not come from a caller.
func (m Message) Raw() []byte { return m.raw }

// ToolCall is a call that an earlier reply made, sent back by the caller.
type ToolCall struct {
	ID        string
	Name      string
	Arguments string // JSON text, as the model wrote it; any text for a custom tool
}

// Content is a message's content: a text, or parts. It keeps the caller's JSON and unescapes it on
// demand, since an upstream of the same dialect never needs the text itself.
type Content struct {
	raw   []byte // the JSON string with its quotes; nil for null, absent, or parts
	parts []Part // where the caller sent an array
}

// Part is one piece of an array content: text, an image, or what Request.Foreign tells of, which has
// neither.
type Part struct {
	raw      []byte // the JSON string of a text part
	ImageURL string
	Detail   string // "", "auto", "low" or "high"
}

// IsImage reports whether the part is an image.
func (p Part) IsImage() bool { return p.ImageURL != "" }

// Text is the unescaped text of a text part.
func (p Part) Text() string { return jsonscan.Unquote(p.raw) }

// Text makes the content of a message that we write ourselves.
func Text(s string) Content { return Content{raw: jsonscan.AppendQuoted(nil, s)} }

// IsNull reports whether the content was null or absent.
func (c Content) IsNull() bool { return c.raw == nil && c.parts == nil }

// Text is the unescaped text; that of several text parts is joined with newlines.
func (c Content) Text() string {
	if c.parts == nil {
		return jsonscan.Unquote(c.raw)
	}
	var b strings.Builder
	for _, p := range c.parts {
		if p.raw == nil {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.Text())
	}
	return b.String()
}

// Parts is the content as parts; a plain text is one part.
func (c Content) Parts() []Part {
	if c.parts == nil && c.raw != nil {
		return []Part{{raw: c.raw}}
	}
	return c.parts
}
