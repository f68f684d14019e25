package scene

// city builds a skyline: three rows of towers in the haze, and in front of them either a river with
// reflections or a street with traffic.
func (st *stage) city() {
	st.pan *= 0.5 // so much detail is best passed slowly
	horizon := st.tall * st.rand(0.64, 0.72)
	s := st.sunAt(horizon, 0.35, 0.75, 0.065)
	st.heaven(horizon, s, st.rand(0.2, 0.45))
	// Water if the prompt names some, or at random unless it names something that belongs to a
	// street.
	river := st.has("river harbour harbor bay bridge water reflection sea hongkong") || !st.has("street rooftop traffic car taxi") && st.rng.IntN(2) == 0
	// The share of windows that are lit, by day, at dusk and at night.
	lit := [3]float32{0.1, 0.5, 0.75}[st.hour]
	top := 0.62 * min(1.4, st.tall)
	// Each row is nearer than the one before: larger, darker, and with more lit windows.
	for i := range 3 {
		f := float32(i) / 2
		// f goes from 0 for the farthest row to 1 for the nearest.
		color := mix(mix(st.horizon, st.far, 0.6), mix(st.far, st.near, 0.75), f)
		// Only the nearest row is reflected; it hides the others.
		st.blocks(0.1+0.3*f, horizon+0.01, top*(0.72-0.2*f), 0.055+0.03*f, color, lit*(0.45+0.55*f), river && i == 2)
		if i < 2 {
			st.mist(horizon-0.03, 0.16, 0.45, mix(st.horizon, st.far, 0.25))
		}
	}
	if river {
		st.quay(horizon, s)
		return
	}
	// Without a river, a last row of buildings stands right at the street.
	st.blocks(0.7, st.tall*0.93, top*0.62, 0.16, mix(st.near, st.far, 0.12), lit*0.8, false)
	st.traffic(st.tall * 0.93)
}

// blocks puts a row of buildings with windows, some of which are lit. If mirrored, it adds their
// reflection in the water. d is the depth (see stage.depth), base is the row that they stand on.
func (st *stage) blocks(d, base, height, width float32, color rgb, lit float32, mirrored bool) {
	x0, x1 := st.reach(d)
	// Walls and windows are separate masks, because each is painted in its own colors.
	walls := newMask(st.unit, point{x0, base - 1.35*height}, point{x1, base})
	windows := newMask(st.unit, point{x0, base - 1.35*height}, point{x1, base})
	// Behind a reflection there is water to see; otherwise everything below the row is hidden.
	walls.solid = !mirrored
	for x := x0 - width/2; x < x1; {
		w := width * st.rand(0.55, 1.35)
		// Buildings are tallest in the middle of the picture.
		middle := abs(x-st.wide*0.5) / st.wide
		h := height * st.rand(0.32, 0.8) * (1.15 - 0.7*middle)
		// Now and then a building towers above the others.
		if st.rng.IntN(6) == 0 {
			h *= 1.35
		}
		st.tower(walls, x, base, w, h)
		st.panes(windows, x, base, w, h, lit)
		x += w * st.rand(0.92, 1.12)
	}
	// Walls get paler towards the ground, where the haze is.
	wall := fade(color, mix(color, st.horizon, 0.35*(1-d)), base-height, base)
	st.put(cutout{mask: walls, move: st.depth(d), paint: wall})
	glow := mix(st.accent, color, 0.25*(1-d))
	// By day, windows are not lit but reflect the sky.
	if st.hour == day {
		glow = mix(color, st.zenith, 0.35)
	}
	st.put(cutout{mask: windows, move: st.depth(d), paint: func(float32) shader {
		// Some windows are warm and some are cool, in patches.
		cool := mix(glow, hex(0x9fd8ff), 0.55)
		return func(x, y float32) rgb { return mix(glow, cool, smooth(0.1, 0.4, st.n.at(x*9, y*9))) }
	}})
	if !mirrored {
		return
	}
	// The reflection is darker than the original, and its rows waver.
	for _, m := range []struct {
		mask  *mask
		color rgb
	}{{walls, mix(color, st.near, 0.45)}, {windows, mix(glow, st.near, 0.35)}} {
		st.put(cutout{mask: m.mask.flip(base), move: st.depth(d), waver: 0.003, length: 0.035, paint: fade(m.color, st.near, base, base+0.8*height)})
	}
}

