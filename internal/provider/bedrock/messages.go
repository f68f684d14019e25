package bedrock

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

// message is one turn.
type message struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

// block is one of its members.
type block struct {
	Text       string          `json:"text,omitempty"`
	Image      *image          `json:"image,omitempty"`
	ToolUse    *toolUse        `json:"toolUse,omitempty"`
	ToolResult *toolResult     `json:"toolResult,omitempty"`
	Reasoning  json.RawMessage `json:"reasoningContent,omitempty"` // as it came
}

type image struct {
	Format string      `json:"format"`
	Source imageSource `json:"source"`
}

type imageSource struct {
	Bytes string `json:"bytes"` // base64
}

type toolUse struct {
	ID    string          `json:"toolUseId"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

type toolResult struct {
	ID      string  `json:"toolUseId"`
	Content []block `json:"content"`
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
			w.turn(roleUser, w.result(m))
		default:
			blocks, err := w.userBlocks(m, i)
			if err != nil {
				return err
			}
			w.turn(roleUser, blocks...)
		}
	}
	if w.model.EmulatesJSON(w.req.Format) {
		w.out.System = append(w.out.System, block{Text: provider.JSONInstruction(w.req.Format)})
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
		w.out.Messages = append([]message{{roleUser, []block{{Text: "(The conversation begins with your reply.)"}}}}, turns...)
	}
	end := &w.out.Messages[len(w.out.Messages)-1]
	if t := &end.Content[len(end.Content)-1]; end.Role == roleAssistant {
		t.Text = strings.TrimRight(t.Text, " \t\r\n") // white space at the end of a reply to go on with is refused
	}
	return nil
}

// turn adds to the conversation.
func (w *writer) turn(role string, blocks ...block) {
	if len(blocks) == 0 {
		return
	}
	if n := len(w.out.Messages); n > 0 && w.out.Messages[n-1].Role == role {
		w.out.Messages[n-1].Content = append(w.out.Messages[n-1].Content, blocks...)
		return
	}
	w.out.Messages = append(w.out.Messages, message{role, blocks})
}

// texts are the texts of a content. The dialect refuses blank ones.
func texts(c chat.Content) []block {
	blocks := []block{}
	for _, p := range c.Parts() {
		if !p.IsImage() {
			blocks = appendText(blocks, p.Text())
		}
	}
	return blocks
}

func appendText(blocks []block, s string) []block {
	if strings.TrimSpace(s) == "" {
		return blocks
	}
	return append(blocks, block{Text: s})
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
func (w *writer) assistant(m *chat.Message, current bool) []block {
	var turn *provider.Turn
	if current && !w.plain {
		turn = provider.RecallTurn(w.ctx, w.call, dialect, m)
	}
	var blocks []block
	for _, p := range turn.Arrange(m) {
		switch {
		case p.State != nil:
			blocks = append(blocks, block{Reasoning: p.State})
		case p.Call != nil:
			blocks = append(blocks, w.use(p.Call))
		default:
			blocks = appendText(blocks, p.Text)
		}
	}
	return blocks
}

// use is a call. Where no tools are listed, the dialect knows no calls either: then it is told.
func (w *writer) use(c *chat.ToolCall) block {
	if !w.plain {
		return block{ToolUse: &toolUse{provider.WireID(c.ID), provider.WireName(c.Name), provider.ObjectArguments(c.Arguments)}}
	}
	if w.called == nil {
		w.called = map[string]string{}
	}
	w.called[c.ID] = c.Name
	return block{Text: "[I called " + c.Name + " with " + string(provider.ObjectArguments(c.Arguments)) + "]"}
}

// result is what a call came to.
func (w *writer) result(m *chat.Message) block {
	if w.plain {
		return block{Text: "[" + w.called[m.ToolCallID] + " returned: " + m.Content.Text() + "]"}
	}
	return block{ToolResult: &toolResult{provider.WireID(m.ToolCallID), texts(m.Content)}}
}

// userBlocks writes what the user said and showed.
func (w *writer) userBlocks(m *chat.Message, index int) ([]block, error) {
	var blocks []block
	for i, p := range m.Content.Parts() {
		if !p.IsImage() {
			blocks = appendText(blocks, p.Text())
			continue
		}
		if p.Detail != "" && p.Detail != "auto" {
			w.call.Omit("image_url.detail")
		}
		refuse := func(why string) ([]block, error) {
			return nil, fault.New(fault.Invalid, "%s", why).At(fmt.Sprintf("messages[%d].content[%d].image_url.url", index, i))
		}
		kind, data, ok := provider.ImageData(p.ImageURL)
		if !ok {
			return refuse("This model cannot fetch images from an address; send the image as a data: URL")
		}
		switch kind {
		case "image/jpeg", "image/png", "image/gif", "image/webp":
			blocks = append(blocks, block{Image: &image{strings.TrimPrefix(kind, "image/"), imageSource{data}}})
		default:
			return refuse("This model reads images of the types image/jpeg, image/png, image/gif and image/webp; convert this one")
		}
	}
	return blocks, nil
}
