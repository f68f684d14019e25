package scene

// mountains builds a range of snowy peaks with mist below, and in front of it a lake or a forest.
func (st *stage) mountains() {
	horizon := st.tall * st.rand(0.6, 0.68)
	s := st.sunAt(horizon, 0.5, 0.8, 0.055)
	st.heaven(horizon, s, st.rand(0.1, 0.5))
	if st.hour == night && st.has("aurora") {
		st.aurora(0.9 * horizon)
	}
	// From back to front: pale hills, the massif, mist, darker hills, and then water or trees.
	pale := mix(st.horizon, st.far, 0.55)
	st.hills(0.06, horizon-0.06, 0.16, 2.4, 5, pale, st.horizon)
	peaks := 0.46 * min(1.2, 0.6*st.tall+0.2)
	st.massif(0.14, horizon+0.02, peaks, mix(st.far, st.zenith, 0.15), mix(st.accent, st.light, 0.25), s)
	st.mist(horizon+0.01, 0.1, 0.75, mix(st.horizon, st.light, 0.2))
	st.hills(0.3, horizon+0.07, 0.12, 3, 5, mix(st.far, st.near, 0.42), mix(st.far, st.near, 0.3))
	// A lake needs an open foreground, so trees stand only at its sides.
	if st.has("lake river water reflection fjord") {
		st.water(horizon+0.04, s, 6)
		st.shore()
	} else {
		st.mist(horizon+0.12, 0.07, 0.5, mix(st.horizon, st.far, 0.2))
		st.pines(0.5, horizon+0.15, 0.09, 0.09, mix(st.far, st.near, 0.72))
		st.pines(1, st.tall*0.95, 0.16, 0.2, st.near)
	}
	if st.hour != night {
		st.birds(4, st.other(s.x), 0.4*horizon)
	}
}

// massif puts sharp peaks with snow and a shaded side. The highest summit stands opposite the sun.
func (st *stage) massif(d, base, height float32, rock, snowy rgb, s sun) {
	seed := st.rand(0, 100)
	summit := st.other(s.x)
	x0, x1 := st.reach(d)
	// Each peak is a triangle with a height and a slope. The profile is the highest of them, made
	// rough.
	type peak struct{ x, height, slope float32 }
	peaks := []peak{{summit, 1, 1.9}}
	for x := x0; x < x1; x += st.rand(0.14, 0.3) {
		if abs(x-summit) > 0.12 {
			peaks = append(peaks, peak{x, st.rand(0.4, 0.78) - 0.12*abs(x-summit), st.rand(1.4, 2.4)})
		}
	}
	profile := func(x float32) float32 {
		rough := st.n.fbm(x*11+seed, 1, 4)
		// Between the peaks, the profile does not fall below this height.
		top := 0.2 + 0.06*rough
		for _, p := range peaks {
			top = max(top, p.height-p.slope*abs(x-p.x+0.012*rough))
		}
		return base - height*(top+0.045*rough)
	}
	// side is 1 if the light comes from the left.
	side := float32(1)
	if s.x > summit {
		side = -1
	}
	m := ridge(st.unit, x0, x1, base-1.1*height, base+0.05, profile)
	bright := mix(rock, st.light, 0.3)
	haze := mix(st.horizon, rock, 0.35)
	st.put(cutout{mask: m, move: st.depth(d), paint: fade(bright, haze, base-height, base+0.02)})
	// A slope that faces away from the light is dark. The edge of the shade runs down from each
	// summit, crookedly: a place takes the slope of the profile some way towards the light.
	slope := func(x, y float32) float32 {
		below := y - profile(x)
		px := x - side*(0.22*below+0.03*st.n.fbm(x*9, y*9+seed, 3))
		return (profile(px+0.012) - profile(px-0.012)) * side / 0.024
	}
	shade := m.copy().carve(func(x, y float32) float32 { return smooth(-0.1, 0.25, slope(x, y)) })
	shade.solid = false
	// Snow lies above a ragged line that comes down farther on higher peaks.
	snow := m.copy().carve(func(x, y float32) float32 {
		depth := y - profile(x)
		line := height * (0.2 + 0.26*st.n.fbm(x*13+seed, y*5, 3)) * smooth(base-0.25*height, base-0.85*height, profile(x))
		return smooth(line+0.006, line-0.006, depth)
	})
	snow.solid = false
	st.put(cutout{mask: snow, move: st.depth(d), paint: plain(snowy)})
	st.put(cutout{mask: shade, move: st.depth(d), paint: fade(mix(rock, st.zenith, 0.5), haze, base-height, base)})
}

