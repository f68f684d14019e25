package h264

// slice codes the macroblock rows from first up to end. The slices of a picture are coded in
// parallel: each one writes only to its own rows of the current picture, and reads those of the
// others only in the previous one. Its arrays are scratch space that is reused, so that coding does
// not allocate.
//
// A slice lives as long as its Encoder. The order for each macroblock is always the same: predict,
// transform and quantize, write, reconstruct.
type slice struct {
	e          *Encoder
	first, end int
	y, c       quantizer // for luma and chroma
	w          bitWriter
	chromaCoef chromaCoef
	skipped    uint32 // macroblocks skipped since the last one that was written

	predY        [256]uint8 // the prediction of the current macroblock
	predU, predV [64]uint8
	tryY         [256]uint8     // a prediction that is being evaluated
	window       [21 * 21]uint8 // a part of the reference that crosses its edge
	taps         [21 * 16]int32 // sums of the filter that are not rounded yet
	tried        [8]vector      // guesses of search
}

// encode writes the slice and reconstructs it.
// Its payload is in s.w afterwards, without the header of the NAL unit.
func (s *slice) encode(key bool) {
	s.w.reset()
	s.header(key)
	s.skipped = 0
	for my := s.first; my < s.end; my++ {
		for mx := range s.e.mbWide {
			if key {
				s.predictIntra(mx, my)
				s.codeIntra(mx, my)
			} else {
				s.macroblock(mx, my)
			}
		}
	}
	// The slice may end with skipped macroblocks.
	if s.skipped > 0 {
		s.w.ue(s.skipped)
	}
	s.w.trailing()
}

// header writes the slice header (clause 7.3.3).
func (s *slice) header(key bool) {
	w := &s.w
	w.ue(uint32(s.first * s.e.mbWide)) // first_mb_in_slice
	if key {
		w.ue(7) // slice_type I, as are all slices of the picture
	} else {
		w.ue(5) // slice_type P, as are all
	}
	w.ue(0) // id of the PPS
	w.u(maxFrameNumBits, s.e.frameNum)
	if key {
		w.ue(s.e.idr)
		w.flag(false) // earlier pictures may still be shown
		w.flag(false) // not a long-term reference
	} else {
		w.flag(false) // as many reference pictures as the PPS says
		w.flag(false) // in their usual order
		w.flag(false) // no changes to which pictures are kept
	}
	w.se(s.y.qp - 26) // difference to the QP of the PPS
	w.ue(1)           // disable_deblocking_filter_idc: off
}

// macroblock codes a macroblock of a picture that has a reference. It is skipped, or else predicted
// from the previous picture: predicting it from this one would hardly ever be better.
//
// pred is what the vector is coded against, and skip the vector that costs nothing.
func (s *slice) macroblock(mx, my int) {
	pred, skip := s.predictVector(mx, my)
	s.predict(mx, my, skip)
	if s.vanishes(mx, my) {
		s.skip(mx, my, skip)
		return
	}
	mv := s.search(mx, my, pred, skip)
	if mv != skip {
		s.predict(mx, my, mv)
	}
	s.codeInter(mx, my, mv, pred, skip)
}

// lambda returns the price of a bit in absolute differences: about half a quantizer step. It trades
// quality for size.
func (s *slice) lambda() int { return 1 + int(s.y.v[0])/40 }

// context returns the expected number of coefficients of a block: the mean of the blocks above and
// to the left (clause 9.2.1). Blocks of another slice do not count. Coordinates are in blocks, and
// top is the first row of the slice.
func context(counts []uint8, stride, x, y, top int) int {
	at := y*stride + x
	switch {
	case x > 0 && y > top:
		return (int(counts[at-1]) + int(counts[at-stride]) + 1) >> 1
	case x > 0:
		return int(counts[at-1])
	case y > top:
		return int(counts[at-stride])
	}
	return 0
}

// contextY returns the context of luma block i of a macroblock.
func (s *slice) contextY(mx, my, i int) int {
	return context(s.e.countY, s.e.mbWide*4, mx*4+blockX[i]/4, my*4+blockY[i]/4, s.first*4)
}

// setCountY stores the number of coefficients of luma block i.
func (s *slice) setCountY(mx, my, i, n int) {
	s.e.countY[(my*4+blockY[i]/4)*s.e.mbWide*4+mx*4+blockX[i]/4] = uint8(n)
}
