package anthropic

import (
	"encoding/json"
	"fmt"
	"strings"

	"sluice/internal/chat"
	"sluice/internal/fault"
	"sluice/internal/provider"
)

const (
	roleUser      = "user"
	roleAssistant = "assistant"
)

// message is one turn: of text, images, calls, results and, as they came, signed thinking.
type message struct {
	Role    string `json:"role"`
	Content []any  `json:"content"`
}

type textBlock struct {
	Type string `json:"type"` // text
	Text string `json:"text"`
}

type imageBlock struct {
	Type   string      `json:"type"` // image
	Source imageSource `json:"source"`
}

type imageSource struct {
	Type      string `json:"type"` // base64 or url
	MediaType string `json:"media_type,omitempty"`
	Data      string `json:"data,omitempty"`
	URL       string `json:"url,omitempty"`
}

type toolUseBlock struct {
	Type  string          `json:"type"` // tool_use
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

type toolResultBlock struct {
	Type    string `json:"type"` // tool_result
	ID      string `json:"tool_use_id"`
	Content []any  `json:"content,omitempty"`
}

// messages writes the conversation: system messages go to the front, wherever they stand, turns of
// one role become one, results of tools are the user's, and the user begins.
func (w *writer) messages() error {
	last := w.lastUser()
	for i := range w.req.Messages {
		m := &w.req.Messages[i]
		if m.Name != "" {
			w.call.Omit("messages[].name")
		}
		switch m.Role {
		case chat.RoleSystem:
			w.out.System = append(w.out.System, texts(m.Content)...)
		case chat.RoleAssistant:
			w.turn(roleAssistant, w.assistant(m, i > last)...)
		case chat.RoleTool:
			w.turn(roleUser, toolResultBlock{"tool_result", provider.WireID(m.ToolCallID), texts(m.Content)})
		default:
			blocks, err := w.userBlocks(m, i)
			if err != nil {
				return err
			}
			w.turn(roleUser, blocks...)
		}
	}
	if w.model.EmulatesJSON(w.req.Format) {
		w.out.System = append(w.out.System, textBlock{"text", provider.JSONInstruction(w.req.Format)})
	}
	return w.begin()
}

// begin sees to it that there is a first turn and that it is the user's.
func (w *writer) begin() error {
	switch turns := w.out.Messages; {
	case len(turns) == 0 && len(w.out.System) == 0:
		return fault.New(fault.Invalid, "messages holds no text: this model needs some to answer").At("messages")
	case len(turns) == 0: // instructions alone are the question
		w.out.Messages = []message{{roleUser, w.out.System}}
		w.out.System = nil
	case turns[0].Role != roleUser:
		w.out.Messages = append([]message{{roleUser, []any{textBlock{"text", "(The conversation begins with your reply.)"}}}}, turns...)
	}
	w.trim()
	return nil
}

// trim cuts white space off the end of a reply that the model is to go on with: it is refused.
func (w *writer) trim() {
	end := &w.out.Messages[len(w.out.Messages)-1]
	if end.Role != roleAssistant {
		return
	}
	if t, ok := end.Content[len(end.Content)-1].(textBlock); ok {
		end.Content[len(end.Content)-1] = textBlock{"text", strings.TrimRight(t.Text, " \t\r\n")}
	}
}

// turn adds to the conversation.
func (w *writer) turn(role string, blocks ...any) {
	if len(blocks) == 0 {
		return
	}
	if n := len(w.out.Messages); n > 0 && w.out.Messages[n-1].Role == role {
		w.out.Messages[n-1].Content = append(w.out.Messages[n-1].Content, blocks...)
		return
	}
	w.out.Messages = append(w.out.Messages, message{role, blocks})
}

// texts are the texts of a content. The dialect refuses empty ones.
func texts(c chat.Content) []any {
	var blocks []any
	for _, p := range c.Parts() {
		if !p.IsImage() {
			blocks = appendText(blocks, p.Text())
		}
	}
	return blocks
}

func appendText(blocks []any, s string) []any {
	if strings.TrimSpace(s) == "" {
		return blocks
	}
	return append(blocks, textBlock{"text", s})
}

// lastUser is the position of the last user message: the tool exchange behind it is under way.
func (w *writer) lastUser() int {
	for i := len(w.req.Messages) - 1; i >= 0; i-- {
		if w.req.Messages[i].Role == chat.RoleUser {
			return i
		}
	}
	return -1
}

// assistant writes what the model said. In the exchange that is under way its signed thinking is put
// back; that of earlier ones the vendor does without.
func (w *writer) assistant(m *chat.Message, current bool) []any {
	var turn *provider.Turn
	if current {
		turn = provider.RecallTurn(w.ctx, w.call, dialect, m)
	}
	var blocks []any
	for _, p := range turn.Arrange(m) {
		switch {
		case p.State != nil:
			blocks = append(blocks, p.State)
		case p.Call != nil:
			blocks = append(blocks, toolUseBlock{"tool_use", provider.WireID(p.Call.ID), provider.WireName(p.Call.Name), provider.ObjectArguments(p.Call.Arguments)})
		default:
			blocks = appendText(blocks, p.Text)
		}
	}
	return blocks
}

// userBlocks writes what the user said and showed.
func (w *writer) userBlocks(m *chat.Message, index int) ([]any, error) {
	var blocks []any
	for i, p := range m.Content.Parts() {
		if !p.IsImage() {
			blocks = appendText(blocks, p.Text())
			continue
		}
		if p.Detail != "" && p.Detail != "auto" {
			w.call.Omit("image_url.detail")
		}
		source, ok := sourceOf(p.ImageURL)
		if !ok {
			return nil, fault.New(fault.Invalid, "This model reads images of the types image/jpeg, image/png, image/gif and image/webp; convert this one").
				At(fmt.Sprintf("messages[%d].content[%d].image_url.url", index, i))
		}
		blocks = append(blocks, imageBlock{"image", source})
	}
	return blocks, nil
}

// sourceOf is where an image comes from; false where the dialect does not know its type.
func sourceOf(url string) (imageSource, bool) {
	kind, data, ok := provider.ImageData(url)
	if !ok {
		return imageSource{Type: "url", URL: url}, true
	}
	switch kind {
	case "image/jpeg", "image/png", "image/gif", "image/webp":
		return imageSource{Type: "base64", MediaType: kind, Data: data}, true
	}
	return imageSource{}, false
}
