package chat

import (
	"math"

	"sluice/internal/kit/fault"
)

// Check checks that body is one JSON object that Parse would accept as JSON: its grammar, its text, its depth, and
// that no object has a key twice, nor one of the keys of shape in another spelling. The other doors call it before they
// read their own fields from the Value that it returns. Example names the fields that the object should have, for a body
// that is empty.
func Check(body []byte, example string, shape Shape) (Value, error) {
	if len(body) > math.MaxInt32 {
		return Value{}, fault.New(fault.TooLarge, "The body is larger than 2 GiB")
	}
	// One allocation is enough for a small body.
	room := &struct {
		frames [8]frame
		keys   [24]keySpan
		index  document
		nodes  [32]node
	}{}
	p := parser{}
	p.body = body
	p.frames = room.frames[:0]
	p.seen.keys = room.keys[:0]
	if p.peek(); p.pos == len(body) {
		return Value{}, fault.New(fault.Invalid, "The body is empty; send a JSON object with %s", example)
	}
	// Texts are most of a long body, and short members of a small one.
	list := room.nodes[:0]
	if len(body) > 32*len(room.nodes) {
		list = make([]node, 0, min(32+len(body)/32, 2048))
	}
	list = append(list, node{from: int32(p.pos)})
	if p.begin() {
		list = p.all(shape, list)
	}
	if p.peek(); !p.failed() && p.pos < len(p.body) {
		p.expected("the end of the body")
	}
	if p.fault != nil {
		return Value{}, p.fault
	}
	room.index.list = list
	return Value{raw: body[list[0].from:list[0].to], doc: &room.index, from: list[0].from}, nil
}