// shore puts wooded banks on both sides of a lake.
func (st *stage) shore() {
	x0, x1 := st.reach(0.8)
	bank := func(x float32) float32 {
		// out is 0 in the middle and 1 at both edges, where the banks are highest.
		out := abs(x-0.5*st.wide) / (0.5 * st.wide)
		return st.tall*(1.12-0.3*out*out*out) - 0.02*st.n.fbm(x*6, 5, 3)
	}
	m := ridge(st.unit, x0, x1, st.tall*0.4, st.tall, bank)
	for x := x0; x < x1; x += st.rand(0.02, 0.07) {
		if bank(x) < 1.02*st.tall {
			m.pine(st, x, bank(x)+0.02, st.rand(0.14, 0.3))
		}
	}
	st.put(cutout{mask: m, move: st.depth(0.8), paint: fade(mix(st.near, st.far, 0.15), st.near, 0.6*st.tall, st.tall)})
}

// pines puts a row of hills with conifers on it.
func (st *stage) pines(d, base, amp, height float32, color rgb) {
	seed := st.rand(0, 100)
	ground := func(x float32) float32 { return base - amp*(0.35+0.8*st.n.fbm(x*1.3+seed, seed, 2)) }
	x0, x1 := st.reach(d)
	m := ridge(st.unit, x0, x1, base-1.2*amp-1.2*height, base+0.3*amp, ground)
	for x := x0; x < x1; x += height * st.rand(0.1, 0.34) {
		m.pine(st, x, ground(x)+0.01, height*st.rand(0.55, 1.1))
	}
	st.put(cutout{mask: m, move: st.depth(d), paint: fade(color, mix(color, st.near, 0.5), base-amp-height, base+0.2)})
}

// winter builds a snowy landscape with firs and perhaps a cabin in a clearing.
func (st *stage) winter() {
	horizon := st.tall * st.rand(0.5, 0.6)
	s := st.sunAt(horizon, 0.35, 0.65, 0.06)
	st.heaven(horizon, s, st.rand(0.15, 0.45))
	if st.hour == night {
		st.aurora(horizon)
	}
	if st.rng.IntN(2) == 0 || st.has("mountain arctic glacier polar antarctica") {
		st.massif(0.1, horizon+0.05, 0.34, mix(st.far, st.zenith, 0.3), mix(st.near, rgb{1, 1, 1}, 0.3), s)
	} else {
		st.hills(0.08, horizon+0.02, 0.14, 1.6, 3, mix(st.horizon, st.far, 0.5), mix(st.horizon, st.far, 0.8))
	}
	shadow := mix(st.far, st.sky, 0.45)
	st.pines(0.25, horizon+0.09, 0.08, 0.06, mix(st.far, st.zenith, 0.45))
	st.hills(0.35, horizon+0.13, 0.09, 1.1, 2, mix(st.near, st.far, 0.35), shadow)
	// The clearing lies on the side where the sun is not.
	clearing := st.other(s.x)
	base := horizon + 0.2
	// A cabin if the prompt names one, and otherwise in one clip of four.
	housed := st.has("cabin village house home cottage christmas cozy igloo") || st.rng.IntN(4) == 0
	if housed {
		st.cabin(0.5, clearing, base-0.03, 0.16)
	}
	ground := st.hills(0.5, base+0.03, 0.05, 0.9, 2, mix(st.near, st.horizon, 0.15), shadow)
	// Firs are dark, with a touch of the color of the sky.
	fir := mix(st.zenith, rgb{0.05, 0.12, 0.12}, 0.55)
	// Firs stand everywhere but in the clearing. Nearer ones are larger and stand lower.
	x0, x1 := st.reach(0.8)
	for x := x0; x < x1; x += st.rand(0.05, 0.24) {
		if abs(x-clearing) > 0.17 {
			near := st.rand(0, 1)
			st.snowyPine(0.5, x, ground(x)+0.02+0.07*near, st.rand(0.12, 0.2)+0.16*near, fir)
		}
	}
	// Untouched snow in the foreground.
	st.hills(0.9, st.tall*0.93, 0.1, 0.8, 2, mix(st.near, rgb{1, 1, 1}, 0.25), mix(st.near, shadow, 0.6))
	if !housed { // without a cabin, tall trees frame the view
		for _, at := range []float32{0.02, 0.13, 0.95} {
			st.snowyPine(0.9, at*st.wide, st.tall*0.95, st.rand(0.6, 0.85), mix(fir, rgb{}, 0.2))
		}
	}
}

