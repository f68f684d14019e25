package chat

import (
	"strings"

	"sluice/internal/kit/jsonscan"
)

// Role is who speaks in a message. The role "developer" on the wire becomes RoleSystem: most upstreams
// know only system, and Patch.SystemRole rewrites the word for them (docs/api.md#messages).
type Role uint8

// The zero Role is none: a message without a role is refused.
const (
	RoleSystem Role = iota + 1
	RoleUser
	RoleAssistant
	RoleTool
)

// Message is one turn of the conversation. Parse has checked that it fits its role: only assistant
// messages have ToolCalls, tool messages have a ToolCallID, and only user messages hold images.
type Message struct {
	Role       Role
	Developer  bool   // the caller of another dialect wrote developer for system
	Name       string // of the speaker, as the caller sent it; empty if not given
	Content    Content
	ToolCalls  []PastCall // on assistant messages
	ToolCallID string     // on tool messages

	thought *Content // see Think
	marks   []Mark   // of a message that is built
	raw     []byte   // the caller's JSON of the whole message; shares memory with the body
}

// Think adds what led to the calls of an assistant's message, for the model that thought it.
func (m *Message) Think(thought Content) { m.thought = &thought }

// Raw returns the JSON of the message, which must not be changed: the caller's own, unless the message was built.
func (m *Message) Raw() []byte {
	if m.raw != nil {
		return m.raw
	}
	return m.append(nil, false, marksOwn)
}

// ToolCall is a call of a tool that a model makes.
type ToolCall struct {
	ID        string // unique within its message, not within the conversation
	Name      string
	Arguments string // JSON text, as the model wrote it; any text for a custom tool
	Custom    bool   // it is a call of a custom tool
}

// Past returns the call as one of an earlier reply.
func (c ToolCall) Past() PastCall {
	return PastCall{ID: c.ID, Name: c.Name, Custom: c.Custom, raw: []byte(c.Arguments)}
}

// Called returns a call of an earlier reply whose arguments share memory with the body, and must not be changed.
func Called(id, name string, arguments []byte) PastCall {
	return PastCall{ID: id, Name: name, raw: arguments}
}

// PastCall is a ToolCall of an earlier reply, which the caller sends back with the conversation. Like a Content it keeps the
// caller's JSON of the arguments and unescapes it only on demand: agents send hundreds of calls again with each request, and
// an upstream of the same dialect gets them as they are.
type PastCall struct {
	ID     string
	Name   string
	Custom bool
	quoted bool   // raw is a JSON string with its quotes; otherwise it is the text itself
	raw    []byte // the arguments; shares memory with the body
}

// Arguments returns the arguments; see ToolCall. Each call unescapes again.
func (c *PastCall) Arguments() string {
	if c.quoted {
		return jsonscan.Unquote(c.raw)
	}
	return string(c.raw)
}

// written returns the arguments as they are written: the inside of a JSON string if quoted, else the text itself.
func (c *PastCall) written() Passage {
	if c.quoted {
		return Passage{c.raw[1 : len(c.raw)-1], true}
	}
	return Passage{c.raw, false}
}

// Content is the content of a message: a text, or parts. It keeps the caller's JSON and unescapes it
// only on demand, because an upstream of the same dialect never needs the text itself. The zero value is
// null.
type Content struct {
	raw   []byte // the JSON string with its quotes; nil for null, absent, or parts
	parts []Part // nil unless the caller sent an array
	size  int    // the bytes of the text, unescaped, if the content was built
}

// Part is one element of an array content: a text or a refusal, an image, a file or a sound. At most one of raw, image and
// File is set.
type Part struct {
	raw    []byte // the JSON string of a text, or of a refusal
	image  []byte // the JSON string of an image's address
	data   bool   // the image is a data: URL
	Detail string // "", "auto", "low", "high" or "original"
	File   *File
	size   int // the bytes of the text, unescaped, if the part was built
}

// IsText reports whether the part is a text.
func (p Part) IsText() bool { return p.raw != nil }

// IsImage reports whether the part is an image.
func (p Part) IsImage() bool { return p.image != nil }

// IsRemote reports whether the part is an image that is given by its address.
func (p Part) IsRemote() bool { return p.image != nil && !p.data }

// ImageURL returns the unescaped address of an image: a data: URL, which may have megabytes, or an http or https address,
// which is not fetched. It is empty for other parts. Each call unescapes again.
func (p Part) ImageURL() string { return jsonscan.Unquote(p.image) }

// Text returns the unescaped text of a text part; empty for other parts.
func (p Part) Text() string { return jsonscan.Unquote(p.raw) }

// Text returns the content of a message that we write ourselves.
func Text(s string) Content { return Content{raw: jsonscan.AppendQuoted(nil, s), size: len(s)} }

// IsNull reports whether the content was null or absent. An empty string is not null.
func (c Content) IsNull() bool { return c.raw == nil && c.parts == nil }

// Text returns the unescaped text; empty for null. The texts of several parts are joined with newlines,
// and other parts are left out. Each call unescapes again.
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

// Parts returns the content as parts, for adapters whose dialect has only parts. A plain text is one
// part; null has none. The slice is shared and must not be changed.
func (c Content) Parts() []Part {
	if c.parts == nil && c.raw != nil {
		return []Part{{raw: c.raw}}
	}
	return c.parts
}
