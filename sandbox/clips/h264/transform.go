package h264

// zigzag is the scan order of a 4x4 block, from low to high frequencies (clause 8.5.6).
var zigzag = [16]int{0, 1, 4, 8, 5, 2, 3, 6, 9, 12, 13, 10, 7, 11, 14, 15}

// blockX and blockY are the position of luma block i, in coding order, within its macroblock, in
// pixels (clause 6.4.3).
var (
	blockX = [16]int{0, 4, 0, 4, 8, 12, 8, 12, 0, 4, 0, 4, 8, 12, 8, 12}
	blockY = [16]int{0, 0, 4, 4, 0, 0, 4, 4, 8, 8, 12, 12, 8, 8, 12, 12}
)

// quantFactors and dequantFactors are indexed by QP%6 and by the class of a coefficient: row and
// column even, both odd, or mixed. The step doubles with every six QP. The dequantization factors
// are those of the standard (clause 8.5.9); the quantization factors are their inverse, including
// the scaling that fdct leaves out.
var (
	quantFactors   = [6][3]int32{{13107, 5243, 8066}, {11916, 4660, 7490}, {10082, 4194, 6554}, {9362, 3647, 5825}, {8192, 3355, 5243}, {7282, 2893, 4559}}
	dequantFactors = [6][3]int32{{10, 16, 13}, {11, 18, 14}, {13, 20, 16}, {14, 23, 18}, {16, 25, 20}, {18, 29, 23}}
)

// chromaQP is the quantizer of chroma for each quantizer of luma from 30 on (clause 8.5.8). Below
// 30 they are the same.
var chromaQP = [MaxQP - 29]int{29, 30, 31, 32, 32, 33, 34}

// quantizer holds the tables for one QP, for luma or chroma.
//
// A coefficient is divided by the step in the encoder and multiplied by it in decoders. Both use
// integers only, so that every decoder gets the same picture.
type quantizer struct {
	qp    int
	shift uint
	// mf are the factors for quantization, before a shift, and v those for dequantization.
	mf, v [16]int32
	// vanish is the sum of absolute differences up to which a 4x4 inter block certainly quantizes
	// to zeros. vanishDC is the same for the DC values of an 8x8 chroma block.
	vanish, vanishDC int
}

// newQuantizer computes the tables for a QP.
// Bit 0 of the index is the parity of the column, and bit 2 that of the row.
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
	// A coefficient is a sum of pixels with factors of at most 1, 4 or 2 in the three classes. So
	// it is at most that often the sum of absolute differences. It becomes zero if its product with
	// mf is at most room.
	gain := max(q.mf[0], 4*q.mf[5], 2*q.mf[1])
	room := int32(1)<<q.shift - q.interRound() - 1
	q.vanish = int(room / gain)
	q.vanishDC = int((2*room + 1) / q.mf[0])
	return q
}

// intraRound and interRound are the rounding offsets for quantization. They are below one half,
// which favors zeros: these save more bits than the remaining error costs.
func (q *quantizer) intraRound() int32 { return (1 << q.shift) / 3 }
func (q *quantizer) interRound() int32 { return (1 << q.shift) / 6 }

// quant quantizes a coefficient: it divides by the step, which is 2^shift/mf, and rounds towards
// zero more often than not.
func quant(c, mf, round int32, shift uint) int32 {
	if c >= 0 {
		return int32((int64(c)*int64(mf) + int64(round)) >> shift)
	}
	return -int32((int64(-c)*int64(mf) + int64(round)) >> shift)
}

// fdct is the forward integer transform of a 4x4 block, without its scaling: rows, then columns.
// It consists of additions and doublings, as the standard's transform was designed for.
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

// idct is the inverse transform exactly as the standard defines it (clause 8.5.12). Any other
// rounding would make the pictures of encoder and decoders drift apart.
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

// hadamard transforms the DC values of the 16 luma blocks. It is its own inverse except for the
// scale.
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

// clip limits a value to 0 to 255.
func clip(v int32) uint8 {
	if uint32(v) <= 255 {
		return uint8(v)
	}
	return uint8(^v >> 31) // 0 if v is negative, else 255
}

// abs returns the absolute value.
func abs(v int) int {
	if v < 0 {
		return -v
	}
	return v
}
