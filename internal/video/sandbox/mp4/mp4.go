// Package mp4 writes MP4 files with one H.264 track.
//
// The index (moov) stands before the pictures, so that a player can start before it has the whole
// file. That needs the sizes of all pictures first, so they are held in memory until the end.
package mp4

import (
	"encoding/binary"
	"io"
	"math"
)

// Sample is one coded picture: its NAL units, each behind its length in four bytes.
type Sample struct {
	Data []byte
	Key  bool // decoders can start here
}

// Movie is what a file says about its pictures.
type Movie struct {
	Width, Height int
	FPS           int
	SPS, PPS      []byte // parameter sets, without length
	Title         string // tags, for people; may be empty
	Comment       string
}

const (
	movieScale = 1000 // units of time a second in the movie's own header
	frameUnits = 512  // units of time a picture in the track's
	fixedOne   = 1 << 16
	undefined  = 0x55c4 // language "und"
	noDate     = 0      // the same clip is the same bytes, whenever it was made
)

// Write writes the file.
func Write(w io.Writer, m Movie, samples []Sample) error {
	size := 8
	for _, s := range samples {
		size += len(s.Data)
	}
	var head box
	head.put("ftyp", func(b *box) { b.text("isom\x00\x00\x02\x00isomiso2avc1mp41") })
	// The index says where the pictures begin, which depends on its own length but not on what it says.
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

// index writes moov; first is where in the file the first sample begins.
func (m *Movie) index(b *box, samples []Sample, first uint32) {
	length := uint32(math.Round(float64(len(samples)) * movieScale / float64(m.FPS)))
	b.put("moov", func(b *box) {
		b.put("mvhd", func(b *box) {
			b.u32(0, noDate, noDate, movieScale, length, fixedOne)
			b.u16(0x100, 0) // full volume
			b.u32(0, 0)
			b.matrix()
			b.u32(0, 0, 0, 0, 0, 0, 2) // the next track would be 2
		})
		b.put("trak", func(b *box) {
			b.put("tkhd", func(b *box) {
				b.u32(3, noDate, noDate, 1, 0, length, 0, 0, 0, 0) // track 1, enabled, in the movie
				b.matrix()
				b.u32(uint32(m.Width)<<16, uint32(m.Height)<<16)
			})
			b.put("mdia", func(b *box) { m.media(b, samples, first) })
		})
		m.tags(b)
	})
}

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
		b.put("vmhd", func(b *box) { b.u32(1, 0, 0) })
		b.put("dinf", func(b *box) {
			b.put("dref", func(b *box) {
				b.u32(0, 1)
				b.put("url ", func(b *box) { b.u32(1) }) // this file
			})
		})
		b.put("stbl", func(b *box) { m.table(b, samples, first) })
	})
}

// table says how samples are coded, how long each is shown, which are key pictures, and where they are.
func (m *Movie) table(b *box, samples []Sample, first uint32) {
	count := uint32(len(samples))
	b.put("stsd", func(b *box) {
		b.u32(0, 1)
		b.put("avc1", m.description)
	})
	b.put("stts", func(b *box) { b.u32(0, 1, count, frameUnits) })
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
	b.put("stsc", func(b *box) { b.u32(0, 1, 1, count, 1) }) // one chunk holds them all
	b.put("stsz", func(b *box) {
		b.u32(0, 0, count)
		for _, s := range samples {
			b.u32(uint32(len(s.Data)))
		}
	})
	b.put("stco", func(b *box) { b.u32(0, 1, first) })
}

func (m *Movie) description(b *box) {
	b.u32(0)
	b.u16(0, 1)
	b.u32(0, 0, 0, 0)
	b.u16(uint16(m.Width), uint16(m.Height))
	b.u32(72<<16, 72<<16, 0) // dots an inch
	b.u16(1)                 // picture a sample
	b.text(string(make([]byte, 32)))
	b.u16(24, 0xffff)
	b.put("avcC", func(b *box) {
		b.u8(1, m.SPS[1], m.SPS[2], m.SPS[3], 0xff, 0xe1) // lengths have four bytes; one SPS
		b.u16(uint16(len(m.SPS)))
		b.text(string(m.SPS))
		b.u8(1)
		b.u16(uint16(len(m.PPS)))
		b.text(string(m.PPS))
	})
	b.put("colr", func(b *box) {
		b.text("nclx")
		b.u16(1, 1, 1) // BT.709
		b.u8(0)        // limited range
	})
	b.put("pasp", func(b *box) { b.u32(1, 1) })
}

// tags writes what players show as title and comment.
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

// box is bytes of the format, which is made of boxes: a length, a kind and a content.
type box []byte

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

func (b *box) text(s string) { *b = append(*b, s...) }

// matrix leaves the picture upright.
func (b *box) matrix() { b.u32(fixedOne, 0, 0, 0, fixedOne, 0, 0, 0, 1<<30) }

func (b *box) tag(kind, text string) {
	if text == "" {
		return
	}
	b.put(kind, func(b *box) {
		b.put("data", func(b *box) {
			b.u32(1, 0) // UTF-8
			b.text(text)
		})
	})
}

// put writes a box around what content writes.
func (b *box) put(kind string, content func(*box)) {
	at := len(*b)
	b.u32(0)
	b.text(kind)
	content(b)
	binary.BigEndian.PutUint32((*b)[at:], uint32(len(*b)-at))
}
