package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sluice/internal/kit/fault"
)

// completion is a chat completion (docs/api.md#chat-completion-response).
type completion struct {
	ID      string          `json:"id"`
	Object  string          `json:"object"`
	Created int64           `json:"created"`
	Model   string          `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   json.RawMessage `json:"usage,omitempty"`
	// Fingerprint is not part of a stream, so it is always null here.
	Fingerprint *string `json:"system_fingerprint"`
}

// choice is one of the alternatives that the model offers.
type choice struct {
	Index        int     `json:"index"`
	Message      content `json:"message"`
	Logprobs     *string `json:"logprobs"` // always null: a tool cannot ask for them
	FinishReason string  `json:"finish_reason"`
}

// content is the model's message. Content is null if it consists of tool calls only.
type content struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"`
	Refusal   *string    `json:"refusal"`
	Reasoning string     `json:"reasoning_content,omitempty"`
	ToolCalls []toolCall `json:"tool_calls,omitempty"`
}

// toolCall is a call that the model wants its client to make. Arguments is JSON in a string.
type toolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// chunk is one event of a stream (docs/api.md#stream-chunk).
type chunk struct {
	completion
	Choices []struct {
		Index int `json:"index"`
		Delta struct {
			Content   *string `json:"content"`
			Refusal   string  `json:"refusal"`
			Reasoning string  `json:"reasoning_content"`
			ToolCalls []struct {
				Index int `json:"index"`
				toolCall
			} `json:"tool_calls"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Error json.RawMessage `json:"error"`
}

// maxText bounds a streamed completion, in bytes. It is kept until its end, because the result of a tool is one
// message.
const maxText = 2 << 20

// errTooLong ends the stream of a completion that exceeds maxText.
var errTooLong = errors.New("the completion is too long for the result of a tool")

// chunks assembles a streamed completion and reports its progress to the client.
type chunks struct {
	progress *progress
	pending  []byte // an event that has not ended yet
	whole    completion
	texts    []*texts        // of whole's choices, until the end
	size     int             // bytes of texts
	failure  json.RawMessage // the error object that ended the stream early; else nil
	done     bool            // the stream ended with [DONE]
}

// texts holds the parts of a choice that arrive in pieces. Adding to strings would copy them each time.
type texts struct {
	content, reasoning, refusal strings.Builder
	arguments                   []*strings.Builder
}

// write adds the next bytes of the stream. They may be cut anywhere. It fails if the completion is too long.
func (c *chunks) write(p []byte) error {
	if c.size > maxText {
		return errTooLong
	}
	c.pending = append(c.pending, p...)
	for {
		// A comment is a keep-alive and only counts as progress. It is one line, in front of an event.
		for bytes.HasPrefix(c.pending, []byte(":")) {
			_, rest, ended := bytes.Cut(c.pending, []byte("\n"))
			if !ended {
				return nil
			}
			c.pending = rest
			c.progress.note("")
		}
		event, rest, ended := bytes.Cut(c.pending, []byte("\n\n"))
		if !ended {
			return nil
		}
		c.pending = rest
		c.event(event)
		if c.size > maxText {
			c.pending = nil
			c.failure = objectOf(fault.New(fault.Unavailable, "The reply is longer than %d MiB, the maximum for a tool. Ask for less, or use the API.", maxText>>20))
			return errTooLong
		}
	}
}

// event handles one event.
func (c *chunks) event(event []byte) {
	data, ok := bytes.CutPrefix(event, []byte("data: "))
	if !ok {
		return
	}
	if string(data) == "[DONE]" {
		c.done = true
		return
	}
	// Everything but a comment and the end is one JSON object.
	var next chunk
	if json.Unmarshal(data, &next) != nil {
		return // our own stream is well formed; a lost chunk shows as a missing end
	}
	if next.Error != nil {
		c.failure = next.Error
		return
	}
	c.add(&next)
}

// add merges a chunk into the completion. The pieces of each choice, and of each of its tool calls,
// are concatenated by index.
func (c *chunks) add(next *chunk) {
	w := &c.whole
	w.ID, w.Object, w.Created, w.Model = next.ID, "chat.completion", next.Created, next.Model
	if next.Usage != nil {
		w.Usage = next.Usage
	}
	// Only the text of the first choice is reported as progress; several choices would be mixed up.
	text := ""
	for i := range next.Choices {
		piece := &next.Choices[i]
		// Indices of choices are contiguous, so appending up to the index is enough.
		for len(w.Choices) <= piece.Index {
			w.Choices = append(w.Choices, choice{Index: len(w.Choices), Message: content{Role: "assistant"}})
			c.texts = append(c.texts, &texts{})
		}
		to, t := &w.Choices[piece.Index], c.texts[piece.Index]
		if piece.FinishReason != "" {
			to.FinishReason = piece.FinishReason
		}
		if more := piece.Delta.Content; more != nil {
			// Content stays nil for a reply that only consists of tool calls.
			if to.Message.Content == nil {
				to.Message.Content = new(string)
			}
			t.content.WriteString(*more)
			c.size += len(*more)
			if piece.Index == 0 {
				text += *more
			}
		}
		t.reasoning.WriteString(piece.Delta.Reasoning)
		t.refusal.WriteString(piece.Delta.Refusal)
		c.size += len(piece.Delta.Reasoning) + len(piece.Delta.Refusal)
		for _, next := range piece.Delta.ToolCalls {
			for len(to.Message.ToolCalls) <= next.Index {
				to.Message.ToolCalls = append(to.Message.ToolCalls, toolCall{Type: "function"})
				t.arguments = append(t.arguments, &strings.Builder{})
			}
			call := &to.Message.ToolCalls[next.Index]
			// The first piece of a tool call names it. The others only continue its arguments.
			if next.ID != "" {
				call.ID, call.Function.Name = next.ID, next.Function.Name
			}
			t.arguments[next.Index].WriteString(next.Function.Arguments)
			c.size += len(next.Function.Arguments)
		}
	}
	c.progress.note(text)
}

// begun reports whether anything was streamed at all. An error before the stream is a plain JSON
// reply.
func (c *chunks) begun() bool { return c.whole.ID != "" || c.failure != nil }

// end returns the whole completion, or the error object that ended it. It returns nil for both if
// the stream broke off. It reports the remaining progress first.
func (c *chunks) end() (whole []byte, failure json.RawMessage) {
	c.progress.rest()
	if c.failure != nil || !c.done {
		return nil, c.failure
	}
	for i := range c.whole.Choices {
		m, t := &c.whole.Choices[i].Message, c.texts[i]
		// A reply without tool calls always has a text, even if it is empty.
		if m.Content != nil || len(m.ToolCalls) == 0 {
			m.Content = new(t.content.String())
		}
		m.Reasoning = t.reasoning.String()
		if t.refusal.Len() > 0 {
			m.Refusal = new(t.refusal.String())
		}
		for k, arguments := range t.arguments {
			m.ToolCalls[k].Function.Arguments = arguments.String()
		}
	}
	// The usage is passed on as the API wrote it.
	whole, err := json.Marshal(&c.whole)
	if err != nil {
		panic(err) // cannot happen: it was decoded from JSON
	}
	return whole, nil
}

// progressEvery is the minimum time between two progress notifications.
const progressEvery = 100 * time.Millisecond

// progress sends progress notifications to a client. The number grows with every event, and the
// messages are the pieces of the reply's text, in order and without gaps.
type progress struct {
	ctx     context.Context //nolint:containedctx // that of the one call it reports on
	session *mcp.ServerSession
	token   any
	now     func() time.Time

	events int
	text   string    // text that has not been reported yet
	told   time.Time // when the client was last notified
}

// note counts an event, and notifies the client unless it was notified just now.
func (p *progress) note(text string) {
	p.events++
	p.text += text
	// Text that is not sent now is sent with a later event, or by rest.
	if now := p.now(); now.Sub(p.told) >= progressEvery {
		p.told = now
		p.tell()
	}
}

// rest reports the text that has not been reported yet.
func (p *progress) rest() {
	if p.text != "" {
		p.events++
		p.tell()
	}
}

// tell sends one notification with the text that is waiting.
func (p *progress) tell() {
	// An error is ignored: a client that has left ends the call through its context.
	_ = p.session.NotifyProgress(p.ctx, &mcp.ProgressNotificationParams{ProgressToken: p.token, Progress: float64(p.events), Message: p.text})
	p.text = ""
}
