// Package relay hands an upstream's reply to the caller, event by event.
//
// An event of the OpenAI dialect that has the usual shape is scanned once and never decoded: it goes
// out as a prepared head and the upstream's own bytes. Any other event is decoded into
// provider events and encoded again. The choice is made for each event (pattern.go, shape.go). Both ways
// keep the rules of docs/api.md#streams, whatever the upstream does. A reply that broke off never looks complete.
// For a door that is not chat completions a Dialect writes all events; of those of the usual shape it gets the texts, as the
// upstream has spelled them (dialect.go).
//
// This package does not call upstreams and does not account for anything: package inference opens the
// reply, and settles the call between Relay and Finish.
//
// Start reading with Sender, the order of one reply; then streamer and collector, its two forms;
// then shape, which decides which bytes may pass as they are.
package relay

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/kit/jsonscan"
	"sluice/internal/kit/pulse"
	"sluice/internal/ledger/price"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// keepAlive is how long a stream may be silent before the caller gets a comment (docs/api.md#streams). Without
// comments, proxies between us and the caller close a connection while the model is still thinking.
const keepAlive = 15 * time.Second

// ErrGone means that the caller hung up: nobody is left to answer.
var ErrGone = errors.New("the caller hung up")

// ErrStopping is the cause with which the context of a call is canceled when the server stops and the time for
// running calls is over. The caller is still there and is told; it did not hang up.
var ErrStopping = errors.New("the server is stopping")

// Ended returns why a call whose context is done ends: a fault if the server is stopping, which the caller can
// still be told, and else ErrGone. The fault is a new one each time: faults must not be shared.
func Ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ErrStopping) {
		return fault.New(fault.Unavailable, "The server is being restarted and could not finish the reply. Try again.").After(time.Second).Because(cause)
	}
	return errors.Join(ErrGone, cause)
}

// ErrTold means that the reply failed after it had begun, and that an error event inside the stream has
// told the caller.
var ErrTold = errors.New("the reply failed after it had begun")

// Head is what every reply and every chunk begins with.
type Head struct {
	RequestID string
	Created   int64  // Unix seconds
	Model     string // the catalog id of the model that answers; Introduce may set it later
	Tier      string // the upstream's service tier, a result of provider.TierOf; empty: not known, or not yet
}

// Options are what the caller wants of the reply.
type Options struct {
	Stream       bool         // server-sent events, else one JSON body
	N            int          // the number of choices; 0 counts as 1
	IncludeUsage bool         // a stream ends with a usage chunk
	Pulse        *pulse.Pulse // notices silence; nil: a stream gets no keep-alive comments
	Dialect      Dialect      // of the door; nil: chat completions. It has one choice
	// Sign is called by Finish, once, with the hash of all bytes of the reply but comments, before the last of them are sent. It returns the
	// receipt, which goes out as a header, or at the end of a stream as a comment; empty: there is none. The hash is nil if
	// nothing of a reply is sent. Nil: the reply has no receipt.
	Sign func(reply *[sha256.Size]byte) string
}

// Sender hands one reply to its caller, as a stream or in one piece. One goroutine calls its methods, in
// this order:
//
//	out := relay.New(w, head, opts)   // keep-alive comments may go out from now on
//	defer out.Close()
//	out.Introduce(answering)          // optional
//	outcome := out.Relay(ctx, reply)  // or out.Fail(ctx, err): there is no reply
//	…                                 // settle the call by its outcome
//	return out.Finish()               // the last byte
type Sender interface {
	// Introduce calls answers with the headers of the reply. Answers sets headers and returns the id of
	// the model that answers. Headers that are set after a keep-alive comment do not go out.
	Introduce(answers func(http.Header) (model string))
	// Relay reads the reply to its end and sends everything but its last bytes. The outcome belongs to the
	// sender. The caller may set its Usage before Finish, for an upstream that gave no figures, and its Cost.
	Relay(ctx context.Context, in provider.Stream) *Outcome
	// Fail ends a reply that never began, in the place of Relay.
	Fail(ctx context.Context, err error) *Outcome
	// Finish sends the last bytes: the tail of the reply, or an error event. It returns nil for a complete
	// reply; an error that is ErrGone or ErrTold if there is nothing left to say; else a fault, and nothing
	// has been sent.
	Finish() error
	// Close frees what the sender holds. When it returns, no keep-alive comment is being written.
	Close()
}

