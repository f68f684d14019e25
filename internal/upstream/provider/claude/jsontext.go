package claude

import (
	"strings"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// JSONInstruction returns the system message that replaces response_format where it is emulated; see
// Model.EmulatesJSON.
func JSONInstruction(f chat.Format) string {
	const plain = "Answer with one JSON object and nothing else: no prose before or after it, no code fence."
	if f.Schema == nil {
		return plain
	}
	return plain + " It must follow this JSON schema:\n" + string(f.Schema)
}

// JSONText finds the first JSON object in a text that comes in pieces, and removes what a model writes
// around it: a code fence, a sentence. It counts brackets and does not check the JSON. The zero value is
// ready for use.
//
// A reply that is not JSON after all is noticed by its brackets not closing; see Check.
type JSONText struct {
	depth     int  // of open brackets
	quoted    bool // inside a string
	escaped   bool // after a backslash in a string
	begun     bool // the object's first byte has come
	completed bool // its last byte has come
}

// Pass returns the part of the piece that belongs to the object; it may be empty.
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

// step reads one byte and reports whether it ends the object.
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

// Check returns a fault if the reply ended normally without a complete object. A reply that was cut by its
// bound or by a filter is the caller's to judge by its finish reason.
func (t *JSONText) Check(f chat.Finish) error {
	if f != chat.FinishStop || t.completed {
		return nil
	}
	return provider.Own(fault.New(fault.Unavailable, "The model did not answer with JSON, though it was told to. Try again.").After(time.Second))
}
