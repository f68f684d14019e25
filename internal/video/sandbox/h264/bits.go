package h264

import (
	"encoding/binary"
	"math/bits"
)

// bitWriter accumulates the payload of a NAL unit, most significant bit first.
type bitWriter struct {
	buf []byte
	acc uint64
	n   uint // bits in acc that are not in buf yet, at most 7 between calls
}

func (w *bitWriter) reset() { w.buf, w.acc, w.n = w.buf[:0], 0, 0 }

// u writes the n low bits of v, n at most 32.
func (w *bitWriter) u(n uint, v uint32) {
	w.acc = w.acc<<n | uint64(v)&(1<<n-1)
	w.n += n
	for w.n >= 8 {
		w.n -= 8
		w.buf = append(w.buf, byte(w.acc>>w.n))
	}
}

// ue writes an unsigned Exp-Golomb code.
func (w *bitWriter) ue(v uint32) {
	n := uint(bits.Len32(v + 1))
	w.u(n-1, 0)
	w.u(n, v+1)
}

// se writes a signed Exp-Golomb code.
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

// seLen is the length of the code that se writes.
func seLen(v int) int {
	if v < 0 {
		v = -v
	}
	return 2*bits.Len32(uint32(v)) + 1
}

// trailing ends the payload with a one and zeros up to the next byte.
func (w *bitWriter) trailing() {
	w.u(1, 1)
	if w.n > 0 {
		w.u(8-w.n, 0)
	}
}

// appendNAL appends a NAL unit with the payload, behind its length as MP4 files want it. A byte 3 is
// put wherever the payload would look like a start code.
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
