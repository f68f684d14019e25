package scene

import "math"

// drift describes many small things that move alike, such as snowflakes or sparks. Pairs of numbers
// are for the farthest and for the nearest of them.
type drift struct {
	count  int // for each square unit of their area
	colors []rgb
	size   [2]float32 // radius in units
	alpha  [2]float32 // opacity
	way    point      // units per second, for those in the middle
	sway   float32    // how far they wander from their way
	tail   point      // makes a streak of each
	spin   float32    // how fast the streak turns, which looks like something flat that tumbles
	blink  float32    // how fast they go on and off, in turns per second
	fade   float32    // 1 if they fade towards the top of their area, -1 if towards its bottom
	glow   bool
}

// mote is one of them. x, y and depth are from 0 to 1, and phase is an angle that keeps motes out
// of step.
type mote struct{ x, y, depth, phase float32 }

// wrap returns the fraction of a value, from 0 to 1, so that what leaves on one side comes back on
// the other.
func wrap(v float32) float32 { return v - floor(v) }

// swarm puts small things into the area from a to b.
func (st *stage) swarm(d drift, a, b point) {
	w, h := b.x-a.x, b.y-a.y
	all := make([]mote, max(1, int(float32(d.count)*w*h)))
	for i := range all {
		// Squaring makes most of them distant.
		all[i] = mote{st.rand(0, 1), st.rand(0, 1), square(st.rand(0, 1)), st.rand(0, 2*math.Pi)}
	}
	margin := d.sway + 2*abs(d.tail.y) + 4*max(d.size[0], d.size[1]) + 4/st.unit
	between := func(v [2]float32, f float32) float32 { return v[0] + (v[1]-v[0])*f }
	st.small(func(c *canvas) {
		for i, m := range all {
			near := 0.6 + m.depth
			fx, fy := wrap(m.x+d.way.x*near*c.t/w), wrap(m.y+d.way.y*near*c.t/h)
			p := point{a.x + fx*w, a.y + fy*h}
			// Most of them are not in this strip.
			if p.y+margin < float32(c.y0)/c.unit || p.y-margin > float32(c.y1)/c.unit {
				continue
			}
			p.x, p.y = p.x+d.sway*sin(m.phase+0.8*c.t), p.y+0.7*d.sway*cos(1.3*m.phase+0.6*c.t)
			tail := point{d.tail.x * near, d.tail.y * near}
			if d.spin > 0 {
				tail.x, tail.y = tail.x*cos(m.phase+d.spin*c.t), tail.y*sin(m.phase+d.spin*c.t)
			}
			alpha := between(d.alpha, m.depth)
			if d.blink > 0 {
				alpha *= smooth(-0.7, 0.9, sin(m.phase+2*math.Pi*d.blink*near*c.t))
			}
			if d.fade != 0 {
				alpha *= smooth(0, 0.7, d.fade*fy+(1-d.fade)/2)
			}
			color, r := d.colors[i%len(d.colors)], between(d.size, m.depth)
			if d.glow {
				c.streak(p, p, 3.5*r, color, 0.2*alpha)
				color = pale(color, 0.5)
			}
			c.streak(p, point{p.x + tail.x, p.y + tail.y}, r, color, alpha)
		}
	})
}

// around puts small things into the whole picture and a margin around it.
func (st *stage) around(d drift) {
	st.swarm(d, point{-0.1, -0.1}, point{st.wide + 0.1, st.tall + 0.1})
}

