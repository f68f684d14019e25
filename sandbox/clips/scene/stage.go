package scene

// stage is where a family of scenes puts its items, from back to front.
// It embeds the brief and the palette, so that builders can use their words, random numbers and
// colors directly.
type stage struct {
	*brief
	palette
	n          *noise
	unit       float32 // pixels in one unit
	wide, tall float32 // size of the picture in units; the smaller is 1
	seconds    float32 // length of the clip
	pan        float32 // how fast the camera moves, in units per second; may be negative
	items      []item
}

// newStage returns an empty stage. The camera pans to the left or to the right at random.
func newStage(b *brief, w, h int, seconds float32) *stage {
	unit := float32(min(w, h))
	st := &stage{brief: b, palette: b.colors(), n: newNoise(b.rng), unit: unit, wide: float32(w) / unit, tall: float32(h) / unit, seconds: seconds}
	st.pan = 0.035 * b.speed * st.either(-1, 1)
	return st
}

// item is something in the picture: colors that are painted through a mask, or small things that
// paint themselves. It is only read while it is drawn, since several goroutines draw it.
type item struct {
	mask *mask
	move motion
	// paint returns the shader for a time.
	paint func(t float32) shader
	small func(c *canvas) // takes the place of the others
}

// motion returns how far something has moved at a time, in units.
type motion func(t float32) (dx, dy float32)

// draw paints the item onto the strip.
func (it *item) draw(c *canvas) {
	if it.small != nil {
		it.small(c)
		return
	}
	dx, dy := it.move(c.t)
	c.paint(it.paint(c.t), it.mask, dx*c.unit, dy*c.unit)
}

// hides reports whether nothing behind the item can be seen in the strip. Solid masks are always
// painted in opaque colors.
func (it *item) hides(c *canvas) bool {
	m := it.mask
	if m == nil || !m.solid {
		return false
	}
	dx, dy := it.move(c.t)
	return m.covers(c.y0, dy*c.unit) && float32(m.x)+dx*c.unit <= 0 && float32(m.x+m.w)+dx*c.unit >= float32(c.w)
}

// put adds a mask and its colors in front of all other items.
func (st *stage) put(m *mask, move motion, paint func(t float32) shader) {
	m.soften()
	st.items = append(st.items, item{mask: m, move: move, paint: paint})
}

// veil puts colors, transparent or not, between the columns x0 and x1 and the rows y0 and y1.
func (st *stage) veil(x0, y0, x1, y1 float32, paint func(t float32) shader) {
	st.put(area(st.unit, point{x0, y0}, point{x1, y1}), still, paint)
}

// small puts things that are drawn by a function.
func (st *stage) small(draw func(c *canvas)) { st.items = append(st.items, item{small: draw}) }

// backdrop puts colors that fill the picture.
func (st *stage) backdrop(paint func(t float32) shader) {
	m := area(st.unit, point{}, point{st.wide, 0})
	m.h, m.solid = 0, true
	st.put(m, still, paint)
}

// rand returns a random number between a and b.
func (st *stage) rand(a, b float32) float32 { return a + (b-a)*st.rng.Float32() }

// either returns one of two numbers at random.
func (st *stage) either(a, b float32) float32 {
	if st.rng.IntN(2) == 0 {
		return a
	}
	return b
}

// by returns the number for the hour.
func (st *stage) by(atDay, atDusk, atNight float32) float32 {
	return [3]float32{atDay, atDusk, atNight}[st.hour]
}

// still is the motion of something that does not move.
func still(float32) (dx, dy float32) { return 0, 0 }

// depth returns the motion of something at a depth while the camera moves: 0 is infinitely far, 1
// is near. Nearer things move faster (parallax).
func (st *stage) depth(d float32) motion { return st.swaying(d, 0) }

// swaying does the same for something that also sways sideways.
func (st *stage) swaying(d, by float32) motion {
	phase := st.rand(0, 6)
	return func(t float32) (dx, dy float32) { return -st.pan*d*t + by*sin(phase+0.9*st.speed*t), 0 }
}

// reach returns the range of x that is visible at some time of the clip at a depth. Items that fill
// the width must cover it.
func (st *stage) reach(d float32) (x0, x1 float32) {
	travel := st.pan * d * st.seconds
	return min(0, travel) - 0.04, st.wide + max(0, travel) + 0.04
}

// plain paints one color at all times.
func plain(c rgb) func(float32) shader {
	return func(float32) shader { return func(float32, float32) (rgb, float32) { return c, 1 } }
}

// fade paints from one color at row y0 to another one at row y1.
func fade(top, low rgb, y0, y1 float32) func(float32) shader {
	return func(float32) shader {
		return func(_, y float32) (rgb, float32) { return mix(top, low, clamp((y-y0)/(y1-y0))), 1 }
	}
}
