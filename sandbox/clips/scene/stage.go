package scene

import "math"

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
	st.pan = 0.035 * b.speed
	if b.rng.IntN(2) == 0 {
		st.pan = -st.pan
	}
	return st
}

// rand returns a random number between a and b.
func (st *stage) rand(a, b float32) float32 { return a + (b-a)*st.rng.Float32() }

// depth returns the motion of something at a depth while the camera moves: 0 is infinitely far, 1
// is near. Nearer things move faster (parallax).
func (st *stage) depth(d float32) motion {
	return func(t float32) (dx, dy float32) { return -st.pan * d * t, 0 }
}

// reach returns the range of x that is visible at some time of the clip at a depth. Items that fill
// the width must cover it.
func (st *stage) reach(d float32) (x0, x1 float32) {
	travel := st.pan * d * st.seconds
	return min(0, travel) - 0.02, st.wide + max(0, travel) + 0.02
}

// put adds an item in front of all others. It finishes the mask of a cutout.
func (st *stage) put(it item) {
	if o, ok := it.(cutout); ok {
		o.mask.finish()
	}
	st.items = append(st.items, it)
}

// motion returns how far something has moved at a time, in units.
type motion func(t float32) (dx, dy float32)

// still is the motion of something that does not move.
func still(float32) (dx, dy float32) { return 0, 0 }

// backdrop fills the picture.
type backdrop struct{ paint func(t float32) shader }

func (b backdrop) draw(c *canvas)     { c.fill(b.paint(c.t)) }
func (backdrop) hides(c *canvas) bool { return true }

// cutout is a shape with sharp edges. Its rows may waver sideways, as reflections do.
type cutout struct {
	mask *mask
	// paint returns the shader for a time.
	paint  func(t float32) shader
	move   motion
	waver  float32 // how far rows waver, in units; 0 means not at all
	length float32 // length of a wave down the rows, in units
}

// shift returns by how many pixels each row of the mask is moved now.
func (o cutout) shift(c *canvas) func(row int) (dx, dy float32) {
	dx, dy := o.move(c.t)
	dx, dy = dx*c.unit, dy*c.unit
	if o.waver == 0 {
		return func(int) (float32, float32) { return dx, dy }
	}
	return func(row int) (float32, float32) {
		phase := 2 * math.Pi * float32(row) / (c.unit * o.length)
		return dx + o.waver*c.unit*sin(phase+0.9*c.t), dy
	}
}

func (o cutout) draw(c *canvas) { c.stencil(o.paint(c.t), o.mask, o.shift(c)) }

// hides ignores waver: wavering shapes are reflections, whose masks are not solid.
func (o cutout) hides(c *canvas) bool {
	dx, dy := o.move(c.t)
	return o.mask.covers(c.y0, dx*c.unit, dy*c.unit, c.w)
}

// haze is something soft: mist, a glow, a beam of light. It lies between the columns x0 and x1 and
// the rows y0 and y1.
type haze struct {
	paint          func(t float32) veil
	x0, y0, x1, y1 float32
}

func (h haze) draw(c *canvas) {
	if h.y1*c.unit < float32(c.y0) || h.y0*c.unit > float32(c.y1) {
		return
	}
	c.lay(h.paint(c.t), int(h.x0*c.unit), int(h.x1*c.unit)+1)
}

func (haze) hides(*canvas) bool { return false }

// swarm is a group of many small things, drawn by one function.
type swarm func(c *canvas)

func (s swarm) draw(c *canvas)   { s(c) }
func (swarm) hides(*canvas) bool { return false }

// plain paints one color at all times.
func plain(c rgb) func(float32) shader {
	return func(float32) shader { return func(float32, float32) rgb { return c } }
}

// fade paints from one color at row y0 to another one at row y1.
func fade(top, low rgb, y0, y1 float32) func(float32) shader {
	return func(float32) shader {
		return func(_, y float32) rgb { return mix(top, low, clamp((y-y0)/(y1-y0))) }
	}
}
