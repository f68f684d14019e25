package idempotency

import (
	"bytes"
	"encoding/binary"

	"sluice/internal/ledger/receipt"
)

// Reply is a complete reply with status 200. It does not change, so several requests may read it.
type Reply struct {
	Stream bool // server-sent events, else a single body
	Header []Field
	kept   []byte // the body, or the events as shorten encoded them
}

// Field is a header that a repeat gets with the reply.
type Field struct{ Name, Value string }

// Size returns the length of a single body in bytes. It means nothing for a stream.
func (r *Reply) Size() int { return len(r.kept) }

// pieceSize is about the size of the pieces of a stream, in bytes.
const pieceSize = 16 << 10

// Pieces yields the reply byte for byte as it was recorded: a single body in one piece, a stream in pieces
// of whole events. A piece is valid only until the next one.
func (r *Reply) Pieces(yield func([]byte) bool) {
	if !r.Stream {
		yield(r.kept)
		return
	}
	var piece, event []byte
	for rest := r.kept; len(rest) > 0; {
		event, rest, _ = lengthen(event, rest) // cannot fail: whole has checked the events
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

// whole reports whether r is a stream whose events can all be decoded. What comes from the store may be
// damaged, and half a reply must not go out.
func (r *Reply) whole() bool {
	var event []byte
	ok := r.Stream
	for rest := r.kept; ok && len(rest) > 0; {
		event, rest, ok = lengthen(event, rest)
	}
	return ok
}

// recording is a reply that is being sent.
type recording struct {
	stream  bool
	kept    []byte // as in Reply
	partial []byte // the beginning of an event whose end has not come
	last    []byte // the last event, which the next one is compared with
}

// eventEnd ends every event of a stream.
var eventEnd = []byte("\n\n")

// add adds a piece, which may begin or end in the middle of an event. It copies what it keeps.
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
		commented := false
		if event, commented = withoutComments(event); commented && len(event) == 0 {
			continue
		}
		r.kept = shorten(r.kept, r.last, event)
		r.last = append(r.last[:0], event...)
	}
}

// withoutComments removes the comment lines in front of an event: a repeat has no silence to break. It reports
// whether there were any. The receipt of the call is a comment, too, and stays.
func withoutComments(event []byte) (rest []byte, some bool) {
	for bytes.HasPrefix(event, []byte(":")) && !bytes.HasPrefix(event, []byte(receipt.Comment)) {
		some = true
		_, event, _ = bytes.Cut(event, []byte("\n"))
	}
	return event, some
}

// size returns the bytes that the recording takes.
func (r *recording) size() int { return len(r.kept) + len(r.partial) }

// reply returns what was recorded, with its headers. The recording must not be used afterwards.
func (r *recording) reply(header []Field) *Reply {
	return &Reply{Stream: r.stream, Header: header, kept: r.kept}
}

// The longest head and tail that an event shares with the one before, in bytes. They cover what surrounds
// the text in a chunk, about 200 bytes for a word. The bound matters for maxReply: a reply that repeats
// itself must not shrink to nothing and get around it.
const (
	maxHead = 512
	maxTail = 64
)

// shorten appends an event as the lengths of the head and tail that it shares with the last one, and the
// bytes between. That makes a stream of short chunks ten times smaller.
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

// lengthen is the inverse of shorten: it decodes the next event, given the last one, and returns what
// follows it. It reports false for damaged bytes.
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
