// Package relay hands an upstream's reply on to the caller, event by event.
//
// An event of the OpenAI dialect that has the usual shape is scanned once and never decoded: it goes
// out as a prepared head and the upstream's own bytes. Any other event is decoded into
// provider events and written anew; which way is chosen for each event. Both ways keep the rules of
// docs/api.md#streams, whatever the upstream does. A reply that broke off is never made to look complete.
package relay

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"sluice/internal/chat"
	"sluice/internal/jsonscan"
	"sluice/internal/provider"
	"sluice/internal/pulse"
)

// keepAlive is how long a stream may be silent before the caller gets a comment.
const keepAlive = 15 * time.Second

// ErrGone means that the caller hung up.
var ErrGone = errors.New("the caller hung up")

// ErrTold means that the reply failed after it had begun, and that the caller has been told so inside it.
var ErrTold = errors.New("the reply failed after it had begun")

// Head is what every reply and chunk begins with.
type Head struct {
	RequestID string
	Created   int64
	Model     string // the catalog id of the model that answers
}

// Options say how the caller wants the reply.
type Options struct {
	N            int  // how many choices were asked for
	IncludeUsage bool // a stream ends with a usage chunk
	Pulse        *pulse.Pulse
	// Answers, where given, is asked once something has come which model answers, in the place of
	// Head.Model; it may set headers, which go out unless a comment has gone out before.
	Answers func(http.Header) string
	// Settle is told what the reply came to, before its last byte goes out, in success and failure
	// alike; not where the upstream produced nothing and Stream or Collect returns a plain fault.
	Settle func(*Outcome)
}

// Outcome is what a reply came to.
type Outcome struct {
	Usage    chat.Usage
	HasUsage bool // the upstream gave the figures
	Finish   chat.Finish
	Complete bool
	Begun    bool // the caller has got something, if only a comment
	// FirstContent is when the first text, reasoning or call arrived; zero: never.
	FirstContent time.Time
	// Err is why it is not complete.
	Err error

	text      produced
	reasoning produced
}

// Produced is what the model wrote, for counting where the upstream gave no figures: its text with
// the calls it made, and its reasoning. The bytes beyond a bound are only numbered.
func (o *Outcome) Produced() (text, reasoning string, more int) {
	t, extraText := o.text.String()
	r, extraReasoning := o.reasoning.String()
	return t, r, extraText + extraReasoning
}

// maxProduced bounds what is kept of a text for counting.
const maxProduced = 256 << 10

// produced collects the insides of JSON strings: one after the other they are again one.
type produced struct {
	raw  []byte
	more int
}

func (p *produced) add(raw []byte) {
	if len(p.raw)+len(raw) > maxProduced {
		p.more += len(raw)
		return
	}
	p.raw = append(p.raw, raw...)
}

// only takes over the inside of a single string, which must not change any more, without a copy.
func (p *produced) only(raw []byte) {
	if len(p.raw) > 0 || len(raw) > maxProduced {
		p.add(raw)
		return
	}
	p.raw = raw[:len(raw):len(raw)]
}

func (p *produced) String() (string, int) {
	quoted := make([]byte, 0, len(p.raw)+2)
	quoted = append(append(append(quoted, '"'), p.raw...), '"')
	return jsonscan.Unquote(quoted), p.more
}

// reply is the state of one reply while it is handed on, streamed or collected.
type reply struct {
	head    Head
	n       int
	outcome *Outcome
	choices []choice
	decoder provider.Decoder
}

// choice is one of the n replies.
type choice struct {
	begun    bool
	finished bool
	finish   chat.Finish
	calls    []call
}

// call is a tool call as far as it has come.
type call struct {
	id, name  string
	arguments []byte // kept where the reply is collected
	some      bool   // any arguments at all
	custom    bool   // of a custom tool
}

func newReply(h Head, n int) reply {
	n = max(n, 1)
	return reply{head: h, n: n, outcome: &Outcome{}, choices: make([]choice, n)}
}

// choice returns the state of a choice; nil for one that was not asked for.
func (r *reply) choice(i int) *choice {
	if i < 0 || i >= len(r.choices) {
		return nil
	}
	return &r.choices[i]
}

// complete reports whether every choice has its finish reason.
func (r *reply) complete() bool {
	for i := range r.choices {
		if !r.choices[i].finished {
			return false
		}
	}
	return true
}

// content notes that something of substance arrived.
func (r *reply) content() {
	if r.outcome.FirstContent.IsZero() {
		r.outcome.FirstContent = time.Now()
	}
}

// usage takes the upstream's figures.
func (r *reply) usage(u chat.Usage) { r.outcome.Usage, r.outcome.HasUsage = u, true }

// finish ends a choice. Calls make it tool_calls, whatever the upstream says of a normal end.
func (r *reply) finish(c *choice, f chat.Finish) {
	if f == chat.FinishStop && len(c.calls) > 0 {
		f = chat.FinishToolCalls
	}
	if f == chat.FinishToolCalls && len(c.calls) == 0 {
		f = chat.FinishStop
	}
	c.finished, c.finish = true, f
	r.outcome.Finish = f
}

// piece adds a piece to a call and returns it in the form it goes out in: id and name with the first
// piece alone, and never without.
func (r *reply) piece(choiceIndex int, c *choice, p provider.ToolPiece) (provider.ToolPiece, bool) {
	if p.Index < 0 || p.Index > len(c.calls) || p.Index >= maxCalls {
		return p, false
	}
	if p.Index == len(c.calls) {
		if p.ID == "" {
			p.ID = provider.CallID(r.head.RequestID, choiceIndex*maxCalls+p.Index)
		}
		c.calls = append(c.calls, call{id: p.ID, name: p.Name, custom: p.Custom})
		quoted := jsonscan.AppendQuoted(nil, p.Name)
		r.outcome.text.add(quoted[1 : len(quoted)-1])
	} else {
		p.ID, p.Name = "", ""
	}
	k := &c.calls[p.Index]
	k.some = k.some || p.Arguments != ""
	p.Custom = k.custom
	return p, true
}

const maxCalls = 1024

// failure makes the reason why a stream ended early into what is told of it.
func failure(err error) error {
	if errors.Is(err, io.EOF) {
		return provider.Cut(io.ErrUnexpectedEOF)
	}
	return err
}

// buffers are where events are put together before they are written.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 2<<10); return &b }}

const maxPooled = 64 << 10

func putBuffer(p *[]byte, b []byte) {
	if cap(b) <= maxPooled {
		*p = b[:0]
		buffers.Put(p)
	}
}
