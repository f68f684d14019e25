package bedrock

import (
	"encoding/json"
	"strconv"
	"strings"

	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/claude"
)

// block is a part of a turn: exactly one of its members is set.
type block struct {
	Text       string          `json:"text,omitempty"`
	Image      *image          `json:"image,omitempty"`
	Document   *document       `json:"document,omitempty"`
	ToolUse    *toolUse        `json:"toolUse,omitempty"`
	ToolResult *toolResult     `json:"toolResult,omitempty"`
	Reasoning  json.RawMessage `json:"reasoningContent,omitempty"` // a wireReasoning, as it was kept
	CachePoint *cachePoint     `json:"cachePoint,omitempty"`       // everything in front of it is kept
}

// image is an image that is sent along.
type image struct {
	Format string      `json:"format"` // the media type without image/
	Source imageSource `json:"source"`
}

// imageSource has the bytes of an image or of a document.
type imageSource struct {
	Bytes string `json:"bytes"` // base64
}

// document is a file that is sent along. Names must differ within a request.
type document struct {
	Format string      `json:"format"` // such as pdf
	Name   string      `json:"name"`
	Source imageSource `json:"source"`
}

// toolUse is a call that the assistant made.
type toolUse struct {
	ID    string          `json:"toolUseId"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

// toolResult is the result of a call. It belongs to the user's turn after the call.
type toolResult struct {
	ID      string  `json:"toolUseId"`
	Content []block `json:"content"` // texts; required, so empty rather than nil
}

// Text implements claude.Wire.
func (w *writer) Text(s string) block { return block{Text: s} }

// Mark implements claude.Wire. Thinking cannot be marked. Where two marks meet, the later one counts.
func (w *writer) Mark(blocks []block, c claude.CacheControl) ([]block, bool) {
	point := block{CachePoint: &cachePoint{"default", c.TTL}}
	switch end := &blocks[len(blocks)-1]; {
	case end.CachePoint != nil:
		*end = point
	case end.Reasoning != nil:
		return blocks, false
	default:
		blocks = append(blocks, point)
	}
	return blocks, true
}

// marking returns what a model takes of marks for the cache. Claude takes them from 3.7 on and Haiku from 3.5 on, for an
// hour from 4.5 on; Nova takes them in messages. Converse refuses them for all others
// (docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html).
func (w *writer) marking() claude.MarkOptions {
	switch {
	case w.claude && w.model.Caches:
		return claude.MarkOptions{Most: claude.MostMarks, Tools: true, Brief: !w.model.Structured}
	case strings.Contains(w.call.Upstream, "amazon.nova-"):
		return claude.MarkOptions{Most: claude.MostMarks, Brief: true}
	}
	return claude.MarkOptions{}
}

// Image implements claude.Wire. Converse takes no addresses of images.
func (w *writer) Image(mediaType, data, address string) (block, bool) {
	if address != "" {
		return block{}, false
	}
	return block{Image: &image{strings.TrimPrefix(mediaType, "image/"), imageSource{data}}}, true
}

// maxDocumentName bounds the name of a document, in characters; the vendor takes 200.
const maxDocumentName = 180

// Document implements claude.Wire.
// The count of documents makes their names unique, and tells messages whether any turn must be
// explained.
func (w *writer) Document(mediaType, name, data string) (block, bool) {
	format := chat.FileFormat(mediaType)
	if format == "" {
		return block{}, false
	}
	w.documents++
	return block{Document: &document{format, documentName(name, w.documents), imageSource{data}}}, true
}

// documentName returns a name that Converse takes for document n: letters, digits, hyphens, parentheses and single spaces.
// The number makes it differ from the others.
func documentName(name string, n int) string {
	if dot := strings.LastIndexByte(name, '.'); dot > 0 {
		name = name[:dot]
	}
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= '0' && r <= '9', r >= 'A' && r <= 'Z', r >= 'a' && r <= 'z', r == '-', r == '(', r == ')':
			return r
		}
		return ' '
	}, name)
	name = strings.Join(strings.Fields(name), " ")
	if name = strings.TrimSpace(name[:min(len(name), maxDocumentName)]); name == "" {
		name = "document"
	}
	if n > 1 {
		name += " " + strconv.Itoa(n)
	}
	return name
}

// explain adds a text to turns that have a document and no text, which Converse refuses.
func explain(messages []claude.Message[block]) {
	for i := range messages {
		documents, texts := false, false
		for _, b := range messages[i].Content {
			documents, texts = documents || b.Document != nil, texts || b.Text != ""
		}
		if documents && !texts {
			messages[i].Content = append(messages[i].Content, block{Text: "(See the document.)"})
		}
	}
}

// Call implements claude.Wire. Converse refuses calls in a request that lists no tools; there they become
// text, so that the model still knows what it did.
func (w *writer) Call(c *chat.PastCall) block {
	if !w.plain {
		return block{ToolUse: &toolUse{claude.WireID(c.ID), claude.WireName(c.Name), provider.ObjectArguments(c.Arguments())}}
	}
	if w.called == nil {
		w.called = map[string]string{}
	}
	w.called[c.ID] = c.Name
	return block{Text: "[I called " + c.Name + " with " + string(provider.ObjectArguments(c.Arguments())) + "]"}
}

// Result implements claude.Wire.
func (w *writer) Result(m *chat.Message) block {
	if w.plain {
		return block{Text: "[" + w.called[m.ToolCallID] + " returned: " + m.Content.Text() + "]"}
	}
	return block{ToolResult: &toolResult{claude.WireID(m.ToolCallID), w.conversation.AppendTexts([]block{}, m.Content)}}
}

// Thinking implements claude.Wire.
func (w *writer) Thinking(state json.RawMessage) block { return block{Reasoning: state} }
