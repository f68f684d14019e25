package anthropic

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"sluice/internal/kit/excerpt"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/claude"
)

// The blocks of a message are written as values of these types, or as a json.RawMessage where a block goes
// back as it came. Type is always set: it tells the vendor which of them a block is.

// textBlock is a text, of anybody.
type textBlock struct {
	Type string `json:"type"` // text
	Text string `json:"text"`
	marked
}

// marked is a member of every block.
type marked struct {
	Cache *claude.CacheControl `json:"cache_control,omitempty"`
}

// imageBlock is an image, of the user only.
type imageBlock struct {
	Type   string      `json:"type"` // image
	Source imageSource `json:"source"`
	marked
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
	marked
}

// toolUseBlock is a call that the assistant made.
type toolUseBlock struct {
	Type  string          `json:"type"` // tool_use
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
	marked
}

// toolResultBlock is the result of a call. It belongs to the user's turn after the call.
type toolResultBlock struct {
	Type    string `json:"type"` // tool_result
	ID      string `json:"tool_use_id"`
	Content []any  `json:"content,omitempty"` // textBlocks
	marked
}

// Text implements claude.Wire.
func (w *writer) Text(s string) any { return textBlock{Type: "text", Text: s} }

// Cached implements claude.Wire.
// Blocks are values, so a marked copy takes the place of the block. Thinking goes back as raw JSON
// and cannot be marked.
func (w *writer) Cached(block any, c chat.Cache) (any, bool) {
	mark := marked{claude.CacheOf(c)}
	switch b := block.(type) {
	case textBlock:
		b.marked = mark
		block = b
	case imageBlock:
		b.marked = mark
		block = b
	case documentBlock:
		b.marked = mark
		block = b
	case toolUseBlock:
		b.marked = mark
		block = b
	case toolResultBlock:
		b.marked = mark
		block = b
	default:
		return block, false
	}
	return block, mark.Cache != nil
}

// Image implements claude.Wire. The vendor fetches images from addresses itself.
func (w *writer) Image(mediaType, data, address string) (any, bool) {
	source := imageSource{Type: "base64", MediaType: mediaType, Data: data}
	if address != "" {
		source = imageSource{Type: "url", URL: address}
	}
	return imageBlock{Type: "image", Source: source}, true
}

// maxTitle bounds the title of a document, in characters, as the vendor does.
const maxTitle = 500

// Document implements claude.Wire. The vendor takes PDFs, and texts as text.
// A file that claims to be text and is not valid UTF-8, or has a zero byte, is refused: the model
// would read noise.
func (w *writer) Document(mediaType, name, data string) (any, bool) {
	source := imageSource{Type: "base64", MediaType: mediaType, Data: data}
	if mediaType != "application/pdf" {
		raw, err := base64.StdEncoding.DecodeString(data)
		if chat.FileFormat(mediaType) == "" && !strings.HasPrefix(mediaType, "text/") || err != nil || len(raw) == 0 || !utf8.Valid(raw) || bytes.IndexByte(raw, 0) >= 0 {
			return nil, false
		}
		source = imageSource{Type: "text", MediaType: "text/plain", Data: string(raw)}
	}
	return documentBlock{Type: "document", Source: source, Title: excerpt.Of(name, maxTitle)}, true
}

// Call implements claude.Wire.
func (w *writer) Call(c *chat.ToolCall) any {
	return toolUseBlock{Type: "tool_use", ID: claude.WireID(c.ID), Name: claude.WireName(c.Name), Input: provider.ObjectArguments(c.Arguments)}
}

// Result implements claude.Wire.
func (w *writer) Result(m *chat.Message) any {
	return toolResultBlock{Type: "tool_result", ID: claude.WireID(m.ToolCallID), Content: w.conversation.AppendTexts(nil, m.Content)}
}

// Thinking implements claude.Wire.
func (w *writer) Thinking(state json.RawMessage) any { return state }