// tower adds a building in one of a few styles.
func (st *stage) tower(m *mask, x, base, w, h float32) {
	y := base - h
	m.rect(x, y, x+w, base+0.01)
	y += 0.003 // roof structures overlap the roof, or a seam would show
	switch st.rng.IntN(7) {
	case 0: // set back
		m.rect(x+0.2*w, y-0.12*h, x+0.8*w, y)
		m.rect(x+0.36*w, y-0.2*h, x+0.64*w, y)
	case 1: // spire
		m.poly(point{x + 0.25*w, y}, point{x + 0.5*w, y - 0.16*h}, point{x + 0.75*w, y})
		m.stroke(point{x + 0.5*w, y - 0.1*h}, point{x + 0.5*w, y - 0.34*h}, 0.05*w, 0.01*w)
	case 2: // slanted
		m.poly(point{x, y}, point{x + w, y - 0.14*h}, point{x + w, y})
	case 3: // mast
		m.rect(x+0.3*w, y-0.04*h, x+0.55*w, y)
		m.rect(x+0.68*w, y-0.15*h, x+0.71*w, y)
	}
}

// panes adds the lit windows of a building.
func (st *stage) panes(m *mask, x, base, w, h, lit float32) {
	// pitch is the distance between two windows. Smaller windows would only be noise.
	pitch := max(w/float32(4+st.rng.IntN(5)), 0.0125)
	size := 0.52 * pitch
	for y := base - h + 0.6*pitch; y < base-0.4*pitch; y += 1.25 * pitch {
		floor := st.rand(0.5, 1.4) // whole floors tend to be bright or dark
		for px := x + 0.3*pitch; px+size < x+w; px += pitch {
			if st.rng.Float32() < lit*floor {
				m.rect(px, y, px+size, y+0.62*pitch)
			}
		}
	}
}

// quay puts the water of a river over the reflections, and lamps along its far bank.
func (st *stage) quay(horizon float32, s sun) {
	st.put(haze{x0: 0, y0: horizon, x1: st.wide, y1: st.tall, paint: func(t float32) veil {
		return func(x, y float32) (rgb, float32) {
			f := (y - horizon) / (st.tall - horizon)
			if f < 0 {
				return st.near, 0
			}
			// Ripples, and the light of the sun on them, wider towards the viewer.
			ripple := st.n.at(x*7+0.1*t, y*40-0.5*st.speed*t)
			// f is 0 at the far bank and 1 at the lower edge of the picture.
			dx := (x - s.x) / (0.06 + 0.3*f)
			shine := exp(-dx*dx) * (0.5 + 0.5*ripple) * (1 - f)
			c := add(mix(mix(st.far, st.sky, 0.4), st.near, clamp(0.3+f)), st.light, 0.7*shine)
			return c, clamp(0.2 + 0.5*f + 0.12*ripple)
		}
	}})
	if st.has("bridge") {
		st.bridge(horizon)
	}
	st.lamps(horizon)
}

// lamps puts a row of street lamps along the water, with their reflections.
func (st *stage) lamps(y float32) {
	warm := mix(st.accent, rgb{1, 1, 1}, 0.3).video()
	strength := [3]float32{0.25, 0.85, 1}[st.hour]
	const gap = 0.055
	st.put(swarm(func(c *canvas) {
		// The lamps repeat, so moving them by less than one gap is enough.
		offset := wrap(-st.pan*0.45*c.t/gap) * gap
		for k := -1; float32(k)*gap < st.wide+gap; k++ {
			x := (float32(k)*gap + offset) * c.unit
			c.streak(x, (y+0.004)*c.unit, x, (y+0.004)*c.unit, 0.0026*c.unit, warm, strength)
			length := 0.035 + 0.012*sin(float32(k)*2.4+1.7*c.t)
			c.streak(x, (y+0.014)*c.unit, x, (y+0.014+length)*c.unit, 0.0014*c.unit, warm, 0.32*strength)
		}
	}))
}

