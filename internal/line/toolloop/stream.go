package toolloop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"sluice/internal/prompt/chat"
	"sluice/internal/prompt/tokens"
	"sluice/internal/upstream/mcpclient"
	"sluice/internal/upstream/provider"
)

// Stream is one reply over several turns of the model. It is a provider.Stream. One goroutine uses it.
//
// A reply with two turns runs like this:
//
//	begin    calls the model with the caller's messages and the servers' tools
//	advance  reads its events: texts go to the reader, pieces of calls are collected
//	end      runs the calls and adds the turn and their results to the conversation
//	begin    calls the model again
//	advance  reads its events: texts go to the reader
//	end      finds no calls, and ends the reply with a finish reason and the usage of both turns
//
// A turn that calls functions of the caller, or tools that need approval, also ends the reply. The caller
// answers with a new request, in which restore puts back what was hidden.
type Stream struct {
	loop    *Loop
	task    Task
	ctx     context.Context
	cancel  context.CancelFunc
	servers []*mcpclient.Server // to be closed
	offer   *offer

	messages [][]byte   // the conversation as the model sees it, each a JSON object
	own      int        // index in messages at which this request's own turns begin
	approved []approval // calls that the caller has allowed, to be run before the first turn

	turns   int // turns begun
	turn    turn
	wrote   bool  // an earlier turn wrote text
	thought bool  // an earlier turn reasoned
	visible int   // the number of calls that the caller has got
	spent   Spent // of the turns that have ended
	held    int   // bytes of the results of all calls
	written int   // bytes that the model has written in all turns

	early            []provider.Event // what was done before the first turn, to be shown once the model answers
	stream           provider.Stream  // of the current turn; nil between turns
	provider.Pending                  // the events for the reader
}

// Spent is what a reply has consumed so far.
type Spent struct {
	Turns   int // turns in which the model produced something
	Calls   int // MCP tool calls
	Failed  int // those of the calls that gave no result, or an error
	Usage   chat.Usage
	Counted bool // by us, at least in part: an upstream gave no figures
	Each    []Turn
}

// Turn is what one turn of a reply consumed, of those in which the model produced something.
type Turn struct {
	Usage   chat.Usage
	Tier    string // the service tier, if the upstream has told it in OpenAI's dialect
	Counted bool   // by us
}

// turn is the part of one answer of the model that has arrived.
type turn struct {
	request   *chat.Request
	begun     bool // the model has produced something
	decoder   provider.Decoder
	text      strings.Builder
	reasoning strings.Builder
	calls     []*call
	finish    chat.Finish // empty: the turn has not ended
	usage     chat.Usage
	hasUsage  bool
	tier      string
}

// call is a tool call that the model made.
type call struct {
	id        string // the upstream's id, or ours if it gave none
	name      string
	arguments strings.Builder
	remote    *remote // the MCP tool; nil: a function of the caller, or an unknown name
	ours      string  // the id that the caller gets; empty: the call is hidden from the caller
	index     int     // among the calls that the caller gets

	failed bool   // it gave no result, or an error
	text   string // the result
	images []mcpclient.Image
}

const (
	// maxCalls is the number of calls of one turn that are run. The others are dropped.
	maxCalls = 128

	// nameless is where our own numbers of calls begin. Adapters number theirs from 0 and keep state under
	// ids made of these numbers, so ours must differ.
	nameless = 1000
)

// Start runs the conversation until there is an event for the reader. That may take several turns, whose
// calls are hidden.
func (s *Stream) Start() error { return s.Fill(s.advance) }

// Next returns the next event of the reply.
func (s *Stream) Next() (*provider.Event, error) { return s.Pull(s.advance) }

// advance takes one step: it begins a turn, or reads one event of the current one.
func (s *Stream) advance() error {
	if s.stream == nil {
		s.runApproved()
		return s.begin()
	}
	ev, err := s.stream.Next()
	if err == nil {
		// A turn counts once its model has said something.
		if !s.turn.begun {
			s.turn.begun = true
			s.spent.Turns++
		}
		err = s.take(ev)
	}
	switch {
	case err == nil:
		return nil
	case s.turn.finish != "": // the turn is complete, however its stream ended
		return s.end()
	case errors.Is(err, io.EOF):
		return provider.Cut(io.ErrUnexpectedEOF)
	}
	return err
}