// weather puts whatever the prompt's words bring into the air in front of everything else.
func (st *stage) weather() {
	if st.family == "space" {
		return
	}
	if st.has("fog foggy mist misty haze hazy smoke") {
		st.mist(0.72*st.tall, 0.3*st.tall, 0.5, mix(st.horizon, st.sky, 0.3))
	}
	petals := drift{count: 36, size: [2]float32{0.0018, 0.004}, alpha: [2]float32{0.9, 0.9}, way: point{-0.03, 0.05 * st.speed}, sway: 0.03, tail: point{0.006, 0.004}, spin: 1.7}
	switch {
	case st.family == "rain" || st.has("rain rainy storm stormy thunderstorm drizzle downpour umbrella"):
		// Rain falls at a slant. Fast snow is a blizzard, which blows sideways.
		slant := -0.1 - 0.08*st.speed
		st.around(drift{count: 65, colors: []rgb{pale(st.horizon, 0.35)}, size: [2]float32{0.0005, 0.001}, alpha: [2]float32{0.16, 0.34}, way: point{1.1 * slant, 1.1}, tail: point{0.04 * slant, 0.04}})
	case st.family == "snow" || st.has("snow snowy snowfall blizzard winter christmas"):
		st.around(drift{count: 55, colors: []rgb{{0.98, 0.99, 1}}, size: [2]float32{0.0012, 0.0054}, alpha: [2]float32{0.85, 0.55}, way: point{0.03 * st.speed * st.speed, 0.05 + 0.03*st.speed}, sway: 0.012})
	case st.has("leaf leaves autumn"):
		petals.colors = []rgb{hex(0xe0812a), hex(0xc2481e), hex(0xf0b83c)}
		st.around(petals)
	case st.has("petal petals blossom blossoms sakura cherry spring"):
		petals.colors = []rgb{hex(0xffd1e0), hex(0xffb3cc), hex(0xffe6ee)}
		st.around(petals)
	case st.has("firefly fireflies fairy magic magical enchanted dream dreamy"):
		st.fireflies(60)
	case st.has("sandstorm dust dusty windy"):
		st.dust(60)
	}
}

// fireflies puts lights that wander and go on and off into the lower part of the picture.
func (st *stage) fireflies(count int) {
	st.swarm(drift{count: count, colors: []rgb{st.accent}, size: [2]float32{0.0014, 0.003}, alpha: [2]float32{0.8, 1}, sway: 0.03, blink: 0.15, glow: true}, point{0, 0.4 * st.tall}, point{st.wide, st.tall})
}

// pollen puts specks of light into the air.
func (st *stage) pollen(count int) {
	st.around(drift{count: count, colors: []rgb{pale(st.light, 0.5)}, size: [2]float32{0.0009, 0.0027}, alpha: [2]float32{0.5, 0.5}, way: point{0.012 * st.speed, -0.01}, sway: 0.02, blink: 0.14})
}

// dust blows dust along the ground.
func (st *stage) dust(count int) {
	st.swarm(drift{count: count, colors: []rgb{mix(st.far, st.light, 0.5)}, size: [2]float32{0.0008, 0.0008}, alpha: [2]float32{0.12, 0.28}, way: point{0.16 * st.speed, 0}, sway: 0.01, tail: point{0.04, -0.003}}, point{-0.1, st.tall / 2}, point{st.wide + 0.1, st.tall})
}

// embers lets embers rise from a place and fade.
func (st *stage) embers(x, y, spread, height float32, count int) {
	st.swarm(drift{count: count, colors: []rgb{hex(0xffe08a), hex(0xff9a3a), hex(0xff5a1e)}, size: [2]float32{0.0009, 0.0022}, alpha: [2]float32{0.7, 1}, way: point{0, -0.15 * height * st.speed}, sway: 0.02, tail: point{0, -0.004}, blink: 0.6, fade: 1}, point{x - spread, y - height}, point{x + spread, y})
}

// ripples puts short lines that come and go on water or wet ground between two rows.
func (st *stage) ripples(x0, y0, x1, y1 float32, count int, color rgb) {
	st.swarm(drift{count: count, colors: []rgb{color}, size: [2]float32{0.0006, 0.0014}, alpha: [2]float32{0.4, 0.7}, tail: point{0.014, 0}, blink: 0.25}, point{x0, y0}, point{x1, y1})
}
