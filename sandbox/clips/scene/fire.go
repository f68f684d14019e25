package scene

// fire builds a volcano or a campfire.
func (st *stage) fire() {
	if st.has("volcano eruption lava magma dragon") {
		st.volcano()
		return
	}
	st.campfire()
}

// flicker returns the restless brightness of a fire, around 1: a slow and a fast noise over time.
func (st *stage) flicker(t float32) float32 {
	return 0.9 + 0.1*st.n.at(3.1*st.speed*t, 7) + 0.06*st.n.at(7.3*st.speed*t, 2)
}

// campfire builds a fire in a clearing at the edge of a forest. The fire, not the moon, lights the
// ground and the nearer trees.
func (st *stage) campfire() {
	horizon := st.tall * 0.6
	// A small moon in the corner.
	s := sun{x: st.wide * 0.82, y: 0.2 * horizon, r: 0.035}
	st.light = hex(0xf2ead8) // the moon, whatever the palette says
	st.heaven(horizon, s, 0.12)
	glow := hex(0xff8a34)
	x, y := st.wide*st.rand(0.42, 0.58), st.tall*0.8
	// Trees behind the fire; the glow lies between the two rows.
	st.pines(0.1, horizon+0.06, 0.08, 0.16, mix(st.far, st.near, 0.35))
	st.halo(x, y-0.1, 0.95, 0.42, glow, st.flicker)
	st.pines(0.25, horizon+0.12, 0.05, 0.3, mix(st.near, glow, 0.06))
	seed := st.rand(0, 50)
	line := func(px float32) float32 { return st.tall*0.74 - 0.025*st.n.fbm(px*2+seed, seed, 3) }
	// The ground, with the light of the fire on it. The area is flattened, since it is seen from
	// the side.
	st.put(cutout{mask: ridge(st.unit, -0.02, st.wide+0.02, st.tall*0.68, st.tall*0.8, line), move: still, paint: func(t float32) shader {
		warm := 0.75 * st.flicker(t)
		return func(px, py float32) rgb {
			// d2 is the squared distance from the fire.
			dx, dy := px-x, (py-y-0.02)*2.6
			d2 := dx*dx + dy*dy
			ground := mix(st.near, st.far, 0.35)
			return add(ground, glow, warm*(0.75*exp(-d2*9)+0.3*exp(-d2*1.8))*(0.8+0.35*st.n.at(px*22, py*70)))
		}
	}})
	st.stones(x, y)
	st.flame(x, y, 0.34)
	st.logs(x, y)
	st.embers(x, y-0.08, 0.16, 0.75, 34)
	dark := mix(st.near, rgb{}, 0.5)
	for _, side := range []float32{-1, 1} { // dark trees frame the picture
		px := st.wide/2 + side*st.wide*0.49
		st.shape(0, point{px - 0.35, -0.05}, point{px + 0.35, st.tall}, plain(dark), func(m *mask) {
			m.pine(st, px, st.tall*1.02, st.tall*0.95)
		})
	}
}

// stones puts a ring of stones around a fire.
func (st *stage) stones(x, y float32) {
	lit := mix(hex(0xb8683a), st.near, 0.45)
	st.shape(0, point{x - 0.3, y - 0.1}, point{x + 0.3, y + 0.1}, fade(lit, mix(st.near, rgb{}, 0.2), y-0.03, y+0.055), func(m *mask) {
		for i := range 11 {
			// 6.283 is a full circle.
			a := 6.283 * float32(i) / 11
			m.ellipse(x+0.2*cos(a), y+0.012+0.04*sin(a), st.rand(0.026, 0.038), st.rand(0.018, 0.026))
		}
	})
}

// logs puts three logs across a fire.
func (st *stage) logs(x, y float32) {
	bark := mix(hex(0x3a1a10), st.near, 0.3)
	st.shape(0, point{x - 0.25, y - 0.12}, point{x + 0.25, y + 0.06}, fade(mix(bark, hex(0xff7a2a), 0.35), bark, y-0.06, y+0.02), func(m *mask) {
		m.stroke(point{x - 0.17, y + 0.015}, point{x + 0.07, y - 0.055}, 0.036, 0.03)
		m.stroke(point{x + 0.17, y + 0.015}, point{x - 0.07, y - 0.055}, 0.036, 0.03)
		m.stroke(point{x - 0.12, y + 0.022}, point{x + 0.13, y + 0.018}, 0.04, 0.036)
	})
}

// flame puts a fire of the given height on (x, y).
func (st *stage) flame(x, y, height float32) {
	outer, middle, inner := hex(0xf2501a), hex(0xff9a2a), hex(0xfff0b0)
	st.put(haze{x0: x - 0.3, y0: y - 1.4*height, x1: x + 0.3, y1: y + 0.03, paint: func(t float32) veil {
		// lift is how far the turbulence has risen.
		lift := 1.5 * st.speed * t
		return func(px, py float32) (rgb, float32) {
			up := (y - py) / height
			if up < -0.1 || up > 1.4 {
				return outer, 0
			}
			// The flame leans, gets narrower towards its tip, and is torn by turbulence that moves
			// upwards. d is the distance from its middle, about 1 at its edge.
			bend := 0.05 * up * st.n.at(px*2, up*1.6-0.8*lift)
			width := 0.135 * (1 - 0.62*up) * smooth(-0.1, 0.12, up)
			turbulence := 0.42 * st.n.fbm(px*13, up*3.2-lift, 3)
			d := abs(px-x-bend)/max(0.01, width) + 0.75*up*up + turbulence*(0.35+0.9*up)
			a := smooth(1.05, 0.62, d)
			// From red at the edge over orange to pale yellow at the core, which is shorter than
			// the flame.
			c := mix(outer, middle, smooth(0.95, 0.55, d))
			return mix(c, inner, smooth(0.6, 0.2, d+0.25*up)), a
		}
	}})
	st.halo(x, y-0.35*height, 0.34, 0.4, middle, st.flicker)
	st.tongues(x, y, height)
}

