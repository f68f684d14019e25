package claude

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

const (
	roleUser      = "user"
	roleAssistant = "assistant"
	roleSystem    = "system"
)

// Message is one turn of a conversation. Both APIs write it alike; B is a content block of one of them.
type Message[B any] struct {
	Role    string `json:"role"`
	Content []B    `json:"content"`
}

// Wire writes the content blocks of one API.
// It has one method for each kind of block. The rules about which block goes where are
// Conversation's.
type Wire[B any] interface {
	// Text returns a block of text. s is never blank.
	Text(s string) B
	// Image returns an image: base64 data of a media type that Claude reads, or an address where data is
	// empty. It reports false if the API takes no addresses.
	Image(mediaType, data, address string) (B, bool)
	// Document returns a document, given in base64. It reports false if the API does not take its media type, or if it is
	// not what the type says.
	Document(mediaType, name, data string) (B, bool)
	// Call returns an earlier call of a tool.
	Call(c *chat.PastCall) B
	// Result returns the result of a tool; m has the role tool.
	Result(m *chat.Message) B
	// Mark marks the end of blocks, of which there is at least one: the prompt is to be kept up to there. It reports false
	// if it cannot say that there. It is the one place where a mark is written to blocks.
	Mark(blocks []B, c CacheControl) ([]B, bool)
	// Thinking returns a block of signed thinking as it was kept; see Builder.Keep.
	Thinking(state json.RawMessage) B
}

// Conversation writes the messages of one call by the rules of the dialect: system messages go to the front or, behind
// others, stay there, as a part of the user's turn where the model knows no such messages; messages of one role that follow each other are one turn; results of tools belong to
// the user; the first turn is the user's; no text is blank.
//
// A Conversation serves one call. The order of use is Write, then Unsigned, since whether the
// model may think depends on what was written.
type Conversation[B any] struct {
	Wire Wire[B]
	// Dialect names the API whose signed thinking may be put back; see RecallTurn. If it is empty, none is.
	Dialect string
	// Model decides how much thinking goes back: that of all turns, or that of the exchange in progress.
	Model Model
	// Key stands for the key of the upstream: some models read only what was thought under the same.
	Key string
	// Off says that the model does not think about this call, so that no thinking goes back.
	Off bool
	// Bare leaves the thinking of earlier turns out: the vendor has refused it.
	Bare bool
	// InPlace says that the API takes system messages between the others.
	InPlace bool
	// Marks are those of the call; nil: as many as the vendor takes.
	Marks *Marks

	// System and Messages are the result of Write.
	System   []B
	Messages []Message[B]

	answered bool   // there is a turn of the assistant
	signed   bool   // the last of them starts with signed thinking
	tail     string // the text that ends the last of them; empty if it ends with another block
	back     int    // where that text stands, counted from the end
	past     history
	thoughts int  // blocks of thinking that were written
	opened   bool // the first turn is one of the assistant, with thinking
	later    []B  // system messages that wait for the end of the user's turn
}

// Thoughts returns how many blocks of thinking were written.
func (c *Conversation[B]) Thoughts() int { return c.thoughts }

// Place returns where the reply stands in the conversation.
func (c *Conversation[B]) Place() Place { return c.past.place }

// Write fills System and Messages. If the JSON of the reply is emulated, an instruction is added to the system messages;
// see Model.EmulatesJSON. Images that the API does not take are refused, and so is a conversation without any text.
//
// What the API cannot say is left out and noted in the call: names of messages, the detail of
// images, marks for a cache.
func (c *Conversation[B]) Write(ctx context.Context, call *provider.Call, emulated bool) error {
	messages := call.Request.Messages
	if c.Marks == nil {
		c.Marks = MarksOf(call, MarkOptions{Most: MostMarks, Tools: true})
	}
	if c.Dialect != "" && c.Model.Adaptive && !c.Off && call.Memory != nil {
		c.recall(ctx, call)
	}
	last := lastUser(messages)
	for i := range messages {
		m := &messages[i]
		if m.Name != "" {
			call.Omit("messages[].name")
		}
		switch m.Role {
		case chat.RoleSystem:
			c.system(m, i)
		case chat.RoleAssistant:
			turn, used := c.turn(ctx, call, i, i > last)
			c.assistant(m, i, turn, used)
		case chat.RoleTool:
			result := []B{c.Wire.Result(m)}
			for _, k := range c.Marks.of(i) { // of a part, or of the message: it is one block
				result = c.markAs(result, k.Cache)
			}
			c.add(roleUser, result...)
		default:
			blocks, err := c.user(call, m, i)
			if err != nil {
				return err
			}
			if !c.InPlace {
				c.instruct()
			}
			c.add(roleUser, blocks...)
		}
	}
	c.instruct()
	if emulated {
		c.System = append(c.System, c.Wire.Text(JSONInstruction(call.Request.Format)))
	}
	if err := c.begin(); err != nil {
		return err
	}
	c.trim()
	return nil
}

