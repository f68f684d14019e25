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

// block is a part of a message. Type tells the vendor which of the other members are set.
type block struct {
	Type   string  `json:"type"` // text, image, document, tool_use, tool_result, thinking or redacted_thinking
	Text   string  `json:"text,omitempty"`
	Source *source `json:"source,omitempty"` // of an image or a document
	Title  string  `json:"title,omitempty"`  // of a document: its name
	// A call that the assistant made.
	ID    string          `json:"id,omitempty"`
	Name  string          `json:"name,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
	// The result of a call, with its texts. It belongs to the user's turn after the call.
	CallID  string  `json:"tool_use_id,omitempty"`
	Content []block `json:"content,omitempty"`
	// Thinking as it came in a reply: the vendor checks the signature against the text, so neither may change. Data is
	// thinking that only the vendor can read.
	Thinking  *string `json:"thinking,omitempty"`
	Signature string  `json:"signature,omitempty"`
	Data      string  `json:"data,omitempty"`

	Cache *claude.CacheControl `json:"cache_control,omitempty"`
}

// source has MediaType and Data for the types base64 and text, and URL for the type url.
type source struct {
	Type      string `json:"type"` // base64, text or url
	MediaType string `json:"media_type,omitempty"`
	Data      string `json:"data,omitempty"`
	URL       string `json:"url,omitempty"`
}

// Text implements claude.Wire.
func (w *writer) Text(s string) block { return block{Type: "text", Text: s} }

// Mark implements claude.Wire. Thinking goes back as it came and cannot be marked.
func (w *writer) Mark(blocks []block, c claude.CacheControl) ([]block, bool) {
	end := &blocks[len(blocks)-1]
	if end.Thinking != nil || end.Data != "" {
		return blocks, false
	}
	end.Cache = &c
	return blocks, true
}

// Image implements claude.Wire. The vendor fetches images from addresses itself.
func (w *writer) Image(mediaType, data, address string) (block, bool) {
	from := &source{Type: "base64", MediaType: mediaType, Data: data}
	if address != "" {
		from = &source{Type: "url", URL: address}
	}
	return block{Type: "image", Source: from}, true
}

// maxTitle bounds the title of a document, in characters, as the vendor does.
const maxTitle = 500

// Document implements claude.Wire. The vendor takes PDFs, and texts as text.
// A file that claims to be text and is not valid UTF-8, or has a zero byte, is refused: the model
// would read noise.
func (w *writer) Document(mediaType, name, data string) (block, bool) {
	from := &source{Type: "base64", MediaType: mediaType, Data: data}
	if mediaType != "application/pdf" {
		raw, err := base64.StdEncoding.DecodeString(data)
		if chat.FileFormat(mediaType) == "" && !strings.HasPrefix(mediaType, "text/") || err != nil || len(raw) == 0 || !utf8.Valid(raw) || bytes.IndexByte(raw, 0) >= 0 {
			return block{}, false
		}
		from = &source{Type: "text", MediaType: "text/plain", Data: string(raw)}
	}
	return block{Type: "document", Source: from, Title: excerpt.Of(name, maxTitle)}, true
}

// Call implements claude.Wire.
func (w *writer) Call(c *chat.PastCall) block {
	return block{Type: "tool_use", ID: claude.WireID(c.ID), Name: claude.WireName(c.Name), Input: provider.ObjectArguments(c.Arguments())}
}

// Result implements claude.Wire.
func (w *writer) Result(m *chat.Message) block {
	return block{Type: "tool_result", CallID: claude.WireID(m.ToolCallID), Content: w.conversation.AppendTexts(nil, m.Content)}
}

// Thinking implements claude.Wire.
func (w *writer) Thinking(state json.RawMessage) (b block) {
	_ = json.Unmarshal(state, &b) // it was written from a block
	return b
}