// snowyPine puts a conifer with snow on its branches.
func (st *stage) snowyPine(d, x, y, height float32, color rgb) {
	a, b := point{x - 0.3*height, y - 1.2*height}, point{x + 0.3*height, y + 0.03*height}
	m := newMask(st.unit, a, b)
	m.pine(st, x, y, height)
	st.put(cutout{mask: m, move: st.depth(d), paint: fade(mix(color, st.sky, 0.2), color, y-height, y)})
	// Snow lies on the left part of each tier, but only where the tree is.
	snow := newMask(st.unit, a, b)
	for i := range 6 {
		f := float32(i) / 6
		// The tiers are those of mask.pine.
		base := y - height*(0.13+0.78*f)
		half := height * 0.24 * (1 - 0.86*f)
		snow.poly(point{x - 0.85*half, base}, point{x - 0.1*half, base - height*(0.2-0.07*f)}, point{x + 0.15*half, base - height*(0.2-0.07*f)}, point{x + 0.1*half, base - 0.05*height})
	}
	for i, p := range snow.pix {
		snow.pix[i] = min(p, m.pix[i])
	}
	st.put(cutout{mask: snow, move: st.depth(d), paint: plain(mix(st.near, rgb{1, 1, 1}, 0.35))})
}

// cabin puts a house with a snowy roof, lit windows and smoke.
func (st *stage) cabin(d, x, y, size float32) {
	a, b := point{x - size, y - 1.2*size}, point{x + size, y + 0.1*size}
	// The house, its roof with snow, and its windows are three shapes on top of each other.
	wood := mix(hex(0x4a2c20), st.zenith, 0.3)
	st.shape(d, a, b, fade(wood, mix(wood, rgb{}, 0.4), y-0.5*size, y), func(m *mask) {
		m.rect(x-0.5*size, y-0.42*size, x+0.5*size, y+0.05*size)
		m.poly(point{x - 0.5*size, y - 0.4*size}, point{x, y - 0.86*size}, point{x + 0.5*size, y - 0.4*size})
		m.rect(x+0.22*size, y-0.95*size, x+0.33*size, y-0.5*size)
	})
	st.shape(d, a, b, plain(mix(st.near, rgb{1, 1, 1}, 0.3)), func(m *mask) {
		m.poly(point{x - 0.64*size, y - 0.34*size}, point{x, y - 0.96*size}, point{x + 0.64*size, y - 0.34*size}, point{x + 0.55*size, y - 0.3*size}, point{x, y - 0.84*size}, point{x - 0.55*size, y - 0.3*size})
		m.rect(x+0.2*size, y-1*size, x+0.35*size, y-0.94*size)
	})
	st.shape(d, a, b, plain(st.accent), func(m *mask) {
		m.rect(x-0.36*size, y-0.3*size, x-0.16*size, y-0.12*size)
		m.rect(x+0.16*size, y-0.3*size, x+0.36*size, y-0.12*size)
	})
	// By day, the light in the windows hardly shows.
	glow := float32(0.55)
	if st.hour == day {
		glow = 0.2
	}
	st.halo(x, y-0.2*size, 1.6*size, glow, st.accent, steady)
	smoke := mix(st.horizon, st.light, 0.3)
	sx, sy := x+0.27*size, y-size
	// Smoke rises from the chimney, drifts, widens and fades.
	st.put(haze{x0: sx - 0.3, y0: sy - 0.35, x1: sx + 0.3, y1: sy + 0.02, paint: func(t float32) veil {
		return func(px, py float32) (rgb, float32) {
			up := (sy - py) / 0.35
			if up < 0 {
				return smoke, 0
			}
			drift := 0.12*up*up + 0.025*up*sin(9*up-1.2*t)
			w := 0.012 + 0.05*up
			dx := (px - sx - drift) / w
			return smoke, 0.6 * exp(-dx*dx) * (1 - smooth(0.3, 1, up))
		}
	}})
}

