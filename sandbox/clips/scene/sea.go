package scene

import "math"

// sea builds an open sea with waves, and a lighthouse, an island or a beach if the prompt asks for
// one.
func (st *stage) sea() {
	horizon := st.tall * st.rand(0.46, 0.56)
	s := st.sunAt(horizon, 0.22, 0.6, 0.075)
	// From back to front: sky, birds, perhaps distant land, water, and perhaps something on the
	// shore.
	clouds := st.rand(0.25, 0.6)
	if st.has("storm stormy") {
		clouds = 1
	}
	st.heaven(horizon, s, clouds)
	if st.hour != night {
		st.birds(5, st.other(s.x), 0.55*horizon)
	}
	if st.has("island coast bay harbour harbor fjord cliff") || st.rng.IntN(2) == 0 {
		st.hills(0.08, horizon+0.012, 0.13, 1.4, 4, mix(st.horizon, st.far, 0.55), mix(st.horizon, st.far, 0.7))
	}
	st.water(horizon, s, 7)
	switch {
	case st.has("lighthouse"):
		st.lighthouse(st.other(s.x), horizon)
	case st.has("palm beach island tropical sand"):
		st.beach()
	}
}

// water puts rows of waves below the horizon, and the light on them. The fourth row may carry a
// boat.
func (st *stage) water(horizon float32, s sun, rows int) {
	deep := st.tall - horizon
	// surface returns the color of the water, at a part of the way from the horizon to the viewer.
	surface := func(f float32) rgb { return mix(st.far, st.near, smooth(0, 0.85, f)) }
	// lit returns how much light falls on a place: a path below the sun that gets wider towards the
	// viewer.
	lit := func(t float32, x, y float32) float32 {
		f := (y - horizon) / deep
		// The path of light gets wider, and is broken up by ripples that move towards the viewer.
		width := 0.035 + 0.42*f
		dx := (x - s.x) / width
		ripple := 0.62 + 0.38*st.n.at(x*5+f*7, y*34-0.7*st.speed*t)
		return exp(-dx*dx) * ripple * (1 - 0.75*f)
	}
	for i := range rows {
		// f goes from 0 at the horizon to 1 at the viewer. Rows lie closer together in the
		// distance.
		f := float32(i) / float32(rows)
		f *= 0.4 + 0.6*f
		base := horizon + deep*f
		// Waves are higher towards the viewer and in a storm. The horizon itself is straight.
		amp := 0.002 + 0.02*f*min(1.6, st.speed)
		if i == 0 {
			amp = 0
		}
		d := 0.15 + 0.85*f
		sway := 0.012 * f
		// Each row sways at a pace of its own.
		pace, phase := st.rand(0.5, 0.9)*st.speed, st.rand(0, 6)
		way := st.pan * d
		x0, x1 := st.reach(d)
		seed := st.rand(0, 99)
		m := ridge(st.unit, x0-0.03, x1+0.03, base-2.2*amp, base+2.2*amp+0.004, func(x float32) float32 {
			return base - amp*(sin(x*(26-16*f)+seed)*0.7+0.9*st.n.at(x*(12-7*f)+seed, 3))
		})
		// A row is brighter at its crest, and takes the color of the horizon in the distance.
		top, low := surface(f), surface(f+0.3)
		move := func(t float32) (float32, float32) {
			return -way*t + sway*sin(phase+pace*t), 0.35 * amp * sin(phase+1.3*pace*t)
		}
		st.put(cutout{mask: m, move: move, paint: func(t float32) shader {
			return func(x, y float32) rgb {
				depth := (y - base) / (0.05 + 0.3*deep*f)
				c := mix(mix(top, st.horizon, 0.16*(1-f)), low, clamp(depth))
				c = mix(c, st.accent, 0.13*(1-smooth(0, 0.035, abs(y-base))))
				return add(c, st.light, 0.85*lit(t, x, y))
			}
		}})
		if i == 3 && !st.has("lighthouse") && (st.has("boat ship sail sailboat sailing") || st.rng.IntN(3) > 0) {
			x := st.other(s.x)
			size := 0.13
			if st.has("ship") {
				size = 0.19
			}
			st.sail(x, base+0.004, float32(size), move)
		}
	}
	st.glitter(horizon, s)
}

