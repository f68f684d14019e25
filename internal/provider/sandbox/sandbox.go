// Package sandbox is the built-in models: openly a sandbox, like the test mode of a payment provider.
//
// A reply is computed from the request alone: arithmetic, counting, sorting, quoting, recalling what
// was said, calling tools, filling schemas. Equal requests get equal replies, streamed or not. Token
// counts, limits, stop sequences and finish reasons are those of a real model, and directives in the
// last message ([[sandbox:error=503]]) make failures happen on demand. Nothing here knows the world:
// where no skill fits, the reply says so. Which models there are is the catalog's matter.
package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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
	p, err := read(call)
	if err != nil {
		return nil, err
	}
	if p.orders.status != 0 {
		if err := wait(ctx, p.orders.delay); err != nil {
			return nil, err
		}
		return nil, p.orders.failure()
	}
	s := &stream{ctx: ctx, cut: p.orders.cut, chunkDelay: p.orders.chunkDelay, finish: chat.FinishStop, left: math.MaxInt}
	if p.orders.delay > 0 {
		s.due = time.Now().Add(p.orders.delay)
	}
	for _, bound := range []int{call.MaxOutput, call.Request.MaxTokens} {
		if bound > 0 {
			s.left = min(s.left, bound)
		}
	}
	r := p.reply()
	s.usage.Prompt = p.tokens
	if call.Thinks {
		s.usage.Reasoning = s.add(provider.Reasoning, 0, p.reasoning(r))
	}
	for i, c := range r.calls {
		id := sha256.Sum256(append(p.digest[:], byte(i), byte(i>>8)))
		s.usage.Completion += s.begin(i, "call_"+hex.EncodeToString(id[:12]), c.Name)
		s.usage.Completion += s.add(provider.ToolCall, i, c.Arguments)
		s.finish = chat.FinishToolCalls
	}
	s.usage.Completion += s.add(provider.Text, 0, until(r.text, call.Request.Stop))
	if s.left < 0 {
		s.finish = chat.FinishLength
	}
	return s, nil
}

// until is the text before the first stop sequence.
func until(text string, stops []string) string {
	for _, stop := range stops {
		if stop != "" {
			text, _, _ = strings.Cut(text, stop)
		}
	}
	return text
}

// stream hands a finished reply out, a token at a time.
type stream struct {
	ctx        context.Context
	pieces     []piece
	finish     chat.Finish
	usage      chat.Usage
	left       int // tokens that may still be added; negative once one was refused
	cut        int
	chunkDelay time.Duration
	due        time.Time // when the next event may leave; zero: at once
	sent       int
	event      provider.Event
}

// piece is one event to come. Only the first of a call has an id and a name.
type piece struct {
	kind     provider.Kind
	call     int
	id, name string
	text     string
}

// add appends a text token by token, as far as the allowance goes, and returns what it cost.
func (s *stream) add(kind provider.Kind, call int, text string) (cost int) {
	for _, t := range tokens.Split(text) {
		if !s.pay(t.Tokens) {
			break
		}
		cost += t.Tokens
		s.pieces = append(s.pieces, piece{kind: kind, call: call, text: t.Text})
	}
	return cost
}

// begin appends the piece that opens a call; its name is paid for like text.
func (s *stream) begin(call int, id, name string) (cost int) {
	if cost = tokens.Count(name); !s.pay(cost) {
		return 0
	}
	s.pieces = append(s.pieces, piece{kind: provider.ToolCall, call: call, id: id, name: name})
	return cost
}

func (s *stream) pay(n int) bool {
	if s.left < n {
		s.left = -1
		return false
	}
	s.left -= n
	return true
}

// Next returns the next event: the pieces, then the finish and the usage.
func (s *stream) Next() (*provider.Event, error) {
	if err := wait(s.ctx, time.Until(s.due)); err != nil {
		return nil, err
	}
	if s.sent == s.cut && s.sent <= len(s.pieces) {
		return nil, fault.New(fault.Unavailable, "The upstream broke off before the reply was complete. Try again.").After(time.Second)
	}
	switch i := s.sent - len(s.pieces); {
	case i < 0:
		p := s.pieces[s.sent]
		s.event = provider.Event{Kind: p.kind, Text: p.text}
		if p.kind == provider.ToolCall {
			s.event = provider.Event{Kind: p.kind, Tool: provider.ToolPiece{Index: p.call, ID: p.id, Name: p.name, Arguments: p.text}}
		}
	case i == 0:
		s.event = provider.Event{Kind: provider.Finish, Finish: s.finish}
	case i == 1:
		s.event = provider.Event{Kind: provider.Usage, Usage: s.usage}
	default:
		return nil, io.EOF
	}
	if s.sent++; s.chunkDelay > 0 && s.sent < len(s.pieces) {
		s.due = time.Now().Add(s.chunkDelay)
	}
	return &s.event, nil
}

// Ready reports whether no delay is due.
func (s *stream) Ready() bool { return s.due.IsZero() || !time.Now().Before(s.due) }

// Close has nothing to free.
func (s *stream) Close() error { return nil }

// wait sleeps, or returns a fault as soon as ctx is done.
func wait(ctx context.Context, d time.Duration) error {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if err := ctx.Err(); err != nil {
		return fault.New(fault.Unavailable, "The call was ended before the reply was complete.").Because(err)
	}
	return nil
}
