package h264

// predictIntra predicts a macroblock from the decoded pixels above it and to its left (clauses 8.3.3
// and 8.3.4), always in DC mode: the others save a seventh of calm clips, and a percent of most.
// Pixels of another slice may not be used, so the first row of a slice has nothing above it.
func (s *slice) predictIntra(mx, my int) {
	e, top := s.e, my > s.first
	fill(s.predY[:], meanDC(e.cur.Y, e.cur.Stride, my*16*e.cur.Stride+mx*16, top, mx > 0))
	quarterDC(s.predU[:], e.cur.U, e.cur.Stride/2, mx, my, top)
	quarterDC(s.predV[:], e.cur.V, e.cur.Stride/2, mx, my, top)
}

// fill sets all pixels to v.
func fill(p []uint8, v uint8) {
	for i := range p {
		p[i] = v
	}
}

// meanDC returns the mean of the pixels above and to the left, as far as there are any, or else
// middle gray.
func meanDC(dec []uint8, stride, o int, top, left bool) uint8 {
	const n = 16
	sum, count := 0, 0
	if top {
		for x := range n {
			sum += int(dec[o-stride+x])
		}
		count += n
	}
	if left {
		for y := range n {
			sum += int(dec[o+y*stride-1])
		}
		count += n
	}
	if count == 0 {
		return 128
	}
	return uint8((sum + count/2) / count)
}

// quarterDC predicts a chroma block in DC mode, which treats each of its four 4x4 blocks separately
// (clause 8.3.4.1). The upper right and lower left ones use only the side that they touch, if it
// exists.
// i numbers the four blocks by rows.
func quarterDC(p, dec []uint8, stride, mx, my int, top bool) {
	o := my*8*stride + mx*8
	left := mx > 0
	for i := range 4 {
		bx, by := i&1*4, i>>1*4
		above, beside := 0, 0
		for k := range 4 {
			if top {
				above += int(dec[o-stride+bx+k])
			}
			if left {
				beside += int(dec[o+(by+k)*stride-1])
			}
		}
		var mean int
		switch {
		case !top && !left:
			mean = 128
		case !left, top && i == 1:
			mean = (above + 2) >> 2
		case !top, i == 2:
			mean = (beside + 2) >> 2
		default:
			mean = (above + beside + 4) >> 3
		}
		for y := range 4 {
			fill(p[(by+y)*8+bx:][:4], uint8(mean))
		}
	}
}
