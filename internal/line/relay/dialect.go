package relay

import (
	"bytes"

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
	// A text is in the event's Raw, as the inside of a JSON string in the spelling of jsonscan.AppendQuoted, and not in its
	// Text: most texts come and go as the same bytes. The event is valid until Event returns.
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

// Threader is implemented by a Dialect in which a conversation may be held by the upstream; see chat.Thread.
type Threader interface {
	// Threaded is called before the first event of a reply whose conversation the upstream holds: the caller must get the
	// upstream's id of it.
	Threaded()
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
type spoken struct {
	dialect Dialect
	started bool
	size    int    // bytes of text that the dialect got, as the insides of JSON strings
	quoted  []byte // scratch
	// Memory for the event that the dialect gets, so that none is allocated: of a text, which sets Kind, Raw and Native only,
	// and of everything else.
	said, event provider.Event
}

// start makes sure that the dialect has begun.
func (r *reply) start(b []byte) []byte {
	if r.spoken.started {
		return b
	}
	r.spoken.started = true
	return r.spoken.dialect.Start(b, r.head)
}

// speak hands an event to the dialect, once it keeps the rules that Dialect promises.
//
// Arguments of a function that never came are sent as {} just before the end, because clients
// parse them.
func (r *reply) speak(b []byte, ev *provider.Event, c *choice) []byte {
	s := r.spoken
	b = r.start(b)
	switch ev.Kind {
	case provider.Text, provider.Declined, provider.Reasoning:
		return r.say(b, ev.Kind, s.inside(ev.Text), ev.Native, false)
	case provider.ToolCall:
		p, ok := r.piece(ev.Choice, c, ev.Tool)
		if !ok {
			return b
		}
		r.heard(s.inside(p.Arguments), &r.outcome.text, false)
		s.event = *ev
		s.event.Tool = p
		ev = &s.event
	case provider.Finish:
		last := *ev // its memory may be that of the events before it
		for i := range c.calls {
			if !c.calls[i].some && !c.calls[i].custom {
				s.event = provider.Event{Kind: provider.ToolCall, Tool: provider.ToolPiece{Index: i, Arguments: "{}"}}
				b = s.dialect.Event(b, &s.event)
			}
		}
		r.finish(c, last.Finish)
		last.Finish = c.finish
		s.event = last
		ev = &s.event
	case provider.Other:
	default:
		return b
	}
	return s.dialect.Event(b, ev)
}

// say hands a piece of a text to the dialect, unless it is empty. Native is that of its event. Lasting says that inside does not
// change until the reply is settled.
func (r *reply) say(b []byte, kind provider.Kind, inside, native []byte, lasting bool) []byte {
	if len(inside) == 0 {
		return b
	}
	if kind == provider.Reasoning {
		r.heard(inside, &r.outcome.reasoning, lasting)
	} else {
		r.heard(inside, &r.outcome.text, lasting)
	}
	ev := &r.spoken.said
	ev.Kind, ev.Raw, ev.Native = kind, inside, native
	return r.spoken.dialect.Event(b, ev)
}

// inside returns a text as the inside of a JSON string. It is valid until the next call.
func (s *spoken) inside(text string) []byte {
	s.quoted = jsonscan.AppendQuoted(s.quoted[:0], text)
	return s.quoted[1 : len(s.quoted)-1]
}

// respell returns the inside of a JSON string in the spelling of jsonscan.AppendQuoted, and whether it is raw itself: then it is
// valid as long as raw, otherwise until the next call.
func (s *spoken) respell(raw []byte) (spelled []byte, same bool) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw, true
	}
	s.quoted = jsonscan.AppendInside(s.quoted[:0], raw)
	return s.quoted, false
}

// retell tells the dialect of a chunk of the usual shape, several times faster than the decoder. It reports false
// if the chunk needs the decoder; then nothing has been added to the output.
func (s *streamer) retell(raw []byte) bool {
	sh, ok := scanReply(raw, "delta")
	if !ok || sh.others {
		return false
	}
	s.out = s.tell(s.out, raw, &sh, false)
	s.learn(raw, &sh)
	return true
}

// retell is the same for a whole reply, which stays as it is until its stream is closed.
func (c *collector) retell(raw []byte) bool {
	sh, ok := scanReply(raw, "message")
	if !ok || sh.others || !sh.one || sh.finish == "" || sh.finish == chat.FinishToolCalls {
		return false
	}
	c.scrap = c.tell(c.scrap[:0], raw, &sh, true)
	return true
}

// tell tells the dialect what was scanned. Lasting says that raw does not change until the reply is settled.
// Reasoning comes before the answer, as models produce them.
func (r *reply) tell(b, raw []byte, sh *shape, lasting bool) []byte {
	if u, ok := scanUsage(raw[sh.usage.from:sh.usage.to]); ok {
		r.usage(u)
	}
	r.tier(sh.tier)
	c := r.choice(sh.index)
	if !sh.one || c == nil || c.finished || !sh.produced() && sh.finish == "" {
		return b
	}
	b = r.start(b)
	s := r.spoken
	for _, t := range [...]struct {
		kind provider.Kind
		span
	}{{provider.Reasoning, sh.reasoning}, {provider.Text, sh.content}, {provider.Declined, sh.refusal}} {
		inside, same := s.respell(raw[t.from:t.to])
		b = r.say(b, t.kind, inside, nil, lasting && same)
	}
	if sh.finish != "" {
		s.event = provider.Event{Kind: provider.Finish, Finish: sh.finish}
		b = r.speak(b, &s.event, c)
	}
	return b
}

// heard records text that the dialect gets. Text that lasts is not copied.
func (r *reply) heard(inside []byte, all *produced, lasting bool) {
	r.content()
	r.spoken.size += len(inside)
	if lasting {
		all.only(inside)
	} else {
		all.add(inside)
	}
}

// tooLong returns a fault if the dialect got more text than a reply may have. Dialects keep it all, for
// the end of the stream repeats it.
func (r *reply) tooLong() error {
	if r.spoken != nil && r.spoken.size > provider.MaxText {
		return provider.TooLong()
	}
	return nil
}
