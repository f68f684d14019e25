package provider

import "io"

// Pending holds the events of a reply that have been read and not handed out yet: one piece of a body may
// bring several. An adapter that decodes replies into events embeds it in its stream. The zero value is ready
// for use. Its memory is used again for each piece, which is why an event is valid until the next call only.
type Pending struct {
	events []Event
	next   int // the first of events that has not been handed out
	ended  bool
}

// Push appends an event.
func (p *Pending) Push(ev Event) { p.events = append(p.events, ev) }

// PushText appends a piece of text or of reasoning, unless it is empty.
func (p *Pending) PushText(kind Kind, choice int, s string) {
	if s != "" {
		p.events = append(p.events, Event{Kind: kind, Choice: choice, Text: s})
	}
}

// Attach sets what the upstream itself said of the next event; see Event.Native. It reports false if there is none.
func (p *Pending) Attach(native []byte) bool {
	if p.next == len(p.events) {
		return false
	}
	p.events[p.next].Native = native
	return true
}

// End notes that the reply is complete: what has been pushed is the last of it.
func (p *Pending) End() { p.ended = true }

// Ended reports whether End has been called.
func (p *Pending) Ended() bool { return p.ended }

// Waiting reports whether Pull would return without reading.
func (p *Pending) Waiting() bool { return p.ended || p.next < len(p.events) }

// Pull returns the next event. While there is none it calls read, which pushes the events of the next piece,
// calls End, or returns an error. After the last event of a complete reply the error is io.EOF.
func (p *Pending) Pull(read func() error) (*Event, error) {
	for p.next == len(p.events) {
		if p.ended {
			return nil, io.EOF
		}
		p.events, p.next = p.events[:0], 0
		if err := read(); err != nil {
			return nil, err
		}
	}
	p.next++
	return &p.events[p.next-1], nil
}

// Whole reads a reply that comes in one piece, ends it, and passes it to decode, which pushes its events.
func (p *Pending) Whole(reply *Reply, decode func(raw []byte) error) error {
	raw, err := reply.Whole()
	if err != nil {
		return err
	}
	p.End()
	return decode(raw)
}
