package relay

import "unicode/utf8"

// cursor reads JSON just well enough to tell whether an upstream's bytes can be handed on as they
// are. It accepts only valid JSON, and not all of it: what it cannot follow is left to the decoder,
// so it has no errors, only ok.
type cursor struct {
	b     []byte
	i     int
	lines bool // white space that ends a line was skipped
}

// span is a stretch of the bytes under the cursor.
type span struct{ from, to int }

func (s span) empty() bool { return s.from == s.to }

const maxDepth = 64

// next skips white space and returns the byte there; 0 at the end.
func (c *cursor) next() byte {
	for c.i < len(c.b) {
		switch ch := c.b[c.i]; ch {
		case ' ', '\t':
			c.i++
		case '\n', '\r':
			c.lines = true
			c.i++
		default:
			return ch
		}
	}
	return 0
}

// take skips white space and the given byte, if it is there.
func (c *cursor) take(ch byte) bool {
	if c.next() != ch {
		return false
	}
	c.i++
	return true
}

// members calls each for every member of the object at the cursor, with the key as written and the
// cursor at the value, which it must read.
func (c *cursor) members(each func(key []byte) bool) bool {
	if !c.take('{') {
		return false
	}
	if c.take('}') {
		return true
	}
	for {
		key, ok := c.key()
		if !ok || !c.take(':') {
			return false
		}
		c.next()
		if !each(key) {
			return false
		}
		if c.take('}') {
			return true
		}
		if !c.take(',') {
			return false
		}
	}
}

// key reads the key of a member. One with escapes could be another spelling of a key that matters,
// so it is the decoder's.
func (c *cursor) key() ([]byte, bool) {
	if c.next() != '"' {
		return nil, false
	}
	from := c.i + 1
	for i := from; i < len(c.b); i++ {
		switch ch := c.b[i]; {
		case ch == '"':
			c.i = i + 1
			return c.b[from:i], true
		case ch == '\\' || ch < ' ' || ch >= utf8.RuneSelf:
			return nil, false
		}
	}
	return nil, false
}

// text reads a string and returns its inside.
func (c *cursor) text() (span, bool) {
	if c.next() != '"' {
		return span{}, false
	}
	from := c.i + 1
	n := insideLen(c.b[from:])
	if n < 0 || from+n == len(c.b) {
		return span{}, false
	}
	c.i = from + n + 1
	return span{from, from + n}, true
}

// isInside reports whether b is the whole inside of a valid JSON string.
func isInside(b []byte) bool { return insideLen(b) == len(b) }

// insideLen is how far b is the inside of a JSON string: up to a quote or the end. It is negative
// where that is not valid.
func insideLen(b []byte) int {
	ascii := true
	for i := 0; i < len(b); i++ {
		switch ch := b[i]; {
		case ch == '"':
			if !ascii && !utf8.Valid(b[:i]) {
				return -1
			}
			return i
		case ch == '\\':
			n := escapeLen(b[i:])
			if n == 0 {
				return -1
			}
			i += n - 1
		case ch < ' ':
			return -1
		case ch >= utf8.RuneSelf:
			ascii = false
		}
	}
	if !ascii && !utf8.Valid(b) {
		return -1
	}
	return len(b)
}

// escapeLen is the length of the escape that b begins with; 0 where it is wrong or cut. A surrogate
// counts only as a whole pair.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		r, ok := hex4(b[2:])
		switch {
		case !ok || r >= 0xdc00 && r < 0xe000:
			return 0
		case r < 0xd800 || r >= 0xe000:
			return 6
		}
		if len(b) < 12 || b[6] != '\\' || b[7] != 'u' {
			return 0
		}
		if low, ok := hex4(b[8:]); ok && low >= 0xdc00 && low < 0xe000 {
			return 12
		}
	}
	return 0
}

func hex4(b []byte) (v int, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	for _, ch := range b[:4] {
		switch {
		case '0' <= ch && ch <= '9':
			v = v<<4 | int(ch-'0')
		case 'a' <= ch|0x20 && ch|0x20 <= 'f':
			v = v<<4 | int(ch|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return v, true
}

// null reads a null.
func (c *cursor) null() bool { return c.word("null") }

// word reads a literal.
func (c *cursor) word(w string) bool {
	if c.next(); len(c.b)-c.i < len(w) || string(c.b[c.i:c.i+len(w)]) != w {
		return false
	}
	c.i += len(w)
	return true
}

// small reads a number of one to three digits, such as an index.
func (c *cursor) small() (int, bool) {
	c.next()
	from, v := c.i, 0
	for c.i < len(c.b) && c.i-from < 4 && '0' <= c.b[c.i] && c.b[c.i] <= '9' {
		v = v*10 + int(c.b[c.i]-'0')
		c.i++
	}
	n := c.i - from
	if n == 0 || n > 3 || n > 1 && c.b[from] == '0' || c.i < len(c.b) && isNumeric(c.b[c.i]) {
		return 0, false
	}
	return v, true
}

func isNumeric(ch byte) bool {
	return '0' <= ch && ch <= '9' || ch == '.' || ch == 'e' || ch == 'E' || ch == '+' || ch == '-'
}

// skip reads any value.
func (c *cursor) skip(depth int) bool {
	if depth > maxDepth {
		return false
	}
	switch ch := c.next(); {
	case ch == '"':
		_, ok := c.text()
		return ok
	case ch == '{':
		return c.members(func([]byte) bool { return c.skip(depth + 1) })
	case ch == '[':
		c.i++
		if c.take(']') {
			return true
		}
		for c.skip(depth + 1) {
			if c.take(']') {
				return true
			}
			if !c.take(',') {
				return false
			}
		}
		return false
	case ch == 'n':
		return c.word("null")
	case ch == 't':
		return c.word("true")
	case ch == 'f':
		return c.word("false")
	default:
		return c.number()
	}
}

// number reads a number.
func (c *cursor) number() bool {
	c.take('-')
	if c.i < len(c.b) && c.b[c.i] == '0' {
		c.i++
	} else if c.digits() == 0 {
		return false
	}
	if c.i < len(c.b) && c.b[c.i] == '.' {
		c.i++
		if c.digits() == 0 {
			return false
		}
	}
	if c.i < len(c.b) && c.b[c.i]|0x20 == 'e' {
		c.i++
		if c.i < len(c.b) && (c.b[c.i] == '+' || c.b[c.i] == '-') {
			c.i++
		}
		return c.digits() > 0
	}
	return true
}

func (c *cursor) digits() (n int) {
	for c.i < len(c.b) && '0' <= c.b[c.i] && c.b[c.i] <= '9' {
		c.i++
		n++
	}
	return n
}

// end reports whether nothing but white space is left.
func (c *cursor) end() bool { return c.next() == 0 && c.i == len(c.b) }