// system writes a system message: to the front, or behind the turn of the user in which it stands.
func (c *Conversation[B]) system(m *chat.Message, index int) {
	to := &c.System
	if len(c.Messages) > 0 {
		to = &c.later
	}
	if m.Cut() {
		texts, marks := m.Pieces()
		for j, text := range texts {
			if *to = c.appendText(*to, c.instruction(text)); j < len(marks) && len(*to) > 0 {
				*to = c.markAs(*to, marks[j])
			}
		}
		return
	}
	marks := c.Marks.of(index)
	for j, p := range m.Content.Parts() {
		if !p.IsImage() {
			*to = c.appendText(*to, c.instruction(p.Text()))
		}
		*to = c.mark(*to, marks, j)
	}
	*to = c.mark(*to, marks, chat.NoPart)
}

// instruction returns the text of a system message as it stands in the conversation. Where the API knows no such message
// there, it is a part of the user's turn that says what it is: in front, it would change all that is in a cache.
func (c *Conversation[B]) instruction(text string) string {
	if len(c.Messages) == 0 || c.InPlace || strings.TrimSpace(text) == "" {
		return text
	}
	return provider.Instruction(text)
}

// instruct writes the system messages that wait, before a turn of the assistant or at the end. The vendor takes them after
// a turn of the user only. Without one, at the end, they are the user's: they are what is to be answered.
func (c *Conversation[B]) instruct() {
	if len(c.later) == 0 {
		return
	}
	if c.InPlace && c.Messages[len(c.Messages)-1].Role == roleUser {
		c.Messages = append(c.Messages, Message[B]{roleSystem, c.later})
	} else {
		c.add(roleUser, c.later...)
	}
	c.later = nil
}

// turn returns what is known of a turn of the assistant, and whether its thinking goes back. Models that do not think
// adaptively ignore the thinking of earlier exchanges, so only that of the current one is looked for.
func (c *Conversation[B]) turn(ctx context.Context, call *provider.Call, at int, current bool) (*Turn, bool) {
	switch {
	case c.Dialect == "" || c.Off:
		return nil, false
	case c.Model.Adaptive:
		return c.past.find(at)
	case !current || c.Bare:
		return nil, false
	}
	return RecallTurn(ctx, call, c.Dialect, &call.Request.Messages[at]), true
}

// lastUser returns the index of the last user message, or -1. The exchange of tool calls after it is still
// under way.
func lastUser(messages []chat.Message) int {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == chat.RoleUser {
			return i
		}
	}
	return -1
}

// Unsigned reports whether the call answers tool calls that were made without thinking, or whose thinking is
// lost. Claude cannot begin to think in the middle of such an exchange. It must be called after Write.
func (c *Conversation[B]) Unsigned(req *chat.Request) bool {
	return req.Messages[len(req.Messages)-1].Role == chat.RoleTool && c.answered && !c.signed
}

// add appends blocks to the last turn if it is of the same role, and else begins a turn with them.
func (c *Conversation[B]) add(role string, blocks ...B) {
	if len(blocks) == 0 {
		return
	}
	if n := len(c.Messages); n > 0 && c.Messages[n-1].Role == role {
		c.Messages[n-1].Content = append(c.Messages[n-1].Content, blocks...)
		return
	}
	c.Messages = append(c.Messages, Message[B]{role, blocks})
}

// assistant writes an earlier reply. turn is what it was made of; it may be nil. If used is set, its signed thinking is put
// back in its place. Otherwise only the order of the rest is that of the turn: what stands before later thinking must not
// depend on whether earlier thinking is there.
//
// Messages of the assistant that follow each other are one turn, and only its first block decides
// whether it is signed.
func (c *Conversation[B]) assistant(m *chat.Message, index int, turn *Turn, used bool) {
	var blocks []B
	var signed bool
	var tail string
	for _, p := range turn.Arrange(m) {
		switch {
		case p.State != nil && !used:
		case p.State != nil:
			signed, tail = signed || len(blocks) == 0, ""
			blocks = append(blocks, c.Wire.Thinking(p.State))
			c.thoughts++
		case p.Call != nil:
			blocks, tail = append(blocks, c.Wire.Call(p.Call)), ""
		case strings.TrimSpace(p.Text) != "":
			blocks, tail = append(blocks, c.Wire.Text(p.Text)), p.Text
		}
	}
	if len(blocks) == 0 {
		return
	}
	c.back = len(blocks)
	for _, k := range c.Marks.of(index) {
		blocks = c.markAs(blocks, k.Cache)
	}
	c.back = len(blocks) - c.back + 1
	c.instruct()
	c.opened = c.opened || len(c.Messages) == 0 && used
	c.tail = tail
	if n := len(c.Messages); n == 0 || c.Messages[n-1].Role != roleAssistant {
		c.answered, c.signed = true, signed
	}
	c.add(roleAssistant, blocks...)
}

