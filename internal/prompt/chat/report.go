package chat

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf8"

	"sluice/internal/kit/fault"
	"sluice/internal/kit/jsonscan"
)

// Messages go back to the caller and into logs, so both are kept short.
const (
	maxEcho = 40  // characters of the caller's input that a message repeats
	maxPath = 160 // bytes after which a path is cut off
)

// bad refuses the current value, or the part of it that sub leads to, such as ".type". The
// message starts with the path, so format continues the sentence: "must be …". Only the first problem
// of a body counts.
func (s *scanner) bad(sub, format string, args ...any) {
	if s.fault == nil { // otherwise the frames no longer lead to the problem
		s.badAt(s.path()+sub, format, args...)
	}
}

// badAt refuses the value at path; an empty path means the whole body. The path is also the error's
// param (docs/api.md#error-object).
func (s *scanner) badAt(path, format string, args ...any) {
	if s.fault != nil {
		return
	}
	subject := path
	if path == "" {
		subject = "The body"
	}
	s.refuse(fault.New(fault.Invalid, "%s %s", subject, fmt.Sprintf(format, args...)).At(path))
}

// mismatch refuses a value that is not what want says. It checks the syntax first: if the body was
// cut off, the caller must hear about the cut.
func (s *scanner) mismatch(want string) {
	from := s.pos
	s.skip()
	s.bad("", "must be %s; got %s", want, s.describe(from))
}

// mismatchType is mismatch without repeating the value: where an object or an array belongs, people
// put whole texts, and those must not end up in a message.
func (s *scanner) mismatchType(want string) {
	from := s.pos
	s.skip()
	if !s.failed() {
		s.bad("", "must be %s; got %s", want, typeName(s.body[from]))
	}
}

// describe names the value body[from:pos]. After a problem it returns an empty string.
func (s *scanner) describe(from int) string {
	if s.fault != nil {
		return ""
	}
	return describe(s.body[from:s.pos])
}

// expected refuses the body as malformed JSON. what describes the token that must be at pos; the message
// also names what is there instead.
func (s *scanner) expected(what string) {
	s.malformed(s.pos, "expected %s, found %s", what, s.found(s.pos))
}

// malformed refuses the body as malformed JSON and names the place: offset, line and column. The offset
// starts at 0 and counts bytes; line and column start at 1, and columns count characters, as editors
// show them. Such a fault has no path.
func (s *scanner) malformed(at int, format string, args ...any) {
	if s.fault != nil {
		return
	}
	// Counting lines takes time, but only for a body that is refused.
	before := s.body[:at]
	line := 1 + bytes.Count(before, []byte{'\n'})
	column := 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
	s.refuse(fault.New(fault.Invalid, "Malformed JSON at byte offset %d (line %d, column %d): %s",
		at, line, column, fmt.Sprintf(format, args...)))
}

// refuse keeps the fault and moves to the end of the body, so that nothing more is read.
func (s *scanner) refuse(f *fault.Fault) {
	s.fault = f
	s.pos = len(s.body)
}

// failed reports whether a problem has been found.
func (s *scanner) failed() bool { return s.fault != nil }

// found names what is at offset at, where something else was expected: a character, a word of at most
// 12 bytes, or a byte in hexadecimal if it cannot be printed.
func (s *scanner) found(at int) string {
	if at >= len(s.body) {
		return "the end of the body"
	}
	r, n := utf8.DecodeRune(s.body[at:])
	switch {
	case r == '"':
		return "a double quote"
	case r == utf8.RuneError && n == 1, !unicode.IsPrint(r):
		return fmt.Sprintf("byte 0x%02x", s.body[at])
	}
	// A whole word such as True or NaN says more than its first letter.
	end := at + n
	for end < len(s.body) && end < at+12 && isWord(s.body[at]) && isWord(s.body[end]) {
		end++
	}
	return strconv.Quote(string(s.body[at:end]))
}

// isWord reports whether c can be part of a name that needs no quotes in a path.
func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

// path returns the path to the current value, such as messages[3].tool_call_id; empty for the body
// itself.
func (s *scanner) path() string { return s.pathOf(s.frames) }

// pathOf returns the path that the outermost frames make. It is cut off after maxPath bytes. A frame
// of which nothing was read yet adds nothing: its value is the current one.
func (s *scanner) pathOf(frames []frame) string {
	var path []byte
	for _, f := range frames {
		// A path of 128 levels with long keys would be longer than the rest of the message.
		if len(path) > maxPath {
			return string(append(path, "…"...))
		}
		switch {
		case f.count == 0:
		case f.object:
			path = appendKey(path, s.body[f.from:f.to])
		default:
			path = append(path, '[')
			path = strconv.AppendInt(path, int64(f.count-1), 10)
			path = append(path, ']')
		}
	}
	return string(path)
}

// appendKey appends a step of a path: .name, or ["any name"] if the key is not a plain word.
func appendKey(path, raw []byte) []byte {
	key := excerpt(raw)
	for i := range len(key) {
		if !isWord(key[i]) && key[i] != '-' && key[i] != '$' {
			return append(strconv.AppendQuote(append(path, '['), key), ']')
		}
	}
	if key == "" {
		return append(path, `[""]`...)
	}
	if len(path) > 0 {
		path = append(path, '.')
	}
	return append(path, key...)
}

// keyPath returns the step of a path after another one that leads to a key.
func keyPath(key string) string {
	return string(appendKey([]byte{'.'}, jsonscan.AppendQuoted(nil, key))[1:])
}

// typeName returns the type of the JSON value that starts with c, in words.
func typeName(c byte) string {
	switch c {
	case 0:
		return "nothing"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// describe names a checked JSON value: an object or array by its type, anything else by its
// beginning.
func describe(raw []byte) string {
	switch raw[0] {
	case '{', '[':
		return typeName(raw[0])
	case '"':
		return strconv.Quote(excerpt(raw))
	}
	if len(raw) > maxEcho {
		return string(raw[:maxEcho-1]) + "…"
	}
	return string(raw)
}

// excerpt returns the beginning of the text of a checked JSON string: at most maxEcho characters.
func excerpt(raw []byte) string {
	// Unescaped piece by piece: the string may be megabytes long, and only its beginning is wanted.
	inner := raw[1 : len(raw)-1]
	var text []byte
	for n := 0; len(inner) > 0; n++ {
		r, size := jsonscan.Rune(inner)
		if n == maxEcho-1 && len(inner) > size {
			return string(append(text, "…"...))
		}
		text = utf8.AppendRune(text, r)
		inner = inner[size:]
	}
	return string(text)
}

// quoteShort returns the beginning of a text in quotes, at most maxEcho characters of it.
func quoteShort(s string) string { return describe(jsonscan.AppendQuoted(nil, s)) }
