package h264_test

import (
	"encoding/binary"
	"fmt"

	"sluice/sandbox/clips/h264"
)

// Encode asks for a picture band by band and returns its slices, each behind its length.
func ExampleEncoder_Encode() {
	encoder, err := h264.New(64, 64, 24)
	if err != nil {
		fmt.Println(err)
		return
	}
	grey := func(p *h264.Planes, y0, y1 int) {
		for y := y0; y < y1; y++ {
			for x := range 64 {
				p.Y[y*p.Stride+x] = 128
			}
		}
		for y := y0 / 2; y < y1/2; y++ {
			for x := range 32 {
				p.U[y*p.Stride/2+x], p.V[y*p.Stride/2+x] = 128, 128
			}
		}
	}
	for _, name := range []string{"first", "second"} {
		data := encoder.Encode(false, 25, grey)
		const mask = 0x1f // the low five bits of a NAL unit are its type: 5 is a key picture, 1 is not
		for len(data) > 0 {
			size := binary.BigEndian.Uint32(data)
			fmt.Println(name, "picture, slice of type", data[4]&mask)
			data = data[4+size:]
		}
	}
	fmt.Println("luma shown:", encoder.Decoded().Y[0])
	// Output:
	// first picture, slice of type 5
	// second picture, slice of type 1
	// luma shown: 128
}

// Sizes must be even, because chroma has half the resolution.
func ExampleNew() {
	_, err := h264.New(63, 64, 24)
	fmt.Println(err != nil)
	// Output: true
}
