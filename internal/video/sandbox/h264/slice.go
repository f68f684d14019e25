package h264

// slice codes the macroblock rows from first to end. Slices of a picture work side by side: each
// writes only to its own rows of the picture, and reads the others' of the picture before.
type slice struct {
	e          *Encoder
	first, end int
	y, c       quantizer
	w          bitWriter
	mode       chosen
	chromaCoef chromaCoef
	skipped    uint32 // macroblocks since the last that was written

	predY        [256]uint8
	predU, predV [64]uint8
	tryY         [256]uint8 // a prediction that is being weighed up
	tryU, tryV   [64]uint8
	window       [21 * 21]uint8 // of the reference, where it crosses the edge
	half         [256]uint8
	taps         [21 * 16]int32
	tried        [8]vector
}

// encode writes the slice and reconstructs it.
func (s *slice) encode(key bool) {
	s.w.reset()
	s.header(key)
	s.skipped = 0
	for my := s.first; my < s.end; my++ {
		for mx := range s.e.mbWide {
			if key {
				s.chooseIntra(mx, my)
				s.chooseChroma(mx, my)
				s.codeIntra(mx, my, key)
			} else {
				s.macroblock(mx, my)
			}
		}
	}
	if s.skipped > 0 {
		s.w.ue(s.skipped)
	}
	s.w.trailing()
}

func (s *slice) header(key bool) {
	w := &s.w
	w.ue(uint32(s.first * s.e.mbWide)) // its first macroblock
	if key {
		w.ue(7) // all slices of the picture are I
	} else {
		w.ue(5) // all are P
	}
	w.ue(0) // the PPS
	w.u(maxFrameNumBits, s.e.frameNum)
	if key {
		w.ue(s.e.idr)
		w.flag(false) // earlier pictures may be shown
		w.flag(false) // not a long-term reference
	} else {
		w.flag(false) // as many references as the PPS says
		w.flag(false) // in their order
		w.flag(false) // no memory management
	}
	w.se(s.y.qp - 26)
	w.ue(1) // deblocking filter off
}

// macroblock codes a macroblock of a picture that has a reference.
func (s *slice) macroblock(mx, my int) {
	pred, skip := s.predictVector(mx, my)
	s.predict(mx, my, skip)
	if s.vanishes(mx, my) {
		s.skip(mx, my, skip)
		return
	}
	mv, cost := s.search(mx, my, pred, skip)
	// Intra prediction is tried only where motion does badly: more than five levels a pixel.
	tried := cost > 256*5
	if tried && s.chooseIntra(mx, my)+8*s.lambda() < cost {
		s.chooseChroma(mx, my)
		s.codeIntra(mx, my, false)
		return
	}
	if tried || mv != skip {
		s.predict(mx, my, mv)
	}
	s.codeInter(mx, my, mv, pred, skip)
}

// lambda is what a bit is worth in absolute differences: about half a quantiser step.
func (s *slice) lambda() int { return 1 + int(s.y.v[0])/40 }

// counts of the blocks above and to the left make the context in which a block is coded. Blocks of
// another slice do not count.
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

func (s *slice) contextY(mx, my, i int) int {
	return context(s.e.countY, s.e.mbWide*4, mx*4+blockX[i]/4, my*4+blockY[i]/4, s.first*4)
}

func (s *slice) setCountY(mx, my, i, n int) {
	s.e.countY[(my*4+blockY[i]/4)*s.e.mbWide*4+mx*4+blockX[i]/4] = uint8(n)
}
