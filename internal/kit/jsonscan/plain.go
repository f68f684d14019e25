package jsonscan

import "encoding/binary"

// plainPortable returns the number of bytes at the beginning of b, a multiple of 64, that are plain text: no quotes, no
// backslashes, no control characters, nothing beyond ASCII. For the 64 bytes after them it returns a bit for each byte of
// the first three kinds, and one for each that is beyond ASCII; the lowest bit stands for the first byte. Both are 0 if
// fewer than 64 bytes are left.
//
// For a byte x below 0x80, x+0x7f has its high bit clear only if x is 0, and nothing is carried to the next byte. The
// exclusive or turns quotes into 0, and likewise backslashes; x&0x60 is 0 for control characters.
func plainPortable(b []byte) (n int, stop, high uint64) {
	const low, top = 0x7f * everyByte, 0x80 * everyByte
	// The product moves the high bits of all eight bytes, side by side, into the highest byte.
	const gather = 0x0102040810204080
	for ; n+64 <= len(b); n += 64 {
		block := (*[64]byte)(b[n:])
		for k := 0; k < 64; k += 8 {
			w := binary.LittleEndian.Uint64(block[k:])
			quote := w&low ^ '"'*everyByte
			slash := w&low ^ '\\'*everyByte
			control := w & (0x60 * everyByte)
			m := ^((quote+low)&(slash+low)&(control+low) | w) & top
			if m|w&top == 0 {
				continue
			}
			stop |= (m >> 7 * gather >> 56) << k
			high |= (w & top >> 7 * gather >> 56) << k
		}
		if stop|high != 0 {
			break
		}
	}
	return n, stop, high
}
