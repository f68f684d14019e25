package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// completion is a chat completion (docs/api.md#chat-completion-response).
type completion struct {
	ID      string          `json:"id"`
	Object  string          `json:"object"`
	Created int64           `json:"created"`
	Model   string          `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   json.RawMessage `json:"usage,omitempty"`
}

type choice struct {
	Index        int     `json:"index"`
	Message      content `json:"message"`
	FinishReason string  `json:"finish_reason"`
}

type content struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"`
	Reasoning string     `json:"reasoning_content,omitempty"`
	ToolCalls []toolCall `json:"tool_calls,omitempty"`
}

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

// chunks puts a streamed completion together and reports its progress.
type chunks struct {
	progress *progress
	pending  []byte // of an event whose end has not come
	whole    completion
	failure  json.RawMessage // what ended the stream too early
	done     bool
}

// write takes the next bytes of the stream.
func (c *chunks) write(p []byte) {
	c.pending = append(c.pending, p...)
	for {
		event, rest, ended := bytes.Cut(c.pending, []byte("\n\n"))
		if !ended {
			return
		}
		c.pending = rest
		c.event(event)
	}
}

// event takes one event. A comment means that the call is alive.
func (c *chunks) event(event []byte) {
	data, ok := bytes.CutPrefix(event, []byte("data: "))
	if !ok {
		c.progress.note("")
		return
	}
	if string(data) == "[DONE]" {
		c.done = true
		return
	}
	var next chunk
	if json.Unmarshal(data, &next) != nil {
		return // our own stream is well formed; an end is missed in any case
	}
	if next.Error != nil {
		c.failure = next.Error
		return
	}
	c.add(&next)
}

func (c *chunks) add(next *chunk) {
	w := &c.whole
	w.ID, w.Object, w.Created, w.Model = next.ID, "chat.completion", next.Created, next.Model
	if next.Usage != nil {
		w.Usage = next.Usage
	}
	text := ""
	for i := range next.Choices {
		piece := &next.Choices[i]
		for len(w.Choices) <= piece.Index {
			w.Choices = append(w.Choices, choice{Index: len(w.Choices), Message: content{Role: "assistant"}})
		}
		to := &w.Choices[piece.Index]
		if piece.FinishReason != "" {
			to.FinishReason = piece.FinishReason
		}
		if more := piece.Delta.Content; more != nil {
			if to.Message.Content == nil {
				to.Message.Content = new(string)
			}
			*to.Message.Content += *more
			if piece.Index == 0 {
				text += *more
			}
		}
		to.Message.Reasoning += piece.Delta.Reasoning
		for _, t := range piece.Delta.ToolCalls {
			for len(to.Message.ToolCalls) <= t.Index {
				to.Message.ToolCalls = append(to.Message.ToolCalls, toolCall{Type: "function"})
			}
			call := &to.Message.ToolCalls[t.Index]
			if t.ID != "" {
				call.ID, call.Function.Name = t.ID, t.Function.Name
			}
			call.Function.Arguments += t.Function.Arguments
		}
	}
	c.progress.note(text)
}

// begun reports whether there was a stream at all.
func (c *chunks) begun() bool { return c.whole.ID != "" || c.failure != nil }

// end is the whole completion, or the error object that it ended with; nil for both: it broke off.
func (c *chunks) end() (whole []byte, failure json.RawMessage) {
	c.progress.rest()
	if c.failure != nil || !c.done {
		return nil, c.failure
	}
	for i := range c.whole.Choices {
		// A reply without calls has a text, be it empty.
		if m := &c.whole.Choices[i].Message; m.Content == nil && len(m.ToolCalls) == 0 {
			m.Content = new(string)
		}
	}
	whole, err := json.Marshal(&c.whole)
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	return whole, nil
}

// progressEvery is how often a client is told of progress at most.
const progressEvery = 100 * time.Millisecond

// progress tells a client how a call gets on: the number grows with every event, and the messages are
// the reply's text, piece by piece.
type progress struct {
	ctx     context.Context //nolint:containedctx // that of the one call it reports on
	session *mcp.ServerSession
	token   any
	now     func() time.Time

	events int
	text   string // that has not been told
	told   time.Time
}

// note counts an event, and tells of it unless the client was told just now.
func (p *progress) note(text string) {
	p.events++
	p.text += text
	if now := p.now(); now.Sub(p.told) >= progressEvery {
		p.told = now
		p.tell()
	}
}

// rest tells what is left.
func (p *progress) rest() {
	if p.text != "" {
		p.events++
		p.tell()
	}
}

func (p *progress) tell() {
	// A client that is gone ends the call by its context.
	_ = p.session.NotifyProgress(p.ctx, &mcp.ProgressNotificationParams{ProgressToken: p.token, Progress: float64(p.events), Message: p.text})
	p.text = ""
}
