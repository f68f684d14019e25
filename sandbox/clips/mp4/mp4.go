// Package mp4 writes MP4 files (ISO/IEC 14496-12) with one H.264 track (ISO/IEC 14496-15).
//
// A file is a sequence of nested boxes. The index (moov) is written before the pictures (mdat), so
// that a player can start before it has the whole file. The index contains the sizes of all
// pictures, so they are kept in memory until the end.
package mp4

import (
	"encoding/binary"
	"io"
	"math"
	"slices"
)

// Sample is one coded picture: its NAL units, each preceded by its length in four bytes.
type Sample struct {
	Data []byte
	Key  bool // an IDR picture: decoding can start here
}

// Movie describes the pictures of a file.
type Movie struct {
	Width, Height int
	FPS           int
	SPS, PPS      []byte // parameter sets, each one NAL unit without its length
	Title         string // Title and Comment are shown by players; they may be empty
	Comment       string
}

// Every time in the file is a number of units of a time scale. The movie's scale is milliseconds.
// The track's is FPS times frameUnits, so that each picture lasts a whole number of units.
const (
	movieScale = 1000    // time units per second in the movie header
	frameUnits = 512     // time units per picture in the track
	fixedOne   = 1 << 16 // 1.0 in 16.16 fixed point
	undefined  = 0x55c4  // language "und" in packed ISO 639-2
	noDate     = 0       // no creation date, so that the same clip has the same bytes
)

// Write writes the file: ftyp, moov, and mdat with all samples in order. Sizes are 32-bit, so the
// file must stay below 4 GiB.
func Write(w io.Writer, m Movie, samples []Sample) error {
	size := 8
	for _, s := range samples {
		size += len(s.Data)
	}
	kind := box("ftyp", text("isom\x00\x00\x02\x00isomiso2avc1mp41"))
	// The index contains the offset of the first picture, which depends on the length of the index
	// but not on the value of that offset. So make it once to measure it, and once for real.
	first := len(kind) + len(m.index(samples, 0)) + 8
	if _, err := w.Write(slices.Concat(kind, m.index(samples, uint32(first)), u32(uint32(size)), text("mdat"))); err != nil {
		return err
	}
	for _, s := range samples {
		if _, err := w.Write(s.Data); err != nil {
			return err
		}
	}
	return nil
}

// index returns the moov box. The argument first is the offset of the first sample in the file.
func (m *Movie) index(samples []Sample, first uint32) []byte {
	length := uint32(math.Round(float64(len(samples)) * movieScale / float64(m.FPS)))
	// The identity transformation: the picture is shown upright and unscaled.
	matrix := u32(fixedOne, 0, 0, 0, fixedOne, 0, 0, 0, 1<<30)
	return box("moov",
		box("mvhd",
			// Version and flags, creation and modification time, time scale, duration, rate 1.0.
			u32(0, noDate, noDate, movieScale, length, fixedOne),
			u16(0x100, 0), // volume 1.0, in 8.8 fixed point
			u32(0, 0), matrix,
			u32(0, 0, 0, 0, 0, 0, 2)), // predefined zeros, and the next free track id
		box("trak",
			box("tkhd",
				u32(3, noDate, noDate, 1, 0, length, 0, 0, 0, 0), // flags: enabled and in the movie; track id 1
				matrix,
				// Width and height are in 16.16 fixed point.
				u32(uint32(m.Width)<<16, uint32(m.Height)<<16)),
			m.media(samples, first)),
		m.tags())
}

// media returns the mdia box: time scale, kind of track, and sample table.
func (m *Movie) media(samples []Sample, first uint32) []byte {
	return box("mdia",
		box("mdhd", u32(0, noDate, noDate, uint32(m.FPS)*frameUnits, uint32(len(samples))*frameUnits), u16(undefined, 0)),
		box("hdlr", u32(0, 0), text("vide"), u32(0, 0, 0), text("VideoHandler\x00")),
		box("minf",
			// The flag 1 is required by the standard. Graphics mode and color are zero: copy.
			box("vmhd", u32(1, 0, 0)),
			// The flag of the url box says that the data is in this file.
			box("dinf", box("dref", u32(0, 1), box("url ", u32(1)))),
			m.table(samples, first)))
}

// table returns the stbl box: how samples are coded (stsd), how long each is shown (stts), which are
// key pictures (stss), how they are grouped (stsc), how large they are (stsz), and where they begin
// (stco).
func (m *Movie) table(samples []Sample, first uint32) []byte {
	count := uint32(len(samples))
	var keys, sizes []uint32
	for i, s := range samples {
		sizes = append(sizes, uint32(len(s.Data)))
		if s.Key {
			keys = append(keys, uint32(i+1)) // sample numbers start at 1
		}
	}
	return box("stbl",
		box("stsd", u32(0, 1), m.description()),
		box("stts", u32(0, 1, count, frameUnits)), // one run: all samples have the same duration
		box("stss", u32(0, uint32(len(keys))), u32(keys...)),
		box("stsc", u32(0, 1, 1, count, 1)),          // one chunk holds all samples
		box("stsz", u32(0, 0, count), u32(sizes...)), // a common size of 0 means that a list follows
		box("stco", u32(0, 1, first)))
}

// description returns the avc1 box: the picture size, the decoder configuration (avcC), the color
// space (colr) and the pixel shape (pasp). Fields of the standard that are always zero are written
// as zeros.
func (m *Movie) description() []byte {
	return box("avc1",
		u32(0), u16(0, 1), // reserved; data reference 1, the url box above
		u32(0, 0, 0, 0), u16(uint16(m.Width), uint16(m.Height)),
		u32(72<<16, 72<<16, 0), // 72 dpi, in 16.16 fixed point
		u16(1),                 // one picture per sample
		make([]byte, 32),       // no compressor name
		u16(24, 0xffff),        // 24-bit color, no color table
		box("avcC",
			[]byte{1, m.SPS[1], m.SPS[2], m.SPS[3], 0xff, 0xe1}, // version, profile, constraints, level; four-byte lengths; one SPS
			u16(uint16(len(m.SPS))), m.SPS,
			[]byte{1}, u16(uint16(len(m.PPS))), m.PPS), // one PPS
		// Primaries, transfer and matrix of BT.709, in limited range.
		box("colr", text("nclx"), u16(1, 1, 1), []byte{0}),
		box("pasp", u32(1, 1))) // square pixels
}

// tags returns the title and the comment in the form that iTunes introduced and most players read.
func (m *Movie) tags() []byte {
	return box("udta", box("meta", u32(0),
		box("hdlr", u32(0, 0), text("mdirappl"), u32(0, 0), []byte{0}),
		box("ilst", tag("\xa9nam", m.Title), tag("\xa9cmt", m.Comment))))
}

// tag returns a tag, or nothing if it is empty.
func tag(kind, value string) []byte {
	if value == "" {
		return nil
	}
	return box(kind, box("data", u32(1, 0), text(value))) // type 1, UTF-8 text; no country or language
}

// box returns a box: its length, its kind (four characters) and its content.
func box(kind string, content ...[]byte) []byte {
	all := slices.Concat(content...)
	return slices.Concat(u32(uint32(8+len(all))), text(kind), all)
}

// text returns raw bytes.
func text(s string) []byte { return []byte(s) }

// u16 and u32 return big-endian integers.
func u16(values ...uint16) (out []byte) {
	for _, v := range values {
		out = binary.BigEndian.AppendUint16(out, v)
	}
	return out
}

func u32(values ...uint32) (out []byte) {
	for _, v := range values {
		out = binary.BigEndian.AppendUint32(out, v)
	}
	return out
}
