package h264

const (
	// Codes of the standard, in the order in which the SPS has them.
	profileBaseline = 66
	constrained     = 0xC0 // constraint_set0 and 1 make it the constrained baseline profile
	bt709           = 1    // the code for color primaries, transfer and matrix

	// maxFrameNumBits is the size of frame_num in slice headers.
	maxFrameNumBits = 8
)

// level returns the level, times ten, that a decoder must support for the size and rate (annex A,
// table A-1). It only distinguishes the levels that our sizes need.
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

// SPS returns the sequence parameter set (clause 7.3.2.1.1) as a NAL unit without its length. It
// holds what is the same for all pictures: profile, size and timing.
// The order of the fields is that of the clause; every field must be written, also those that say
// nothing.
func (e *Encoder) SPS() []byte {
	var w bitWriter
	w.u(8, profileBaseline)
	w.u(8, constrained)
	w.u(8, e.level())
	w.ue(0)                   // seq_parameter_set_id
	w.ue(maxFrameNumBits - 4) // log2_max_frame_num_minus4
	w.ue(2)                   // pic_order_cnt_type 2: display order is decoding order
	w.ue(1)                   // max_num_ref_frames
	w.flag(false)             // no gaps in frame numbers
	w.ue(uint32(e.mbWide - 1))
	w.ue(uint32(e.mbHigh - 1))
	w.flag(true) // frames, no fields
	w.flag(true) // direct_8x8_inference
	right, bottom := e.mbWide*16-e.width, e.mbHigh*16-e.height
	w.flag(right+bottom > 0)
	if right+bottom > 0 { // frame cropping, in units of two pixels: left, right, top, bottom
		w.ue(0)
		w.ue(uint32(right / 2))
		w.ue(0)
		w.ue(uint32(bottom / 2))
	}
	w.flag(true) // vui_parameters_present_flag
	e.usability(&w)
	w.trailing()
	// nal_ref_idc 3, nal_unit_type 7.
	return nal(0x67, w.buf)
}

// usability writes the video usability information (annex E): how pictures are to be shown.
func (e *Encoder) usability(w *bitWriter) {
	w.flag(false) // no aspect ratio; the file says that pixels are square
	w.flag(false) // no overscan
	w.flag(true)  // video signal
	w.u(3, 5)     // unspecified video format
	w.flag(false) // limited range
	w.flag(true)  // color description present
	for range 3 {
		w.u(8, bt709)
	}
	w.flag(false) // no chroma location
	w.flag(true)  // timing: one tick is a field, half a picture
	w.u(32, 1)
	w.u(32, uint32(2*e.fps))
	w.flag(true)  // the rate is fixed
	w.flag(false) // no NAL HRD
	w.flag(false) // no VCL HRD
	w.flag(false) // no picture structure
	w.flag(true)  // bitstream restrictions: decoders need not wait for reordered pictures
	w.flag(true)  // motion vectors may point outside the picture
	w.ue(0)       // no limit on the bytes of a picture
	w.ue(0)       // nor on the bits of a macroblock
	w.ue(10)      // log2 of the longest motion vector in quarter pixels, horizontally
	w.ue(10)      // and vertically
	w.ue(0)       // no reordering
	w.ue(1)       // pictures that a decoder has to keep
}

// PPS returns the picture parameter set (clause 7.3.2.2) as a NAL unit without its length. It holds
// the coding options that are the same for all pictures.
func (e *Encoder) PPS() []byte {
	var w bitWriter
	w.ue(0)       // pic_parameter_set_id
	w.ue(0)       // id of the SPS
	w.flag(false) // entropy coding by CAVLC
	w.flag(false) // no picture order in slice headers
	w.ue(0)       // one slice group
	w.ue(0)       // one reference picture
	w.ue(0)       // the same for B slices, of which there are none
	w.flag(false) // no weighted prediction
	w.u(2, 0)     // nor for B slices
	w.se(0)       // QP 26; slices give the difference to it
	w.se(0)       // the same for SP and SI slices
	w.se(0)       // chroma has no offset
	w.flag(true)  // slice headers control the deblocking filter
	w.flag(false) // intra prediction may use inter macroblocks
	w.flag(false) // no redundant pictures
	w.trailing()
	// nal_ref_idc 3, nal_unit_type 8.
	return nal(0x68, w.buf)
}

// nal returns a NAL unit without its length.
func nal(header byte, payload []byte) []byte { return appendNAL(nil, header, payload)[4:] }