// user writes the texts, images and files of a user message. index is that of the message.
func (c *Conversation[B]) user(call *provider.Call, m *chat.Message, index int) ([]B, error) {
	var blocks []B
	marks := c.Marks.of(index)
	for i, p := range m.Content.Parts() {
		if i > 0 {
			blocks = c.mark(blocks, marks, i-1)
		}
		if p.File != nil {
			file, err := c.file(p.File, index, i)
			if err != nil {
				return nil, err
			}
			blocks = append(blocks, file)
			continue
		}
		if !p.IsImage() {
			blocks = c.appendText(blocks, p.Text())
			continue
		}
		if p.Detail != "" && p.Detail != "auto" {
			call.Omit("image_url.detail")
		}
		image, why := c.image(p.ImageURL())
		if why != "" {
			return nil, fault.New(fault.Invalid, "%s", why).At(fmt.Sprintf("messages[%d].content[%d].image_url.url", index, i))
		}
		blocks = append(blocks, image)
	}
	blocks = c.mark(blocks, marks, len(m.Content.Parts())-1)
	return c.mark(blocks, marks, chat.NoPart), nil
}

// file writes a file, which is part j of message i. Claude does not listen to sound.
// An image that was sent as a file becomes an image block.
func (c *Conversation[B]) file(f *chat.File, i, j int) (block B, err error) {
	if f.Audio {
		return block, fault.New(fault.Invalid, "This model does not know parts of type input_audio.").At(fmt.Sprintf("messages[%d].content[%d]", i, j))
	}
	mediaType, data, ok := f.Data()
	if !ok {
		return block, provider.NoContent(f, i, j)
	}
	if slices.Contains(imageTypes, mediaType) {
		block, _ = c.Wire.Image(mediaType, data, "")
		return block, nil
	}
	if block, ok = c.Wire.Document(mediaType, f.Name, data); !ok {
		err = fault.New(fault.Invalid, "This model cannot read a file of the type %q; send a PDF, plain text or an image.", excerpt.Of(mediaType, 80)).
			At(fmt.Sprintf("messages[%d].content[%d].file.file_data", i, j))
	}
	return block, err
}

// image writes an image. If it cannot, why is what the caller reads.
func (c *Conversation[B]) image(url string) (block B, why string) {
	mediaType, data, inline := provider.ImageData(url)
	if inline {
		if url = ""; !slices.Contains(imageTypes, mediaType) {
			return block, "This model reads images of the types image/jpeg, image/png, image/gif and image/webp; convert this one"
		}
	}
	block, ok := c.Wire.Image(mediaType, data, url)
	if !ok {
		why = "This model cannot fetch images from an address; send the image as a data: URL"
	}
	return block, why
}

// imageTypes are the types of images that Claude reads.
var imageTypes = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}

// UserTurns returns the index of the last turn of the user, and of the last one before the last reply; -1 where there is
// none.
func UserTurns[B any](messages []Message[B]) (last, before int) {
	last, before = -1, -1
	replied := false
	for i := range messages {
		switch messages[i].Role {
		case roleAssistant:
			replied = true
		case roleUser:
			if replied {
				before, replied = last, false
			}
			last = i
		}
	}
	return last, before
}

// AppendTexts appends a block for each text of a content; images are skipped.
func (c *Conversation[B]) AppendTexts(blocks []B, content chat.Content) []B {
	for _, p := range content.Parts() {
		if !p.IsImage() {
			blocks = c.appendText(blocks, p.Text())
		}
	}
	return blocks
}

// appendText appends a text. Blank texts are left out: the vendor answers them with an error.
func (c *Conversation[B]) appendText(blocks []B, s string) []B {
	if strings.TrimSpace(s) == "" {
		return blocks
	}
	return append(blocks, c.Wire.Text(s))
}

// begin makes sure that there is a first turn and that it is the user's: the vendor requires both.
func (c *Conversation[B]) begin() error {
	switch {
	case len(c.Messages) == 0 && len(c.System) == 0:
		return fault.New(fault.Invalid, "messages holds no text: this model needs some to answer").At("messages")
	case len(c.Messages) == 0: // instructions alone are the question
		c.Messages = []Message[B]{{roleUser, c.System}}
		c.System = nil
	case c.opened && len(c.System) > 0: // as it was when the first turn was made
		c.Messages = append([]Message[B]{{roleUser, c.System}}, c.Messages...)
		c.System = nil
	case c.Messages[0].Role != roleUser:
		first := Message[B]{roleUser, []B{c.Wire.Text("(The conversation begins with your reply.)")}}
		c.Messages = append([]Message[B]{first}, c.Messages...)
	}
	return nil
}

// trim cuts white space off the end of a reply that the model is asked to continue: the vendor refuses it.
func (c *Conversation[B]) trim() {
	end := &c.Messages[len(c.Messages)-1]
	if text := strings.TrimRight(c.tail, " \t\r\n"); end.Role == roleAssistant && text != c.tail {
		end.Content[len(end.Content)-c.back] = c.Wire.Text(text)
	}
}