// desert builds rows of dunes below mesas, pyramids or hills, with a caravan or cacti if the prompt
// asks for them.
func (st *stage) desert() {
	horizon := st.tall * st.rand(0.5, 0.6)
	// The setting sun over a desert is larger.
	size := float32(0.07)
	if st.hour == dusk {
		size = 0.13
	}
	s := st.sunAt(horizon, 0.3, 0.7, size)
	st.heaven(horizon, s, st.rand(0, 0.22))
	// away is where the main subject stands: on the side where the sun is not.
	away := st.other(s.x)
	switch {
	case st.has("pyramid egypt"):
		st.pyramids(horizon+0.02, away, s)
	case st.has("mesa canyon arizona cactus western cowboy") || st.rng.IntN(3) == 0:
		st.mesas(horizon + 0.02)
	default:
		st.hills(0.06, horizon+0.03, 0.1, 1.6, 3, mix(st.horizon, st.far, 0.5), mix(st.horizon, st.far, 0.6))
	}
	for i := range 4 {
		// Dunes from far to near. The caravan walks on the second one.
		f := float32(i) / 3
		d := 0.15 + 0.85*f
		crest := st.dune(d, horizon+0.06+(st.tall*0.86-horizon)*f*0.78, 0.09+0.1*f, mix(st.far, st.near, f*0.8), s)
		if i == 1 && st.has("camel caravan nomad sahara oasis") {
			st.caravan(d, away, crest)
		}
	}
	dark := mix(st.near, rgb{0.06, 0.05, 0.08}, 0.62)
	if st.has("cactus arizona mesa western cowboy") {
		for _, at := range []float32{0.12, 0.86} {
			h, x := st.rand(0.26, 0.4), at*st.wide
			y := st.tall * st.rand(0.8, 0.86)
			m := newMask(st.unit, point{x - 0.4*h, y - 1.1*h}, point{x + 0.4*h, y + 0.02})
			m.cactus(st, x, y-0.06*h, h)
			m.ellipse(x, y, 0.2*h, 0.016)
			st.put(cutout{mask: m, move: st.depth(1), paint: plain(dark)})
		}
	}
	st.dust(22)
}

// dune puts a sand dune whose side away from the light is dark below a sharp crest, and returns its
// profile.
func (st *stage) dune(d, base, amp float32, sand rgb, s sun) (crest func(x float32) float32) {
	seed := st.rand(0, 100)
	profile := func(x float32) float32 {
		// Long waves, with the sharp crests that 1-|noise| gives, and a little roughness.
		v := st.n.at(x*0.9+seed, seed)
		return base - amp*(0.5+0.75*v+0.28*(1-abs(st.n.at(x*1.7+seed, 4)))+0.05*st.n.at(x*4+seed, 8))
	}
	x0, x1 := st.reach(d)
	m := ridge(st.unit, x0, x1, base-1.7*amp, base+0.5*amp, profile)
	st.put(cutout{mask: m, move: st.depth(d), paint: fade(mix(sand, st.light, 0.32), mix(sand, st.near, 0.12), base-1.2*amp, base+amp+0.1)})
	side := float32(1)
	if s.x > st.wide/2 {
		side = -1
	}
	low := base + 2.2*amp
	shade := ridge(st.unit, x0, x1, base-1.7*amp, min(low, st.tall), profile).carve(func(x, y float32) float32 {
		// As in massif, the shade at a place is given by the slope of the crest towards the light.
		below := y - profile(x)
		px := x - side*(1.15*below+0.04*sin(7*below/amp+seed))
		rise := (profile(px+0.02) - profile(px-0.02)) * side / 0.04
		return smooth(0.0, 0.1, rise) * smooth(1, 0.55, below/(2.1*amp))
	})
	shade.solid = false
	st.put(cutout{mask: shade, move: st.depth(d), paint: plain(mix(sand, mix(st.near, st.zenith, 0.45), 0.55))})
	return profile
}