// sail puts a boat that rides on the water. It moves up and down with its row, but not sideways.
func (st *stage) sail(x, y, size float32, move motion) {
	m := newMask(st.unit, point{x - 0.7*size, y - 1.25*size}, point{x + 0.7*size, y + 0.1*size})
	m.boat(x, y, size)
	// By day the sails are white; against a darker sky they are silhouettes.
	sailcloth := mix(st.near, st.horizon, 0.12)
	if st.hour == day {
		sailcloth = rgb{0.98, 0.97, 0.94}
	}
	hull := mix(st.near, rgb{0.05, 0.04, 0.08}, 0.5)
	st.put(cutout{mask: m, paint: fade(sailcloth, hull, y-0.3*size, y-0.1*size), move: func(t float32) (float32, float32) {
		_, dy := move(t)
		return 0.006 * t, dy + 0.004*sin(1.1*t)
	}})
}

// glitter puts flashes on the water where the light falls.
func (st *stage) glitter(horizon float32, s sun) {
	all := st.motes(70)
	color := mix(st.light, rgb{1, 1, 1}, 0.4).video()
	deep := st.tall - horizon
	st.put(swarm(func(c *canvas) {
		for _, m := range all {
			// Most flashes are far away, where the path of light is narrow.
			f := 0.02 + 0.8*m.y*m.y
			y := horizon + deep*f
			x := s.x + (m.x-0.5)*(0.1+1.0*f)
			// Each flash is visible for a part of its cycle only.
			a := smooth(0.35, 1, sin(m.phase+(0.9+1.3*m.depth)*c.t)) * (0.8 - 0.6*f)
			half := 0.003 + 0.014*f
			c.streak((x-half)*c.unit, y*c.unit, (x+half)*c.unit, y*c.unit, (0.0006+0.0012*f)*c.unit, color, a)
		}
	}))
}

// lighthouse puts a tower on a cape and, unless it is day, its turning beams.
func (st *stage) lighthouse(x, horizon float32) {
	// side is 1 if the cape reaches to the right edge of the picture.
	side := float32(1)
	if x < st.wide/2 {
		side = -1
	}
	// edge is the side of the picture that the cape reaches.
	edge := float32(0)
	if side > 0 {
		edge = st.wide
	}
	foot := horizon + 0.075
	seed := st.rand(0, 50)
	rock := mix(st.near, rgb{0.04, 0.03, 0.06}, 0.35)
	// The cape is level at the tower and falls off into the sea.
	cape := func(px float32) float32 {
		in := (px - x) * side // grows towards the edge of the picture
		y := foot + 0.03*st.n.fbm(px*9+seed, 1, 4) - 0.02*smooth(0, abs(edge-x), in)
		return y + (st.tall-0.2-foot)*smooth(-0.03, -0.3, in)
	}
	const h = 0.36
	top := foot - h
	tower := func(f float32) float32 { return 0.034 - 0.012*f } // half of its width at a part of its height
	white := mix(rgb{0.96, 0.94, 0.9}, st.sky, 0.25)
	dark := mix(rock, st.sky, 0.12)
	if st.hour == night {
		white = mix(st.sky, rgb{0.9, 0.9, 0.95}, 0.3)
	}
	// The tower is round: darker on the side away from the middle.
	body := func(float32) shader {
		return func(px, _ float32) rgb { return mix(white, dark, smooth(-0.03, 0.035, (px-x)*side)*0.75) }
	}
	a, b := point{x - 0.08, top - 0.1}, point{x + 0.08, foot + 0.05}
	st.shape(0, a, b, body, func(m *mask) {
		m.poly(point{x - tower(1), top}, point{x + tower(1), top}, point{x + tower(0), foot + 0.04}, point{x - tower(0), foot + 0.04})
	})
	// Two red bands.
	st.shape(0, a, b, plain(mix(hex(0xb8302c), st.near, 0.35)), func(m *mask) {
		for _, f := range []float32{0.18, 0.52} {
			y0, y1 := foot-h*f, foot-h*(f+0.17)
			m.poly(point{x - tower(f), y0}, point{x + tower(f), y0}, point{x + tower(f+0.17), y1}, point{x - tower(f+0.17), y1})
		}
	})
	// Gallery, lantern and roof.
	st.shape(0, a, b, plain(rock), func(m *mask) {
		m.rect(x-0.033, top-0.006, x+0.033, top+0.006)
		m.rect(x-0.016, top-0.05, x-0.013, top)
		m.rect(x+0.013, top-0.05, x+0.016, top)
		m.poly(point{x - 0.024, top - 0.047}, point{x, top - 0.078}, point{x + 0.024, top - 0.047})
		m.rect(x-0.0015, top-0.092, x+0.0015, top-0.07)
	})
	x0, x1 := float32(-0.02), st.wide+0.02
	st.put(cutout{mask: ridge(st.unit, x0, x1, foot-0.08, st.tall+0.02, cape), move: still, paint: fade(mix(rock, st.horizon, 0.12), rock, foot-0.05, foot+0.2)})
	lamp := mix(st.light, hex(0xffe9b0), 0.6)
	st.shape(0, a, b, plain(lamp), func(m *mask) { m.rect(x-0.012, top-0.044, x+0.012, top-0.008) })
	if st.hour == day {
		return
	}
	lx, ly := x, top-0.026
	const pace = 0.75
	// sweep is the direction of the beam: 1 to the right, 0 towards the viewer, -1 to the left.
	// Seen from the side the beam is long and bright; when it points at the viewer, the lamp
	// flashes. A second, weaker beam points in the opposite direction.
	st.put(haze{x0: 0, y0: ly - 0.45, x1: st.wide, y1: ly + 0.45, paint: func(t float32) veil {
		sweep := cos(pace*t + 0.4)
		return func(px, py float32) (rgb, float32) {
			dx, dy := px-lx, py-ly
			along := dx * sweep
			r := sqrt(dx*dx + dy*dy)
			beam := float32(0)
			if along != 0 {
				slope := (dy + 0.05*abs(dx)) / (abs(dx) + 0.015)
				beam = exp(-slope*slope*90) * abs(sweep) * exp(-1.1*r)
				if along < 0 {
					beam *= 0.55
				}
			}
			// The lamp itself is brightest when the beam points at the viewer.
			flash := exp(-r*r*130) * (0.7 + 0.6*(1-abs(sweep)))
			return lamp, min(0.9, 0.62*beam+flash)
		}
	}})
}

