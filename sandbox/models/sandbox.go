// Package models is the built-in models. They are openly a sandbox, like the test mode of a payment provider.
//
// A reply is computed from the request alone: arithmetic, counting, sorting, quoting, recalling what was said,
// calling tools, filling schemas. Equal requests get equal replies, streamed or not. Token counts, limits, stop
// sequences and finish reasons behave like those of a real model. Directives in the last message, such as
// [[sandbox:error=503]], make failures happen on demand. Nothing here knows anything about the world: if no skill
// fits, the reply says so.
//
// The directives are:
//
//	[[sandbox:error=503]]          fail with a status
//	[[sandbox:delay=2s]]           wait before the reply
//	[[sandbox:chunk_delay=50ms]]   wait before each event of a stream
//	[[sandbox:tokens=200]]         reply with this many tokens
//	[[sandbox:cut=3]]              break off after this many events
//	[[sandbox:call=f {"a":1}]]     call a tool of the request
//
// To read the code, follow Open: prompt.go takes the request apart, skills.go and tools.go compute the reply,
// evidence.go and words.go find values in a text, and schema.go shapes them as JSON. Which models there are is up to
// package catalog.
package models

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/kit/pace"
	"sluice/internal/prompt/chat"
	"sluice/internal/prompt/tokens"
	"sluice/internal/upstream/provider"
)

// Adapter answers calls in process. It implements provider.Adapter. Call.Upstream is the style of the replies:
// "large" and "reasoner" answer in sentences, every other name with the bare result.
type Adapter struct{}

// New returns the adapter.
func New() *Adapter { return &Adapter{} }

// Open implements provider.Adapter. It computes the whole reply, even if it is streamed; the stream hands it out
// token by token. What a limit or a stop sequence cuts off is cut here, so that the usage is exact.
func (*Adapter) Open(ctx context.Context, call *provider.Call) (provider.Stream, error) {
	call.Dropped = nil
	if err := call.Plain(); err != nil {
		return nil, err
	}
	drop(call)
	if err := checkSchemas(call.Request); err != nil {
		return nil, err
	}
	p, err := read(call)
	if err != nil {
		return nil, err
	}
	if p.orders.status != 0 { // a delay counts before a failure, too
		return nil, cmp.Or(wait(ctx, p.orders.delay), error(p.orders.failure()))
	}
	s := &stream{ctx: ctx, orders: p.orders, due: time.Now().Add(p.orders.delay)}
	s.left = cmp.Or(call.Limit(), math.MaxInt)
	r, finish, usage := p.reply(), chat.FinishStop, chat.Usage{Prompt: p.tokens}
	if call.Thinks {
		usage.Reasoning = s.add(provider.Event{Kind: provider.Reasoning}, tokens.Split(p.reasoning(r)))
	}
	for i, c := range r.calls {
		// Ids are made of the request, so that equal requests get equal replies.
		id := sha256.Sum256(append(p.digest[:], byte(i), byte(i>>8)))
		opening := provider.ToolPiece{Index: i, ID: "call_" + hex.EncodeToString(id[:12]), Name: c.Name}
		usage.Completion += s.add(provider.Event{Kind: provider.ToolCall, Tool: opening}, []tokens.Piece{{Tokens: tokens.Count(c.Name)}})
		usage.Completion += s.add(provider.Event{Kind: provider.ToolCall, Tool: provider.ToolPiece{Index: i}}, tokens.Split(c.Arguments))
		finish = chat.FinishToolCalls
	}
	var rest *provider.Rest
	for _, stop := range call.Request.Stop {
		var stopped bool
		if r.text, _, stopped = strings.Cut(r.text, stop); stopped {
			rest = &provider.Rest{Stop: stop}
		}
	}
	usage.Completion += s.add(provider.Event{Kind: provider.Text}, tokens.Split(r.text))
	if s.left < 0 { // a piece did not fit
		finish = chat.FinishLength
	}
	s.events = append(s.events, provider.Event{Kind: provider.Finish, Finish: finish, Rest: rest}, provider.Event{Kind: provider.Usage, Usage: usage})
	return s, nil
}

// drop notes the fields that make no difference to a computed reply.
func drop(call *provider.Call) {
	if p := call.Request.TopP; p != nil && *p != 1 {
		call.Omit("top_p")
	}
	call.Drop("frequency_penalty", "presence_penalty", "user")
	if !call.Thinks {
		call.DropEffort()
	}
	call.DropUnread()
	call.DropMarks()
}

// maxSchema bounds a schema, in bytes. Other models get their schemas undecoded; here one is decoded in our own
// memory, and takes up to ten times its size if its elements are small.
const maxSchema = 256 << 10

// checkSchemas refuses a request with a schema that is too large, of the format or of a tool.
func checkSchemas(req *chat.Request) error {
	at := ""
	if len(req.Format.Schema) > maxSchema {
		at = "response_format.json_schema.schema"
	}
	for i := range req.Tools {
		if f := req.Tools[i].Function; f != nil && len(f.Parameters) > maxSchema {
			at = fmt.Sprintf("tools[%d].function.parameters", i)
		}
	}
	if at == "" {
		return nil
	}
	return fault.New(fault.Invalid, "%s is larger than %d KiB, the most that a sandbox model takes.", at, maxSchema>>10).At(at)
}

// stream hands out a reply that is already computed, one token at a time.
type stream struct {
	ctx    context.Context
	orders directives
	left   int              // the tokens that may still be added; negative once a piece did not fit
	events []provider.Event // the whole reply; the last two are the finish and the usage
	sent   int              // how many of them have been handed out
	due    time.Time        // when the next event may be handed out
}

// add appends a copy of event for each piece of a text, as far as the limit allows, and returns the tokens that
// they cost. After the first piece that does not fit, nothing is added any more.
func (s *stream) add(event provider.Event, pieces []tokens.Piece) (cost int) {
	for _, piece := range pieces {
		if s.left < piece.Tokens {
			s.left = -1
			break
		}
		s.left -= piece.Tokens
		cost += piece.Tokens
		event.Text, event.Tool.Arguments = piece.Text, piece.Text // the event's kind says which one counts
		s.events = append(s.events, event)
	}
	return cost
}

// Next implements provider.Stream. It waits for the delays that directives ask for, and breaks off where one says
// so.
func (s *stream) Next() (*provider.Event, error) {
	if err := wait(s.ctx, time.Until(s.due)); err != nil {
		return nil, err
	}
	content := len(s.events) - 2
	switch {
	case s.sent == s.orders.cut && s.sent <= content:
		return nil, fault.New(fault.Unavailable, "The upstream broke off before the reply was complete. Try again.").After(time.Second).Because(provider.ErrWanted)
	case s.sent == len(s.events):
		return nil, io.EOF
	}
	if s.sent++; s.sent < content {
		s.due = time.Now().Add(s.orders.chunkDelay)
	}
	return &s.events[s.sent-1], nil
}

// Ready implements provider.Stream: it reports whether no delay is pending.
func (s *stream) Ready() bool { return !time.Now().Before(s.due) }

// Close implements provider.Stream. There is nothing to free.
func (s *stream) Close() error { return nil }

// wait waits for d. It returns a fault as soon as ctx is done.
func wait(ctx context.Context, d time.Duration) error {
	if d > 0 {
		_ = pace.Sleep(ctx, d) // the error is that of ctx
	}
	if err := ctx.Err(); err != nil {
		return fault.New(fault.Unavailable, "The call was canceled before the reply was complete.").Because(err)
	}
	return nil
}
