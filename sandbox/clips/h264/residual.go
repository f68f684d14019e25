package h264

// interCBP maps the coded block pattern of an inter macroblock to its code number (table 9-4). The
// pattern has one bit for each 8x8 luma block that has coefficients, and above those what chroma
// has (chromaCoef.parts).
var interCBP = [48]uint8{
	0, 2, 3, 7, 4, 8, 17, 13, 5, 18, 9, 14, 10, 15, 16, 11,
	1, 32, 33, 36, 34, 37, 44, 40, 35, 45, 38, 41, 39, 42, 43, 19,
	6, 24, 25, 20, 26, 21, 46, 28, 27, 47, 22, 29, 23, 30, 31, 12,
}

// vanishes reports whether the difference to the prediction certainly quantizes to zero. It only
// looks at the size of the difference, so that most macroblocks of a calm picture need no
// transform.
// It may report false for a macroblock that would vanish, never true for one that would not.
func (s *slice) vanishes(mx, my int) bool {
	e := s.e
	o, stride := my*16*e.src.Stride+mx*16, e.src.Stride
	for i := range 16 {
		if sad4(s.predY[blockY[i]*16+blockX[i]:], 16, e.src.Y[o+blockY[i]*stride+blockX[i]:], stride) > s.y.vanish {
			return false
		}
	}
	o, stride = my*8*stride/2+mx*8, stride/2
	return s.chromaVanishes(s.predU[:], e.src.U[o:], stride) && s.chromaVanishes(s.predV[:], e.src.V[o:], stride)
}

// chromaVanishes does the same for one chroma plane, whose DC values have a transform of their own.
func (s *slice) chromaVanishes(pred, src []uint8, stride int) bool {
	sum := 0
	for i := range 4 {
		x, y := i&1*4, i>>1*4
		d := sad4(pred[y*8+x:], 8, src[y*stride+x:], stride)
		if d > s.c.vanish {
			return false
		}
		sum += d
	}
	return sum <= s.c.vanishDC
}

// sad4 returns the sum of absolute differences of two 4x4 blocks with strides as and bs.
func sad4(a []uint8, as int, b []uint8, bs int) int {
	sum := 0
	for y := range 4 {
		p, q := (*[4]uint8)(a[y*as:]), (*[4]uint8)(b[y*bs:])
		for x := range p {
			sum += abs(int(p[x]) - int(q[x]))
		}
	}
	return sum
}

// skip leaves the macroblock as predicted with the vector mv, which must be that of a skipped
// macroblock. It writes nothing but counts it, because runs of skipped macroblocks are coded as one
// number.
// The vector is kept, because neighbors derive theirs from it.
func (s *slice) skip(mx, my int, mv vector) {
	e := s.e
	s.skipped++
	for i := range 16 {
		s.setCountY(mx, my, i, 0)
	}
	s.clearChroma(mx, my)
	e.mv[my*e.mbWide+mx] = mv
	o, stride := my*16*e.cur.Stride+mx*16, e.cur.Stride
	restore(e.cur.Y[o:], stride, s.predY[:], 16, 16)
	o, stride = my*8*stride/2+mx*8, stride/2
	restore(e.cur.U[o:], stride, s.predU[:], 8, 8)
	restore(e.cur.V[o:], stride, s.predV[:], 8, 8)
}

// restore copies a square of n by n pixels of the prediction to the decoded picture, where nothing
// is to be added.
func restore(dst []uint8, stride int, pred []uint8, ps, n int) {
	for y := range n {
		copy(dst[y*stride:], pred[y*ps:y*ps+n])
	}
}

// difference fills b with the source minus the prediction.
func difference(b *[16]int32, src []uint8, stride int, pred []uint8, ps int) {
	for y := range 4 {
		p, q := (*[4]uint8)(src[y*stride:]), (*[4]uint8)(pred[y*ps:])
		for x := range p {
			b[y*4+x] = int32(p[x]) - int32(q[x])
		}
	}
}

// reconstruct adds the inverse transform of b to the prediction, as decoders do. It overwrites b.
func reconstruct(dst []uint8, stride int, b *[16]int32, pred []uint8, ps int) {
	idct(b)
	for y := range 4 {
		d, q := (*[4]uint8)(dst[y*stride:]), (*[4]uint8)(pred[y*ps:])
		for x := range d {
			d[x] = clip(b[y*4+x] + int32(q[x]))
		}
	}
}