// bridge puts a suspension bridge across the river.
func (st *stage) bridge(horizon float32) {
	// deck is the row of the roadway.
	deck := horizon + 0.035
	steel := mix(st.near, hex(0x8a2f2a), 0.3)
	st.shape(0, point{-0.02, deck - 0.36}, point{st.wide + 0.02, deck + 0.14}, fade(mix(steel, st.light, 0.25), steel, deck-0.3, deck+0.1), func(m *mask) {
		m.rect(-0.02, deck, st.wide+0.02, deck+0.012)
		t0, t1 := 0.24*st.wide, 0.76*st.wide
		// Two towers, each of two posts and two beams.
		for _, x := range []float32{t0, t1} {
			m.rect(x-0.018, deck-0.3, x-0.008, deck+0.12)
			m.rect(x+0.008, deck-0.3, x+0.018, deck+0.12)
			m.rect(x-0.018, deck-0.24, x+0.018, deck-0.228)
			m.rect(x-0.018, deck-0.12, x+0.018, deck-0.108)
		}
		// The main cable: a parabola between the towers, and outside of them the half that falls to
		// the deck.
		cable := func(x float32) float32 {
			f := (x - t0) / (t1 - t0)
			if f < 0 {
				f = -f * (t1 - t0) / t0 / 2
			} else if f > 1 {
				f = (f - 1) * (t1 - t0) / t0 / 2
			}
			return deck - 0.3 + 1.12*f*(1-f)
		}
		for x := float32(0); x < st.wide; x += 0.02 {
			m.stroke(point{x, cable(x)}, point{x + 0.02, cable(x + 0.02)}, 0.005, 0.005)
			// A hanger from the cable to the deck.
			m.stroke(point{x, cable(x)}, point{x, deck}, 0.0016, 0.0016)
		}
	})
}

// traffic puts a street with the lights of cars: white ones in one direction and red ones in the
// other.
func (st *stage) traffic(y float32) {
	road := mix(st.near, rgb{0.03, 0.03, 0.05}, 0.5)
	m := newMask(st.unit, point{0, y - 0.012}, point{st.wide, y + 0.02})
	m.rect(0, y-0.012, st.wide, y+0.03)
	m.solid = true
	st.put(cutout{mask: m, move: still, paint: fade(mix(road, st.horizon, 0.15), road, y-0.01, st.tall)})
	all := st.motes(26)
	white, red := hex(0xfff0c8).video(), hex(0xff3b2e).video()
	st.put(swarm(func(c *canvas) {
		for i, v := range all {
			// Every second car drives in the other lane.
			way, color, lane := float32(1), white, y+0.012
			if i%2 == 0 {
				way, color, lane = -1, red, y+0.026
			}
			// Cars that leave the picture on one side enter it again on the other.
			x := wrap(v.x+way*(0.1+0.05*v.depth)*st.speed*c.t/(st.wide+0.2))*(st.wide+0.2) - 0.1
			px, py := x*c.unit, lane*c.unit
			// A trail behind the light, and the light itself.
			c.streak(px, py, px-way*0.02*c.unit, py, 0.0014*c.unit, color, 0.4)
			c.streak(px, py, px, py, 0.0028*c.unit, color, 0.95)
		}
	}))
}

// downpour builds a rain scene: over a street, or over open land if the prompt names nothing that
// belongs to a street.
func (st *stage) downpour() {
	horizon := st.tall * st.rand(0.56, 0.63)
	s := sun{x: st.wide * st.rand(0.4, 0.6), y: horizon * 0.5}
	st.heaven(horizon, s, 0.95)
	if st.has("storm stormy thunder lightning thunderstorm") {
		st.lightning(horizon)
	}
	if !st.has("umbrella street city town alley lamp lamps puddle") && (st.has("storm stormy thunderstorm lightning rainstorm monsoon") || st.rng.IntN(2) == 0) {
		st.wetland(horizon, s)
	} else {
		st.rainyStreet(horizon, s)
	}
}