// Ready reports whether Next would return at once.
func (s *Stream) Ready() bool {
	// An event that is ready upstream may be hidden from the reader. Then Next takes longer than this says,
	// which only delays a flush.
	return s.Waiting() || s.stream != nil && s.stream.Ready()
}

// Close ends the model's turn, the calls that are running, and all sessions with servers. It always returns
// nil and may be called more than once.
func (s *Stream) Close() error {
	s.cancel()
	s.leave()
	for _, server := range s.servers {
		server.Close()
	}
	return nil
}

// Spent returns what the reply has consumed so far. If the current turn has no figures yet, they are
// counted.
func (s *Stream) Spent() Spent {
	spent := s.spent
	if !s.turn.begun {
		return spent
	}
	// A turn that has not ended may have early figures, for example of its prompt. They are better than our
	// count.
	used, counted := s.turn.consumed(s.task.CountPrompt)
	if m, ok := s.stream.(provider.Metered); ok && counted {
		if figures, ok := m.Figures(); ok {
			used, counted = provider.Partial(figures, used), false
		}
	}
	spent.Each = slices.Clip(spent.Each) // the stream goes on adding to its own
	spent.add(&s.turn, used, counted)
	return spent
}

// add adds the usage of a turn.
func (sp *Spent) add(t *turn, u chat.Usage, counted bool) {
	sp.Usage.Add(u)
	sp.Each = append(sp.Each, Turn{u, t.tier, counted})
	sp.Counted = sp.Counted || counted
}

// settle adds the usage of a turn that has ended.
func (s *Stream) settle() {
	used, counted := s.turn.consumed(s.task.CountPrompt)
	s.spent.add(&s.turn, used, counted)
}

// consumed returns the usage of the turn, and whether we had to count it.
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

// leave closes the stream of the current turn.
func (s *Stream) leave() {
	if s.stream != nil {
		_ = s.stream.Close() // the turn is over, whatever it says
		s.stream = nil
	}
}

// begin calls the model for the next turn.
func (s *Stream) begin() error {
	req, err := s.request()
	if err != nil {
		return err
	}
	stream, err := s.task.Turn(s.ctx, s.turns, req)
	if err != nil {
		return err
	}
	s.turns++
	s.turn, s.stream = turn{request: req}, stream
	for _, ev := range s.early {
		s.Push(ev)
	}
	s.early = nil
	return nil
}

// last reports whether the current turn is one whose calls are not run any more.
func (s *Stream) last() bool { return s.turns > s.loop.opts.MaxRounds }

// request returns the request of the next turn: the caller's, with the conversation so far and the tools
// that were found. The caller's tool_choice holds for the first turn only: "required" in every turn would
// never end. After MaxRounds rounds it is "none", so that the model answers.
func (s *Stream) request() (*chat.Request, error) {
	p := chat.Patch{Set: []chat.Setting{{Name: "messages", Value: join(s.messages)}}}
	if s.offer.tools == nil { // providers refuse a tool_choice without tools
		p.Drop = []string{"tools", "tool_choice", "parallel_tool_calls"}
	} else {
		p.Set = append(p.Set, chat.Setting{Name: "tools", Value: s.offer.tools})
		choice := s.offer.choice
		switch {
		case s.turns == s.loop.opts.MaxRounds:
			choice = []byte(`"none"`)
		case s.turns > 0:
			choice = nil
		}
		if choice != nil {
			p.Set = append(p.Set, chat.Setting{Name: "tool_choice", Value: choice})
		} else {
			p.Drop = []string{"tool_choice"}
		}
	}
	req, err := chat.Parse(s.task.Request.AppendUpstream(nil, p))
	if err != nil {
		return nil, fmt.Errorf("writing the request of turn %d: %v", s.turns, err) // ours, not the caller's
	}
	return req, nil
}

// join returns the messages as a JSON array.
func join(messages [][]byte) []byte {
	return append(append([]byte{'['}, bytes.Join(messages, []byte{','})...), ']')
}

