package h264

// Modes of intra prediction, numbered as Intra 16x16 has them.
const (
	modeVertical = iota
	modeHorizontal
	modeDC
	modePlane
	modes
)

// chromaModes numbers the same modes as chroma has them.
var chromaModes = [modes]uint32{modeVertical: 2, modeHorizontal: 1, modeDC: 0, modePlane: 3}

// chosen are the modes that chooseIntra and chooseChroma found; they leave the prediction itself in
// predY, predU and predV.
type chosen struct{ luma, chroma int }

// chooseIntra predicts luma in the mode that fits best, and returns the absolute differences left.
func (s *slice) chooseIntra(mx, my int) int {
	e := s.e
	o := my*16*e.src.Stride + mx*16
	best := 1 << 30
	for mode := range modes {
		if !intra(s.tryY[:], e.cur.Y, e.cur.Stride, mx, my, 16, mode, my > s.first) {
			continue
		}
		if c := sad(s.tryY[:], e.src.Y[o:], e.src.Stride, 16); c < best {
			best, s.mode.luma = c, mode
			s.predY = s.tryY
		}
	}
	return best
}

// chooseChroma predicts both chroma planes in the mode that fits best.
func (s *slice) chooseChroma(mx, my int) {
	e := s.e
	stride := e.src.Stride / 2
	o := my*8*stride + mx*8
	top := my > s.first
	best := 1 << 30
	for mode := range modes {
		if mode == modeDC {
			quarterDC(s.tryU[:], e.cur.U, stride, mx, my, top)
			quarterDC(s.tryV[:], e.cur.V, stride, mx, my, top)
		} else if !intra(s.tryU[:], e.cur.U, stride, mx, my, 8, mode, top) ||
			!intra(s.tryV[:], e.cur.V, stride, mx, my, 8, mode, top) {
			continue
		}
		if c := sad(s.tryU[:], e.src.U[o:], stride, 8) + sad(s.tryV[:], e.src.V[o:], stride, 8); c < best {
			best, s.mode.chroma = c, mode
			s.predU, s.predV = s.tryU, s.tryV
		}
	}
}

// sad adds up the absolute differences between a block of n times n pixels and its place in a plane.
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

// intra predicts a block of n times n pixels from those decoded above it and to its left. It reports
// whether the mode can be used, that is, whether the pixels are there.
func intra(p, dec []uint8, stride, mx, my, n, mode int, top bool) bool {
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
		fill(p[:n*n], meanDC(dec, stride, o, n, top, left))
	case modePlane:
		if !top || !left {
			return false
		}
		plane(p, dec, stride, o, n)
	}
	return true
}

func fill(p []uint8, v uint8) {
	for i := range p {
		p[i] = v
	}
}

// meanDC is the mean of the pixels above and to the left, as far as there are any.
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

// plane predicts a slope through the pixels above and to the left.
func plane(p, dec []uint8, stride, o, n int) {
	half := n / 2
	h, v := 0, 0
	for i := 1; i <= half; i++ {
		h += i * (int(dec[o-stride+half-1+i]) - int(dec[o-stride+half-1-i]))
		v += i * (int(dec[o+(half-1+i)*stride-1]) - int(dec[o+(half-1-i)*stride-1]))
	}
	b, c := (5*h+32)>>6, (5*v+32)>>6
	if n == 8 {
		b, c = (17*h+16)>>5, (17*v+16)>>5
	}
	a := 16*(int(dec[o+(n-1)*stride-1])+int(dec[o-stride+n-1])) + 16
	for y := range n {
		value := a + b*(1-half) + c*(y-half+1)
		for x := range n {
			p[y*n+x] = clip(int32(value >> 5))
			value += b
		}
	}
}

// quarterDC predicts a chroma block in DC mode, which takes each 4x4 block by itself: those in the
// corners off the diagonal prefer the side that they touch.
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
