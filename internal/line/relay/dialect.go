package relay

import (
	"sluice/internal/kit/fault"
	"sluice/internal/kit/jsonscan"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// Dialect writes one reply in the language of a door other than chat completions. A value serves one
// reply. All methods but KeepAlive are called by the goroutine that relays.
type Dialect interface {
	// Start is called once, before the first event. It appends what a stream begins with.
	Start(b []byte, h Head) []byte
	// Event takes an event of the reply and appends what a stream says of it. Whatever the upstream sends,
	// a dialect sees only Text, Declined and Reasoning that are not empty, ToolCall, Finish and Other, of one choice,
	// and they keep the rules of streamer: the first piece of a call has an id and a name and no other
	// has, indexes have no gap, a function's arguments are not empty, and nothing follows the one Finish.
	// The event is valid until Event returns.
	Event(b []byte, ev *provider.Event) []byte
	// End appends the last events of a complete stream. The outcome has its usage.
	End(b []byte, o *Outcome) []byte
	// Body appends a complete reply that is not streamed. Start and Event have been called for it as for
	// a stream, and what they appended was thrown away.
	Body(b []byte, o *Outcome) []byte
	// Fault appends the event that reports a fault after the stream has begun. It is the last event.
	Fault(b []byte, f *fault.Fault) []byte
	// KeepAlive appends what is sent while the model is silent. It may be called before Start, by another
	// goroutine, at the same time as any other method: it must use nothing that they change.
	KeepAlive(b []byte) []byte
}

// Namer is implemented by a Dialect whose requests have other names for fields than chat completions.
type Namer interface {
	// Dropped returns the caller's names of the fields that were dropped for the upstream, and of those that the door
	// itself has left out. Quoted says that the upstream got the request in the caller's own words.
	Dropped(names []string, quoted bool) []string
}

// Storer is implemented by a Dialect whose End may take a while, because it stores the reply. The caller of a stream gets
// all that comes before the end without waiting for that.
type Storer interface {
	// Stores reports whether End stores the reply.
	Stores() bool
}

// Completer is implemented by a ResponseWriter that wants to know when a reply is about to be complete. Finish calls
// Completing before the write that has the last bytes of a complete reply.
type Completer interface{ Completing() }

// completing tells w, if it wants to know.
func completing(w any) {
	if c, ok := w.(Completer); ok {
		c.Completing()
	}
}

// spoken is the state of a reply in another dialect.
//
// The events that a dialect gets may be changed copies of the upstream's; event is the memory for
// such a copy, so that none is allocated.
type spoken struct {
	dialect Dialect
	started bool
	size    int // bytes of text that the dialect got
	event   provider.Event
	quoted  []byte // scratch
}

// speak hands an event to the dialect, once it keeps the rules that Dialect promises.
//
// Arguments of a function that never came are sent as {} just before the end, because clients
// parse them.
func (r *reply) speak(b []byte, ev *provider.Event, c *choice) []byte {
	s := r.spoken
	if !s.started {
		s.started = true
		b = s.dialect.Start(b, r.head)
	}
	switch ev.Kind {
	case provider.Text, provider.Declined:
		if ev.Text == "" {
			return b
		}
		r.heard(ev.Text, &r.outcome.text)
	case provider.Reasoning:
		if ev.Text == "" {
			return b
		}
		r.heard(ev.Text, &r.outcome.reasoning)
	case provider.ToolCall:
		p, ok := r.piece(ev.Choice, c, ev.Tool)
		if !ok {
			return b
		}
		r.heard(p.Arguments, &r.outcome.text)
		s.event = *ev
		s.event.Tool = p
		ev = &s.event
	case provider.Finish:
		for i := range c.calls {
			if !c.calls[i].some && !c.calls[i].custom {
				s.event = provider.Event{Kind: provider.ToolCall, Tool: provider.ToolPiece{Index: i, Arguments: "{}"}}
				b = s.dialect.Event(b, &s.event)
			}
		}
		r.finish(c, ev.Finish)
		s.event = *ev
		s.event.Finish = c.finish
		ev = &s.event
	case provider.Other:
	default:
		return b
	}
	return s.dialect.Event(b, ev)
}

// retell turns a chunk of the usual shape into events, several times faster than the decoder. It reports false
// if the chunk needs the decoder; then nothing has been added to the output.
func (s *streamer) retell(raw []byte) bool {
	sh, ok := scanReply(raw, "delta")
	if !ok || sh.others {
		return false
	}
	if u, ok := scanUsage(raw[sh.usage.from:sh.usage.to]); ok {
		s.usage(u)
	}
	s.reply.tier(sh.tier)
	sh.tell(raw, s.event)
	return true
}

// retell is the same for a whole reply.
func (c *collector) retell(raw []byte) bool {
	sh, ok := scanReply(raw, "message")
	if !ok || sh.others || !sh.one || sh.finish == "" || sh.finish == chat.FinishToolCalls {
		return false
	}
	if u, ok := scanUsage(raw[sh.usage.from:sh.usage.to]); ok {
		c.usage(u)
	}
	c.tier(sh.tier)
	sh.tell(raw, c.event)
	return true
}

// tell turns what was scanned into events.
// Reasoning comes before the answer, as models produce them. The spans exclude the quotes, which
// Unquote expects.
func (s *shape) tell(raw []byte, event func(*provider.Event)) {
	for _, text := range [...]struct {
		kind provider.Kind
		at   span
	}{{provider.Reasoning, s.reasoning}, {provider.Text, s.content}, {provider.Declined, s.refusal}} {
		if !text.at.empty() {
			event(&provider.Event{Kind: text.kind, Choice: s.index, Text: jsonscan.Unquote(raw[text.at.from-1 : text.at.to+1])})
		}
	}
	if s.finish != "" {
		event(&provider.Event{Kind: provider.Finish, Choice: s.index, Finish: s.finish})
	}
}

// heard records text that the dialect gets.
// It is quoted first, since produced keeps the insides of JSON strings.
func (r *reply) heard(text string, all *produced) {
	r.content()
	s := r.spoken
	s.size += len(text)
	s.quoted = jsonscan.AppendQuoted(s.quoted[:0], text)
	all.add(s.quoted[1 : len(s.quoted)-1])
}

// tooLong returns a fault if the dialect got more text than a reply may have. Dialects keep it all, for
// the end of the stream repeats it.
func (r *reply) tooLong() error {
	if r.spoken != nil && r.spoken.size > provider.MaxText {
		return provider.TooLong()
	}
	return nil
}
