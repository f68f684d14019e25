package scene

import (
	"bytes"
	"fmt"
	"os"
	"testing"
)

// planes are a picture with room around it that must stay as it is.
type planes struct {
	y, u, v []uint8
	stride  int
}

const untouched = 7 // darker than black, which is 16

func newPlanes(w, h int) *planes {
	stride := (w+15)&^15 + 16
	p := &planes{make([]uint8, stride*(h+2)), make([]uint8, stride*(h+2)/4), make([]uint8, stride*(h+2)/4), stride}
	for _, plane := range [][]uint8{p.y, p.u, p.v} {
		for i := range plane {
			plane[i] = untouched
		}
	}
	return p
}

func (p *planes) draw(s *Scene, frame, y0, y1 int) {
	s.Draw(p.y, p.u, p.v, p.stride, frame, y0, y1)
}

// TestDrawEverySize checks that each pixel of the picture is drawn, and none beside it.
func TestDrawEverySize(t *testing.T) {
	t.Parallel()
	widths, heights := []int{480, 854}, []int{480, 720}
	prompts := []string{"a lighthouse at dusk"}
	if os.Getenv("SLUICE_SOAK") != "" {
		widths = []int{480, 720, 854, 1080, 1280, 1920}
		heights = widths
		prompts = nil
		for _, f := range families {
			prompts = append(prompts, f.name)
		}
	}
	for _, prompt := range prompts {
		for _, w := range widths {
			for _, h := range heights {
				t.Run(fmt.Sprintf("%s %dx%d", prompt, w, h), func(t *testing.T) {
					s, err := New(prompt, w, h, 24, 1)
					if err != nil {
						t.Fatal(err)
					}
					p := newPlanes(w, h)
					p.draw(s, 11, 0, h)
					for _, plane := range []struct {
						name         string
						pix          []uint8
						stride, w, h int
					}{{"Y", p.y, p.stride, w, h}, {"U", p.u, p.stride / 2, w / 2, h / 2}, {"V", p.v, p.stride / 2, w / 2, h / 2}} {
						for i, v := range plane.pix {
							inside := i%plane.stride < plane.w && i/plane.stride < plane.h
							if drawn := v != untouched; drawn != inside {
								t.Fatalf("%s at %d, %d drawn = %v, want %v", plane.name, i%plane.stride, i/plane.stride, drawn, inside)
							}
						}
					}
				})
			}
		}
	}
}

// TestDrawByBands checks that a picture is the same whether it is drawn at once or in parts, in any
// order: that is what lets all cores draw.
func TestDrawByBands(t *testing.T) {
	t.Parallel()
	const w, h = 246, 138
	for _, f := range families {
		s, err := New("the "+f.name+" in a storm with snow at night", w, h, 24, 2)
		if err != nil {
			t.Fatal(err)
		}
		whole, parts := newPlanes(w, h), newPlanes(w, h)
		for frame := range 2 {
			whole.draw(s, frame*17, 0, h)
			for _, band := range [][2]int{{80, 112}, {0, 48}, {112, h}, {48, 80}} {
				parts.draw(s, frame*17, band[0], band[1])
			}
			if !bytes.Equal(whole.y, parts.y) || !bytes.Equal(whole.u, parts.u) || !bytes.Equal(whole.v, parts.v) {
				t.Errorf("frame %d of %s differs when it is drawn in parts", frame*17, s.Title())
			}
		}
	}
}

// TestClipsMove checks that something happens in every family, and that it is gentle: the picture
// changes from frame to frame, and never altogether.
func TestClipsMove(t *testing.T) {
	t.Parallel()
	const w, h = 160, 96
	for _, f := range families {
		for _, at := range []string{"day", "dusk", "night"} {
			s, err := New(f.name+" "+at, w, h, 24, 2)
			if err != nil {
				t.Fatal(err)
			}
			before, after := newPlanes(w, h), newPlanes(w, h)
			before.draw(s, 20, 0, h)
			after.draw(s, 21, 0, h)
			sum := 0
			for i := range before.y {
				d := int(before.y[i]) - int(after.y[i])
				sum += max(d, -d)
			}
			if mean := float64(sum) / (w * h); mean == 0 || mean > 6 {
				t.Errorf("mean change of a pixel of %s in a frame = %.2f, want more than 0 and at most 6", s.Title(), mean)
			}
		}
	}
}
