package signin

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"hash/crc32"
	"image"
)

// encodePNG returns a picture in black and white as a PNG with one bit for each pixel. The standard library's encoder
// brings its decoder and every kind of picture with it, which makes 0.1 MB of the binary for one QR code.
func encodePNG(picture image.Image) []byte {
	size := picture.Bounds()
	var header [13]byte
	binary.BigEndian.PutUint32(header[0:], uint32(size.Dx())) //nolint:gosec // a few hundred
	binary.BigEndian.PutUint32(header[4:], uint32(size.Dy())) //nolint:gosec // a few hundred
	header[8] = 1                                             // bit of depth; the other fields are 0: gray, deflate, no interlacing
	b := []byte("\x89PNG\r\n\x1a\n")
	b = appendChunk(b, "IHDR", header[:])
	b = appendChunk(b, "IDAT", packPixels(picture))
	return appendChunk(b, "IEND", nil)
}

// packPixels returns the rows of a picture, compressed. Each begins with the number of its filter, which is none.
func packPixels(picture image.Image) []byte {
	size := picture.Bounds()
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	for y := size.Min.Y; y < size.Max.Y; y++ {
		row := make([]byte, 1+(size.Dx()+7)/8)
		for x := range size.Dx() {
			if r, _, _, _ := picture.At(size.Min.X+x, y).RGBA(); r >= 0x8000 {
				row[1+x/8] |= 0x80 >> (x % 8)
			}
		}
		_, _ = z.Write(row) // a bytes.Buffer never fails
	}
	_ = z.Close()
	return packed.Bytes()
}

// appendChunk appends a part of a PNG: its length, its name and its content, and the checksum of both.
func appendChunk(b []byte, name string, content []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(content))) //nolint:gosec // a few thousand
	start := len(b)
	b = append(append(b, name...), content...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[start:]))
}
