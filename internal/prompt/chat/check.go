package chat

import (
	"math"

	"sluice/internal/kit/fault"
)

// Check checks that body is one JSON object that Parse would accept as JSON: its grammar, its text, its depth, and
// that no object has a key twice, nor one of the keys of shape in another spelling. The other doors call it before they
// read their own fields. Example names the fields that the object should have, for a body that is empty.
func Check(body []byte, example string, shape Shape) error {
	if len(body) > math.MaxInt32 {
		return fault.New(fault.TooLarge, "The body is larger than 2 GiB")
	}
	var room struct {
		frames [8]frame
		keys   [24]keySpan
	}
	p := parser{}
	p.body = body
	p.frames = room.frames[:0]
	p.seen.keys = room.keys[:0]
	if p.peek(); p.pos == len(body) {
		return fault.New(fault.Invalid, "The body is empty; send a JSON object with %s", example)
	}
	if p.begin() {
		for p.member() {
			p.other(shape)
		}
		if p.peek(); !p.failed() && p.pos < len(p.body) {
			p.expected("the end of the body")
		}
	}
	if p.fault != nil {
		return p.fault
	}
	return nil
}

// IsImageURL reports whether url can be given to an upstream as an image: an http or https address, or a data: URL of
// an image.
func IsImageURL(url string) bool { return isImageURL(url) }
