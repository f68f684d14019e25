package scene

import "math"

// space builds a nebula or galaxy with stars in front of it, and planets, a comet, a rocket or the
// surface of a planet.
func (st *stage) space() {
	seed := st.rand(0, 100)
	angle := st.rand(-0.8, 0.8)
	spiral := st.has("galaxy milky universe andromeda")
	st.put(backdrop{func(t float32) shader {
		co, si := cos(angle), sin(angle)
		return func(x, y float32) rgb {
			// u and v are coordinates along and across the band of the nebula.
			px, py := x-st.wide/2, y-st.tall/2
			u, v := px*co+py*si, py*co-px*si
			// Noise that is distorted by other noise looks like gas.
			warp := 0.5 * st.n.at(u*1.3+seed, v*1.3+0.02*t)
			cloud := st.n.fbm(u*1.5+seed+0.008*st.speed*t, v*2.4+warp, 5)
			// glow is the gas, heat its brightest parts, and dust dark lanes in front of it.
			glow := smooth(-0.15, 0.65, cloud+0.35*exp(-v*v*9)-0.1)
			heat := smooth(0.25, 0.8, cloud+0.3*exp(-v*v*20))
			dust := smooth(0, 0.45, st.n.fbm(u*3+40, v*4+warp*2, 4))
			c := mix(st.zenith, st.sky, glow)
			c = mix(c, st.horizon, 0.75*heat)
			c = mix(c, st.zenith, 0.55*dust*glow)
			if spiral {
				c = st.whirl(c, u, v, dust, t)
			}
			return c
		}
	}})
	st.starfield()
	if st.has("comet meteor shooting asteroid") || st.rng.IntN(2) == 0 {
		st.comet()
	}
	// A place for the main planet: left or right of the middle.
	x, y := st.rand(0.62, 0.74)*st.wide, st.rand(0.4, 0.5)*st.tall
	r := st.rand(0.2, 0.27)
	if st.rng.IntN(2) == 0 {
		x = st.wide - x
	}
	// A nebula or galaxy is the subject itself and gets a small planet only.
	switch {
	case st.has("galaxy nebula milky universe cosmos") && !st.has("planet"):
		st.planet(0.87*st.wide, 0.22*st.tall, 0.06, false)
	case st.has("mars moon surface astronaut landing"):
		st.planet(x, 0.3*st.tall, 0.6*r, true)
		st.crater()
	default:
		st.planet(x, y, r, st.has("saturn ring rings") || st.rng.IntN(2) == 0)
		st.planet(st.wide-x, 0.26*st.tall, 0.045, false)
	}
	if st.has("rocket spaceship ship astronaut shuttle") {
		st.rocket()
	}
}

// whirl adds the arms and the core of a spiral galaxy to a color. u and v are coordinates in the
// galaxy's own axes.
func (st *stage) whirl(c rgb, u, v, dust, t float32) rgb {
	// The galaxy is seen at an angle.
	v *= 2.3
	r := sqrt(u*u+v*v) + 0.001
	turn := float32(math.Atan2(float64(v), float64(u)))
	// The arms follow a logarithmic spiral.
	arm := 0.5 + 0.5*cos(2*turn-6.5*float32(math.Log(float64(r)))+0.12*st.speed*t)
	arm = smooth(0.25, 1, arm-0.35*dust) * exp(-r*2.6) * smooth(0.04, 0.2, r)
	c = add(c, mix(st.horizon, st.light, 0.35*exp(-r*4)), 1.05*arm)
	return add(c, st.light, 0.95*exp(-r*r*60)+0.5*exp(-r*9))
}

// starfield puts stars at different distances, which the camera passes. Nearer ones are brighter
// and move faster.
func (st *stage) starfield() {
	all := st.motes(190)
	white := mix(st.accent, rgb{1, 1, 1}, 0.6).video()
	warm := mix(st.light, st.horizon, 0.4).video()
	st.put(swarm(func(c *canvas) {
		for i, m := range all {
			// The third power makes most stars faint.
			d := m.depth * m.depth * m.depth
			x := wrap(m.x-st.pan*(0.1+0.5*d)*c.t/st.wide) * st.wide * c.unit
			y := m.y * st.tall * c.unit
			color := white
			if i%5 == 0 {
				color = warm
			}
			r := (0.0005 + 0.0016*d) * c.unit
			a := 0.35 + 0.65*d
			if i%3 == 0 {
				a *= 0.7 + 0.3*sin(m.phase+1.2*c.t)
			}
			c.streak(x, y, x, y, r, color, a)
			if d > 0.75 { // the brightest have rays
				c.streak(x-6*r, y, x+6*r, y, 0.15*r, color, 0.4*a)
				c.streak(x, y-6*r, x, y+6*r, 0.15*r, color, 0.4*a)
			}
		}
	}))
}

