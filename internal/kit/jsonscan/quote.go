package jsonscan

import (
	"bytes"
	"encoding/json"
	"math/bits"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Marshal is json.Marshal, but leaves <, > and & as they are: prompts are full of them, and an escape would make each six
// bytes long.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// Unquote returns the text of raw, a JSON string with its quotes, as a copy. String or encoding/json must have
// accepted raw: Unquote does not check it again.
func Unquote(raw []byte) string {
	if len(raw) < 2 {
		return ""
	}
	rest := raw[1 : len(raw)-1]
	i := bytes.IndexByte(rest, '\\')
	if i < 0 {
		return string(rest)
	}
	var b strings.Builder
	b.Grow(len(rest)) // an escape is never shorter than what it stands for
	for i >= 0 {
		b.Write(rest[:i])
		// Escapes often come in a row: a line break with the space before the next line of code.
		for rest = rest[i:]; len(rest) > 0 && rest[0] == '\\'; {
			r, n := Rune(rest)
			b.WriteRune(r)
			rest = rest[n:]
		}
		i = bytes.IndexByte(rest, '\\')
	}
	b.Write(rest)
	return b.String()
}

// Rune decodes the first character of b, which must not be empty and must be (the rest of) the
// inside of a string that String has accepted. It returns the character and the number of bytes it
// takes in b, escaped or not.
func Rune(b []byte) (rune, int) {
	if b[0] != '\\' {
		return utf8.DecodeRune(b)
	}
	switch c := b[1]; c {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		// String has checked the digits, and that the second half of a pair follows the first. encoding/json has checked the
		// digits alone, and reads half of a pair as a replacement character.
		r, _ := Hex4(b, 2)
		if !utf16.IsSurrogate(r) {
			return r, 6
		}
		if low, ok := Hex4(b, 8); ok && b[6] == '\\' && utf16.DecodeRune(r, low) != utf8.RuneError {
			return utf16.DecodeRune(r, low), 12
		}
		return utf8.RuneError, 6
	default: // a quote, backslash or slash stands for itself
		return rune(c), 2
	}
}

// Equal reports whether raw, a JSON string that String has accepted, spells text. It does not allocate.
// Escapes are decoded on the way, so "\u0061" equals "a".
func Equal(raw []byte, text string) bool {
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 { // almost always, and the compiler makes no copy for it
		return string(inner) == text
	}
	for len(inner) > 0 && len(text) > 0 {
		r, n := Rune(inner)
		want, m := utf8.DecodeRuneInString(text)
		if r != want {
			return false
		}
		inner, text = inner[n:], text[m:]
	}
	return len(inner) == 0 && len(text) == 0
}

// AppendQuoted appends s as a JSON string and returns the extended slice. Only what JSON requires
// is escaped; bytes that are not UTF-8 become U+FFFD. It allocates nothing but room in dst, unlike
// encoding/json. What needs no change is looked at eight bytes at a time and copied in runs, which
// takes a tenth of the time of copying it character by character.
func AppendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	from := 0 // what stands before it is in dst
	for i := 0; i < len(s); {
		if i+8 <= len(s) {
			w := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
				uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
			m := stops(w) | w&(0x80*everyByte)
			if m == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(m) / 8
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r >= ' ' && r != '"' && r != '\\' && (r != utf8.RuneError || n > 1) {
			i += n
			continue
		}
		dst = appendRune(append(dst, s[from:i]...), r)
		i += n
		from = i
	}
	return append(append(dst, s[from:]...), '"')
}

// AppendInside appends raw, the inside of a JSON string that String has accepted, in the spelling of
// AppendQuoted.
func AppendInside(dst, raw []byte) []byte {
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return append(dst, raw...)
		}
		r, n := Rune(raw[i:])
		dst = appendRune(append(dst, raw[:i]...), r)
		raw = raw[i+n:]
	}
}

// appendRune appends a character as the inside of a JSON string.
func appendRune(dst []byte, r rune) []byte {
	switch {
	case r == '"' || r == '\\':
		return append(dst, '\\', byte(r))
	case r < ' ': // JSON requires an escape for control characters, and for no other character
		return append(dst, Escaped(byte(r))...)
	}
	return utf8.AppendRune(dst, r)
}

// Escaped returns the escape for the control character c, such as \n or \u001f.
func Escaped(c byte) string {
	switch c {
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	}
	const hex = "0123456789abcdef"
	return `\u00` + string([]byte{hex[c>>4], hex[c&15]})
}
