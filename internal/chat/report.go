package chat

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf8"

	"sluice/internal/fault"
	"sluice/internal/jsonscan"
)

const (
	maxEcho = 40  // characters of the caller's input that a message repeats
	maxPath = 160 // bytes after which a path is cut off
)

// bad refuses the value that the scanner has come to, or the part of it that sub leads to. The
// message begins with the path.
func (s *scanner) bad(sub, format string, args ...any) {
	if s.fault == nil { // else the path is no longer that of the problem
		s.badAt(s.path()+sub, format, args...)
	}
}

// badAt refuses the value at path.
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

// mismatch refuses a value of another type than want. Its syntax is checked first: in a body that
// was cut off, the cut is what the caller must hear of.
func (s *scanner) mismatch(want string) {
	from := s.pos
	s.skip()
	s.bad("", "must be %s; got %s", want, s.describe(from))
}

// mismatchType is mismatch where the value itself is not to be repeated: in place of an object or an
// array people put whole texts, and those are nobody else's business.
func (s *scanner) mismatchType(want string) {
	from := s.pos
	s.skip()
	if !s.failed() {
		s.bad("", "must be %s; got %s", want, typeName(s.body[from]))
	}
}

// describe names the value that was read from here up to pos.
func (s *scanner) describe(from int) string {
	if s.fault != nil {
		return ""
	}
	return describe(s.body[from:s.pos])
}

// expected refuses what stands at pos as not being JSON.
func (s *scanner) expected(what string) {
	s.malformed(s.pos, "expected %s, found %s", what, s.found(s.pos))
}

// malformed refuses the body as not being JSON, naming the place.
func (s *scanner) malformed(at int, format string, args ...any) {
	if s.fault != nil {
		return
	}
	before := s.body[:at]
	line := 1 + bytes.Count(before, []byte{'\n'})
	column := 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
	s.refuse(fault.New(fault.Invalid, "Malformed JSON at byte offset %d (line %d, column %d): %s",
		at, line, column, fmt.Sprintf(format, args...)))
}

func (s *scanner) refuse(f *fault.Fault) {
	s.fault = f
	s.pos = len(s.body)
}

// failed reports whether a problem has been found.
func (s *scanner) failed() bool { return s.fault != nil }

// found names what stands at a place where something else was expected.
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
	end := at + n
	for end < len(s.body) && end < at+12 && isWord(s.body[at]) && isWord(s.body[end]) {
		end++
	}
	return strconv.Quote(string(s.body[at:end]))
}

func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

// path leads to the value that the scanner has come to: messages[3].tool_call_id.
func (s *scanner) path() string { return s.pathOf(s.frames) }

// pathOf is the path that the given frames, the outermost ones, make.
func (s *scanner) pathOf(frames []frame) string {
	var path []byte
	for _, f := range frames {
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

// appendKey appends a step of a path: .name, or ["any name"] where it is no plain word.
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

// typeName is the type of the JSON value that begins with c.
func typeName(c byte) string {
	switch c {
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

// describe names a checked JSON value: a short one by itself, an object or array by its type.
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

// excerpt is the beginning of the text of a checked JSON string.
func excerpt(raw []byte) string {
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

// quoteShort quotes the beginning of a text.
func quoteShort(s string) string { return describe(jsonscan.AppendQuoted(nil, s)) }
