// Package sandbox is the built-in models: openly a sandbox, like the test mode of a payment provider.
//
// A reply is computed from the request alone: arithmetic, counting, sorting, quoting, recalling what
// was said, calling tools, filling schemas. Equal requests get equal replies, streamed or not. Token
// counts, limits, stop sequences and finish reasons are those of a real model, and directives in the
// last message ([[sandbox:error=503]]) make failures happen on demand. Nothing here knows the world:
// where no skill fits, the reply says so. Which models there are is the catalog's matter.
package sandbox

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

	"sluice/internal/chat"
	"sluice/internal/fault"
	"sluice/internal/provider"
	"sluice/internal/tokens"
)

// Adapter answers calls in process. Call.Upstream is the manner of speaking: "large" and "reasoner"
// answer in sentences, every other name tersely.
type Adapter struct{}

// New returns the adapter.
func New() *Adapter { return &Adapter{} }

// Open computes the whole reply; the stream only hands it out.
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
	if p.orders.status != 0 {
		return nil, cmp.Or(wait(ctx, p.orders.delay), error(p.orders.failure()))
	}
	s := &stream{ctx: ctx, orders: p.orders, due: time.Now().Add(p.orders.delay)}
	s.left = cmp.Or(call.Limit(), math.MaxInt)
	r, finish, usage := p.reply(), chat.FinishStop, chat.Usage{Prompt: p.tokens}
	if call.Thinks {
		usage.Reasoning = s.add(provider.Event{Kind: provider.Reasoning}, tokens.Split(p.reasoning(r)))
	}
	for i, c := range r.calls {
		id := sha256.Sum256(append(p.digest[:], byte(i), byte(i>>8)))
		opening := provider.ToolPiece{Index: i, ID: "call_" + hex.EncodeToString(id[:12]), Name: c.Name}
		usage.Completion += s.add(provider.Event{Kind: provider.ToolCall, Tool: opening}, []tokens.Piece{{Tokens: tokens.Count(c.Name)}})
		usage.Completion += s.add(provider.Event{Kind: provider.ToolCall, Tool: provider.ToolPiece{Index: i}}, tokens.Split(c.Arguments))
		finish = chat.FinishToolCalls
	}
	for _, stop := range call.Request.Stop {
		r.text, _, _ = strings.Cut(r.text, stop)
	}
	usage.Completion += s.add(provider.Event{Kind: provider.Text}, tokens.Split(r.text))
	if s.left < 0 {
		finish = chat.FinishLength
	}
	s.events = append(s.events, provider.Event{Kind: provider.Finish, Finish: finish}, provider.Event{Kind: provider.Usage, Usage: usage})
	return s, nil
}

// drop notes what makes no difference here.
func drop(call *provider.Call) {
	if p := call.Request.TopP; p != nil && *p != 1 {
		call.Omit("top_p")
	}
	call.Drop("frequency_penalty", "presence_penalty", "user")
	if !call.Thinks {
		call.DropEffort()
	}
	call.DropUnread()
}

// maxSchema bounds a schema. Those of other models are not decoded here; one of a few bytes an element takes
// ten times its size.
const maxSchema = 256 << 10

// checkSchemas refuses schemas that are too large.
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

// stream hands a finished reply out, a token at a time.
type stream struct {
	ctx    context.Context
	orders directives
	left   int // tokens that may still be added; negative once one was refused
	events []provider.Event
	sent   int
	due    time.Time // when the next event may leave
}

// add appends an event for each piece of a text, as far as the allowance goes, and returns the cost.
func (s *stream) add(event provider.Event, pieces []tokens.Piece) (cost int) {
	for _, piece := range pieces {
		if s.left < piece.Tokens {
			s.left = -1
			break
		}
		s.left -= piece.Tokens
		cost += piece.Tokens
		event.Text, event.Tool.Arguments = piece.Text, piece.Text // the kind says which one counts
		s.events = append(s.events, event)
	}
	return cost
}

// Next returns the next event: the content, then the finish and the usage.
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

// Ready reports whether no delay is due.
func (s *stream) Ready() bool { return !time.Now().Before(s.due) }

// Close has nothing to free.
func (s *stream) Close() error { return nil }

// wait sleeps, or returns a fault as soon as ctx is done.
func wait(ctx context.Context, d time.Duration) error {
	if d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	if err := ctx.Err(); err != nil {
		return fault.New(fault.Unavailable, "The call was ended before the reply was complete.").Because(err)
	}
	return nil
}
