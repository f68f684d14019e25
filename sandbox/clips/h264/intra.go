package h264

// The modes of intra prediction of luma, with the numbers of Intra 16x16 (table 8-4). Chroma is
// always predicted in DC mode: the others would save less than a percent.
const (
	modeVertical = iota
	modeHorizontal
	modeDC
	modePlane
	modes // the number of modes
)

// chooseIntra predicts a macroblock, luma in the mode that fits best. Pixels of another slice may
// not be used, so the first row of a slice has nothing above it.
// DC is always possible, so there is always a best mode.
func (s *slice) chooseIntra(mx, my int) {
	e := s.e
	o := my*16*e.src.Stride + mx*16
	best := 1 << 30
	for mode := range modes {
		if !intra(s.tryY[:], e.cur.Y, e.cur.Stride, mx, my, mode, my > s.first) {
			continue
		}
		if c := sad(s.tryY[:], e.src.Y[o:], e.src.Stride, 16); c < best {
			best, s.mode = c, mode
			s.predY = s.tryY
		}
	}
	quarterDC(s.predU[:], e.cur.U, e.cur.Stride/2, mx, my, my > s.first)
	quarterDC(s.predV[:], e.cur.V, e.cur.Stride/2, mx, my, my > s.first)
}

// sad returns the sum of absolute differences between a block of n by n pixels and its place in a
// plane.
func sad(block, plane []uint8, stride, n int) int {
	sum := 0
	for y := range n {
		a, b := block[y*n:][:n], plane[y*stride:][:n]
		for x := range a {
			sum += abs(int(a[x]) - int(b[x]))
		}
	}
	return sum
}

// intra predicts the luma of a macroblock from the decoded pixels above it and to its left (clause
// 8.3.3). It reports whether the mode can be used, that is, whether those pixels exist. Top reports
// whether there is a row above in the same slice.
func intra(p, dec []uint8, stride, mx, my, mode int, top bool) bool {
	const n = 16
	// o is the offset of the block in the plane.
	o := my*n*stride + mx*n
	left := mx > 0
	switch mode {
	case modeVertical:
		if !top {
			return false
		}
		for y := range n {
			copy(p[y*n:y*n+n], dec[o-stride:])
		}
	case modeHorizontal:
		if !left {
			return false
		}
		for y := range n {
			fill(p[y*n:y*n+n], dec[o+y*stride-1])
		}
	case modeDC:
		fill(p, meanDC(dec, stride, o, n, top, left))
	case modePlane:
		if !top || !left {
			return false
		}
		plane(p, dec, stride, o)
	}
	return true
}

// fill sets all pixels to v.
func fill(p []uint8, v uint8) {
	for i := range p {
		p[i] = v
	}
}

// meanDC returns the mean of the pixels above and to the left, as far as there are any, or else
// middle gray.
func meanDC(dec []uint8, stride, o, n int, top, left bool) uint8 {
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

// plane predicts a slope through the pixels above and to the left (clause 8.3.3.4). h and v measure the horizontal and vertical gradient, b and c are the slopes in 1/32 per
// pixel, and a is 32 times the value in the middle, which is the mean of the two far ends.
func plane(p, dec []uint8, stride, o int) {
	const n, half = 16, 8
	h, v := 0, 0
	for i := 1; i <= half; i++ {
		h += i * (int(dec[o-stride+half-1+i]) - int(dec[o-stride+half-1-i]))
		v += i * (int(dec[o+(half-1+i)*stride-1]) - int(dec[o+(half-1-i)*stride-1]))
	}
	b, c := (5*h+32)>>6, (5*v+32)>>6
	a := 16*(int(dec[o+(n-1)*stride-1])+int(dec[o-stride+n-1])) + 16
	for y := range n {
		value := a + b*(1-half) + c*(y-half+1)
		for x := range n {
			p[y*n+x] = clip(int32(value >> 5))
			value += b
		}
	}
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
