package h264

// zigzag is the scan order of a 4x4 block.
var zigzag = [16]int{0, 1, 4, 8, 5, 2, 3, 6, 9, 12, 13, 10, 7, 11, 14, 15}

// blockX and blockY give the place of luma block i, in coding order, within its macroblock.
var (
	blockX = [16]int{0, 4, 0, 4, 8, 12, 8, 12, 0, 4, 0, 4, 8, 12, 8, 12}
	blockY = [16]int{0, 0, 4, 4, 0, 0, 4, 4, 8, 8, 12, 12, 8, 8, 12, 12}
)

// Factors by QP%6 and class of coefficient: both indices even, both odd, mixed.
var (
	quantFactors   = [6][3]int32{{13107, 5243, 8066}, {11916, 4660, 7490}, {10082, 4194, 6554}, {9362, 3647, 5825}, {8192, 3355, 5243}, {7282, 2893, 4559}}
	dequantFactors = [6][3]int32{{10, 16, 13}, {11, 18, 14}, {13, 20, 16}, {14, 23, 18}, {16, 25, 20}, {18, 29, 23}}
)

// chromaQP is the quantiser of chroma for each of luma from 30 on; below they are the same.
var chromaQP = [MaxQP - 29]int{29, 30, 31, 32, 32, 33, 34}

// quantizer holds the tables of one QP, for luma or chroma.
type quantizer struct {
	qp    int
	shift uint
	mf, v [16]int32
	// vanish is the sum of absolute differences up to which a 4x4 inter block certainly quantises to
	// zeros, and vanishDC the same for the DC values of an 8x8 chroma block.
	vanish, vanishDC int
}

func newQuantizer(qp int) quantizer {
	q := quantizer{qp: qp, shift: uint(15 + qp/6)}
	for i := range 16 {
		class := 2
		switch {
		case i&1 == 0 && i>>2&1 == 0:
			class = 0
		case i&1 == 1 && i>>2&1 == 1:
			class = 1
		}
		q.mf[i] = quantFactors[qp%6][class]
		q.v[i] = dequantFactors[qp%6][class] << (qp / 6)
	}
	// A pixel counts at most 1, 4 or 2 times in a coefficient of the three classes.
	gain := max(q.mf[0], 4*q.mf[5], 2*q.mf[1])
	room := int32(1)<<q.shift - q.interRound() - 1
	q.vanish = int(room / gain)
	q.vanishDC = int((2*room + 1) / q.mf[0])
	return q
}

// Rounding below one half favours zeros: they cost fewer bits than the error that remains.
func (q *quantizer) intraRound() int32 { return (1 << q.shift) / 3 }
func (q *quantizer) interRound() int32 { return (1 << q.shift) / 6 }

func quant(c, mf, round int32, shift uint) int32 {
	if c >= 0 {
		return int32((int64(c)*int64(mf) + int64(round)) >> shift)
	}
	return -int32((int64(-c)*int64(mf) + int64(round)) >> shift)
}

// fdct is the forward transform, without its scaling.
func fdct(d *[16]int32) {
	for i := 0; i < 16; i += 4 {
		a, b, c, e := d[i]+d[i+3], d[i+1]+d[i+2], d[i+1]-d[i+2], d[i]-d[i+3]
		d[i], d[i+1], d[i+2], d[i+3] = a+b, 2*e+c, a-b, e-2*c
	}
	for i := range 4 {
		a, b, c, e := d[i]+d[i+12], d[i+4]+d[i+8], d[i+4]-d[i+8], d[i]-d[i+12]
		d[i], d[i+4], d[i+8], d[i+12] = a+b, 2*e+c, a-b, e-2*c
	}
}

// idct is the inverse transform, as decoders must do it.
func idct(d *[16]int32) {
	for i := 0; i < 16; i += 4 {
		a, b := d[i]+d[i+2], d[i]-d[i+2]
		c, e := d[i+1]>>1-d[i+3], d[i+1]+d[i+3]>>1
		d[i], d[i+1], d[i+2], d[i+3] = a+e, b+c, b-c, a-e
	}
	for i := range 4 {
		a, b := d[i]+d[i+8], d[i]-d[i+8]
		c, e := d[i+4]>>1-d[i+12], d[i+4]+d[i+12]>>1
		d[i], d[i+4], d[i+8], d[i+12] = (a+e+32)>>6, (b+c+32)>>6, (b-c+32)>>6, (a-e+32)>>6
	}
}

// hadamard transforms the DC values of the 16 luma blocks; it is its own inverse but for scaling.
func hadamard(d *[16]int32) {
	for i := 0; i < 16; i += 4 {
		a, b, c, e := d[i]+d[i+3], d[i+1]+d[i+2], d[i+1]-d[i+2], d[i]-d[i+3]
		d[i], d[i+1], d[i+2], d[i+3] = a+b, e+c, a-b, e-c
	}
	for i := range 4 {
		a, b, c, e := d[i]+d[i+12], d[i+4]+d[i+8], d[i+4]-d[i+8], d[i]-d[i+12]
		d[i], d[i+4], d[i+8], d[i+12] = a+b, e+c, a-b, e-c
	}
}

// hadamard2 does the same for the four blocks of a chroma plane.
func hadamard2(d *[4]int32) {
	a, b, c, e := d[0]+d[1], d[0]-d[1], d[2]+d[3], d[2]-d[3]
	d[0], d[1], d[2], d[3] = a+c, b+e, a-c, b-e
}

func clip(v int32) uint8 {
	if uint32(v) <= 255 {
		return uint8(v)
	}
	return uint8(^v >> 31) // 0 below, 255 above
}

func abs(v int) int {
	if v < 0 {
		return -v
	}
	return v
}
