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
// it knows all characters to be whole; that is below end if it has left the check to String. So it does if checked is
// below i.
//
// plain returns two masks for the block at which it stopped. Bits of stop are worked through from
// the lowest: a short escape is counted and both its bits are cleared, since the second byte may
// be a quote or a backslash; anything else ends the scan at that byte.
func long(b []byte, i, checked int) (end, saved, upTo int) {
	for i+64 <= len(b) {
		n, stop, high := plain(b[i:])
		if checked >= i {
			checked = max(checked, i+n)
		}
		i += n
		if stop|high == 0 {
			continue // the end of b is near
		}
		next := i + 64
		other := false // than text and escapes of two bytes
		for stop != 0 && !other {
			at := i + bits.TrailingZeros64(stop)
			if b[at] == '\\' && at+1 < len(b) && simple[b[at+1]] {
				saved++
				stop &^= 3 << (at - i)
				next = max(next, at+2) // the last escape may end in the next block
				continue
			}
			high &= 1<<(at-i) - 1
			next, other = at, true
		}
		if checked >= i {
			checked = characters(b, i, checked, high, next)
		}
		if i = next; other {
			break
		}
	}
	return i, saved, checked
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

// characters checks the characters of a block: b[i] is its first byte, high marks its bytes beyond ASCII, and next is the
// index after it. It returns the index after the last character, which may reach into the next block, or, if the check is
// left to String, the index of a character below next. String does it for what is wrong, and for text of which much is
// beyond ASCII, which the library checks faster.
func characters(b []byte, i, checked int, high uint64, next int) int {
	// Decoding one character at a time wins only while there are few.
	dense := bits.OnesCount64(high) > 24
	for high != 0 {
		at := i + bits.TrailingZeros64(high)
		if at < checked {
			high &= high - 1
			continue
		}
		r, n := utf8.DecodeRune(b[at:])
		if dense || r == utf8.RuneError && n == 1 {
			return at
		}
		checked = at + n
		high &^= (1<<n - 1) << (at - i)
	}
	return max(checked, next)
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
