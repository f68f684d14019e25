package anthropic

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"sluice/internal/chat"
	"sluice/internal/excerpt"
	"sluice/internal/provider"
	"sluice/internal/provider/claude"
)

// The blocks of a message are written as values of these types, or as a json.RawMessage where a block goes
// back as it came. Type is always set: it tells the vendor which of them a block is.

// textBlock is a text, of anybody.
type textBlock struct {
	Type string `json:"type"` // text
	Text string `json:"text"`
}

// imageBlock is an image, of the user only.
type imageBlock struct {
	Type   string      `json:"type"` // image
	Source imageSource `json:"source"`
}

// imageSource has MediaType and Data for the types base64 and text, and URL for the type url.
type imageSource struct {
	Type      string `json:"type"` // base64, text or url
	MediaType string `json:"media_type,omitempty"`
	Data      string `json:"data,omitempty"`
	URL       string `json:"url,omitempty"`
}

// documentBlock is a document of the user. Title is its name.
type documentBlock struct {
	Type   string      `json:"type"` // document
	Source imageSource `json:"source"`
	Title  string      `json:"title,omitempty"`
}

// toolUseBlock is a call that the assistant made.
type toolUseBlock struct {
	Type  string          `json:"type"` // tool_use
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

// toolResultBlock is the result of a call. It belongs to the user's turn behind the call.
type toolResultBlock struct {
	Type    string `json:"type"` // tool_result
	ID      string `json:"tool_use_id"`
	Content []any  `json:"content,omitempty"` // textBlocks
}

// Text implements claude.Wire.
func (w *writer) Text(s string) any { return textBlock{"text", s} }

// Image implements claude.Wire. The vendor fetches images from addresses itself.
func (w *writer) Image(mediaType, data, address string) (any, bool) {
	source := imageSource{Type: "base64", MediaType: mediaType, Data: data}
	if address != "" {
		source = imageSource{Type: "url", URL: address}
	}
	return imageBlock{"image", source}, true
}

// maxTitle bounds the title of a document, in characters, as the vendor does.
const maxTitle = 500

// Document implements claude.Wire. The vendor takes PDFs, and texts as text.
func (w *writer) Document(mediaType, name, data string) (any, bool) {
	source := imageSource{Type: "base64", MediaType: mediaType, Data: data}
	if mediaType != "application/pdf" {
		raw, err := base64.StdEncoding.DecodeString(data)
		if chat.FileFormat(mediaType) == "" && !strings.HasPrefix(mediaType, "text/") || err != nil || len(raw) == 0 || !utf8.Valid(raw) || bytes.IndexByte(raw, 0) >= 0 {
			return nil, false
		}
		source = imageSource{Type: "text", MediaType: "text/plain", Data: string(raw)}
	}
	return documentBlock{"document", source, excerpt.Of(name, maxTitle)}, true
}

// Call implements claude.Wire.
func (w *writer) Call(c *chat.ToolCall) any {
	return toolUseBlock{"tool_use", claude.WireID(c.ID), claude.WireName(c.Name), provider.ObjectArguments(c.Arguments)}
}

// Result implements claude.Wire.
func (w *writer) Result(m *chat.Message) any {
	return toolResultBlock{"tool_result", claude.WireID(m.ToolCallID), w.conversation.AppendTexts(nil, m.Content)}
}

// Thinking implements claude.Wire.
func (w *writer) Thinking(state json.RawMessage) any { return state }
