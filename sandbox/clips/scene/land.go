package scene

// profile is the upper edge of a piece of land: it returns y for each x.
type profile func(x float32) float32

// hills puts a layer of land and returns its profile. The profile is noise of the given frequency
// that rises by up to amp above the row base. The color goes from top at the ridge to low.
func (st *stage) hills(d, base, amp, frequency float32, octaves int, top, low rgb) profile {
	seed := st.rand(0, 200)
	ground := func(x float32) float32 { return base - amp*(0.5+0.9*st.n.fbm(x*frequency+seed, seed, octaves)) }
	x0, x1 := st.reach(d)
	st.put(ridge(st.unit, x0, x1, base-1.3*amp, base+0.4*amp, ground), st.depth(d), fade(top, low, base-0.8*amp, base+0.22*st.tall))
	return ground
}

// grove puts a row of hills with plants on it, about gap apart. Plants are height high, some more
// and some less.
func (st *stage) grove(d, base, amp, height, gap float32, color rgb, plant ...outline) {
	seed := st.rand(0, 100)
	ground := func(x float32) float32 { return base - amp*(0.35+0.8*st.n.fbm(x*1.3+seed, seed, 2)) }
	x0, x1 := st.reach(d)
	m := ridge(st.unit, x0, x1, base-1.2*amp-1.2*height, base+0.3*amp, ground)
	for x := x0; x < x1; x += gap * st.rand(0.4, 1.5) {
		m.add(x, ground(x)+0.01, height*st.rand(0.55, 1.1), plant...)
	}
	st.put(m, st.depth(d), fade(color, mix(color, st.near, 0.5), base-amp-height, base+0.2))
}

// pines puts a row of hills with conifers on it.
func (st *stage) pines(d, base, amp, height float32, color rgb) {
	st.grove(d, base, amp, height, 0.23*height, color, pine)
}

// relief puts land with a lit side, and a shaded side in another color. The light comes from the
// side of the sun. lean is how far the edge of the shade runs sideways while it runs down by one
// unit, from each summit.
func (st *stage) relief(d float32, m *mask, edge profile, s sun, lean float32, lit, shaded func(float32) shader) {
	side := float32(1) // the light comes from the left
	if s.x > st.wide/2 {
		side = -1
	}
	// A slope that faces away from the light is dark. A place takes the slope of the profile some
	// way towards the light, so that the edge is crooked.
	dark := m.carve(func(x, y float32) float32 {
		below := y - edge(x)
		px := x - side*(lean*below+0.03*st.n.fbm(x*9, y*9, 2))
		return smooth(-0.05, 0.2, (edge(px+0.015)-edge(px-0.015))*side/0.03)
	})
	st.put(m, st.depth(d), lit)
	st.put(dark, st.depth(d), shaded)
}

// massif puts sharp peaks with snow and a shaded side. The highest summit stands opposite the sun.
func (st *stage) massif(d, base, height float32, rock, snowy rgb, s sun) {
	seed, summit := st.rand(0, 100), st.other(s.x)
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
	edge := func(x float32) float32 {
		rough := st.n.fbm(x*11+seed, 1, 4)
		top := 0.2 + 0.06*rough // between the peaks
		for _, p := range peaks {
			top = max(top, p.height-p.slope*abs(x-p.x+0.012*rough))
		}
		return base - height*(top+0.045*rough)
	}
	m := ridge(st.unit, x0, x1, base-1.1*height, base+0.05, edge)
	// Snow lies above a ragged line that comes down farther on higher peaks.
	snow := m.carve(func(x, y float32) float32 {
		line := height * (0.2 + 0.26*st.n.fbm(x*13+seed, y*5, 3)) * smooth(base-0.25*height, base-0.85*height, edge(x))
		return smooth(line+0.006, line-0.006, y-edge(x))
	})
	haze := mix(st.horizon, rock, 0.35)
	st.put(m, st.depth(d), fade(mix(rock, st.light, 0.3), haze, base-height, base+0.02))
	st.relief(d, snow, edge, s, 0.22, plain(snowy), fade(mix(rock, st.zenith, 0.5), haze, base-height, base))
}

// dune puts a sand dune whose side away from the light is dark below a sharp crest, and returns its
// profile.
func (st *stage) dune(d, base, amp float32, sand rgb, s sun) profile {
	seed := st.rand(0, 100)
	crest := func(x float32) float32 {
		// Long waves, with the sharp crests that 1-|noise| gives.
		return base - amp*(0.5+0.75*st.n.at(x*0.9+seed, seed)+0.28*(1-abs(st.n.at(x*1.7+seed, 4))))
	}
	x0, x1 := st.reach(d)
	m := ridge(st.unit, x0, x1, base-1.7*amp, min(base+2.2*amp, st.tall), crest)
	st.relief(d, m, crest, s, 1.15, fade(mix(sand, st.light, 0.32), mix(sand, st.near, 0.12), base-1.2*amp, base+amp+0.1), plain(mix(sand, mix(st.near, st.zenith, 0.45), 0.55)))
	return crest
}