// wetland builds a lake in the rain with a lone tree.
func (st *stage) wetland(horizon float32, s sun) {
	st.hills(0.06, horizon+0.01, 0.2, 1.7, 4, mix(st.horizon, st.far, 0.55), mix(st.horizon, st.far, 0.75))
	st.hills(0.12, horizon+0.03, 0.1, 2.3, 4, mix(st.far, st.near, 0.4), mix(st.far, st.near, 0.3))
	st.mist(horizon-0.02, 0.12, 0.5, mix(st.horizon, st.sky, 0.3))
	st.water(horizon+0.02, s, 6)
	st.ripples(horizon + 0.02)
	x := st.other(s.x)
	dark := mix(st.near, rgb{}, 0.4)
	seed := st.rand(0, 50)
	// The bank rises towards the tree.
	bank := func(px float32) float32 {
		return st.tall*0.84 - 0.16*exp(-(px-x)*(px-x)*7) - 0.015*st.n.fbm(px*8+seed, seed, 3)
	}
	m := ridge(st.unit, -0.02, st.wide+0.02, bank(x)-0.6, st.tall*0.9, bank)
	m.tree(st, x, bank(x)+0.02, 0.5)
	m.grass(st, -0.02, st.wide+0.02, 0.045, bank)
	st.put(cutout{mask: m, move: still, paint: fade(mix(dark, st.far, 0.2), dark, bank(x)-0.4, st.tall)})
}

// rainyStreet builds an avenue of lamps in the rain, and a person under an umbrella. Everything
// converges at the vanishing point (vx, horizon): the closer to 0 the position of a lamp, the
// farther away it is.
func (st *stage) rainyStreet(horizon float32, s sun) {
	st.hills(0.08, horizon, 0.13, 2, 4, mix(st.horizon, st.far, 0.6), mix(st.horizon, st.far, 0.8))
	if st.has("city street town") || st.rng.IntN(2) == 0 {
		st.blocks(0.2, horizon+0.01, 0.26, 0.09, mix(st.far, st.near, 0.4), [3]float32{0.15, 0.35, 0.5}[st.hour], false)
	} else {
		st.pines(0.2, horizon+0.02, 0.05, 0.12, mix(st.far, st.near, 0.45))
	}
	st.mist(horizon, 0.12, 0.55, mix(st.horizon, st.sky, 0.3))
	vx := s.x
	// Where the lamps stand: -1 and 1 are the nearest ones at the sides, and 0 is the vanishing
	// point.
	lamps := []float32{-1, -0.52, -0.28, 0.28, 0.52, 1}
	glow := st.accent
	ground := newMask(st.unit, point{0, horizon + 0.01}, point{st.wide, horizon + 0.02})
	ground.rect(0, horizon+0.01, st.wide, horizon+0.1)
	ground.solid = true
	deep := st.tall - horizon
	shine := [3]float32{0.25, 0.6, 0.8}[st.hour]
	// Wet ground mirrors the sky around the vanishing point, and the lamps as vertical streaks.
	st.put(cutout{mask: ground, move: still, paint: func(t float32) shader {
		return func(x, y float32) rgb {
			f := (y - horizon) / deep
			c := mix(mix(st.horizon, st.far, 0.5), st.near, smooth(-0.15, 0.8, f))
			c = mix(c, mix(st.sky, st.horizon, 0.6), 0.35*exp(-(x-vx)*(x-vx)*4/(0.1+f)))
			wet := 0.7 + 0.3*st.n.at(x*7, y*30-0.4*t)
			for _, k := range lamps { // the lamps in the wet ground
				lx := vx + k*st.wide*0.47
				near := abs(k)
				dx := (x - lx) / (0.014 + 0.035*near)
				c = add(c, glow, shine*wet*exp(-dx*dx)*smooth(0, 0.25*near, f)*smooth(1.1*near+0.1, 0.2*near, f))
			}
			return c
		}
	}})
	post := mix(st.near, rgb{0.02, 0.02, 0.04}, 0.5)
	// Each lamp has a post, a light, and a glow.
	for _, k := range lamps {
		near := abs(k)
		x, foot := vx+k*st.wide*0.47, horizon+0.42*near*near*deep+0.03
		h := 0.62 * near * min(1, 0.75*st.tall)
		st.shape(0, point{x - 0.1, foot - 1.1*h}, point{x + 0.1, foot + 0.02}, plain(mix(post, st.horizon, 0.45*(1-near))), func(m *mask) {
			m.stroke(point{x, foot}, point{x, foot - 0.97*h}, 0.02*near, 0.012*near)
			m.poly(point{x - 0.035*near, foot - 0.97*h}, point{x + 0.035*near, foot - 0.97*h}, point{x + 0.022*near, foot - 1.04*h}, point{x - 0.022*near, foot - 1.04*h})
		})
		st.shape(0, point{x - 0.05, foot - 1.1*h}, point{x + 0.05, foot - 0.8*h}, plain(mix(glow, rgb{1, 1, 1}, 0.45)), func(m *mask) {
			m.ellipse(x, foot-0.945*h, 0.022*near, 0.028*near)
		})
		st.halo(x, foot-0.94*h, 0.26*near+0.03, shine, glow, steady)
	}
	// The person sways a little while walking. The reflection comes first, so that it lies behind.
	x, y := vx+0.12*st.wide, horizon+0.34*deep
	walk := func(t float32) (float32, float32) { return 0.004 * t, 0.003 * abs(sin(3*t)) }
	m := newMask(st.unit, point{x - 0.15, y - 0.4}, point{x + 0.15, y + 0.02})
	m.figure(x, y, 0.24)
	st.put(cutout{mask: m.flip(y), move: walk, waver: 0.003, length: 0.03, paint: plain(mix(st.near, st.far, 0.25))})
	canopy := mix(hex(0xc0282e), st.near, 0.3)
	st.put(cutout{mask: m, move: walk, paint: fade(canopy, post, y-0.245, y-0.225)})
	st.ripples(horizon)
}

