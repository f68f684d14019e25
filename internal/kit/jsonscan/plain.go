package jsonscan

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// marks say what 64 bytes are, with a bit for each; the lowest bit stands for the first byte. The later ones are set by spell.
type marks struct {
	stop  uint64 // a quote, a backslash or a control character
	slash uint64 // a backslash
	high  uint64 // beyond ASCII

	more  uint64 // continues a character
	three uint64 // begins a character of at least three bytes, and
	four  uint64 // of four
	odd   uint64 // begins one whose second byte may not be any, or none at all
}

// lookPortable returns the number of bytes at the beginning of b, a multiple of 64, that are plain text: no quotes, no backslashes,
// no control characters, nothing beyond ASCII. It marks the 64 bytes after them; if fewer are left, nothing is marked.
//
// For a byte x below 0x80, x+0x7f has its high bit clear only if x is 0, and nothing is carried to the next byte. The
// exclusive or turns quotes into 0, and likewise backslashes; x&0x60 is 0 for control characters.
func lookPortable(b []byte, m *marks) (n int) {
	const low, top = 0x7f * everyByte, 0x80 * everyByte
	// The product moves the high bits of all eight bytes, side by side, into the highest byte.
	const gather = 0x0102040810204080
	m.stop, m.slash, m.high = 0, 0, 0
	for ; n+64 <= len(b); n += 64 {
		block := (*[64]byte)(b[n:])
		for k := 0; k < 64; k += 8 {
			w := binary.LittleEndian.Uint64(block[k:])
			quote := w&low ^ '"'*everyByte
			slash := w&low ^ '\\'*everyByte
			control := w & (0x60 * everyByte)
			stop := ^((quote+low)&(slash+low)&(control+low) | w) & top
			if stop|w&top == 0 {
				continue
			}
			m.stop |= (stop >> 7 * gather >> 56) << k
			m.slash |= (^(slash + low | w) & top >> 7 * gather >> 56) << k
			m.high |= (w & top >> 7 * gather >> 56) << k
		}
		if m.stop|m.high != 0 {
			break
		}
	}
	return n
}

// spellPortable marks where the characters beyond ASCII in a block begin and go on.
func spellPortable(block *[64]byte, m *marks) {
	m.more, m.three, m.four, m.odd = 0, 0, 0, 0
	for rest := m.high; rest != 0; rest &= rest - 1 {
		bit := rest & -rest
		switch c := block[bits.TrailingZeros64(rest)]; {
		case c < 0xc0:
			m.more |= bit
			continue
		case c == 0xc0, c == 0xc1, c == 0xe0, c == 0xed, c == 0xf0, c >= 0xf4:
			m.odd |= bit
			fallthrough
		default:
			if c >= 0xe0 {
				m.three |= bit
			}
			if c >= 0xf0 {
				m.four |= bit
			}
		}
	}
}

// escapes returns which of the bytes are escaped, and which backslashes escape them: of several in a row every other one.
//
// A run of backslashes is added to, so that a carry runs through it. Where a run begins at an even bit, its end tells by
// whether it is even how long the run was; bits at odd places are set before, which turns this around for the others.
func (m *marks) escapes() (escaped, escapes uint64) {
	const odd = 0xaaaaaaaaaaaaaaaa
	after := (m.slash<<1 | odd) - m.slash ^ odd
	return after ^ m.slash, after & m.slash
}

// few is how many bytes beyond ASCII of a block are decoded one character at a time. More take less time as marks.
const few = 5

// characters returns how many of the first n bytes of a block, with which b begins, are before the last character, if that goes on
// behind them, and else n. It reports whether they are valid UTF-8; if not, it returns 0.
func (m *marks) characters(b []byte, n int) (cut int, ok bool) {
	within := uint64(1)<<n - 1
	if high := m.high & within; bits.OnesCount64(high) <= few {
		for high != 0 {
			at := bits.TrailingZeros64(high)
			r, size := utf8.DecodeRune(b[at:])
			if r == utf8.RuneError && size == 1 {
				return 0, false
			}
			if at+size > n {
				return at, true
			}
			high &^= (1<<size - 1) << at
		}
		return n, true
	}
	spell((*[64]byte)(b), m)
	begin := m.high &^ m.more & within
	if (begin<<1|m.three<<2|m.four<<3^m.more)&within != 0 {
		return 0, false
	}
	if cut = n; begin != 0 {
		at := bits.Len64(begin) - 1
		if at+2+int(m.three>>at&1)+int(m.four>>at&1) > n {
			cut = at
		}
	}
	if m.odd&within != 0 && !utf8.Valid(b[:cut]) {
		return 0, false
	}
	return cut, true
}
