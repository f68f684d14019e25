package provider

import (
	"strings"
	"time"

	"sluice/internal/chat"
	"sluice/internal/fault"
)

// JSONInstruction is what a model without a JSON mode is told in place of one.
func JSONInstruction(f chat.Format) string {
	const plain = "Answer with one JSON object and nothing else: no prose before or after it, no code fence."
	if f.Schema == nil {
		return plain
	}
	return plain + " It must follow this JSON schema:\n" + string(f.Schema)
}

// JSONText passes the one JSON object in a text that comes in pieces, and cuts off what a model
// writes around it: a code fence, a sentence. It does not check what is inside.
type JSONText struct {
	depth     int
	quoted    bool
	escaped   bool
	begun     bool
	completed bool
}

// Pass returns what of the piece belongs to the object.
func (t *JSONText) Pass(piece string) string {
	if t.completed {
		return ""
	}
	if !t.begun {
		at := strings.IndexByte(piece, '{')
		if at < 0 {
			return ""
		}
		t.begun = true
		piece = piece[at:]
	}
	for i := range len(piece) {
		if t.step(piece[i]) {
			t.completed = true
			return piece[:i+1]
		}
	}
	return piece
}

// step reads one byte and reports whether it is the object's last.
func (t *JSONText) step(c byte) bool {
	switch {
	case t.escaped:
		t.escaped = false
	case t.quoted:
		t.escaped, t.quoted = c == '\\', c != '"'
	case c == '"':
		t.quoted = true
	case c == '{', c == '[':
		t.depth++
	case c == '}', c == ']':
		t.depth--
		return t.depth == 0
	}
	return false
}

// Check is the fault of a reply that ended well and holds no object.
func (t *JSONText) Check(f chat.Finish) error {
	if f != chat.FinishStop || t.completed {
		return nil
	}
	return fault.New(fault.Unavailable, "The model did not answer with JSON, though it was told to. Try again.").After(time.Second)
}