// ripples puts rings where drops fall on the ground. Each mote is a drop that falls again at
// another place when its ring has faded.
func (st *stage) ripples(horizon float32) {
	all := st.motes(26)
	color := mix(st.horizon, rgb{1, 1, 1}, 0.3).video()
	deep := st.tall - horizon
	st.put(swarm(func(c *canvas) {
		for _, m := range all {
			age := wrap(m.phase + 0.9*c.t)
			turn := floor(m.phase + 0.9*c.t)
			f := 0.12 + 0.85*wrap(m.y+0.37*turn)
			x, y := wrap(m.x+0.61*turn)*st.wide, horizon+deep*f
			r := (0.004 + 0.03*f) * age
			// A ring seen from the side is two short lines.
			for _, side := range []float32{-1, 1} {
				c.streak((x-0.7*r)*c.unit, (y+side*0.26*r)*c.unit, (x+0.7*r)*c.unit, (y+side*0.26*r)*c.unit, 0.0007*c.unit, color, 0.35*(1-age))
			}
		}
	}))
}

// lightning lights up the clouds now and then, with a bolt at the brightest moment.
func (st *stage) lightning(horizon float32) {
	x := st.rand(0.15, 0.85) * st.wide
	bolt := newMask(st.unit, point{x - 0.25, 0}, point{x + 0.25, horizon})
	at := point{x, 0.08 * horizon}
	// The bolt wanders down, and branches off now and then.
	for at.y < horizon*0.97 {
		next := point{at.x + st.rand(-0.045, 0.045), at.y + st.rand(0.02, 0.055)}
		bolt.stroke(at, next, 0.006, 0.005)
		if st.rng.IntN(4) == 0 {
			bolt.stroke(at, point{at.x + st.rand(-0.11, 0.11), at.y + 0.1}, 0.003, 0.0008)
		}
		at = next
	}
	// A flash comes every 2.6 seconds; it rises at once, flickers and fades.
	flash := func(t float32) float32 {
		beat := wrap(t / 2.6)
		return smooth(0.3, 0.31, beat) * smooth(0.5, 0.34, beat) * (0.7 + 0.3*sin(60*beat))
	}
	violet := hex(0xdfe4ff)
	st.put(haze{x0: 0, y0: 0, x1: st.wide, y1: horizon, paint: func(t float32) veil {
		a := 0.55 * flash(t)
		return func(px, py float32) (rgb, float32) {
			d := (px-x)*(px-x) + (py-0.3*horizon)*(py-0.3*horizon)
			return violet, a * exp(-2.2*d)
		}
	}})
	st.put(cutout{mask: bolt, paint: plain(violet), move: func(t float32) (float32, float32) {
		if flash(t) < 0.35 {
			return 10, 0 // out of sight
		}
		return 0, 0
	}})
}