// planet puts a lit sphere, with or without a ring.
func (st *stage) planet(x, y, r float32, ring bool) {
	seed := st.rand(0, 99)
	// (lx, ly, lz) points to the light, which comes from above and from the middle of the picture.
	lx, ly := float32(-0.62), float32(-0.45)
	if x < st.wide/2 {
		lx = -lx
	}
	lz := sqrt(1 - lx*lx - ly*ly)
	tilt := float32(0.34)
	move := st.depth(0.25)
	st.halo(x, y, 1.5*r, 0.28, mix(st.far, st.light, 0.4), steady)
	if ring {
		st.ring(x, y, r, tilt, false, move)
	}
	m := newMask(st.unit, point{x - r - 0.01, y - r - 0.01}, point{x + r + 0.01, y + r + 0.01})
	m.disc(x, y, r)
	dark := mix(st.near, rgb{}, 0.4)
	st.put(cutout{mask: m, move: move, paint: func(t float32) shader {
		shift, _ := move(t)
		return func(px, py float32) rgb {
			u, v := (px-x-shift)/r, (py-y)/r
			// z is the height of the sphere above the plane of the picture, so (u, v, z) is its
			// normal.
			z := sqrt(max(0, 1-u*u-v*v))
			// Bands along the tilted equator, compressed towards the edge and slowly turning.
			bands := st.n.fbm(seed+0.9*u/(0.4+z)+0.05*t, (v+tilt*u)*5+seed, 4)
			surface := mix(st.far, mix(st.light, st.far, 0.35), smooth(-0.3, 0.45, bands))
			surface = mix(surface, st.horizon, 0.4*smooth(0.1, 0.5, st.n.at(seed, (v+tilt*u)*3)))
			// Lambert's law: the light on a surface is the product of its normal and the direction
			// of the light.
			light := u*lx + v*ly + z*lz
			c := mix(dark, surface, smooth(-0.12, 0.75, light))
			// The atmosphere shines at the lit edge.
			rim := smooth(0.55, 0, z) * smooth(-0.1, 0.6, light)
			return add(c, mix(st.far, rgb{0.8, 0.9, 1}, 0.6), 0.6*rim)
		}
	}})
	if ring {
		st.ring(x, y, r, tilt, true, move)
	}
}

// ring puts the half of a planet's ring that lies in front of it, or the half behind it.
func (st *stage) ring(x, y, r, tilt float32, front bool, move motion) {
	outer := 2.05 * r
	m := newMask(st.unit, point{x - outer, y - 0.95*r}, point{x + outer, y + 0.95*r})
	for i := range m.pix {
		px := (float32(m.x+i%m.w)+0.5)/st.unit - x
		py := (float32(m.y+i/m.w)+0.5)/st.unit - y
		// Rotate by the tilt. The ring is a circle seen at a low angle, so its height is stretched.
		u, v := px*cos(-tilt)-py*sin(-tilt), px*sin(-tilt)+py*cos(-tilt)
		if (v > 0) != front {
			continue
		}
		// d is the distance from the planet's center in the plane of the ring, in radii.
		d := sqrt(u*u+v*v*22) / r
		// A gap divides the ring, and its edges are two pixels soft.
		gap := 1 - 0.75*smooth(0.05, 0, abs(d-1.72))
		soft := 2 / (r * st.unit)
		m.pix[i] = uint8(235 * smooth(1.3-soft, 1.3+soft, d) * smooth(2+soft, 2-soft, d) * gap * (0.55 + 0.3*st.n.at(d*14, 5)))
	}
	st.put(cutout{mask: m, move: move, paint: fade(mix(st.light, st.horizon, 0.3), mix(st.light, st.far, 0.5), y-r, y+r)})
}

