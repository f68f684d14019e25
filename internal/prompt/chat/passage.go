package chat

import (
	"bytes"
	"iter"
	"unicode/utf8"

	"sluice/internal/kit/jsonscan"
)

// Passage is a text that the model reads, as it is written in the body. It shares memory with the
// body, so counting the tokens of a long prompt needs no copy of it.
type Passage struct {
	raw    []byte
	quoted bool // raw is the inside of a JSON string; otherwise raw is the text itself
}

// Passages yields everything that the model reads: contents, tool calls of earlier replies, and tool
// definitions. It leaves out empty contents, images and files, and MCP servers, whose tools are not
// known here.
func (r *Request) Passages() iter.Seq[Passage] {
	return func(yield func(Passage) bool) {
		for i := range r.Messages {
			m := &r.Messages[i]
			// raw has its quotes, so more than two bytes are a text that is not empty.
			if len(m.Content.raw) > 2 && !yield(Passage{m.Content.raw[1 : len(m.Content.raw)-1], true}) {
				return
			}
			for _, p := range m.Content.parts {
				if len(p.raw) > 2 && !yield(Passage{p.raw[1 : len(p.raw)-1], true}) {
					return
				}
			}
			for j := range m.ToolCalls {
				c := &m.ToolCalls[j]
				if !yield(Passage{[]byte(c.Name), false}) || !yield(c.written()) {
					return
				}
			}
		}
		for i := range r.Tools {
			if t := &r.Tools[i]; t.MCP == nil && !yield(Passage{t.raw, false}) {
				return
			}
		}
	}
}

// Passage returns the text with the given number, from 0 on, and reports whether there is one. A plain text is
// number 0. The texts of parts are counted without the other parts.
func (c Content) Passage(number int) (Passage, bool) {
	if c.parts == nil {
		if number > 0 || len(c.raw) < 2 {
			return Passage{}, false
		}
		return Passage{c.raw[1 : len(c.raw)-1], true}, true
	}
	for _, p := range c.parts {
		if len(p.raw) < 2 {
			continue
		}
		if number == 0 {
			return Passage{p.raw[1 : len(p.raw)-1], true}, true
		}
		number--
	}
	return Passage{}, false
}

// Len returns how many bytes of the body the text takes. Escapes make that more than the bytes of the
// text itself.
func (t Passage) Len() int { return len(t.raw) }

// Pieces yields the unescaped text, piece by piece, so that a long text is never copied as a whole. A
// piece without escapes is part of the body. Each piece is valid until the next one.
func (t Passage) Pieces() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		rest := t.raw
		// The unescaped character that is yielded; the next one overwrites it.
		var room [utf8.UTFMax]byte
		for len(rest) > 0 {
			at := -1
			if t.quoted {
				at = bytes.IndexByte(rest, '\\')
			}
			if at < 0 {
				yield(rest)
				return
			}
			if at > 0 && !yield(rest[:at]) {
				return
			}
			r, n := jsonscan.Rune(rest[at:])
			rest = rest[at+n:]
			if !yield(utf8.AppendRune(room[:0], r)) {
				return
			}
		}
	}
}

// Sample returns about n bytes of the text from the offset at on, both in bytes of the body. It starts
// and ends where a character or an escape starts, so that the sample is itself a valid Passage. Near
// the end of the text it starts earlier, to be n bytes long.
func (t Passage) Sample(at, n int) Passage {
	from := t.align(max(0, min(at, len(t.raw)-n)))
	to := t.align(min(from+n, len(t.raw)))
	return Passage{t.raw[from:to], t.quoted}
}

// align returns the first offset, from at on, where a character or an escape starts. It cannot read
// from the front, which would take time in proportion to the text; instead it looks back as far as the
// longest escape reaches. A byte with no backslash in that range is inside no escape.
func (t Passage) align(at int) int {
	const longest = 12 // bytes of the longest escape, a surrogate pair
	for ; at < len(t.raw); at++ {
		switch {
		case at == 0:
			return at
		case !utf8.RuneStart(t.raw[at]):
			continue
		case !t.quoted:
			return at
		}
		// at may be inside an escape that began up to longest bytes before it.
		before := t.raw[max(0, at-longest):at]
		// A backslash after another character always starts an escape. It must not be the second
		// half of a surrogate pair.
		if t.raw[at] == '\\' && before[len(before)-1] != '\\' && !isHighEscape(before) {
			return at
		}
		if bytes.IndexByte(before, '\\') < 0 {
			return at
		}
	}
	return len(t.raw)
}

// isHighEscape reports whether b ends with the escape of the first half of a surrogate pair.
func isHighEscape(b []byte) bool {
	if len(b) < 6 || b[len(b)-6] != '\\' || b[len(b)-5] != 'u' {
		return false
	}
	r, ok := jsonscan.Hex4(b, len(b)-4)
	return ok && r >= 0xd800 && r < 0xdc00
}
