package h264

import (
	"encoding/binary"
	"math/bits"
)

// bitWriter accumulates the payload of a NAL unit, most significant bit first.
type bitWriter struct {
	buf []byte
	// acc holds the last bits written. Only its n low bits are not in buf yet; the others are
	// stale.
	acc uint64
	n   uint // at most 7 between calls
}

// reset empties the writer and keeps its buffer.
func (w *bitWriter) reset() { w.buf, w.acc, w.n = w.buf[:0], 0, 0 }

// u writes the n low bits of v, where n is at most 32. The name is that of the descriptor in the
// standard, as are ue and se.
func (w *bitWriter) u(n uint, v uint32) {
	w.acc = w.acc<<n | uint64(v)&(1<<n-1)
	w.n += n
	for w.n >= 8 {
		w.n -= 8
		w.buf = append(w.buf, byte(w.acc>>w.n))
	}
}

// ue writes an unsigned Exp-Golomb code (clause 9.1): v+1 in binary, preceded by one zero less than
// it has digits.
func (w *bitWriter) ue(v uint32) {
	n := uint(bits.Len32(v + 1))
	w.u(n-1, 0)
	w.u(n, v+1)
}

// se writes a signed Exp-Golomb code (clause 9.1.1). The values 0, 1, -1, 2, -2 map to the codes 0,
// 1, 2, 3, 4.
func (w *bitWriter) se(v int) {
	if v > 0 {
		w.ue(uint32(2*v - 1))
	} else {
		w.ue(uint32(-2 * v))
	}
}

// flag writes one bit.
func (w *bitWriter) flag(v bool) {
	if v {
		w.u(1, 1)
	} else {
		w.u(1, 0)
	}
}

// seLen returns the length in bits of the code that se writes.
func seLen(v int) int {
	if v < 0 {
		v = -v
	}
	return 2*bits.Len32(uint32(v)) + 1
}

// trailing ends the payload with a one bit and zeros up to the next byte boundary
// (rbsp_trailing_bits).
func (w *bitWriter) trailing() {
	w.u(1, 1)
	if w.n > 0 {
		w.u(8-w.n, 0)
	}
}

// appendNAL appends a NAL unit with the given header and payload, preceded by its length in four
// bytes as MP4 files require. Two zero bytes and a byte of 3 or less would look like a start code,
// so a byte 3 is inserted between them (emulation prevention, clause 7.4.1).
func appendNAL(out []byte, header byte, payload []byte) []byte {
	start := len(out)
	out = append(out, 0, 0, 0, 0, header)
	zeros := 0
	for _, b := range payload {
		if zeros == 2 && b <= 3 {
			out = append(out, 3)
			zeros = 0
		}
		out = append(out, b)
		if b == 0 {
			zeros++
		} else {
			zeros = 0
		}
	}
	binary.BigEndian.PutUint32(out[start:], uint32(len(out)-start-4))
	return out
}
