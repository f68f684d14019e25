// Package jsonscan reads JSON in place, byte by byte, without decoding it into values. It is the one
// scanner behind chat, which checks requests, and relay, which decides whether an upstream's bytes
// can be passed on.
//
// String and Number check one token; a Cursor walks over objects and arrays; After finds the end of a
// value that was checked; Unquote and Rune decode a string that was checked. Nothing allocates but Unquote and Escaped. The scanner knows
// the grammar alone: limits on digits, duplicate keys and messages for callers belong to its users.
//
// Start reading with String, where nearly all the time goes. It looks at 8 bytes at a time, at 64
// in long texts, and at single bytes only where one of them needs attention.
package jsonscan

import "unicode/utf8"

// Cursor is a position in JSON text. Body is only read, and belongs to whoever set it. Pos is the
// index of the next byte; users may move it, within 0 and len(Body).
//
// After a method reported false, Pos may stand anywhere in the value that was refused.
type Cursor struct {
	Body []byte
	Pos  int
}

// Space returns the index of the first byte of b, from i on, that is not white space; len(b) if
// there is none.
func Space(b []byte, i int) int {
	// Most bytes are above the space, so the first comparison decides.
	for ; i < len(b); i++ {
		if c := b[i]; c > ' ' || c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			break
		}
	}
	return i
}

// Next skips white space and returns the byte at Pos, without moving past it. It returns 0 at the
// end, which starts no JSON token.
func (c *Cursor) Next() byte {
	if c.Pos = Space(c.Body, c.Pos); c.Pos < len(c.Body) {
		return c.Body[c.Pos]
	}
	return 0
}

// Take skips white space and then ch. It reports false if another byte is there.
func (c *Cursor) Take(ch byte) bool {
	if c.Next() != ch {
		return false
	}
	c.Pos++
	return true
}

// Word skips white space and then w, such as null. What follows w is not looked at: it must be
// checked as the next token.
func (c *Cursor) Word(w string) bool {
	if c.Next(); len(c.Body)-c.Pos < len(w) || string(c.Body[c.Pos:c.Pos+len(w)]) != w {
		return false
	}
	c.Pos += len(w)
	return true
}

// Null reads a null.
func (c *Cursor) Null() bool { return c.Word("null") }

// End reports whether nothing but white space is left. A zero byte in Body is not the end.
func (c *Cursor) End() bool { return c.Next() == 0 && c.Pos == len(c.Body) }

// Members reads an object. It calls each for every member, with the key as it is written and the
// cursor at the value; each must read the value and reports whether it could. Members stops at the
// first false.
//
// It refuses keys that Key refuses, and does not notice a key that occurs twice.
func (c *Cursor) Members(each func(key []byte) bool) bool {
	if !c.Take('{') {
		return false
	}
	if c.Take('}') {
		return true
	}
	for {
		key, ok := c.Key()
		if !ok || !c.Take(':') {
			return false
		}
		c.Next() // each may look at the first byte of the value
		if !each(key) {
			return false
		}
		if c.Take('}') {
			return true
		}
		if !c.Take(',') {
			return false
		}
	}
}

// Key reads the key of a member and returns it without quotes, as part of Body. It refuses keys
// with escapes and keys beyond ASCII: an escaped key can be another spelling of one that the caller
// looks for, and a comparison of bytes would miss it.
// Such objects need a decoder.
func (c *Cursor) Key() ([]byte, bool) {
	if c.Next() != '"' {
		return nil, false
	}
	from := c.Pos + 1
	for i := from; i < len(c.Body); i++ {
		switch ch := c.Body[i]; {
		case ch == '"':
			c.Pos = i + 1
			return c.Body[from:i], true
		case ch == '\\' || ch < ' ' || ch >= utf8.RuneSelf:
			return nil, false
		}
	}
	return nil, false
}

// Text reads a string. Between its quotes stands Body[from:to], still escaped.
func (c *Cursor) Text() (from, to int, ok bool) {
	if c.Next() != '"' {
		return 0, 0, false
	}
	from = c.Pos + 1
	end, _, p := String(c.Body, c.Pos)
	if p != OK {
		return 0, 0, false
	}
	c.Pos = end
	return from, end - 1, true
}

// Skip reads one value of any type. It refuses a value that stands inside more than depth objects
// and arrays, counted from here, which bounds the recursion.
// It refuses odd keys as Members does, also in objects that nobody looks into.
func (c *Cursor) Skip(depth int) bool {
	if depth < 0 {
		return false
	}
	switch c.Next() {
	case '"':
		_, _, ok := c.Text()
		return ok
	case '{':
		return c.Members(func([]byte) bool { return c.Skip(depth - 1) })
	case '[':
		c.Pos++
		if c.Take(']') {
			return true
		}
		for c.Skip(depth - 1) {
			if c.Take(']') {
				return true
			}
			if !c.Take(',') {
				return false
			}
		}
		return false
	case 'n':
		return c.Word("null")
	case 't':
		return c.Word("true")
	case 'f':
		return c.Word("false")
	default:
		end, _, _, p := Number(c.Body, c.Pos)
		c.Pos = end
		return p == OK
	}
}