// codeIntra codes a macroblock of a key picture as Intra 16x16 with the prediction of predictIntra.
//
// It transforms and quantizes the 16 luma blocks. Their DC values are transformed once more,
// together. Then it writes the macroblock (clause 7.3.5), and reconstructs it as decoders will see
// it.
func (s *slice) codeIntra(mx, my int) {
	e, q := s.e, &s.y
	o, stride := my*16*e.src.Stride+mx*16, e.src.Stride
	// coef is in raster order, to be reconstructed. scan is in scan order, to be written.
	var coef, scan [16][16]int32
	var dc, dcScan [16]int32
	ac := false
	for i := range 16 {
		b := &coef[i]
		difference(b, e.src.Y[o+blockY[i]*stride+blockX[i]:], stride, s.predY[blockY[i]*16+blockX[i]:], 16)
		fdct(b)
		dc[blockY[i]+blockX[i]/4] = b[0]
		for k := 1; k < 16; k++ {
			at := zigzag[k]
			b[at] = quant(b[at], q.mf[at], q.intraRound(), q.shift)
			scan[i][k] = b[at]
			ac = ac || b[at] != 0
		}
	}
	hadamard(&dc)
	for i := range dc {
		dc[i] = quant((dc[i]+1)>>1, q.mf[0], 2*q.intraRound(), q.shift+1)
	}
	for k := range 16 {
		dcScan[k] = dc[zigzag[k]]
	}
	cr := s.transformChroma(mx, my, s.c.intraRound())

	w := &s.w
	// mb_type combines the prediction mode, what chroma has, and whether luma has AC values (table
	// 7-11).
	const modeDC = 2
	kind := uint32(1 + modeDC + 4*cr.parts)
	if ac {
		kind += 12
	}
	w.ue(kind)
	w.ue(0) // chroma is predicted in DC mode
	w.se(0) // mb_qp_delta: the quantizer of the slice
	w.residual(dcScan[:], s.contextY(mx, my, 0))
	for i := range 16 {
		n := 0
		if ac {
			n = w.residual(scan[i][1:], s.contextY(mx, my, i))
		}
		s.setCountY(mx, my, i, n)
	}
	s.writeChroma(mx, my, cr)
	e.mv[my*e.mbWide+mx] = vector{}

	// Scaling and inverse transform (clauses 8.5.10 and 8.5.12).
	hadamard(&dc)
	for i := range 16 {
		b := &coef[i]
		for k := 1; k < 16; k++ {
			b[k] *= q.v[k]
		}
		b[0] = (dc[blockY[i]+blockX[i]/4]*q.v[0] + 2) >> 2
		reconstruct(e.cur.Y[o+blockY[i]*stride+blockX[i]:], stride, b, s.predY[blockY[i]*16+blockX[i]:], 16)
	}
}

// codeInter codes a macroblock with motion, with the prediction of predict. If nothing is left to
// code and the vector is that of a skipped macroblock, it is skipped after all.
//
// The steps are those of codeIntra, except that there is no second transform of DC values and that
// an 8x8 block may be left out.
//
// Blocks are left out in groups of four, since the coded block pattern has one bit for each 8x8
// pixels.
func (s *slice) codeInter(mx, my int, mv, pred, skip vector) {
	e, q := s.e, &s.y
	o, stride := my*16*e.src.Stride+mx*16, e.src.Stride
	var coef, scan [16][16]int32
	parts := 0
	for g := range 4 {
		weight := int32(0)
		for i := g * 4; i < g*4+4; i++ {
			src, pred := e.src.Y[o+blockY[i]*stride+blockX[i]:], s.predY[blockY[i]*16+blockX[i]:]
			// It would quantize to zeros. coef and scan are zero already.
			if sad4(pred, 16, src, stride) <= q.vanish {
				continue
			}
			difference(&coef[i], src, stride, pred, 16)
			weight += s.transformInter(&coef[i], &scan[i])
		}
		if weight > 6 { // one or two small coefficients are not worth their bits
			parts |= 1 << g
			continue
		}
		// Decoders will see zeros here, so reconstruct from zeros, too.
		for i := g * 4; i < g*4+4; i++ {
			coef[i] = [16]int32{}
		}
	}
	cr := s.transformChroma(mx, my, s.c.interRound())
	parts |= cr.parts << 4
	if parts == 0 && mv == skip {
		s.skip(mx, my, mv)
		return
	}
	w := &s.w
	w.ue(s.skipped)
	s.skipped = 0
	w.ue(0) // mb_type P_L0_16x16: one vector for the whole macroblock
	w.se(int(mv.x - pred.x))
	w.se(int(mv.y - pred.y))
	w.ue(uint32(interCBP[parts]))
	if parts > 0 {
		w.se(0) // mb_qp_delta: the quantizer of the slice
	}
	for i := range 16 {
		n := 0
		if parts>>(i/4)&1 == 1 {
			n = w.residual(scan[i][:], s.contextY(mx, my, i))
		}
		s.setCountY(mx, my, i, n)
	}
	s.writeChroma(mx, my, cr)
	e.mv[my*e.mbWide+mx] = mv
	for i := range 16 {
		b := &coef[i]
		if *b == ([16]int32{}) {
			restore(e.cur.Y[o+blockY[i]*stride+blockX[i]:], stride, s.predY[blockY[i]*16+blockX[i]:], 16, 4)
			continue
		}
		for k := range b {
			b[k] *= q.v[k]
		}
		reconstruct(e.cur.Y[o+blockY[i]*stride+blockX[i]:], stride, b, s.predY[blockY[i]*16+blockX[i]:], 16)
	}
}

