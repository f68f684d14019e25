// Package h264 is a small H.264 encoder (ITU-T H.264, ISO/IEC 14496-10) for the constrained
// baseline profile, which every decoder plays. Clauses and tables in comments are those of the
// standard.
//
// A picture consists of macroblocks of 16x16 pixels. Those of a key picture are coded as Intra 16x16
// (predicted from decoded pixels of the same picture). Others are coded as Inter 16x16 with one
// motion vector in half pixels (predicted from the previous picture), or skipped. Entropy coding is
// CAVLC, and the deblocking filter is off.
//
// A picture is divided into bands of macroblock rows, one slice each, that all cores draw and code
// in parallel. The position of the bands depends only on the size, and no slice looks at another
// one of the same picture. So the bytes are the same, however many cores there are.
//
// Choosing the quantizer and the key pictures is up to the caller.
//
// Start reading with Encoder.Encode, then slice.encode and slice.macroblock. The one rule behind
// everything: whatever the encoder predicts from must be exactly what decoders have at that point,
// so each macroblock is reconstructed as soon as it is written.
package h264

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// The quantizers that Encode accepts. A finer one could leave values that the profile has no code
// for. With a coarser one, errors could add up to more than the 16 bits that decoders compute with.
const (
	MinQP = 10
	MaxQP = 36
)

// maxSlices is the maximum number of bands in a picture. A band has at least rowsPerSlice rows of
// macroblocks, because nothing is predicted across its edges, which costs bits.
const (
	maxSlices    = 8
	rowsPerSlice = 4
)

// Planes is a 4:2:0 picture whose sides are multiples of 16. U and V have half of its width, height
// and stride.
type Planes struct {
	Y, U, V []uint8
	Stride  int
}

// newPlanes returns a picture of w by h pixels.
func newPlanes(w, h int) *Planes {
	return &Planes{make([]uint8, w*h), make([]uint8, w*h/4), make([]uint8, w*h/4), w}
}

// Encoder codes pictures of one size in display order. It must not be used by several goroutines at
// the same time.
type Encoder struct {
	width, height, fps int
	mbWide, mbHigh     int // size in macroblocks, rounded up

	// src is the picture to be coded. cur is the same picture as decoders will see it, and ref is
	// the previous one as decoders see it. All predictions use cur and ref, never src, so that
	// encoder and decoder agree.
	src, cur, ref *Planes
	// frameNum numbers the pictures since the last key picture. idr tells adjacent key pictures
	// apart.
	started  bool
	frameNum uint32
	idr      uint32
	slices   []*slice

	// mv is the motion of each macroblock, in raster order: up to the one that is being coded those
	// of this picture, and after it still those of the previous one, which search uses as guesses.
	mv []vector
	// The number of coefficients of each 4x4 block, in raster order. CAVLC derives its contexts
	// from them.
	countY, countU, countV []uint8
}

// New returns an encoder for pictures of the given size. Both sides must be even. The rate is in
// pictures per second.
func New(width, height, fps int) (*Encoder, error) {
	if width < 16 || height < 16 || width%2 != 0 || height%2 != 0 || width > 4096 || height > 4096 {
		return nil, fmt.Errorf("h264: pictures of %dx%d are not supported: sides must be even, from 16 to 4096", width, height)
	}
	e := &Encoder{width: width, height: height, fps: fps, mbWide: (width + 15) / 16, mbHigh: (height + 15) / 16}
	w, h := e.mbWide*16, e.mbHigh*16
	e.src, e.cur, e.ref = newPlanes(w, h), newPlanes(w, h), newPlanes(w, h)
	n := e.mbWide * e.mbHigh
	e.mv = make([]vector, n)
	e.countY, e.countU, e.countV = make([]uint8, n*16), make([]uint8, n*4), make([]uint8, n*4)
	// The division spreads the rows evenly over the bands.
	bands := max(1, min(maxSlices, e.mbHigh/rowsPerSlice))
	for i := range bands {
		e.slices = append(e.slices, &slice{e: e, first: e.mbHigh * i / bands, end: e.mbHigh * (i + 1) / bands})
	}
	return e, nil
}

// Encode codes the next picture with a quantizer from MinQP to MaxQP; others are clamped. The first
// picture is a key picture, from which decoders can start, and so is each one with key set.
//
// draw fills the rows from y0 up to y1 of the picture, without the padding to whole macroblocks. It
// is called once for each band, from several goroutines at the same time.
//
// The result contains the slices of the picture, each preceded by its length, as MP4 files require.
// The caller owns it.
func (e *Encoder) Encode(key bool, qp int, draw func(p *Planes, y0, y1 int)) []byte {
	qp = max(MinQP, min(qp, MaxQP))
	key = key || !e.started
	if key {
		e.frameNum = 0
		e.idr ^= 1 // idr_pic_id of adjacent key pictures must differ
	}
	// Chroma has a quantizer of its own, which is finer than that of luma from 30 on.
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
	// nal_ref_idc 2, nal_unit_type 1: a slice of a picture that is not a key picture. For a key
	// picture, 0x65 is nal_ref_idc 3, nal_unit_type 5.
	header := byte(0x41)
	if key {
		header = 0x65
	}
	var out []byte
	for _, s := range e.slices {
		out = appendNAL(out, header, s.w.buf)
	}
	// What was just coded is the reference for the next picture.
	e.cur, e.ref = e.ref, e.cur
	e.started = true
	e.frameNum = (e.frameNum + 1) % (1 << maxFrameNumBits)
	return out
}

// Decoded returns the picture that decoders show for what Encode coded last. It is valid until the
// next call of Encode.
func (e *Encoder) Decoded() *Planes { return e.ref }

// Source returns the picture that Encode coded last, as it was drawn. It is valid until the next
// call of Encode.
func (e *Encoder) Source() *Planes { return e.src }

// each runs f for every slice, on as many cores as there are. The calling goroutine takes part.
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
// Decoders crop that part; repeating makes it cheap to code.
func (e *Encoder) pad(y0, y1, end int) {
	padPlane(e.src.Y, e.src.Stride, e.width, y0, y1, end)
	padPlane(e.src.U, e.src.Stride/2, e.width/2, y0/2, y1/2, end/2)
	padPlane(e.src.V, e.src.Stride/2, e.width/2, y0/2, y1/2, end/2)
}

// padPlane pads the rows from y0 to y1 of one plane on the right, and fills the rows from y1 to
// end.
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