// New returns the sender of one reply. If opts.Stream is set, keep-alive comments start with it, so make
// it just before waiting for the upstream. An interface is returned because the two forms share nothing
// but the state in reply.
func New(w http.ResponseWriter, h Head, opts Options) Sender {
	if opts.Stream {
		return newStreamer(w, h, &opts)
	}
	return newCollector(w, h, &opts)
}

// Outcome is what became of a reply.
type Outcome struct {
	Usage    chat.Usage
	HasUsage bool // the upstream gave the figures
	Finish   chat.Finish
	Tier     string // that of the Head
	Complete bool
	Begun    bool // the caller got something, if only a comment
	// FirstContent is when the first text, reasoning or call arrived; zero: never.
	FirstContent time.Time
	// Cost is what the caller is told that the call costs, and TellCost says that the usage tells it. Who settles the call sets
	// both before Finish. Cost is nil if the price is not known.
	Cost     *price.Nano
	TellCost bool
	// Choices is how many choices came whole, if the upstream gave fewer than the request asked for; otherwise 0.
	Choices int
	// Err is why the reply is not complete: an error that is ErrGone, or a fault; nil if it is complete.
	Err error

	text      produced
	reasoning produced
}

// Empty reports whether the call failed before anything was produced or sent. Finish then returns Err, and
// the caller gets an ordinary error response.
func (o *Outcome) Empty() bool {
	return !o.Complete && !o.Begun && o.FirstContent.IsZero() && !errors.Is(o.Err, ErrGone)
}

// Produced returns what the model wrote, to be counted if the upstream gave no figures: the text with
// the tool calls, and the reasoning. More is the number of bytes beyond the bound of what is kept.
func (o *Outcome) Produced() (text, reasoning string, more int) {
	t, extraText := o.text.String()
	r, extraReasoning := o.reasoning.String()
	return t, r, extraText + extraReasoning
}

// AppendCost adds the cost to the usage object that b ends with, if the usage tells it.
func (o *Outcome) AppendCost(b []byte) []byte {
	if !o.TellCost {
		return b
	}
	if b = b[:len(b)-1]; b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	b = append(b, `"cost":`...)
	if o.Cost == nil {
		return append(b, "null}"...)
	}
	return append(o.Cost.AppendJSON(b), '}')
}

// maxProduced is the number of bytes of a text that are kept for counting. Longer replies are rare and
// their rest is estimated, so that one reply cannot hold much memory.
const maxProduced = 256 << 10

// produced collects the insides of JSON strings. Joined, they are the inside of one JSON string again, so
// they need no decoding until somebody wants to count them.
type produced struct {
	raw  []byte
	more int // bytes that were not kept
}

// add adds a copy of the inside of a string, or only its length once there is too much.
func (p *produced) add(raw []byte) {
	if len(p.raw)+len(raw) > maxProduced {
		p.more += len(raw)
		return
	}
	if p.raw == nil && len(raw) > 0 {
		p.raw = make([]byte, 0, max(len(raw), 512)) // a short reply, instead of growing to it in steps
	}
	p.raw = append(p.raw, raw...)
}

// only adds the inside of a string without a copy if it is the first. The bytes must not change any more.
func (p *produced) only(raw []byte) {
	if len(p.raw) > 0 || len(raw) > maxProduced {
		p.add(raw)
		return
	}
	p.raw = raw[:len(raw):len(raw)] // no capacity left: a later add must not write into the upstream's buffer
}

// String returns the decoded text, and the number of bytes that were not kept.
func (p *produced) String() (string, int) {
	quoted := make([]byte, 0, len(p.raw)+2)
	quoted = append(append(append(quoted, '"'), p.raw...), '"')
	return jsonscan.Unquote(quoted), p.more
}

// reply is the state of one reply, which streamer and collector share.
type reply struct {
	head    Head
	n       int // the number of choices, at least 1
	outcome Outcome
	choices []choice // n of them
	decoder provider.Decoder
	spoken  *spoken // nil: the reply is a chat completion
}

// choice is one of the n replies.
// A finished choice stays finished: upstreams that continue after a finish reason are not believed.
type choice struct {
	begun    bool // something of it has arrived; of a stream, its role has been sent
	finished bool // it has its finish reason: whatever follows is dropped
	finish   chat.Finish
	calls    []call
}

