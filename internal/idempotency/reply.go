package idempotency

import (
	"bytes"
	"encoding/binary"
)

// Reply is a reply with status 200.
type Reply struct {
	Stream bool   // server-sent events; else a single body
	kept   []byte // the body, or the events as shorten wrote them
}

// Size is the length of a single body.
func (r *Reply) Size() int { return len(r.kept) }

// pieceSize is about how much of a stream is handed out at once.
const pieceSize = 16 << 10

// Pieces hands the reply out again, byte for byte as it was recorded: a single body in one piece, a
// stream in pieces of whole events. A piece is valid until the next one.
func (r *Reply) Pieces(yield func([]byte) bool) {
	if !r.Stream {
		yield(r.kept)
		return
	}
	var piece, event []byte
	for rest := r.kept; len(rest) > 0; {
		event, rest, _ = lengthen(event, rest) // whole has checked it
		piece = append(append(piece, event...), eventEnd...)
		if len(piece) < pieceSize && len(rest) > 0 {
			continue
		}
		if !yield(piece) {
			return
		}
		piece = piece[:0]
	}
}

// whole reports whether the events of a stream can be read to the end.
func (r *Reply) whole() bool {
	var event []byte
	ok := r.Stream
	for rest := r.kept; ok && len(rest) > 0; {
		event, rest, ok = lengthen(event, rest)
	}
	return ok
}

// recording is a reply while it is being sent.
type recording struct {
	stream  bool
	kept    []byte
	partial []byte // of an event whose end has not come
	last    []byte // event
}

var eventEnd = []byte("\n\n")

func (r *recording) add(piece []byte, stream bool) {
	if r.stream = stream; !stream {
		r.kept = append(r.kept, piece...)
		return
	}
	if len(r.partial) > 0 {
		piece = append(r.partial, piece...)
		r.partial = nil
	}
	for {
		event, rest, ended := bytes.Cut(piece, eventEnd)
		if !ended {
			r.partial = append(r.partial, piece...)
			return
		}
		piece = rest
		if bytes.HasPrefix(event, []byte(":")) {
			continue // a comment broke a silence that a repeat does not have
		}
		r.kept = shorten(r.kept, r.last, event)
		r.last = append(r.last[:0], event...)
	}
}

func (r *recording) size() int { return len(r.kept) + len(r.partial) }

func (r *recording) reply() *Reply { return &Reply{Stream: r.stream, kept: r.kept} }

// The most that an event takes over from the one before. It is what surrounds the text in a chunk, some
// 200 bytes for a word or less; of the text itself a neighbour has little to offer, and a reply is not
// to count for less because it repeats itself.
const (
	maxHead = 512
	maxTail = 64
)

// shorten appends an event as what it has in common with the one before, at its head and at its tail, and
// what is new. A stream of short chunks takes a tenth of its length so.
func shorten(b, last, event []byte) []byte {
	most := min(len(last), len(event))
	head := 0
	for head < min(most, maxHead) && last[head] == event[head] {
		head++
	}
	tail := 0
	for tail < min(most-head, maxTail) && last[len(last)-1-tail] == event[len(event)-1-tail] {
		tail++
	}
	fresh := event[head : len(event)-tail]
	b = binary.AppendUvarint(b, uint64(head))
	b = binary.AppendUvarint(b, uint64(tail))
	b = binary.AppendUvarint(b, uint64(len(fresh)))
	return append(b, fresh...)
}

// lengthen reads the next event behind the last; rest is what follows it.
func lengthen(last, b []byte) (event, rest []byte, ok bool) {
	var n [3]uint64 // head, tail, new
	for i := range n {
		v, width := binary.Uvarint(b)
		if width <= 0 {
			return nil, nil, false
		}
		n[i], b = v, b[width:]
	}
	size := uint64(len(last))
	if n[0] > size || n[1] > size || n[2] > uint64(len(b)) {
		return nil, nil, false
	}
	event = make([]byte, 0, n[0]+n[1]+n[2])
	event = append(event, last[:n[0]]...)
	event = append(event, b[:n[2]]...)
	event = append(event, last[size-n[1]:]...)
	return event, b[n[2]:], true
}
