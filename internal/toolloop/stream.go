package toolloop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"sluice/internal/chat"
	"sluice/internal/mcpclient"
	"sluice/internal/provider"
	"sluice/internal/tokens"
)

// Stream is one reply over several turns. It is a provider.Stream.
type Stream struct {
	loop    *Loop
	ask     Ask
	ctx     context.Context
	cancel  context.CancelFunc
	servers []*mcpclient.Server
	offer   *offer

	messages [][]byte   // the conversation as the model sees it
	own      int        // how many of them were there before this request's own
	approved []approval // calls that the caller has allowed, to be run before the first turn

	asked   int // turns begun
	turn    turn
	wrote   bool // some turn before this one wrote text
	thought bool // some turn before this one reasoned
	visible int  // calls that the caller has been given
	over    bool
	spent   Spent
	held    int // bytes of results so far

	events []provider.Event // to be handed out
	next   int

	mu     sync.Mutex
	stream provider.Stream // of the turn; nil between turns
	closed bool
}

// Spent is what a reply has come to so far.
type Spent struct {
	Turns   int // of the model that answered
	Calls   int // of MCP tools
	Failed  int // of those, without a result or with one that is an error
	Usage   chat.Usage
	Counted bool // by us, at least in part: an upstream gave no figures
}

// turn is one answer of the model, as far as it has come.
type turn struct {
	request   *chat.Request
	begun     bool // the model has answered something
	decoder   provider.Decoder
	text      strings.Builder
	reasoning strings.Builder
	calls     []*call
	finish    chat.Finish
	usage     chat.Usage
	hasUsage  bool
}

// call is a call that the model made.
type call struct {
	id        string // the upstream's, or ours where it gave none
	name      string
	arguments strings.Builder
	remote    *remote // nil: a function, or nothing
	ours      string  // the id that the caller gets; empty: the caller does not get it
	index     int     // among those that the caller gets

	text   string // the result
	images []mcpclient.Image
}

const (
	maxCalls = 128 // of one turn; what is beyond is not run

	// nameless is where our own numbers of calls begin: adapters number theirs from 0, and keep things
	// under ids made of them.
	nameless = 1000
)

// Next returns the next event of the reply.
func (s *Stream) Next() (*provider.Event, error) {
	for {
		if s.next < len(s.events) {
			s.next++
			return &s.events[s.next-1], nil
		}
		s.events, s.next = s.events[:0], 0
		if err := s.advance(); err != nil {
			return nil, err
		}
	}
}

// advance takes one step: a new turn, or one event of the present one.
func (s *Stream) advance() error {
	switch {
	case s.over:
		return io.EOF
	case s.current() == nil:
		s.runApproved()
		return s.begin()
	}
	ev, err := s.current().Next()
	if err == nil {
		if !s.turn.begun {
			s.turn.begun = true
			s.spent.Turns++
		}
		err = s.take(ev)
	}
	switch {
	case err == nil:
		return nil
	case s.turn.finish != "": // what comes behind the end is of no use
		return s.end()
	case errors.Is(err, io.EOF):
		return provider.Cut(io.ErrUnexpectedEOF)
	}
	return err
}

// Ready reports whether Next would return without waiting.
func (s *Stream) Ready() bool {
	if s.next < len(s.events) {
		return true
	}
	stream := s.current()
	return stream != nil && stream.Ready()
}

// Close ends the model's turn, calls under way and all sessions.
func (s *Stream) Close() error {
	s.cancel()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.leave()
	for _, server := range s.servers {
		server.Close()
	}
	return nil
}

// Spent is what the reply has come to so far; what the present turn wrote is estimated.
func (s *Stream) Spent() Spent {
	spent := s.spent
	if !s.turn.begun {
		return spent
	}
	used, counted := s.turn.consumed(s.ask.CountPrompt)
	if m, ok := s.current().(provider.Metered); ok && counted {
		if figures, ok := m.Figures(); ok {
			used, counted = provider.Partial(figures, used), false
		}
	}
	spent.add(used, counted)
	return spent
}

func (sp *Spent) add(u chat.Usage, counted bool) {
	sp.Usage.Prompt += u.Prompt
	sp.Usage.Cached += u.Cached
	sp.Usage.Completion += u.Completion
	sp.Usage.Reasoning += u.Reasoning
	sp.Counted = sp.Counted || counted
}

// consumed is the turn's usage, and whether we had to count it.
func (t *turn) consumed(prompt func(*chat.Request) int) (u chat.Usage, counted bool) {
	if t.hasUsage {
		return t.usage, false
	}
	u = chat.Usage{Prompt: t.request.PromptBytes() / 4, Completion: tokens.About(t.text.String()), Reasoning: tokens.About(t.reasoning.String())}
	if prompt != nil {
		u.Prompt = prompt(t.request)
	}
	for _, c := range t.calls {
		u.Completion += tokens.Count(c.name) + tokens.About(c.arguments.String())
	}
	return u, true
}

func (s *Stream) current() provider.Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream
}

// leave frees the upstream of the present turn.
func (s *Stream) leave() {
	s.mu.Lock()
	stream := s.stream
	s.stream = nil
	s.mu.Unlock()
	if stream != nil {
		_ = stream.Close() // the turn is over, whatever it says
	}
}

// begin asks the model for the next turn.
func (s *Stream) begin() error {
	req, err := s.request()
	if err != nil {
		return err
	}
	stream, err := s.ask.Turn(s.ctx, s.asked, req)
	if err != nil {
		return err
	}
	s.asked++
	s.turn = turn{request: req}
	s.mu.Lock()
	s.stream = stream
	closed := s.closed
	s.mu.Unlock()
	if closed {
		s.leave()
		return context.Canceled
	}
	return nil
}

