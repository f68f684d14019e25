package h264

import (
	"math"
	"slices"
)

// vector is a motion vector in quarters of a pixel, as vectors are coded; only whole and half pixels
// are used. It points from a macroblock to its prediction in the previous picture.
type vector struct{ x, y int16 }

// farthest is the longest allowed motion vector in each direction, in quarters of a pixel. It must
// fit what the SPS promises.
const farthest = 64 * 4

// neighbour returns the motion of a macroblock of this slice, which is not known if the macroblock
// is outside the slice.
// It is only asked for macroblocks that come before the current one.
func (s *slice) neighbour(mx, my int) (mv vector, known bool) {
	if mx < 0 || mx >= s.e.mbWide || my < s.first {
		return vector{}, false
	}
	return s.e.mv[my*s.e.mbWide+mx], true
}

// predictVector returns two vectors that the decoder derives in the same way (clauses 8.4.1.3 and
// 8.4.1.1). The motion vector of a macroblock is coded as its difference to pred. A skipped
// macroblock has the vector skip.
//
// Pred is the median of the neighbors to the left (a), above (b) and above right (c, or above left
// if that is not available), unless only one of them is known.
func (s *slice) predictVector(mx, my int) (pred, skip vector) {
	a, knownA := s.neighbour(mx-1, my)
	b, knownB := s.neighbour(mx, my-1)
	c, knownC := s.neighbour(mx+1, my-1)
	// The macroblock above right may be outside the picture.
	if !knownC {
		c, knownC = s.neighbour(mx-1, my-1)
	}
	switch {
	case knownA && !knownB && !knownC:
		pred = a
	case knownB && !knownA && !knownC:
		pred = b
	default:
		pred = vector{median(a.x, b.x, c.x), median(a.y, b.y, c.y)}
	}
	// A skipped macroblock does not move if a neighbor is missing or at rest. That keeps still
	// areas cheap.
	still := vector{}
	if knownA && knownB && a != still && b != still {
		skip = pred
	}
	return pred, skip
}

// median returns the middle one of three values.
func median(a, b, c int16) int16 { return max(min(a, b), min(max(a, b), c)) }

// search returns a good motion vector. It takes the best of several guesses, from the
// neighborhood in space and time, and refines it in smaller and smaller steps until the prediction
// is good enough or no step helps. It starts with the vector of a skipped macroblock, whose
// prediction must be in predY.
//
// It is a descent to the nearest minimum, not a full search: motion in these clips is smooth, and
// one of the guesses is nearly always close.
func (s *slice) search(mx, my int, pred, skip vector) vector {
	e := s.e
	n := my*e.mbWide + mx
	// A difference worth 96 bits, at the price of lambda each, is good enough. Searching further
	// does not pay.
	good := 96 * s.lambda()
	best, cost := skip, s.vectorCost(skip, pred)+s.sad(mx, my, s.predY[:], 16, math.MaxInt)
	if cost <= good {
		return best
	}
	try := func(v vector) {
		if v == best || max(v.x, v.y) > farthest || min(v.x, v.y) < -farthest {
			return
		}
		if c := s.cost(mx, my, v, pred, cost); c < cost {
			best, cost = v, c
		}
	}
	// Guesses often coincide, and each one costs 256 differences.
	tried := append(s.tried[:0], skip)
	guess := func(v vector) {
		if !slices.Contains(tried, v) {
			tried = append(tried, v)
			try(v)
		}
	}
	guess(pred)
	guess(vector{})
	// These three come from the previous picture. The last one must stay within the slice: other
	// slices are writing to their own entries at the same time.
	guess(e.mv[n])
	if mx+1 < e.mbWide {
		guess(e.mv[n+1])
	}
	if my+1 < s.end {
		guess(e.mv[n+e.mbWide])
	}
	// Steps are in quarter pixels: refine by half a pixel. If no guess is close, look further, one
	// pixel at a time.
	step, rounds := int16(2), 1
	if cost > 4*good {
		step, rounds = 4, 12
	}
	for ; step > 1 && cost > good; step /= 2 {
		for range rounds {
			c := best
			try(vector{c.x - step, c.y})
			try(vector{c.x + step, c.y})
			try(vector{c.x, c.y - step})
			try(vector{c.x, c.y + step})
			if c == best {
				break
			}
		}
	}
	return best
}

// cost returns the sum of absolute luma differences that a vector leaves, plus the price of its
// bits. If the limit is reached, the result is only known to be at least the limit.
func (s *slice) cost(mx, my int, v, pred vector, limit int) int {
	block, stride := s.luma(s.tryY[:], mx, my, v)
	return s.vectorCost(v, pred) + s.sad(mx, my, block, stride, limit-s.vectorCost(v, pred))
}

// sad returns the sum of absolute differences between a macroblock's luma and a block. It stops
// early when the limit is reached.
func (s *slice) sad(mx, my int, block []uint8, stride, limit int) int {
	src := s.e.src
	o, sum := my*16*src.Stride+mx*16, 0
	for y := 0; y < 16 && sum < limit; y++ {
		a, b := (*[16]uint8)(src.Y[o+y*src.Stride:]), (*[16]uint8)(block[y*stride:])
		for x := range a {
			sum += abs(int(a[x]) - int(b[x]))
		}
	}
	return sum
}

// vectorCost returns the price of the bits that a vector takes, in absolute differences.
func (s *slice) vectorCost(v, pred vector) int {
	return s.lambda() * (seLen(int(v.x-pred.x)) + seLen(int(v.y-pred.y)))
}

