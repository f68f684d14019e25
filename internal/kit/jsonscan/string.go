package jsonscan

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// Problem says why a string or a number is not valid JSON. The zero Problem, OK, says that it is.
//
// The scanner names problems instead of returning errors because its two users need different
// things: chat turns each into a message for the caller, relay only wants to know that there is
// one, and must not allocate.
type Problem uint8

const (
	OK Problem = iota

	Unclosed      // the string has no closing quote
	Control       // a control character that is not escaped
	NotUTF8       // a byte that is not part of valid UTF-8
	EscapeCut     // the input ends after a backslash
	EscapeUnknown // a backslash before a byte that starts no escape
	EscapeDigits  // \u without four hexadecimal digits
	LoneLow       // the second half of a surrogate pair without the first
	LoneHigh      // the first half of a surrogate pair without the second

	NoDigit         // a number without any digit
	LeadingZero     // a number such as 01
	NoFractionDigit // a decimal point without a digit after it
	NoExponentDigit // an exponent without a digit
)

// String reads the JSON string whose opening quote is b[i] and checks every byte of it.
//
// It returns the index after the closing quote and the length of the unescaped text in bytes. If
// the string is not valid, it returns the problem and, as end, the index of the byte that is wrong:
// of the backslash for an escape, of the opening quote for Unclosed. UTF-8 is checked last, so any
// other problem in the same string is reported first.
//
// The loop has three parts: words of eight bytes without anything special, long for the middle of
// long texts, and the switch for the one byte at which the words stopped.
func String(b []byte, i int) (end, size int, p Problem) {
	from := i
	i++
	checked := i    // the bytes before it are known to be whole characters
	saved := 0      // bytes by which unescaping makes the string shorter
	var high uint64 // the bitwise or of the bytes read from checked on, to see whether any is beyond ASCII
	for {
		for i+8 <= len(b) {
			w := binary.LittleEndian.Uint64(b[i:])
			high |= w
			if m := stops(w); m != 0 {
				i += bits.TrailingZeros64(m) / 8
				break
			}
			i += 8
			if i-from > shortText && i+64 <= len(b) {
				// Everything so far is ASCII, so all characters are whole.
				if high&(0x80*everyByte) == 0 {
					checked = i
				}
				var n int
				i, n, checked = long(b, i, whole(b, checked, i))
				saved += n
				if high = 0; checked < i {
					high = 0x80
				}
			}
		}
		if i >= len(b) {
			return from, 0, Unclosed
		}
		switch c := b[i]; {
		case c == '"':
			// high may include bytes after the quote. Then the check is needed less often than it
			// is made, which costs time and changes no result.
			if high&(0x80*everyByte) != 0 {
				if !utf8.Valid(b[checked:i]) {
					return whole(b[:i], checked, i), 0, NotUTF8
				}
			}
			return i + 1, i - from - 1 - saved, OK
		case c == '\\':
			n, size, p := escape(b, i)
			if p != OK {
				return i, 0, p
			}
			saved += n - size
			i += n
		case c < ' ':
			return i, 0, Control
		default: // one of the last bytes of the input
			high |= uint64(c)
			i++
		}
	}
}

// shortText is how many bytes of a string are looked at eight at a time. Most strings of a request are names, which are
// not longer, and 64 bytes at a time would cost more for them.
const shortText = 32

// long reads on in a string at b[i], 64 bytes at a time, until something else comes than text and escapes of two bytes,
// or fewer bytes are left. It returns where String must continue, how many bytes unescaping saves, and the index up to which
// it knows all characters to be whole; that is below end if it has left the check to String. So it does from the beginning if
// checked, up to where String knows that, is below i.
//
// A block that ends in the middle of an escape or a character ends before it, so each begins with something whole.
func long(b []byte, i, checked int) (end, saved, upTo int) {
	if checked < i {
		return i, 0, checked
	}
	i = checked // the end of a character that has begun
	var m marks
	for i+64 <= len(b) {
		i += look(b[i:], &m)
		if m.stop|m.high == 0 {
			break // the end of b is near
		}
		n, other := 64, uint64(0)
		if m.stop != 0 {
			escaped, escapes := m.escapes()
			n -= int(escapes >> 63)
			other = m.stop &^ (m.slash | escaped)
			for rest := escapes &^ (1 << 63); rest != 0; rest &= rest - 1 {
				at := bits.TrailingZeros64(rest)
				if !simple[b[i+at+1]] {
					other |= 1 << at
					break
				}
			}
			if other != 0 {
				n = bits.TrailingZeros64(other)
			}
			saved += bits.OnesCount64(escapes & (1<<n - 1))
		}
		cut := n
		if m.high != 0 {
			var ok bool
			if cut, ok = m.characters(b[i:], n); !ok || other != 0 {
				return i + n, saved, i + cut
			}
		}
		if i += cut; other != 0 {
			break
		}
	}
	return i, saved, i
}

// whole returns the index after the last character that begins in b[from:to], or that of the first that is not valid.
// It is used where a block begins in the middle of a character, and to find the byte that an error
// names.
func whole(b []byte, from, to int) int {
	for from < to {
		r, n := utf8.DecodeRune(b[from:])
		if r == utf8.RuneError && n == 1 {
			return from
		}
		from += n
	}
	return from
}

// simple has the bytes that make an escape of two bytes after a backslash.
var simple = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

// everyByte times a byte value is that byte in all eight positions of a word.
const everyByte = 0x0101010101010101

// stops sets the high bit of each byte of w that the scan must look at: quotes, backslashes and
// control characters. Only the lowest mark is exact: the subtractions borrow from higher bytes, so
// there may be marks above it that mean nothing.
//
// For a byte x, (x-1)&^x has its high bit set if x is 0, and otherwise only if a lower byte has
// borrowed from it. The exclusive or turns quotes into 0, and likewise backslashes. (x-' ')&^x has
// it set if x is below the space, which makes it a control character.
func stops(w uint64) uint64 {
	quote := w ^ '"'*everyByte
	slash := w ^ '\\'*everyByte
	return ((quote-everyByte)&^quote | (slash-everyByte)&^slash | (w-' '*everyByte)&^w) & (0x80 * everyByte)
}

// escape checks the escape that starts with the backslash b[i]. It returns the length of the escape
// and of the UTF-8 that it stands for. Half a surrogate pair is a problem: it stands for no
// character.
func escape(b []byte, i int) (n, size int, p Problem) {
	if i+1 >= len(b) {
		return 0, 0, EscapeCut
	}
	switch b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2, 1, OK
	case 'u':
	default:
		return 0, 0, EscapeUnknown
	}
	r, ok := Hex4(b, i+2)
	switch {
	case !ok:
		return 0, 0, EscapeDigits
	case !utf16.IsSurrogate(r): // a character of its own
		return 6, utf8.RuneLen(r), OK
	case r >= 0xdc00:
		return 0, 0, LoneLow
	}
	// The first half of a pair. The second must follow at once, as an escape of its own.
	if i+7 < len(b) && b[i+6] == '\\' && b[i+7] == 'u' {
		if low, ok := Hex4(b, i+8); ok && low >= 0xdc00 && low <= 0xdfff {
			return 12, 4, OK
		}
	}
	return 0, 0, LoneHigh
}

// Hex4 returns the value of the four hexadecimal digits at b[i], as in \u00e9. It reports false if
// there are fewer.
func Hex4(b []byte, i int) (rune, bool) {
	if i+4 > len(b) {
		return 0, false
	}
	var r rune
	for _, c := range b[i : i+4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