// beach puts sand and palms in front of the water.
func (st *stage) beach() {
	// Sand is yellow by day only.
	sand := mix(hex(0xf2d9a0), st.near, 0.1)
	if st.hour != day {
		sand = mix(st.near, st.horizon, 0.3)
	}
	seed := st.rand(0, 9)
	line := func(x float32) float32 {
		return st.tall*0.84 + 0.03*sin(x*2.1+seed) + 0.015*st.n.at(x*5, seed)
	}
	x0, x1 := st.reach(1)
	// Foam washes over the sand, a little above its edge.
	st.put(cutout{mask: ridge(st.unit, x0, x1, st.tall*0.84-0.06, st.tall, func(x float32) float32 { return line(x) - 0.012 }), move: func(t float32) (float32, float32) {
		return -st.pan * t, 0.006 * sin(0.9*t)
	}, paint: plain(mix(st.accent, st.far, 0.2))})
	st.put(cutout{mask: ridge(st.unit, x0, x1, st.tall*0.84-0.06, st.tall, line), move: st.depth(1), paint: fade(sand, mix(sand, st.near, 0.45), st.tall*0.82, st.tall)})
	trunk := mix(st.near, rgb{0.03, 0.05, 0.04}, 0.6)
	for _, at := range []float32{0.08, 0.2, 0.93} {
		x := at*st.wide + st.rand(-0.03, 0.03)
		h := st.rand(0.42, 0.62)
		m := newMask(st.unit, point{x - 0.8*h, st.tall*0.9 - 1.4*h}, point{x + 0.8*h, st.tall*0.9 + 0.02})
		m.palm(st, x, st.tall*0.9, h)
		// Palms sway out of step.
		phase := st.rand(0, 2*math.Pi)
		st.put(cutout{mask: m, paint: plain(trunk), move: func(t float32) (float32, float32) {
			return -st.pan*t + 0.003*sin(phase+0.8*t), 0
		}})
	}
}
