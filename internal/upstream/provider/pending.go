package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
)

// Pending holds the events of a reply that have been read and not handed out yet: one piece of a body may
// bring several; see Decoded. The zero value is ready for use. Its memory is used again for each piece, which is why an event is valid until the next call only.
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

// End notes that the reply is complete: what has been pushed is the last of it.
func (p *Pending) End() { p.ended = true }

// Ended reports whether End has been called.
func (p *Pending) Ended() bool { return p.ended }

// Waiting reports whether Pull would return without reading.
func (p *Pending) Waiting() bool { return p.ended || p.next < len(p.events) }

// Fill makes sure that there is an event. While there is none it calls read, which pushes the events of the next piece,
// calls End, or returns an error. After the last event of a complete reply the error is io.EOF.
func (p *Pending) Fill(read func() error) error {
	for p.next == len(p.events) {
		if p.ended {
			return io.EOF
		}
		p.events, p.next = p.events[:0], 0
		if err := read(); err != nil {
			return err
		}
	}
	return nil
}

// Pull returns the next event. It is Fill otherwise.
func (p *Pending) Pull(read func() error) (*Event, error) {
	if err := p.Fill(read); err != nil {
		return nil, err
	}
	p.next++
	return &p.events[p.next-1], nil
}

// Decoded is what the streams of adapters share that decode replies into events. Such a stream embeds it, and implements
// Next with Pull.
type Decoded struct {
	Pending
	Reply  Reply
	Single bool // the reply comes in one piece
	// Words are what the upstream itself says, for a caller of its dialect; nil: not needed.
	Words *Words
}

// PostFor is Post for a stream. Whether the reply comes in one piece is what its headers say, whatever was asked for: some
// proxies do not stream.
func (c *Client) PostFor(ctx context.Context, to *Decoded, u *url.URL, header http.Header, body []byte) error {
	if err := c.Post(ctx, &to.Reply, u, header, body); err != nil {
		return err
	}
	to.Single = !to.Reply.IsStream()
	return nil
}

// Ready implements Stream.
func (d *Decoded) Ready() bool { return d.Waiting() || !d.Single && d.Reply.Ready() }

// Close implements Stream.
func (d *Decoded) Close() error { return d.Reply.Close(d.Ended()) }

// Whole reads a reply that comes in one piece, ends it, and passes it to decode, which pushes its events.
func (d *Decoded) Whole(decode func(raw []byte) error) error {
	raw, err := d.Reply.Whole()
	if err != nil {
		return err
	}
	d.End()
	return decode(raw)
}

// Words are what the upstream itself said and what has not been handed out yet. Each event is one line.
// The adapter decodes every event as well, because usage, finish reasons and faults must be known whoever the caller is.
type Words struct {
	said   []byte
	handed bool // said belongs to an event that was handed out
	spoken bool // something of the reply has been handed out
}

// Quote adds what the upstream said to the first of the events that it was decoded into. What comes before the reply has
// something to say waits for that: until then another upstream may be asked instead.
//
// What became no event of ours travels on an event of the kind Other. If strange is set, it begins something that only
// callers of the dialect know, such as a search. That may be long, and nothing else tells that the model has begun.
func (d *Decoded) Quote(raw []byte, strange bool) {
	w := d.Words
	if w == nil {
		return
	}
	if w.handed {
		w.said, w.handed = w.said[:0], false
	}
	if len(w.said) > 0 {
		w.said = append(w.said, '\n')
	}
	w.said = appendLine(w.said, raw)
	switch {
	case d.next < len(d.events):
		d.events[d.next].Native = w.said
	case w.spoken, strange:
		d.Push(Event{Kind: Other, Native: w.said})
	default:
		return
	}
	w.handed, w.spoken = true, true
}

// appendLine appends JSON without line breaks.
func appendLine(b, raw []byte) []byte {
	if bytes.IndexByte(raw, '\n') < 0 && bytes.IndexByte(raw, '\r') < 0 {
		return append(b, raw...)
	}
	var line bytes.Buffer
	if json.Compact(&line, raw) != nil { // it was decoded before
		return b
	}
	return append(b, line.Bytes()...)
}