// call is the part of a tool call that has arrived.
type call struct {
	id, name  string
	arguments []byte // the inside of a JSON string; only the collector keeps it
	some      bool   // arguments have arrived
	custom    bool   // it calls a custom tool, whose input is plain text
}

// newReply returns the state at the beginning of a reply.
func newReply(h Head, opts *Options) reply {
	n := max(opts.N, 1)
	r := reply{head: h, n: n, choices: make([]choice, n)}
	if opts.Dialect != nil {
		r.spoken = &spoken{dialect: opts.Dialect}
	}
	return r
}

// choice returns the state of a choice; nil for an index beyond n, which some upstreams send.
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

// Teller is implemented by a stream that knows how the refusals of its upstream are told to the caller. Its Next tells
// them itself; those that are found only when an event is decoded are passed to Told.
type Teller interface{ Told(err error) error }

// told returns the error of an event of the stream as the caller is told it.
func told(in provider.Stream, err error) error {
	if t, ok := in.(Teller); ok {
		return t.Told(err)
	}
	return err
}

// failure returns the fault of a reply that ended with err before it was complete. If some choices came whole and nothing
// of the others, the upstream does not know n, and the caller must ask for one (docs/api.md#chat-completion-request).
// A choice that has begun and not ended makes the sum negative, so that a broken reply is never
// blamed on n.
func (r *reply) failure(err error) *fault.Fault {
	whole := 0
	for i := range r.choices {
		switch c := &r.choices[i]; {
		case c.finished:
			whole++
		case c.begun || len(c.calls) > 0:
			whole -= len(r.choices) // it broke off
		}
	}
	if whole <= 0 || !errors.Is(err, io.EOF) {
		return fault.From(failure(err))
	}
	r.outcome.Choices = whole
	return fault.New(fault.Invalid, "This model gave %d of the %d replies that n asks for, and does not give more. Set n to %[1]d, or leave it out.", whole, r.n).At("n")
}

// content records the time of the first text, reasoning or call.
func (r *reply) content() {
	if r.outcome.FirstContent.IsZero() {
		r.outcome.FirstContent = time.Now()
	}
}

// usage records the upstream's figures. Later ones replace earlier ones: some upstreams send running totals.
func (r *reply) usage(u chat.Usage) { r.outcome.Usage, r.outcome.HasUsage = u, true }

// tier records the upstream's service tier. It reports whether that is news.
func (r *reply) tier(tier string) bool {
	if tier == "" || tier == r.head.Tier {
		return false
	}
	r.head.Tier, r.outcome.Tier = tier, tier
	return true
}

// finish ends a choice. The reason of a normal end follows from the calls: tool_calls if there are any, else
// stop. Some upstreams say stop after calls, and clients would then not run them.
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

// piece adds a piece to a call and returns it in the form in which it goes out: the first piece of a call
// has an id and a name, the others have neither. It reports false for an index that skips a call; such a
// piece is dropped, since clients index arrays by it.
//
// Whether a call is custom is decided by its first piece.
func (r *reply) piece(choiceIndex int, c *choice, p provider.ToolPiece) (provider.ToolPiece, bool) {
	if p.Index < 0 || p.Index > len(c.calls) || p.Index >= maxCalls {
		return p, false
	}
	if p.Index == len(c.calls) {
		if p.ID == "" { // clients need an id to answer the call
			p.ID = provider.CallID(r.head.RequestID, choiceIndex*maxCalls+p.Index)
		}
		c.calls = append(c.calls, call{id: p.ID, name: p.Name, custom: p.Custom})
		// The name counts as produced text: the model has written it.
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

// maxCalls is the number of tool calls of one choice. It bounds memory, and keeps the ids of different
// choices apart.
const maxCalls = 1024

// failure returns the error that is reported for a reply that ended early. An upstream that just ends is
// one that was cut off.
func failure(err error) error {
	if errors.Is(err, io.EOF) {
		return provider.Cut(io.ErrUnexpectedEOF)
	}
	return err
}

// buffers holds the buffers in which output is collected before it is written.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 2<<10); return &b }}

// maxPooled is the largest buffer that is reused. One huge reply must not keep its memory for ever.
const maxPooled = 64 << 10

// putBuffer returns a buffer to the pool. P is what Get returned, b what it has grown to.
func putBuffer(p *[]byte, b []byte) {
	if cap(b) <= maxPooled {
		*p = b[:0]
		buffers.Put(p)
	}
}
