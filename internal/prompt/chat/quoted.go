package chat

import (
	"bytes"

	"sluice/internal/kit/jsonscan"
)

// quotation is a JSON string in the body: body[from:to], quotes included.
type quotation struct {
	from, to int
	size     int // bytes of UTF-8 once unescaped
}

// plain reports whether the string has no escapes, so that its text is the bytes between the quotes.
// Every escape is longer than the character it stands for, so comparing lengths is enough.
func (t quotation) plain() bool { return t.size == t.to-t.from-2 }

// quoted reads the JSON string at pos and checks every byte of it. The byte at pos must be a quote. It
// unescapes nothing: most strings are passed on or measured, and never needed as text.
func (s *scanner) quoted() (quotation, bool) {
	end, size, problem := jsonscan.String(s.body, s.pos)
	if problem != jsonscan.OK {
		s.badString(end, problem)
		return quotation{}, false
	}
	t := quotation{from: s.pos, to: end, size: size}
	s.pos = end
	return t, true
}

// badString refuses a string. at is the index of the byte that is wrong; see jsonscan.String.
func (s *scanner) badString(at int, problem jsonscan.Problem) {
	switch problem {
	case jsonscan.Unclosed:
		s.malformed(at, "this string has no closing quote")
	// The usual mistake: a line break that was pasted into a string.
	case jsonscan.Control:
		s.malformed(at, "a control character must be escaped in a string; write %s", jsonscan.Escaped(s.body[at]))
	case jsonscan.NotUTF8:
		s.malformed(at, "byte 0x%02x is not valid UTF-8", s.body[at])
	case jsonscan.EscapeCut:
		s.malformed(at, "expected an escape after the backslash, found the end of the body")
	case jsonscan.EscapeUnknown:
		s.malformed(at, `a backslash must be followed by one of " \ / b f n r t u, found %s`, s.found(at+1))
	case jsonscan.EscapeDigits:
		s.malformed(at, `\u must be followed by four hexadecimal digits`)
	case jsonscan.LoneLow:
		r, _ := jsonscan.Hex4(s.body, at+2)
		s.malformed(at, `\u%04x is the second half of a surrogate pair; the first half must stand before it`, r)
	default: // jsonscan.LoneHigh
		r, _ := jsonscan.Hex4(s.body, at+2)
		s.malformed(at, `\u%04x is the first half of a surrogate pair; the second half must follow it`, r)
	}
}

// unquoted returns the unescaped text as a copy, which may outlive the body.
func (s *scanner) unquoted(t quotation) string {
	return jsonscan.Unquote(s.body[t.from:t.to])
}

// start returns the unescaped text of a JSON string as a copy, or at least its first n bytes.
func start(raw []byte, n int) string {
	if head := raw[1:min(len(raw)-1, 1+n)]; bytes.IndexByte(head, '\\') < 0 {
		return string(head)
	}
	return jsonscan.Unquote(raw)
}

// word returns the unescaped text. It may share memory with the body, so it is for comparing with
// known words, not for keeping.
func (s *scanner) word(t quotation) []byte {
	if t.plain() {
		return s.body[t.from+1 : t.to-1]
	}
	return []byte(s.unquoted(t))
}