// water puts rows of waves below the horizon, and the light on them. The fourth row may carry a
// boat.
func (st *stage) water(horizon float32, s sun, rows int) {
	deep := st.tall - horizon
	// lit returns how much light falls on a place: a path below the sun that gets wider towards the
	// viewer, and is broken up by ripples that move.
	lit := func(t, x, y float32) float32 {
		f := (y - horizon) / deep
		ripple := 0.62 + 0.38*st.n.at(x*5+f*7, y*34-0.7*st.speed*t)
		return exp(-square((x-s.x)/(0.035+0.42*f))) * ripple * (1 - 0.75*f)
	}
	for i := range rows {
		// f goes from 0 at the horizon to 1 at the viewer. Rows lie closer together in the
		// distance.
		f := float32(i) / float32(rows)
		f *= 0.4 + 0.6*f
		base, d := horizon+deep*f, 0.15+0.85*f
		// Waves are higher towards the viewer and in a storm. The horizon itself is straight.
		amp := min(float32(i), 1) * (0.002 + 0.02*f*min(1.6, st.speed))
		x0, x1 := st.reach(d)
		seed := st.rand(0, 99)
		m := ridge(st.unit, x0-0.03, x1+0.03, base-2.2*amp, base+2.2*amp+0.004, func(x float32) float32 {
			return base - amp*(sin(x*(26-16*f)+seed)*0.7+0.9*st.n.at(x*(12-7*f)+seed, 3))
		})
		// A row is brighter at its crest, and takes the color of the horizon in the distance.
		top := mix(mix(st.far, st.near, smooth(0, 0.85, f)), st.horizon, 0.16*(1-f))
		low := mix(st.far, st.near, smooth(0, 0.85, f+0.3))
		st.put(m, st.swaying(d, 0.012*f), func(t float32) shader {
			return func(x, y float32) (rgb, float32) {
				c := mix(top, low, clamp((y-base)/(0.05+0.3*deep*f)))
				c = mix(c, st.accent, 0.13*(1-smooth(0, 0.035, abs(y-base))))
				return add(c, st.light, 0.85*lit(t, x, y)), 1
			}
		})
		if i == 3 && !st.has("lighthouse") && (st.has("boat ship sail sailboat sailing") || st.rng.IntN(3) > 0) {
			st.boat(st.other(s.x), base+0.004)
		}
	}
	st.ripples(s.x-0.2, horizon+0.02, s.x+0.2, horizon+0.7*deep, 160, pale(st.light, 0.4))
}

// blocks puts a row of buildings with windows, some of which are lit. If mirrored, it adds their
// reflection in the water. d is the depth (see stage.depth), base is the row that they stand on.
func (st *stage) blocks(d, base, height, width float32, color rgb, lit float32, mirrored bool) {
	x0, x1 := st.reach(d)
	// Walls and windows are separate masks, because each is painted in its own colors.
	walls := newMask(st.unit, point{x0, base - 1.6*height}, point{x1, base})
	windows := newMask(st.unit, point{x0, base - 1.6*height}, point{x1, base})
	// Behind a reflection there is water to see; otherwise everything below the row is hidden.
	walls.solid = !mirrored
	for x := x0 - width/2; x < x1; {
		w := width * st.rand(0.55, 1.35)
		// Buildings are tallest in the middle of the picture. A few have a narrower top.
		h := height * st.rand(0.32, 1) * (1.15 - 0.7*abs(x-st.wide*0.5)/st.wide)
		walls.rect(x, base-h, x+w, base+0.01)
		if st.rng.IntN(3) == 0 {
			in := st.rand(0.15, 0.45) * w
			walls.rect(x+in, base-1.2*h, x+w-in, base-h+0.003)
		}
		st.panes(windows, x, base, w, h, lit)
		x += w * st.rand(0.92, 1.12)
	}
	// By day, windows are not lit but reflect the sky.
	glow := mix(st.accent, color, 0.25*(1-d))
	if st.hour == day {
		glow = mix(color, st.zenith, 0.35)
	}
	for _, layer := range []struct {
		mask  *mask
		color rgb
		haze  float32 // at the ground
	}{{walls, color, 0.35 * (1 - d)}, {windows, glow, 0.1}} {
		if layer.mask == windows && lit == 0 {
			break
		}
		mirror := layer.mask.flip(base)
		st.put(layer.mask, st.depth(d), fade(layer.color, mix(layer.color, st.horizon, layer.haze), base-height, base))
		if mirrored { // darker than the original
			st.put(mirror, st.depth(d), fade(mix(layer.color, st.near, 0.4), st.near, base, base+0.8*height))
		}
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

// grass adds blades of grass along a line, from x0 to x1.
func (st *stage) grass(m *mask, x0, x1, height float32, ground profile) {
	for x := x0; x < x1; x += st.rand(0.003, 0.008) {
		h := height * st.rand(0.4, 1)
		m.stroke(point{x, ground(x) + 0.006}, point{x + st.rand(-0.3, 0.3)*h, ground(x) - h}, 0.0045, 0.0006)
	}
}
