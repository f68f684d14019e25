package mp4_test

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"sluice/sandbox/clips/mp4"
)

// The index (moov) comes before the pictures (mdat), so that a player can start early.
func ExampleWrite() {
	var file bytes.Buffer
	movie := mp4.Movie{Width: 64, Height: 64, FPS: 24, SPS: []byte{0x67, 66, 192, 10}, PPS: []byte{0x68, 206}}
	picture := []byte{0, 0, 0, 2, 0x65, 0x88} // one NAL unit of two bytes, behind its length
	if err := mp4.Write(&file, movie, []mp4.Sample{{Data: picture, Key: true}}); err != nil {
		fmt.Println(err)
		return
	}
	for boxes := file.Bytes(); len(boxes) > 0; {
		size := binary.BigEndian.Uint32(boxes)
		fmt.Printf("%s\n", boxes[4:8])
		boxes = boxes[size:]
	}
	// Output:
	// ftyp
	// moov
	// mdat
}
