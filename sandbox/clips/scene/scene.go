// Package scene draws the pictures of a clip for a prompt: landscapes made of layers, in colors and
// with things that its words name.
//
// New reads the prompt (see brief), lets one family of scenes put its items on a stage, and returns
// a Scene that never changes. So any goroutine may draw any rows of any frame, in any order.
// Encoding the pictures is not done here.
//
// Lengths are in units: the shorter side of the picture is one unit long, and y grows downwards. So
// a scene looks the same at every resolution. Times are in seconds since the beginning of the clip.
// All randomness comes from a generator that is seeded with the prompt and used in a fixed order,
// so the same prompt always gives the same clip. The numbers in the families' code were chosen by
// eye.
package scene

import (
	"fmt"
	"sync"
)

// Scene is a clip that is ready to be drawn. It is safe for concurrent use.
type Scene struct {
	fps  int
	unit float32 // the number of pixels in one unit
	// items are ordered from back to front. The last two are the caption.
	items []item
	title string
	pool  sync.Pool // of *canvas, so that drawing does not allocate
}

// New prepares the clip for a prompt. Width and height must be even.
func New(prompt string, w, h, fps, seconds int) (*Scene, error) {
	b := read(prompt)
	st := newStage(b, w, h, float32(seconds))
	build := builders[b.family]
	build(st)
	st.weather()
	s := &Scene{fps: fps, unit: st.unit, items: st.items, title: fmt.Sprintf("%s, %s", b.family, b.hour)}
	s.pool.New = func() any { return newCanvas(w, s.unit) }
	text, err := captionText(prompt, s.title, w, h)
	if err != nil {
		return nil, err
	}
	s.items = append(s.items, shade(text, s.unit), item{mask: text, move: still, paint: plain(rgb{1, 1, 1})})
	return s, nil
}

// Title returns what is drawn, such as "sea, dusk".
func (s *Scene) Title() string { return s.title }

// Draw paints the rows from y0 up to y1 of a frame into the planes of a 4:2:0 picture (BT.709,
// limited range). The stride is that of luma; chroma has half of it. y0 must be a multiple of 16.
func (s *Scene) Draw(y, u, v []uint8, stride, frame, y0, y1 int) {
	c := s.pool.Get().(*canvas)
	defer s.pool.Put(c)
	c.planes, c.stride = [3][]uint8{y, u, v}, stride
	c.t = float32(frame) / float32(s.fps)
	for ; y0 < y1; y0 += strip {
		c.y0, c.y1 = y0, min(y0+strip, y1)
		// Find the frontmost item that hides everything behind it, and start there.
		first := len(s.items) - 1
		for first > 0 && !s.items[first].hides(c) {
			first--
		}
		for i := range s.items[first:] {
			s.items[first+i].draw(c)
		}
	}
}
