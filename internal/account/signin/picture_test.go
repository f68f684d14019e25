package signin

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"testing"

	"pgregory.net/rapid"
)

// TestEncodePNG: the standard library reads what encodePNG writes, pixel for pixel.
func TestEncodePNG(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x, y := rapid.IntRange(-3, 3).Draw(t, "x"), rapid.IntRange(-3, 3).Draw(t, "y")
		size := image.Rect(x, y, x+rapid.IntRange(1, 40).Draw(t, "width"), y+rapid.IntRange(1, 40).Draw(t, "height"))
		picture := image.NewGray(size)
		for i := range picture.Pix {
			if rapid.Bool().Draw(t, "white") {
				picture.Pix[i] = 255
			}
		}
		got, err := png.Decode(bytes.NewReader(encodePNG(picture)))
		if err != nil {
			t.Fatalf("Decode(encodePNG(%v)) = %v", size, err)
		}
		if got.Bounds().Size() != size.Size() {
			t.Fatalf("encodePNG(%v) is %v", size, got.Bounds())
		}
		for i := range size.Dx() {
			for j := range size.Dy() {
				g, w := color.GrayModel.Convert(got.At(i, j)), picture.At(x+i, y+j)
				if g != w {
					t.Fatalf("pixel %d,%d of %v = %v, want %v", i, j, size, g, w)
				}
			}
		}
	})
}