// mesas puts flat-topped rocks with bands of darker stone on the horizon.
func (st *stage) mesas(base float32) {
	color := mix(st.far, st.near, 0.35)
	x0, x1 := st.reach(0.1)
	m := newMask(st.unit, point{x0, base - 0.3}, point{x1, base + 0.06})
	m.solid = true
	m.rect(x0, base, x1, base+0.1)
	for x := x0; x < x1; x += st.rand(0.3, 0.55) {
		// A flat top, steep walls, and slopes of debris at the foot.
		w, h := st.rand(0.07, 0.2), st.rand(0.1, 0.24)
		m.poly(point{x, base - h}, point{x + w, base - h*0.98}, point{x + w + 0.012, base - 0.5*h}, point{x + 1.25*w, base - 0.22*h}, point{x + 1.6*w, base + 0.01}, point{x - 0.6*w, base + 0.01}, point{x - 0.25*w, base - 0.22*h}, point{x - 0.012, base - 0.5*h})
	}
	st.put(cutout{mask: m, move: st.depth(0.1), paint: fade(color, mix(color, st.horizon, 0.5), base-0.22, base+0.03)})
	bands := m.copy().carve(func(x, y float32) float32 {
		return 0.5 * smooth(0.1, 0.5, st.n.at(x*3, y*60)) * smooth(base-0.02, base-0.06, y)
	})
	bands.solid = false
	st.put(cutout{mask: bands, move: st.depth(0.1), paint: plain(mix(color, st.near, 0.7))})
}

// pyramids puts three pyramids with a bright and a dark face.
func (st *stage) pyramids(base, x float32, s sun) {
	stone := mix(st.far, st.light, 0.2)
	for i, size := range []float32{0.2, 0.32, 0.15} {
		px := x + []float32{-0.34, 0, 0.33}[i]
		// edge is where the edge between the two visible faces meets the ground.
		edge := px - 0.22*size
		if s.x > px {
			edge = px + 0.22*size
		}
		top := point{px, base - size}
		a, b := point{px - size, base - size}, point{px + size, base + 0.03}
		bright, dark := fade(mix(stone, st.light, 0.25), stone, base-size, base), fade(mix(st.near, st.far, 0.25), mix(st.near, st.far, 0.5), base-size, base)
		left, right := bright, dark
		if s.x > px {
			left, right = dark, bright
		}
		st.shape(0.1, a, b, left, func(m *mask) { m.poly(top, point{edge, base + 0.02}, point{px - 0.8*size, base + 0.02}) })
		st.shape(0.1, a, b, right, func(m *mask) { m.poly(top, point{px + 0.8*size, base + 0.02}, point{edge, base + 0.02}) })
	}
}

// caravan puts camels that walk along a crest. They follow its height as they go.
func (st *stage) caravan(d, x float32, crest func(x float32) float32) {
	const size, pace = 0.085, 0.01
	dark := plain(mix(st.near, rgb{0.05, 0.03, 0.06}, 0.6))
	for i := range 5 {
		// The camels walk in a line, 0.14 units apart.
		px := x - 0.28 + 0.14*float32(i)
		py := crest(px) + 0.006
		m := newMask(st.unit, point{px - size, py - 1.2*size}, point{px + size, py + 0.02})
		m.camel(px, py, size)
		phase := float32(i)
		st.put(cutout{mask: m, paint: dark, move: func(t float32) (float32, float32) {
			// They walk to the left, follow the crest up and down, and sway.
			step := -pace * st.speed * t
			return step - st.pan*d*t, crest(px+step) - crest(px) + 0.001*sin(phase+5*t)
		}})
	}
}