// transformInter transforms and quantizes a block into scan, and returns how much its coefficients
// matter. Those of low frequency count double.
func (s *slice) transformInter(b, scan *[16]int32) (weight int32) {
	q := &s.y
	round := q.interRound()
	fdct(b)
	for k, at := range zigzag {
		c := quant(b[at], q.mf[at], round, q.shift)
		b[at], scan[k] = c, c
		if c == 0 {
			continue
		}
		if c < 0 {
			c = -c
		}
		if k < 3 {
			c *= 2
		}
		weight += 3 * c
	}
	return weight
}

// chromaCoef holds the chroma coefficients of a macroblock in scan order: the DC values of each
// plane, and the others of each 4x4 block.
// Decoders need what parts says before the coefficients, so both planes are transformed before
// anything is written.
type chromaCoef struct {
	parts int // what is coded: 0 nothing, 1 only DC, 2 everything
	dc    [2][4]int32
	ac    [2][4][16]int32
}

// transformChroma transforms, quantizes and reconstructs both chroma planes. The result is valid
// until the next macroblock.
func (s *slice) transformChroma(mx, my int, round int32) *chromaCoef {
	e := s.e
	cr := &s.chromaCoef
	cr.parts = 0
	s.transformPlane(0, e.src.U, e.cur.U, s.predU[:], mx, my, round)
	s.transformPlane(1, e.src.V, e.cur.V, s.predV[:], mx, my, round)
	return cr
}

// transformPlane does so for one plane. src and dst are whole planes, and pred is the prediction of
// this macroblock.
// plane is 0 for U and 1 for V.
func (s *slice) transformPlane(plane int, src, dst, pred []uint8, mx, my int, round int32) {
	cr, q := &s.chromaCoef, &s.c
	stride := s.e.src.Stride / 2
	o := my*8*stride + mx*8
	// The test is only valid for the rounding of inter macroblocks.
	if round == q.interRound() && s.chromaVanishes(pred, src[o:], stride) {
		cr.dc[plane], cr.ac[plane] = [4]int32{}, [4][16]int32{}
		restore(dst[o:], stride, pred, 8, 8)
		return
	}
	var coef [4][16]int32
	dc := &cr.dc[plane]
	for i := range 4 {
		x, y := i&1*4, i>>1*4
		b := &coef[i]
		difference(b, src[o+y*stride+x:], stride, pred[y*8+x:], 8)
		fdct(b)
		dc[i] = b[0]
		for k := 1; k < 16; k++ {
			at := zigzag[k]
			b[at] = quant(b[at], q.mf[at], round, q.shift)
			cr.ac[plane][i][k] = b[at]
			if b[at] != 0 {
				cr.parts = 2
			}
		}
	}
	// The DC values of the four blocks are transformed once more, by a 2x2 Hadamard transform.
	hadamard2(dc)
	for i := range dc {
		dc[i] = quant(dc[i], q.mf[0], 2*round, q.shift+1)
		if dc[i] != 0 {
			cr.parts = max(cr.parts, 1)
		}
	}
	// Reconstruct (clauses 8.5.11 and 8.5.12).
	decoded := *dc
	hadamard2(&decoded)
	for i := range 4 {
		x, y := i&1*4, i>>1*4
		b := &coef[i]
		for k := 1; k < 16; k++ {
			b[k] *= q.v[k]
		}
		b[0] = decoded[i] * q.v[0] >> 1
		reconstruct(dst[o+y*stride+x:], stride, b, pred[y*8+x:], 8)
	}
}

// writeChroma writes what parts says, and stores the number of coefficients of each block for later
// contexts.
func (s *slice) writeChroma(mx, my int, cr *chromaCoef) {
	w := &s.w
	if cr.parts > 0 {
		w.residual(cr.dc[0][:], chromaDC)
		w.residual(cr.dc[1][:], chromaDC)
	}
	if cr.parts < 2 {
		s.clearChroma(mx, my)
		return
	}
	stride := s.e.mbWide * 2
	for plane, counts := range [2][]uint8{s.e.countU, s.e.countV} {
		for i := range 4 {
			x, y := mx*2+i&1, my*2+i>>1
			n := w.residual(cr.ac[plane][i][1:], context(counts, stride, x, y, s.first*2))
			counts[y*stride+x] = uint8(n)
		}
	}
}

// clearChroma stores that the chroma blocks of a macroblock have no AC coefficients.
func (s *slice) clearChroma(mx, my int) {
	stride := s.e.mbWide * 2
	for _, counts := range [2][]uint8{s.e.countU, s.e.countV} {
		for i := range 4 {
			counts[(my*2+i>>1)*stride+mx*2+i&1] = 0
		}
	}
}