// comet puts a comet that crosses the sky with a long tail.
func (st *stage) comet() {
	x, y := st.rand(0.1, 0.4)*st.wide, st.rand(0.08, 0.25)*st.tall
	color := mix(st.accent, rgb{1, 1, 1}, 0.7).video()
	st.put(swarm(func(c *canvas) {
		px, py := (x+0.05*st.speed*c.t)*c.unit, (y+0.02*st.speed*c.t)*c.unit
		// The tail is made of streaks of different lengths on top of each other.
		for k := range 14 {
			f := float32(k) / 14
			c.streak(px, py, px-(0.22-0.2*f)*c.unit, py-(0.088-0.08*f)*c.unit, (0.0005+0.0016*f)*c.unit, color, 0.07+0.1*f)
		}
		c.streak(px, py, px, py, 0.0032*c.unit, color, 1)
	}))
}

// crater puts a rocky ground at the lower edge, and an astronaut on it if the prompt asks for one.
func (st *stage) crater() {
	ground := st.hills(0.5, st.tall*0.84, 0.12, 1.4, 5, mix(st.far, st.near, 0.35), mix(st.far, st.near, 0.7))
	st.hills(1, st.tall*0.95, 0.09, 2, 5, mix(st.far, st.near, 0.7), mix(st.near, rgb{}, 0.3))
	if !st.has("astronaut") {
		return
	}
	x := st.wide * 0.32
	y := ground(x) + 0.02
	suit := mix(rgb{0.95, 0.95, 1}, st.far, 0.15)
	st.shape(0.5, point{x - 0.1, y - 0.26}, point{x + 0.1, y + 0.02}, fade(suit, mix(suit, st.near, 0.55), y-0.22, y), func(m *mask) {
		m.disc(x, y-0.2, 0.032)
		m.ellipse(x, y-0.13, 0.034, 0.05)
		m.rect(x-0.05, y-0.17, x-0.02, y-0.09)
		m.stroke(point{x - 0.025, y - 0.16}, point{x - 0.055, y - 0.085}, 0.024, 0.02)
		m.stroke(point{x + 0.025, y - 0.16}, point{x + 0.065, y - 0.11}, 0.024, 0.02)
		m.stroke(point{x - 0.014, y - 0.1}, point{x - 0.024, y}, 0.03, 0.024)
		m.stroke(point{x + 0.014, y - 0.1}, point{x + 0.026, y}, 0.03, 0.024)
	})
	// The visor.
	st.shape(0.5, point{x - 0.05, y - 0.25}, point{x + 0.05, y - 0.15}, fade(mix(st.horizon, st.light, 0.3), st.zenith, y-0.22, y-0.18), func(m *mask) { m.ellipse(x+0.006, y-0.2, 0.022, 0.019) })
}

// rocket puts a rocket that climbs through the picture on a flame.
func (st *stage) rocket() {
	x, y := st.wide*0.3, st.tall*0.62
	const h = 0.2
	// climb is how far the rocket has flown.
	climb := func(t float32) (float32, float32) { return 0.012 * st.speed * t, -0.02 * st.speed * t }
	m := newMask(st.unit, point{x - 0.1, y - h}, point{x + 0.1, y + 0.05})
	// The body ends in a rounded tip.
	body := []point{{x - 0.022, y}}
	for i := range 11 {
		a := math.Pi * float32(i) / 10
		body = append(body, point{x - 0.027*cos(a), y - 0.11 - 0.085*sin(a)})
	}
	body = append(body, point{x + 0.022, y})
	m.poly(body...)
	m.poly(point{x - 0.02, y - 0.06}, point{x - 0.055, y + 0.02}, point{x - 0.016, y})
	m.poly(point{x + 0.02, y - 0.06}, point{x + 0.055, y + 0.02}, point{x + 0.016, y})
	st.put(swarm(func(c *canvas) {
		dx, dy := climb(c.t)
		px, py := (x+dx)*c.unit, (y+dy)*c.unit
		for k := range 10 {
			f := float32(k) / 10
			// The flame is made of streaks on top of each other, shorter and brighter towards the
			// core, and flickers.
			length := (0.16 - 0.13*f) * (1 + 0.12*sin(23*c.t+float32(k)))
			color := mix(hex(0xff6a2a), hex(0xfff3c0), f).video()
			c.streak(px, py, px-0.3*length*c.unit*0.3, py+length*c.unit, (0.013-0.006*f)*c.unit, color, 0.1+0.2*f)
		}
	}))
	st.put(cutout{mask: m, move: climb, paint: func(t float32) shader {
		dx, _ := climb(t)
		return func(px, _ float32) rgb {
			return mix(rgb{0.96, 0.96, 0.98}, mix(st.sky, st.near, 0.4), smooth(-0.02, 0.03, px-x-dx))
		}
	}})
}