// take adds an event of the model to the turn, and passes on the part that the caller may see.
func (s *Stream) take(ev *provider.Event) error {
	t := &s.turn
	switch {
	// Raw replies are decoded: their calls must be seen, and their texts may go out in other events.
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
	case ev.Kind == provider.Tier:
		t.tier = ev.Text
		s.Push(*ev)
	case ev.Choice != 0 || t.finish != "": // a second choice, or after the end: dropped
	case ev.Kind == provider.Text:
		s.hand(provider.Text, &t.text, s.wrote && !s.task.Show, ev.Text)
	case ev.Kind == provider.Declined:
		s.hand(provider.Declined, &t.text, false, ev.Text)
	case ev.Kind == provider.Reasoning:
		s.hand(provider.Reasoning, &t.reasoning, s.thought && !s.task.Show, ev.Text)
	case ev.Kind == provider.ToolCall:
		s.piece(ev.Tool)
	case ev.Kind == provider.Finish:
		t.finish = ev.Finish
	}
	// All turns are kept: they are part of the next request.
	if s.written > provider.MaxText {
		return provider.TooLong()
	}
	return nil
}

// hand adds a text to the turn and passes it on. A blank line separates it from the text of an earlier turn,
// since the caller reads all turns as one text.
func (s *Stream) hand(kind provider.Kind, to *strings.Builder, before bool, text string) {
	if text == "" {
		return
	}
	out := text
	if before && to.Len() == 0 {
		out = "\n\n" + text
	}
	to.WriteString(text)
	s.written += len(text)
	s.Push(provider.Event{Kind: kind, Text: out})
}

// piece adds a piece to its call. It passes on the pieces of calls that the caller must answer: calls of
// functions, and calls of tools that need approval. These get ids of our own, under which the hidden steps
// are kept.
func (s *Stream) piece(p provider.ToolPiece) {
	t := &s.turn
	switch {
	case p.Index < 0, p.Index > len(t.calls), p.Index >= maxCalls:
		return
	case p.Index == len(t.calls): // the first piece of a call
		c := &call{id: p.ID, name: p.Name, remote: s.offer.find(p.Name)}
		if c.id == "" || t.has(c.id) {
			c.id = provider.CallID(s.task.ID, (s.turns+1)*nameless+p.Index)
		}
		// The caller's calls are numbered over all turns of the reply, which the caller reads as one.
		if s.offer.functions[c.name] || c.remote != nil && c.remote.approve {
			c.index, c.ours = s.visible, provider.CallID(s.task.ID, nameless+s.visible)
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
	s.written += len(p.Arguments)
	if c.ours == "" {
		return
	}
	ev := provider.Event{Kind: provider.ToolCall, Tool: provider.ToolPiece{Index: c.index, Arguments: p.Arguments}}
	if p.Name != "" { // only the first piece has a name
		ev.Tool.ID, ev.Tool.Name = c.ours, c.name
		if c.remote != nil && s.task.Show {
			ev.Step = &provider.Step{Server: c.remote.label, Tool: c.remote.name}
		}
	}
	s.Push(ev)
}

// has reports whether a call of the turn has the id. Some upstreams use one id twice.
func (t *turn) has(id string) bool {
	return slices.ContainsFunc(t.calls, func(c *call) bool { return c.id == id })
}

// end ends a turn. If it has calls and finished normally, they are run: then either the next turn follows,
// or the caller must answer some calls and the reply is over. A turn that was cut by its length or by a
// filter runs nothing, since its calls may be incomplete.
func (s *Stream) end() error {
	s.leave()
	t := &s.turn
	// A later turn's text is separated from this one by a blank line.
	s.wrote = s.wrote || t.text.Len() > 0
	s.thought = s.thought || t.reasoning.Len() > 0
	whole := t.finish == chat.FinishStop || t.finish == chat.FinishToolCalls
	if len(t.calls) > 0 && whole && !s.last() {
		s.run()
		if s.ctx.Err() != nil {
			return context.Cause(s.ctx)
		}
		for _, c := range t.calls {
			if s.task.Show && c.ours == "" && c.remote != nil {
				s.Push(s.show(c))
			}
		}
		images := s.remember()
		if !t.asksCaller() { // every call has its result: the next step begins a turn
			s.messages = append(s.messages, images...)
			s.settle()
			s.turn = turn{}
			return nil
		}
		s.keep(images) // the results of the hidden calls wait for the caller's answers
	}
	s.settle()
	s.Push(provider.Event{Kind: provider.Finish, Finish: t.finish})
	s.Push(provider.Event{Kind: provider.Usage, Usage: s.spent.Usage})
	s.turn = turn{}
	s.End()
	return nil
}

// asksCaller reports whether the caller must answer some call of the turn.
func (t *turn) asksCaller() bool {
	return slices.ContainsFunc(t.calls, func(c *call) bool { return c.ours != "" })
}