// predict fills predY, predU and predV with the part of the reference that the vector points to.
func (s *slice) predict(mx, my int, v vector) {
	block, stride := s.luma(s.predY[:], mx, my, v)
	// luma returns the reference itself if it need not interpolate.
	if &block[0] != &s.predY[0] {
		for y := range 16 {
			copy(s.predY[y*16:y*16+16], block[y*stride:])
		}
	}
	s.chroma(s.predU[:], s.e.ref.U, mx, my, v)
	s.chroma(s.predV[:], s.e.ref.V, mx, my, v)
}

// chroma interpolates a chroma block (clause 8.4.2.2.2). Chroma has half of the resolution, so a
// vector is in eighths of a chroma pixel. Each pixel is a weighted mean of the four around it.
func (s *slice) chroma(dst, ref []uint8, mx, my int, v vector) {
	e := s.e
	x, y := mx*8+int(v.x>>3), my*8+int(v.y>>3)
	fx, fy := int(v.x&7), int(v.y&7)
	p, stride := s.around(ref, e.mbWide*8, e.mbHigh*8, x, y, 9)
	if fx|fy == 0 {
		for r := range 8 {
			copy(dst[r*8:r*8+8], p[r*stride:])
		}
		return
	}
	a, b, c, d := (8-fx)*(8-fy), fx*(8-fy), (8-fx)*fy, fx*fy
	for r := range 8 {
		above, below := p[r*stride:][:9], p[(r+1)*stride:][:9]
		out := dst[r*8:][:8]
		for i := range out {
			out[i] = uint8((a*int(above[i]) + b*int(above[i+1]) + c*int(below[i]) + d*int(below[i+1]) + 32) >> 6)
		}
	}
}

// around returns the square of n by n pixels at x, y of a plane, and its stride. Vectors may point
// outside the picture, where the edge pixels are repeated. Such a square is assembled in s.window;
// any other is a part of the plane itself.
// The result is valid until the next call.
func (s *slice) around(plane []uint8, w, h, x, y, n int) (p []uint8, stride int) {
	if x >= 0 && y >= 0 && x+n <= w && y+n <= h {
		return plane[y*w+x:], w
	}
	for r := range n {
		row := plane[max(0, min(y+r, h-1))*w:][:w]
		for c := range n {
			s.window[r*n+c] = row[max(0, min(x+c, w-1))]
		}
	}
	return s.window[:], n
}

// luma returns the luma of the reference at the vector, and its stride (clause 8.4.2.2.1). At whole
// pixels it returns the reference itself. Otherwise it interpolates half positions into dst, with a
// filter of six taps.
func (s *slice) luma(dst []uint8, mx, my int, v vector) (block []uint8, stride int) {
	x, y := mx*16+int(v.x>>2), my*16+int(v.y>>2)
	aside, down := v.x&3 != 0, v.y&3 != 0
	w, h := s.e.mbWide*16, s.e.mbHigh*16
	if !aside && !down {
		return s.around(s.e.ref.Y, w, h, x, y, 16)
	}
	// p begins two pixels above and to the left of the block. The filter needs two pixels before
	// and three after.
	p, stride := s.around(s.e.ref.Y, w, h, x-2, y-2, 21)
	switch {
	case aside && down: // in the middle of four pixels
		s.centre(dst, p, stride)
	case aside: // between two pixels of a row
		across(dst, p[2*stride:], stride)
	default: // between two pixels of a column
		upright(dst, p[2:], stride)
	}
	return dst, 16
}

// across interpolates half positions in a row with the taps 1, -5, 20, 20, -5, 1. p begins two
// pixels to the left of the block.
func across(dst, p []uint8, stride int) {
	for y := range 16 {
		row := p[y*stride:][:21]
		d := dst[y*16:][:16]
		a, b, c, e, f := int32(row[0]), int32(row[1]), int32(row[2]), int32(row[3]), int32(row[4])
		for x := range d {
			g := int32(row[x+5])
			d[x] = clip((a + g - 5*(b+f) + 20*(c+e) + 16) >> 5)
			a, b, c, e, f = b, c, e, f, g
		}
	}
}

// upright does the same in a column. p begins two pixels above the block.
func upright(dst, p []uint8, stride int) {
	for y := range 16 {
		a, b, c := p[y*stride:][:16], p[(y+1)*stride:][:16], p[(y+2)*stride:][:16]
		e, f, g := p[(y+3)*stride:][:16], p[(y+4)*stride:][:16], p[(y+5)*stride:][:16]
		d := dst[y*16:][:16]
		for x := range d {
			d[x] = clip((int32(a[x]) + int32(g[x]) - 5*(int32(b[x])+int32(f[x])) + 20*(int32(c[x])+int32(e[x])) + 16) >> 5)
		}
	}
}

// centre interpolates the position in the middle of four pixels: across without rounding, then
// upright over those sums, with one rounding at the end.
func (s *slice) centre(dst, p []uint8, stride int) {
	t := &s.taps
	for y := range 21 {
		row := p[y*stride:][:21]
		for x := range 16 {
			t[y*16+x] = int32(row[x]) + int32(row[x+5]) - 5*(int32(row[x+1])+int32(row[x+4])) + 20*(int32(row[x+2])+int32(row[x+3]))
		}
	}
	for i := range 256 {
		dst[i] = clip((t[i] + t[i+80] - 5*(t[i+16]+t[i+64]) + 20*(t[i+32]+t[i+48]) + 512) >> 10)
	}
}