// last reports whether the model has had all its rounds and must answer now.
func (s *Stream) last() bool { return s.asked > s.loop.opts.MaxRounds }

// request writes the turn's request: the caller's, with the conversation so far, the tools that were
// found, and tool_choice in the first turn only, so that it cannot go round for ever.
func (s *Stream) request() (*chat.Request, error) {
	p := chat.Patch{Set: []chat.Setting{{Name: "messages", Value: join(s.messages)}}}
	if s.offer.tools == nil {
		p.Drop = []string{"tools", "tool_choice", "parallel_tool_calls"}
	} else {
		p.Set = append(p.Set, chat.Setting{Name: "tools", Value: s.offer.tools})
		choice := s.offer.choice
		switch {
		case s.asked == s.loop.opts.MaxRounds:
			choice = []byte(`"none"`)
		case s.asked > 0:
			choice = nil
		}
		if choice != nil {
			p.Set = append(p.Set, chat.Setting{Name: "tool_choice", Value: choice})
		} else {
			p.Drop = []string{"tool_choice"}
		}
	}
	req, err := chat.Parse(s.ask.Request.AppendUpstream(nil, p))
	if err != nil {
		return nil, fmt.Errorf("writing the request of turn %d: %v", s.asked, err) // ours, not the caller's
	}
	return req, nil
}

func join(messages [][]byte) []byte {
	return append(append([]byte{'['}, bytes.Join(messages, []byte{','})...), ']')
}

// take adds an event to the turn, and hands out what the caller may see of it.
func (s *Stream) take(ev *provider.Event) error {
	t := &s.turn
	switch {
	case ev.Kind == provider.Chunk, ev.Kind == provider.Whole:
		events, err := t.decoder.Decode(ev.Raw)
		if err != nil {
			return err
		}
		for i := range events {
			if err := s.take(&events[i]); err != nil {
				return err
			}
		}
	case ev.Kind == provider.Usage:
		t.usage, t.hasUsage = ev.Usage, true
	case ev.Choice != 0 || t.finish != "": // not asked for, or too late
	case ev.Kind == provider.Text:
		s.hand(provider.Text, &t.text, s.wrote, ev.Text)
	case ev.Kind == provider.Reasoning:
		s.hand(provider.Reasoning, &t.reasoning, s.thought, ev.Text)
	case ev.Kind == provider.ToolCall:
		s.piece(ev.Tool)
	case ev.Kind == provider.Finish:
		t.finish = ev.Finish
	}
	return nil
}

// hand adds a text to the turn's and hands it out, a blank line before it where it is the first of its
// turn and an earlier one wrote, too.
func (s *Stream) hand(kind provider.Kind, to *strings.Builder, before bool, text string) {
	if text == "" {
		return
	}
	out := text
	if before && to.Len() == 0 {
		out = "\n\n" + text
	}
	to.WriteString(text)
	s.events = append(s.events, provider.Event{Kind: kind, Text: out})
}

// piece adds a piece to its call, and hands out those of calls that are the caller's: of functions,
// and of tools that wait for approval. They get ids of our own, under which the rest is kept.
func (s *Stream) piece(p provider.ToolPiece) {
	t := &s.turn
	switch {
	case p.Index < 0, p.Index > len(t.calls), p.Index >= maxCalls:
		return
	case p.Index == len(t.calls):
		c := &call{id: p.ID, name: p.Name, remote: s.offer.find(p.Name)}
		if c.id == "" || t.has(c.id) {
			c.id = provider.CallID(s.ask.ID, (s.asked+1)*nameless+p.Index)
		}
		if s.offer.functions[c.name] || c.remote != nil && c.remote.approve {
			c.index, c.ours = s.visible, provider.CallID(s.ask.ID, nameless+s.visible)
			s.visible++
			if c.remote != nil {
				c.name = c.remote.offered
			}
		}
		t.calls = append(t.calls, c)
		p.Name = c.name
	default:
		p.Name = ""
	}
	c := t.calls[p.Index]
	c.arguments.WriteString(p.Arguments)
	if c.ours == "" {
		return
	}
	out := provider.ToolPiece{Index: c.index, Arguments: p.Arguments}
	if p.Name != "" {
		out.ID, out.Name = c.ours, c.name
	}
	s.events = append(s.events, provider.Event{Kind: provider.ToolCall, Tool: out})
}

func (t *turn) has(id string) bool {
	for _, c := range t.calls {
		if c.id == id {
			return true
		}
	}
	return false
}

// end closes a turn: the reply is over, or the calls are run and the next turn is due.
func (s *Stream) end() error {
	s.leave()
	t := &s.turn
	s.wrote = s.wrote || t.text.Len() > 0
	s.thought = s.thought || t.reasoning.Len() > 0
	whole := t.finish == chat.FinishStop || t.finish == chat.FinishToolCalls
	if len(t.calls) > 0 && whole && !s.last() {
		s.run()
		if s.ctx.Err() != nil {
			return context.Cause(s.ctx)
		}
		images := s.remember()
		if !t.asksCaller() {
			s.messages = append(s.messages, images...)
			s.spent.add(t.consumed(s.ask.CountPrompt))
			s.turn = turn{}
			return nil
		}
		s.keep(images)
	}
	s.spent.add(t.consumed(s.ask.CountPrompt))
	s.events = append(s.events, provider.Event{Kind: provider.Finish, Finish: t.finish}, provider.Event{Kind: provider.Usage, Usage: s.spent.Usage})
	s.turn, s.over = turn{}, true
	return nil
}

// asksCaller reports whether some call is the caller's to answer.
func (t *turn) asksCaller() bool {
	for _, c := range t.calls {
		if c.ours != "" {
			return true
		}
	}
	return false
}
