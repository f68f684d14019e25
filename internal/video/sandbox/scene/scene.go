// Package scene draws the pictures of a clip that a prompt asks for: landscapes made of layers, in
// colours and with things that its words name.
//
// New understands the prompt (see brief), lets one family of scenes put its items on a stage, and
// leaves a Scene that never changes, so that any goroutine may draw any rows of any frame. Coding the
// pictures is not done here.
package scene

import (
	"fmt"
	"sync"
)

// Scene is a clip ready to be drawn.
type Scene struct {
	w, h  int
	fps   int
	unit  float32
	items []item
	text  *caption
	title string
	pool  sync.Pool // of *canvas
}

// item is something in the picture.
type item interface {
	// draw paints the item on the strip.
	draw(c *canvas)
	// hides reports that nothing behind the item is seen in the strip.
	hides(c *canvas) bool
}

// New prepares the clip for a prompt. Sides are even.
func New(prompt string, w, h, fps, seconds int) (*Scene, error) {
	b := read(prompt)
	st := newStage(b, w, h, float32(seconds))
	build := builders[b.family]
	build(st)
	st.weather()
	s := &Scene{w: w, h: h, fps: fps, unit: st.unit, items: st.items, title: fmt.Sprintf("%s, %s", b.family, b.hour)}
	s.pool.New = func() any { return newCanvas(w, h, s.unit) }
	var err error
	s.text, err = newCaption(prompt, s.title, w, h)
	return s, err
}

// Title names what is drawn, such as "sea, dusk".
func (s *Scene) Title() string { return s.title }

// Draw paints the rows from y0 to y1 of a frame into planes of 4:2:0 video (BT.709, limited range);
// stride is luma's, chroma has half of it. y0 is a multiple of 16.
func (s *Scene) Draw(y, u, v []uint8, stride, frame, y0, y1 int) {
	c := s.pool.Get().(*canvas)
	defer s.pool.Put(c)
	c.y, c.u, c.v, c.stride = y, u, v, stride
	c.t = float32(frame) / float32(s.fps)
	for ; y0 < y1; y0 += strip {
		c.y0, c.y1 = y0, min(y0+strip, y1)
		first := len(s.items) - 1
		for first > 0 && !s.items[first].hides(c) {
			first--
		}
		for _, it := range s.items[first:] {
			it.draw(c)
		}
		s.text.draw(c)
	}
}
