// Package h264 is a small H.264 encoder in the constrained baseline profile, which every decoder plays.
//
// Its macroblocks are Intra 16x16, Inter 16x16 with quarter-pixel motion, or skipped; entropy coding is
// CAVLC, the deblocking filter is off. A picture is cut into bands of macroblock rows, one slice each,
// that are drawn and coded by all cores at once. Where the bands lie depends on the size alone, and no
// slice looks at another of the same picture, so the bytes are the same however many cores there are.
//
// Choosing quantisers and key pictures is the caller's part.
package h264

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// The quantisers that Encode takes. A finer one could leave values that the profile has no code for. With a
// coarser one, errors could add up to more than the 16 bits that decoders compute with.
const (
	MinQP = 10
	MaxQP = 36
)

// maxSlices is how many bands a picture has at most; a band has at least four rows of macroblocks, as
// nothing is predicted across its edges.
const (
	maxSlices    = 8
	rowsPerSlice = 4
)

// Planes is a 4:2:0 picture whose sides are whole macroblocks. Chroma has half the stride.
type Planes struct {
	Y, U, V []uint8
	Stride  int
}

func newPlanes(w, h int) *Planes {
	return &Planes{make([]uint8, w*h), make([]uint8, w*h/4), make([]uint8, w*h/4), w}
}

// Encoder codes pictures of one size in the order they are shown. It is for one goroutine.
type Encoder struct {
	width, height, fps int
	mbWide, mbHigh     int

	src, cur, ref *Planes // what is coded, how decoders will see it, and the picture before
	started       bool
	frameNum      uint32
	idr           uint32
	slices        []*slice

	// Of each macroblock of the picture so far and, ahead of that, of the picture before.
	mv    []vector
	inter []bool
	// How many coefficients each 4x4 block has, in raster order.
	countY, countU, countV []uint8
}

// New returns an encoder for pictures of the size, both even, at the rate.
func New(width, height, fps int) (*Encoder, error) {
	if width < 16 || height < 16 || width%2 != 0 || height%2 != 0 || width > 4096 || height > 4096 {
		return nil, fmt.Errorf("h264: no pictures of %dx%d: sides are even, from 16 to 4096", width, height)
	}
	e := &Encoder{width: width, height: height, fps: fps, mbWide: (width + 15) / 16, mbHigh: (height + 15) / 16}
	w, h := e.mbWide*16, e.mbHigh*16
	e.src, e.cur, e.ref = newPlanes(w, h), newPlanes(w, h), newPlanes(w, h)
	n := e.mbWide * e.mbHigh
	e.mv, e.inter = make([]vector, n), make([]bool, n)
	e.countY, e.countU, e.countV = make([]uint8, n*16), make([]uint8, n*4), make([]uint8, n*4)
	bands := max(1, min(maxSlices, e.mbHigh/rowsPerSlice))
	for i := range bands {
		e.slices = append(e.slices, &slice{e: e, first: e.mbHigh * i / bands, end: e.mbHigh * (i + 1) / bands})
	}
	return e, nil
}

// Encode codes the next picture with a quantiser from MinQP to MaxQP. The first picture is a key
// picture, from which decoders can start, and so is each with key set.
//
// draw fills the rows from y0 to y1 of the picture's own size. It is called once for each band, by
// several goroutines at a time.
//
// The result holds the slices as MP4 files want them, each behind its length.
func (e *Encoder) Encode(key bool, qp int, draw func(p *Planes, y0, y1 int)) []byte {
	qp = max(MinQP, min(qp, MaxQP))
	key = key || !e.started
	if key {
		e.frameNum = 0
		e.idr ^= 1 // neighbouring key pictures must differ in it
	}
	y, c := newQuantizer(qp), quantizer{}
	if qp < 30 {
		c = y
	} else {
		c = newQuantizer(chromaQP[qp-30])
	}
	e.each(func(s *slice) {
		y0, y1 := s.first*16, min(s.end*16, e.height)
		draw(e.src, y0, y1)
		e.pad(y0, y1, s.end*16)
		s.y, s.c = y, c
		s.encode(key)
	})
	header := byte(0x41)
	if key {
		header = 0x65
	}
	var out []byte
	for _, s := range e.slices {
		out = appendNAL(out, header, s.w.buf)
	}
	e.cur, e.ref = e.ref, e.cur
	e.started = true
	e.frameNum = (e.frameNum + 1) % (1 << maxFrameNumBits)
	return out
}

// Decoded is the picture that decoders show for what Encode coded last. It is good until the next call.
func (e *Encoder) Decoded() *Planes { return e.ref }

// Source is the picture that Encode coded last, as it was drawn.
func (e *Encoder) Source() *Planes { return e.src }

// each runs f for every slice, on as many cores as there are.
func (e *Encoder) each(f func(*slice)) {
	var next atomic.Int32
	work := func() {
		for i := int(next.Add(1)) - 1; i < len(e.slices); i = int(next.Add(1)) - 1 {
			f(e.slices[i])
		}
	}
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(e.slices)) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}

// pad repeats the last column and row of what was drawn up to the edges of the macroblocks.
func (e *Encoder) pad(y0, y1, end int) {
	padPlane(e.src.Y, e.src.Stride, e.width, y0, y1, end)
	padPlane(e.src.U, e.src.Stride/2, e.width/2, y0/2, y1/2, end/2)
	padPlane(e.src.V, e.src.Stride/2, e.width/2, y0/2, y1/2, end/2)
}

func padPlane(p []uint8, stride, width, y0, y1, end int) {
	for y := y0; y < y1 && width < stride; y++ {
		row := p[y*stride : (y+1)*stride]
		for x := width; x < stride; x++ {
			row[x] = row[width-1]
		}
	}
	for y := y1; y < end; y++ {
		copy(p[y*stride:(y+1)*stride], p[(y1-1)*stride:])
	}
}
