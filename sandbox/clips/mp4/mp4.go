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
	var head box
	head.put("ftyp", func(b *box) { b.text("isom\x00\x00\x02\x00isomiso2avc1mp41") })
	// The index contains the offset of the first picture, which depends on the length of the index
	// but not on the value of that offset. So write it once to measure it, and once for real.
	var probe box
	m.index(&probe, samples, 0)
	m.index(&head, samples, uint32(len(head)+len(probe)+8))
	head.u32(uint32(size))
	head.text("mdat")
	if _, err := w.Write(head); err != nil {
		return err
	}
	for _, s := range samples {
		if _, err := w.Write(s.Data); err != nil {
			return err
		}
	}
	return nil
}

// index writes the moov box. The argument first is the offset of the first sample in the file.
func (m *Movie) index(b *box, samples []Sample, first uint32) {
	length := uint32(math.Round(float64(len(samples)) * movieScale / float64(m.FPS)))
	b.put("moov", func(b *box) {
		b.put("mvhd", func(b *box) {
			// Version and flags, creation and modification time, time scale, duration, rate 1.0.
			b.u32(0, noDate, noDate, movieScale, length, fixedOne)
			b.u16(0x100, 0) // volume 1.0, in 8.8 fixed point
			b.u32(0, 0)
			b.matrix()
			b.u32(0, 0, 0, 0, 0, 0, 2) // predefined zeros, and the next free track id
		})
		b.put("trak", func(b *box) {
			b.put("tkhd", func(b *box) {
				b.u32(3, noDate, noDate, 1, 0, length, 0, 0, 0, 0) // flags: enabled and in the movie; track id 1
				b.matrix()
				// Width and height are in 16.16 fixed point.
				b.u32(uint32(m.Width)<<16, uint32(m.Height)<<16)
			})
			b.put("mdia", func(b *box) { m.media(b, samples, first) })
		})
		m.tags(b)
	})
}

// media writes the content of the mdia box: time scale, kind of track, and sample table.
func (m *Movie) media(b *box, samples []Sample, first uint32) {
	b.put("mdhd", func(b *box) {
		b.u32(0, noDate, noDate, uint32(m.FPS)*frameUnits, uint32(len(samples))*frameUnits)
		b.u16(undefined, 0)
	})
	b.put("hdlr", func(b *box) {
		b.u32(0, 0)
		b.text("vide")
		b.u32(0, 0, 0)
		b.text("VideoHandler\x00")
	})
	b.put("minf", func(b *box) {
		// The flag 1 is required by the standard. Graphics mode and color are zero: copy.
		b.put("vmhd", func(b *box) { b.u32(1, 0, 0) })
		b.put("dinf", func(b *box) {
			b.put("dref", func(b *box) {
				b.u32(0, 1)
				b.put("url ", func(b *box) { b.u32(1) }) // the flag says that the data is in this file
			})
		})
		b.put("stbl", func(b *box) { m.table(b, samples, first) })
	})
}

// table writes the content of the stbl box: how samples are coded (stsd), how long each is shown
// (stts), which are key pictures (stss), how they are grouped (stsc), how large they are (stsz),
// and where they begin (stco).
func (m *Movie) table(b *box, samples []Sample, first uint32) {
	count := uint32(len(samples))
	b.put("stsd", func(b *box) {
		b.u32(0, 1)
		b.put("avc1", m.description)
	})
	// One run: all samples have the same duration.
	b.put("stts", func(b *box) { b.u32(0, 1, count, frameUnits) })
	// Sample numbers start at 1.
	b.put("stss", func(b *box) {
		var keys []uint32
		for i, s := range samples {
			if s.Key {
				keys = append(keys, uint32(i+1))
			}
		}
		b.u32(0, uint32(len(keys)))
		b.u32(keys...)
	})
	b.put("stsc", func(b *box) { b.u32(0, 1, 1, count, 1) }) // one chunk holds all samples
	b.put("stsz", func(b *box) {
		// A common size of 0 means that a list of sizes follows.
		b.u32(0, 0, count)
		for _, s := range samples {
			b.u32(uint32(len(s.Data)))
		}
	})
	b.put("stco", func(b *box) { b.u32(0, 1, first) })
}

// description writes the content of the avc1 box: the picture size, the decoder configuration
// (avcC), the color space (colr) and the pixel shape (pasp). Fields of the standard that are always
// zero are written as zeros.
func (m *Movie) description(b *box) {
	b.u32(0)
	b.u16(0, 1) // reserved; data reference 1, the url box above
	b.u32(0, 0, 0, 0)
	b.u16(uint16(m.Width), uint16(m.Height))
	b.u32(72<<16, 72<<16, 0)         // 72 dpi, in 16.16 fixed point
	b.u16(1)                         // one picture per sample
	b.text(string(make([]byte, 32))) // no compressor name
	b.u16(24, 0xffff)                // 24-bit color, no color table
	b.put("avcC", func(b *box) {
		b.u8(1, m.SPS[1], m.SPS[2], m.SPS[3], 0xff, 0xe1) // version, profile, constraints, level; four-byte lengths; one SPS
		b.u16(uint16(len(m.SPS)))
		b.text(string(m.SPS))
		b.u8(1) // one PPS
		b.u16(uint16(len(m.PPS)))
		b.text(string(m.PPS))
	})
	b.put("colr", func(b *box) {
		b.text("nclx")
		b.u16(1, 1, 1) // primaries, transfer and matrix of BT.709
		b.u8(0)        // limited range
	})
	// Square pixels.
	b.put("pasp", func(b *box) { b.u32(1, 1) })
}

// tags writes the title and the comment in the form that iTunes introduced and most players read.
func (m *Movie) tags(b *box) {
	b.put("udta", func(b *box) {
		b.put("meta", func(b *box) {
			b.u32(0)
			b.put("hdlr", func(b *box) {
				b.u32(0, 0)
				b.text("mdirappl")
				b.u32(0, 0)
				b.u8(0)
			})
			b.put("ilst", func(b *box) {
				b.tag("\xa9nam", m.Title)
				b.tag("\xa9cmt", m.Comment)
			})
		})
	})
}

// box collects bytes of the file. A box consists of its length, its kind (four characters) and its
// content.
type box []byte

// u8, u16 and u32 append big-endian integers.
func (b *box) u8(v ...byte) { *b = append(*b, v...) }

func (b *box) u16(v ...uint16) {
	for _, x := range v {
		*b = binary.BigEndian.AppendUint16(*b, x)
	}
}

func (b *box) u32(v ...uint32) {
	for _, x := range v {
		*b = binary.BigEndian.AppendUint32(*b, x)
	}
}

// text appends raw bytes.
func (b *box) text(s string) { *b = append(*b, s...) }

// matrix appends the identity transformation: the picture is shown upright and unscaled.
func (b *box) matrix() { b.u32(fixedOne, 0, 0, 0, fixedOne, 0, 0, 0, 1<<30) }

// tag appends a tag, unless it is empty.
func (b *box) tag(kind, text string) {
	if text == "" {
		return
	}
	b.put(kind, func(b *box) {
		b.put("data", func(b *box) {
			b.u32(1, 0) // type 1, UTF-8 text; no country or language
			b.text(text)
		})
	})
}

// put appends a box. Its length is filled in after content has written the content.
func (b *box) put(kind string, content func(*box)) {
	at := len(*b)
	b.u32(0)
	b.text(kind)
	content(b)
	binary.BigEndian.PutUint32((*b)[at:], uint32(len(*b)-at))
}
