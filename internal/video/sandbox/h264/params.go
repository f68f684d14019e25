package h264

const (
	profileBaseline = 66
	constrained     = 0xC0 // the flags that make it the constrained baseline profile
	bt709           = 1    // colour primaries, transfer and matrix

	maxFrameNumBits = 8
)

// level is the H.264 level, times ten, that a decoder needs for the size and rate.
func (e *Encoder) level() uint32 {
	blocks := e.mbWide * e.mbHigh
	rate := blocks * e.fps
	switch {
	case blocks <= 1620 && rate <= 40500:
		return 30
	case blocks <= 3600 && rate <= 108000:
		return 31
	case blocks <= 8192 && rate <= 245760:
		return 40
	default:
		return 51
	}
}

// SPS returns the sequence parameter set, a NAL unit without length.
func (e *Encoder) SPS() []byte {
	var w bitWriter
	w.u(8, profileBaseline)
	w.u(8, constrained)
	w.u(8, e.level())
	w.ue(0) // its id
	w.ue(maxFrameNumBits - 4)
	w.ue(2)       // pictures are shown in the order they are decoded
	w.ue(1)       // reference pictures
	w.flag(false) // no gaps in frame numbers
	w.ue(uint32(e.mbWide - 1))
	w.ue(uint32(e.mbHigh - 1))
	w.flag(true) // frames, no fields
	w.flag(true) // direct_8x8_inference
	right, bottom := e.mbWide*16-e.width, e.mbHigh*16-e.height
	w.flag(right+bottom > 0)
	if right+bottom > 0 { // what is cut off the last macroblocks, in chroma pixels
		w.ue(0)
		w.ue(uint32(right / 2))
		w.ue(0)
		w.ue(uint32(bottom / 2))
	}
	w.flag(true)
	e.usability(&w)
	w.trailing()
	return nal(0x67, w.buf)
}

// usability writes the part of the SPS that says how pictures are shown.
func (e *Encoder) usability(w *bitWriter) {
	w.flag(false) // no aspect ratio: pixels are square
	w.flag(false) // no overscan
	w.flag(true)  // video signal
	w.u(3, 5)     // of no named format
	w.flag(false) // limited range
	w.flag(true)  // colours
	for range 3 {
		w.u(8, bt709)
	}
	w.flag(false) // no chroma location
	w.flag(true)  // timing: fields a second
	w.u(32, 1)
	w.u(32, uint32(2*e.fps))
	w.flag(true)  // the rate is fixed
	w.flag(false) // no NAL HRD
	w.flag(false) // no VCL HRD
	w.flag(false) // no picture structure
	w.flag(true)  // restrictions, so that decoders need not wait for pictures out of order
	w.flag(true)  // motion vectors may point outside
	w.ue(0)       // no bound on the bytes of a picture
	w.ue(0)       // nor on the bits of a macroblock
	w.ue(10)      // log2 of the longest motion vector, horizontally
	w.ue(10)      // and vertically
	w.ue(0)       // no reordering
	w.ue(1)       // pictures that a decoder keeps
}

// PPS returns the picture parameter set, a NAL unit without length.
func (e *Encoder) PPS() []byte {
	var w bitWriter
	w.ue(0)       // its id
	w.ue(0)       // the SPS it belongs to
	w.flag(false) // CAVLC
	w.flag(false) // no picture order
	w.ue(0)       // one slice group
	w.ue(0)       // one reference picture
	w.ue(0)
	w.flag(false) // no weighted prediction
	w.u(2, 0)
	w.se(0) // QP 26, slices say how far they are from it
	w.se(0)
	w.se(0)       // chroma has no offset
	w.flag(true)  // slices control the deblocking filter
	w.flag(false) // intra prediction may use inter macroblocks
	w.flag(false) // no redundant pictures
	w.trailing()
	return nal(0x68, w.buf)
}

// nal is a NAL unit without length.
func nal(header byte, payload []byte) []byte { return appendNAL(nil, header, payload)[4:] }