// tongues puts sharp licks of flame over the soft flame.
func (st *stage) tongues(x, y, height float32) {
	all := st.motes(9)
	st.put(swarm(func(c *canvas) {
		for _, m := range all {
			// life goes from 0 at the bottom to 1 at the top, again and again.
			life := wrap(m.y + (0.5+0.3*m.depth)*st.speed*c.t)
			px := x + (m.x-0.5)*0.15*(1-0.55*life) + 0.018*sin(m.phase+6*life+2*c.t)
			py := y - height*(0.05+0.95*life)
			color := mix(hex(0xffe69a), hex(0xff6a1e), life).video()
			length := 0.05 * (1 - 0.5*life)
			c.streak(px*c.unit, py*c.unit, (px+0.01*sin(m.phase+4*c.t))*c.unit, (py-length)*c.unit, (0.012*(1-life)+0.002)*c.unit, color, 0.4*(1-life)*smooth(0, 0.15, life))
		}
	}))
}

// volcano builds an erupting cone with a plume of ash, streams of lava and embers.
func (st *stage) volcano() {
	horizon := st.tall * 0.7
	cx := st.wide * st.rand(0.42, 0.58)
	peak := st.tall * 0.36
	glow := hex(0xff6a24)
	// The glow of the sky comes from the crater. There is no sun.
	st.heaven(horizon, sun{x: cx, y: peak}, 0.75)
	st.plume(cx, peak)
	st.halo(cx, peak, 0.5, 0.7, glow, st.flicker)
	st.hills(0.05, horizon, 0.12, 2.2, 4, mix(st.far, st.horizon, 0.3), mix(st.far, st.horizon, 0.5))
	seed := st.rand(0, 50)
	// The cone: a steep slope that flattens out, with a dip at the crater and rough flanks.
	cone := func(x float32) float32 {
		d := abs(x - cx)
		slope := peak + (horizon+0.04-peak)*(1-exp(-max(0, d-0.055)*3.1))
		rim := 0.012 * st.n.at(x*30+seed, 3)
		if d < 0.055 {
			rim += 0.02 * (1 - d/0.055)
		}
		return slope + rim + 0.02*st.n.fbm(x*7+seed, 1, 4)*smooth(0.04, 0.3, d)
	}
	rock := mix(st.near, st.far, 0.35)
	st.put(cutout{mask: ridge(st.unit, -0.02, st.wide+0.02, peak-0.04, horizon+0.06, cone), move: still, paint: func(t float32) shader {
		warm := 0.5 * st.flicker(t)
		return func(x, y float32) rgb {
			// The glow of the crater lights the upper part of the cone.
			d2 := (x-cx)*(x-cx)*3 + (y-peak)*(y-peak)*4
			c := mix(rock, st.near, smooth(peak, horizon, y))
			return add(c, glow, warm*exp(-d2*5))
		}
	}})
	// Five streams run down in different directions.
	for k := range 5 {
		st.stream(cx, peak, (float32(k)-2)*0.5, cone)
	}
	st.embers(cx, peak, 0.22, 0.42, 60)
	st.hills(0.5, st.tall*0.86, 0.1, 2.4, 4, mix(st.near, glow, 0.1), mix(st.near, rgb{}, 0.4))
	st.hills(1, st.tall*0.96, 0.08, 3, 4, mix(st.near, rgb{}, 0.35), mix(st.near, rgb{}, 0.6))
}

// plume puts a column of ash and smoke above a crater, lit from below and blown to one side.
func (st *stage) plume(x, y float32) {
	ash := mix(st.zenith, st.far, 0.5)
	lit := mix(ash, hex(0xff7a3a), 0.55)
	st.put(haze{x0: 0, y0: 0, x1: st.wide, y1: y + 0.02, paint: func(t float32) veil {
		return func(px, py float32) (rgb, float32) {
			up := y - py
			if up < 0 {
				return ash, 0
			}
			// The plume gets wider as it rises, and drifts to the right.
			width := 0.05 + 0.55*up
			puff := st.n.fbm((px-x)*5/(0.5+up), up*6-0.35*st.speed*t, 4)
			d := abs(px-x-0.35*up*up)/width + 0.9*puff
			return mix(lit, ash, smooth(0, 0.35, up-0.15*puff)), 0.85 * smooth(1, 0.35, d)
		}
	}})
}

// stream puts lava that runs down a slope from the crater. It follows the ground and gets narrower;
// its heat moves downwards.
func (st *stage) stream(cx, peak, lean float32, ground func(x float32) float32) {
	m := newMask(st.unit, point{cx - 0.6, peak - 0.02}, point{cx + 0.6, st.tall * 0.75})
	at := point{cx + 0.028*lean, peak + 0.012}
	length := st.rand(9, 17)
	for k := float32(0); k < length; k++ {
		// Each step goes at least a little down, and never above the ground.
		next := point{at.x + lean*0.016 + st.rand(-0.007, 0.007), 0}
		next.y = max(at.y+0.012, ground(next.x)+0.012+0.004*k)
		w := 0.014 * (1 - 0.8*k/length)
		m.stroke(at, next, w, w*0.94)
		at = next
	}
	st.put(cutout{mask: m, move: still, paint: func(t float32) shader {
		return func(x, y float32) rgb {
			heat := 0.55 + 0.45*st.n.at(x*14, y*16-0.8*st.speed*t)
			return mix(hex(0xd8320e), hex(0xffd866), clamp(heat*1.15-0.9*(y-peak)))
		}
	}})
}
