package scene

import "slices"

// builders put the items of each family on a stage, from back to front. The keys are the names in
// families.
var builders = map[string]func(*stage){
	"sea":       (*stage).sea,
	"mountains": (*stage).mountains,
	"forest":    (*stage).forest,
	"city":      (*stage).city,
	"desert":    (*stage).desert,
	"space":     (*stage).space,
	"rain":      (*stage).downpour,
	"snow":      (*stage).winter,
	"fire":      (*stage).fire,
	"meadow":    (*stage).meadow,
}

// sea builds an open sea with waves, and a lighthouse or a beach if the prompt asks for one.
func (st *stage) sea() {
	horizon := st.tall * st.rand(0.46, 0.56)
	s := st.sunAt(horizon, 0.22, 0.6, 0.075)
	clouds := st.rand(0.25, 0.6)
	if st.has("storm stormy") {
		clouds = 1
	}
	st.heaven(horizon, s, clouds)
	if st.has("island coast bay harbour harbor fjord cliff") || st.rng.IntN(2) == 0 {
		st.hills(0.08, horizon+0.012, 0.13, 1.4, 4, mix(st.horizon, st.far, 0.55), mix(st.horizon, st.far, 0.7))
	}
	st.water(horizon, s, 7)
	switch {
	case st.has("lighthouse"):
		st.lighthouse(st.other(s.x), horizon)
	case st.has("palm beach island tropical sand"):
		// Sand is yellow by day only. Foam washes over it.
		sand := mix(mix(st.near, st.horizon, 0.3), hex(0xf2d9a0), st.by(0.9, 0, 0))
		seed := st.rand(0, 9)
		for i, color := range []rgb{mix(st.accent, st.far, 0.2), sand} {
			x0, x1 := st.reach(1)
			st.put(ridge(st.unit, x0, x1, st.tall*0.78, st.tall, func(x float32) float32 {
				return st.tall*0.83 + 0.012*float32(i) + 0.03*sin(x*2.1+seed)
			}), st.swaying(1, 0.006*float32(1-i)), fade(color, mix(color, st.near, 0.35*float32(i)), st.tall*0.82, st.tall))
		}
		for _, at := range []float32{0.08, 0.2, 0.93} {
			st.palm(at*st.wide+st.rand(-0.03, 0.03), st.tall*0.9, st.rand(0.42, 0.62), dark(st.near, 0.5))
		}
	}
}

// mountains builds a range of snowy peaks with mist below, and in front of it a lake or a forest.
func (st *stage) mountains() {
	horizon := st.tall * st.rand(0.6, 0.68)
	s := st.sunAt(horizon, 0.5, 0.8, 0.055)
	st.heaven(horizon, s, st.rand(0.1, 0.5))
	if st.hour == night && st.has("aurora") {
		st.aurora(0.9 * horizon)
	}
	st.hills(0.06, horizon-0.06, 0.16, 2.4, 5, mix(st.horizon, st.far, 0.55), st.horizon)
	st.massif(0.14, horizon+0.02, 0.46*min(1.2, 0.6*st.tall+0.2), mix(st.far, st.zenith, 0.15), mix(st.accent, st.light, 0.25), s)
	st.mist(horizon+0.01, 0.1, 0.75, mix(st.horizon, st.light, 0.2))
	st.hills(0.3, horizon+0.07, 0.12, 3, 5, mix(st.far, st.near, 0.42), mix(st.far, st.near, 0.3))
	if st.has("lake river water reflection fjord") {
		st.water(horizon+0.04, s, 6)
		st.grove(0.9, st.tall*1.02, 0.05, 0.16, 0.2, st.near, pine)
		return
	}
	st.mist(horizon+0.12, 0.07, 0.5, mix(st.horizon, st.far, 0.2))
	st.pines(0.5, horizon+0.15, 0.09, 0.09, mix(st.far, st.near, 0.72))
	st.pines(1, st.tall*0.95, 0.16, 0.2, st.near)
}

// forest builds a forest, seen from above in the fog or from inside.
func (st *stage) forest() {
	if !st.has("fog foggy mist misty treetops pine pines hills valley aerial") {
		st.trunks()
		return
	}
	st.heaven(st.tall*0.6, st.sunAt(st.tall*0.55, 0.35, 0.7, 0.05), 0.3)
	const rows = 6
	for i := range rows {
		// Rows get darker and larger towards the viewer, and the fog between them thins out.
		f := float32(i) / (rows - 1)
		base := st.tall * (0.42 + 0.55*f)
		st.pines(0.1+0.9*f*f, base, 0.13, 0.06+0.17*f*f, mix(mix(st.horizon, st.far, 0.35), st.near, smooth(-0.1, 1, f)))
		st.mist(base+0.07*st.tall, 0.1, 0.6*(1-f), mix(st.horizon, st.light, 0.15))
	}
	if st.hour == night {
		st.fireflies(25)
	}
}

// trunks builds the forest from inside: rays of light fall between the trunks.
func (st *stage) trunks() {
	st.pan *= 0.6 // among trees every movement shows
	// (lx, ly) is where the light comes from, and ground is the row of the farthest ground.
	lx, ly, ground := st.rand(0.3, 0.7)*st.wide, st.tall*st.rand(0.3, 0.42), st.tall*st.rand(0.74, 0.8)
	st.heaven(ground, sun{x: lx, y: ly}, 0.3)
	const layers = 5
	for i := range layers {
		// f is 0 for the farthest layer, which is pale, and 1 for the nearest.
		f := float32(i) / (layers - 1)
		d, base, w := 0.12+0.88*f*f, ground+0.2*f*f*(st.tall-ground), 0.012+0.05*f*f
		x0, x1 := st.reach(d)
		m := ridge(st.unit, x0, x1, 0, base+0.04, func(x float32) float32 { return base - 0.03*st.n.fbm(x*1.8, f*9, 3) })
		for x := x0; x < x1; x += 0.22 * st.rand(0.45, 1.5) * (0.6 + f) {
			// A trunk with a flared foot, and three branches.
			width, lean := w*st.rand(0.6, 1.3), st.rand(-0.05, 0.05)
			m.stroke(point{x, base + 0.02}, point{x + lean, -0.02}, width, 0.62*width)
			m.stroke(point{x, base + 0.02}, point{x, base - 2*width}, 2*width, 0.5*width)
			for range 3 {
				up := st.rand(0.35, 0.9)
				at := point{x + lean*up, base * (1 - up)}
				m.stroke(at, point{at.x + st.either(-1, 1)*st.rand(0.04, 0.13), at.y - st.rand(0.03, 0.12)}, 0.28*width, 0.04*width)
			}
		}
		color := mix(mix(st.horizon, st.far, 0.6), st.near, smooth(0, 1, f))
		st.put(m, st.depth(d), fade(color, mix(color, st.horizon, 0.35*(1-f)), 0.2*st.tall, base))
		if i == 2 {
			st.shafts(lx, ly)
		}
	}
	st.undergrowth()
	if st.hour == night {
		st.fireflies(55)
	} else {
		st.pollen(40)
	}
}

// shafts puts rays of light that fall to the ground. They spread from a point above the picture.
func (st *stage) shafts(lx, ly float32) {
	strength := st.by(0.55, 0.55, 0.2)
	st.veil(0, 0, st.wide, st.tall, func(t float32) shader {
		return func(x, y float32) (rgb, float32) {
			// The rays meet 0.75 units above the light. Noise over the direction makes rays.
			dx, dy := x-lx, y-ly+0.75
			rays := smooth(-0.05, 0.5, st.n.fbm(dx/max(0.05, dy)*7, 0.06*t+3, 3))
			return st.light, strength * rays * smooth(1.2*st.tall, 0.3*st.tall, y) * exp(-1.2*dx*dx)
		}
	})
}

// undergrowth puts grass at the lower edge and leaves at the upper one, closest to the viewer.
func (st *stage) undergrowth() {
	x0, x1 := st.reach(1)
	floor := func(x float32) float32 { return st.tall*0.93 - 0.03*st.n.fbm(x*2, 2, 3) }
	m := ridge(st.unit, x0, x1, st.tall*0.8, st.tall, floor)
	st.grass(m, x0, x1, 0.1, floor)
	leaves := newMask(st.unit, point{x0, 0}, point{x1, 0.26})
	for x := x0; x < x1; x += 0.007 {
		leaves.poly(ellipse(x, st.rand(-0.02, 0.09+0.09*st.n.fbm(x*2.4, 11, 3)), st.rand(0.012, 0.034), st.rand(0.009, 0.02))...)
	}
	st.put(m, st.depth(1), plain(dark(st.near, 0.35)))
	st.put(leaves, st.swaying(1, 0.004), plain(dark(st.near, 0.35)))
}

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
	lit, top := st.by(0.1, 0.5, 0.75), 0.62*min(1.4, st.tall)
	for i := range 3 {
		// Each row is nearer than the one before: larger, darker, and with more lit windows; the
		// farthest has none. Only the nearest one is reflected; it hides the others.
		f := float32(i) / 2
		color := mix(mix(st.horizon, st.far, 0.6), mix(st.far, st.near, 0.75), f)
		st.blocks(0.1+0.3*f, horizon+0.01, top*(0.72-0.2*f), 0.055+0.03*f, color, lit*f, river && i == 2)
		if i < 2 {
			st.mist(horizon-0.03, 0.16, 0.45, mix(st.horizon, st.far, 0.25))
		}
	}
	if river {
		st.river(horizon, s)
	} else {
		st.street(lit, top)
	}
}

// river puts moving water over the reflections, and lamps along its far bank.
func (st *stage) river(horizon float32, s sun) {
	st.veil(0, horizon, st.wide, st.tall, func(t float32) shader {
		return func(x, y float32) (rgb, float32) {
			// f is 0 at the far bank and 1 at the lower edge of the picture.
			f := clamp((y - horizon) / (st.tall - horizon))
			ripple := st.n.at(x*7+0.1*t, y*40-0.5*st.speed*t)
			shine := exp(-square((x-s.x)/(0.06+0.3*f))) * (0.5 + 0.5*ripple) * (1 - f)
			return add(mix(mix(st.far, st.sky, 0.4), st.near, clamp(0.3+f)), st.light, 0.7*shine), 0.2 + 0.5*f + 0.12*ripple
		}
	})
	if st.has("bridge") {
		st.bridge(horizon + 0.035)
	}
	st.small(func(c *canvas) {
		// The lamps repeat, so moving them by less than one gap is enough.
		const gap = 0.055
		for x := wrap(-st.pan*0.45*c.t/gap)*gap - gap; x < st.wide+gap; x += gap {
			c.streak(point{x, horizon + 0.004}, point{x, horizon + 0.004}, 0.0026, pale(st.accent, 0.3), st.by(0.25, 0.85, 1))
			c.streak(point{x, horizon + 0.014}, point{x, horizon + 0.05}, 0.0014, pale(st.accent, 0.3), st.by(0.08, 0.27, 0.32))
		}
	})
}

// street puts a last row of buildings, and the lights of cars in front of it: white ones in one
// direction and red ones in the other.
func (st *stage) street(lit, top float32) {
	y := st.tall * 0.93
	st.blocks(0.7, y, top*0.62, 0.16, mix(st.near, st.far, 0.12), lit*0.8, false)
	road := dark(st.near, 0.4)
	st.put(ridge(st.unit, 0, st.wide, y-0.012, y, func(float32) float32 { return y - 0.012 }), still, fade(mix(road, st.horizon, 0.15), road, y-0.01, st.tall))
	cars := drift{count: 600, size: [2]float32{0.0028, 0.0028}, alpha: [2]float32{0.9, 1}, tail: point{0.006, 0}}
	cars.colors, cars.way.x = []rgb{hex(0xfff0c8)}, 0.12*st.speed
	st.swarm(cars, point{-0.1, y + 0.006}, point{st.wide + 0.1, y + 0.016})
	cars.colors, cars.way.x = []rgb{hex(0xff3b2e)}, -0.12*st.speed
	st.swarm(cars, point{-0.1, y + 0.024}, point{st.wide + 0.1, y + 0.034})
}

// desert builds rows of dunes below mesas, pyramids or hills, with a caravan or cacti if the prompt
// asks for them.
func (st *stage) desert() {
	horizon := st.tall * st.rand(0.5, 0.6)
	// The setting sun over a desert is larger.
	s := st.sunAt(horizon, 0.3, 0.7, st.by(0.07, 0.13, 0.07))
	st.heaven(horizon, s, st.rand(0, 0.22))
	away := st.other(s.x)
	switch {
	case st.has("pyramid egypt"):
		st.pyramids(horizon+0.02, away, s)
	case st.has("mesa canyon arizona cactus western cowboy") || st.rng.IntN(3) == 0:
		color := mix(st.far, st.near, 0.35)
		for x := st.rand(-0.1, 0.2); x < st.wide; x += st.rand(0.3, 0.55) {
			st.thing(0.1, x, horizon+0.03, st.rand(0.1, 0.24), color, mix(color, st.horizon, 0.5), mesa)
		}
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
	if st.has("cactus arizona mesa western cowboy") {
		for _, at := range []float32{0.12, 0.86} {
			st.thing(1, at*st.wide, st.tall*st.rand(0.8, 0.86), st.rand(0.26, 0.4), dark(st.near, 0.5), dark(st.near, 0.6), cactus...)
		}
	}
	st.dust(22)
}

// space builds a nebula or galaxy with stars in front of it, and planets, a comet, a rocket or the
// surface of a planet.
func (st *stage) space() {
	st.nebula(st.has("galaxy milky universe andromeda"))
	stars := drift{count: 190, colors: []rgb{pale(st.accent, 0.6), mix(st.light, st.horizon, 0.4)}, size: [2]float32{0.0005, 0.0021}, alpha: [2]float32{0.35, 1}, way: point{-0.3 * st.pan, 0}, blink: 0.2}
	st.around(stars)
	if st.has("comet meteor shooting asteroid") || st.rng.IntN(2) == 0 {
		st.comet()
	}
	// A place for the main planet: left or right of the middle.
	x := st.either(0.3, 0.7) * st.wide
	y, r := st.rand(0.4, 0.5)*st.tall, st.rand(0.2, 0.27)
	// A nebula or galaxy is the subject itself and gets a small planet only.
	switch {
	case st.has("galaxy nebula milky universe cosmos") && !st.has("planet"):
		st.planet(0.87*st.wide, 0.22*st.tall, 0.06, false)
	case st.has("mars moon surface astronaut landing"):
		st.planet(x, 0.3*st.tall, 0.6*r, true)
		ground := st.hills(0.5, st.tall*0.84, 0.12, 1.4, 5, mix(st.far, st.near, 0.35), mix(st.far, st.near, 0.7))
		if x := st.wide * 0.32; st.has("astronaut") {
			suit := mix(rgb{0.95, 0.95, 1}, st.far, 0.15)
			st.thing(0.5, x, ground(x)+0.02, 0.22, suit, mix(suit, st.near, 0.55), spacer...)
			st.thing(0.5, x, ground(x)+0.02, 0.22, mix(st.horizon, st.light, 0.3), st.zenith, visor...)
		}
		st.hills(1, st.tall*0.95, 0.09, 2, 5, mix(st.far, st.near, 0.7), dark(st.near, 0.3))
	default:
		st.planet(x, y, r, st.has("saturn ring rings") || st.rng.IntN(2) == 0)
		st.planet(st.wide-x, 0.26*st.tall, 0.045, false)
	}
	if st.has("rocket spaceship ship astronaut shuttle") {
		climb := func(t float32) (float32, float32) { return 0.012 * st.speed * t, -0.02 * st.speed * t }
		st.moving(climb, st.wide-x, st.tall*0.62, 0.2, hex(0xfff3c0), hex(0xff6a2a), exhaust...)
		st.moving(climb, st.wide-x, st.tall*0.62, 0.2, rgb{0.96, 0.96, 0.98}, mix(st.sky, st.near, 0.4), rocket...)
	}
}

// downpour builds a rain scene: over a street, or over a lake with a lone tree if the prompt names
// nothing that belongs to a street.
func (st *stage) downpour() {
	horizon := st.tall * st.rand(0.56, 0.63)
	s := sun{x: st.wide * st.rand(0.4, 0.6), y: horizon * 0.5}
	st.heaven(horizon, s, 0.95)
	if st.has("storm stormy thunder lightning thunderstorm") {
		st.lightning(horizon)
	}
	st.hills(0.06, horizon+0.01, 0.2, 1.7, 4, mix(st.horizon, st.far, 0.55), mix(st.horizon, st.far, 0.75))
	if st.has("umbrella street city town alley lamp lamps puddle") || !st.has("storm stormy thunderstorm lightning rainstorm monsoon") && st.rng.IntN(2) == 0 {
		st.avenue(horizon, s.x)
	} else {
		st.mist(horizon-0.02, 0.12, 0.5, mix(st.horizon, st.sky, 0.3))
		st.water(horizon+0.02, s, 6)
		x := st.other(s.x)
		// The bank rises towards the tree.
		bank := func(px float32) float32 {
			return st.tall*0.84 - 0.16*exp(-7*square(px-x)) - 0.015*st.n.fbm(px*8, 3, 3)
		}
		m := ridge(st.unit, -0.02, st.wide+0.02, bank(x)-0.6, st.tall*0.9, bank)
		m.add(x, bank(x)+0.02, 0.5, tree...)
		st.grass(m, -0.02, st.wide+0.02, 0.045, bank)
		st.put(m, still, fade(dark(mix(st.near, st.far, 0.2), 0.3), dark(st.near, 0.4), bank(x)-0.4, st.tall))
	}
	st.ripples(0, horizon+0.05, st.wide, st.tall, 26, pale(st.horizon, 0.3))
}

// avenue builds a wet street with lamps, and a person under an umbrella. Everything converges at
// the vanishing point (vx, horizon).
func (st *stage) avenue(horizon, vx float32) {
	st.blocks(0.2, horizon+0.01, 0.26, 0.09, mix(st.far, st.near, 0.4), st.by(0.15, 0.35, 0.5), false)
	st.mist(horizon, 0.12, 0.55, mix(st.horizon, st.sky, 0.3))
	// Where the lamps stand: -1 and 1 are the nearest ones at the sides, and 0 is the vanishing
	// point.
	lamps := []float32{-1, -0.52, -0.28, 0.28, 0.52, 1}
	deep, shine := st.tall-horizon, st.by(0.25, 0.6, 0.8)
	// Wet ground mirrors the sky around the vanishing point, and the lamps as vertical streaks.
	st.put(ridge(st.unit, 0, st.wide, horizon, horizon+0.02, func(float32) float32 { return horizon + 0.01 }), still, func(t float32) shader {
		return func(x, y float32) (rgb, float32) {
			f := (y - horizon) / deep
			c := mix(mix(st.horizon, st.far, 0.5), st.near, smooth(-0.15, 0.8, f))
			c = mix(c, mix(st.sky, st.horizon, 0.6), 0.35*exp(-4*square(x-vx)/(0.1+f)))
			wet := shine * (0.7 + 0.3*st.n.at(x*7, y*30-0.4*t))
			for _, k := range lamps {
				near := abs(k)
				c = add(c, st.accent, wet*exp(-square((x-vx-k*st.wide*0.47)/(0.014+0.035*near)))*smooth(0, 0.25*near, f)*smooth(1.1*near+0.1, 0.2*near, f))
			}
			return c, 1
		}
	})
	color := dark(st.near, 0.4)
	for _, k := range lamps {
		near := abs(k)
		x, foot, h := vx+k*st.wide*0.47, horizon+0.42*near*near*deep+0.03, 0.62*near*min(1, 0.75*st.tall)
		st.thing(0, x, foot, h, mix(color, st.horizon, 0.45*(1-near)), color, post...)
		st.thing(0, x, foot, h, pale(st.accent, 0.45), st.accent, bulb...)
		st.halo(x, foot-0.94*h, 0.26*near+0.03, shine, st.accent, steady)
	}
	x, y := vx+0.12*st.wide, horizon+0.34*deep
	walk := func(t float32) (float32, float32) { return 0.004 * t, 0.003 * abs(sin(3*t)) }
	st.put(st.trace(x, y, 0.24, slices.Concat(walker, shield)...).flip(y), walk, plain(mix(st.near, st.far, 0.25)))
	st.moving(walk, x, y, 0.24, color, color, walker...)
	st.moving(walk, x, y, 0.24, mix(hex(0xc0282e), st.near, 0.3), hex(0xc0282e), shield...)
}

// winter builds a snowy landscape with firs and perhaps a cabin in a clearing.
func (st *stage) winter() {
	horizon := st.tall * st.rand(0.5, 0.6)
	s := st.sunAt(horizon, 0.35, 0.65, 0.06)
	st.heaven(horizon, s, st.rand(0.15, 0.45))
	if st.hour == night {
		st.aurora(horizon)
	}
	if st.has("mountain arctic glacier polar antarctica") || st.rng.IntN(2) == 0 {
		st.massif(0.1, horizon+0.05, 0.34, mix(st.far, st.zenith, 0.3), pale(st.near, 0.3), s)
	} else {
		st.hills(0.08, horizon+0.02, 0.14, 1.6, 3, mix(st.horizon, st.far, 0.5), mix(st.horizon, st.far, 0.8))
	}
	shadow := mix(st.far, st.sky, 0.45)
	st.pines(0.25, horizon+0.09, 0.08, 0.06, mix(st.far, st.zenith, 0.45))
	st.hills(0.35, horizon+0.13, 0.09, 1.1, 2, mix(st.near, st.far, 0.35), shadow)
	// A cabin if the prompt names one, and otherwise in one clip of four. The clearing lies on the
	// side where the sun is not.
	clearing := st.other(s.x)
	housed := st.has("cabin village house home cottage christmas cozy igloo") || st.rng.IntN(4) == 0
	if housed {
		st.cabin(0.5, clearing, horizon+0.17, 0.16)
	}
	ground := st.hills(0.5, horizon+0.23, 0.05, 0.9, 2, mix(st.near, st.horizon, 0.15), shadow)
	// Firs stand everywhere but in the clearing. Nearer ones are larger and stand lower.
	x0, x1 := st.reach(0.8)
	for x := x0; x < x1; x += st.rand(0.05, 0.24) {
		if abs(x-clearing) > 0.17 {
			near := st.rand(0, 1)
			st.fir(0.5, x, ground(x)+0.02+0.07*near, st.rand(0.12, 0.2)+0.16*near)
		}
	}
	st.hills(0.9, st.tall*0.93, 0.1, 0.8, 2, pale(st.near, 0.25), mix(st.near, shadow, 0.6))
	if !housed { // without a cabin, tall trees frame the view
		for _, at := range []float32{0.02, 0.13, 0.95} {
			st.fir(0.9, at*st.wide, st.tall*0.95, st.rand(0.6, 0.85))
		}
	}
}

// fir puts a conifer with snow on its branches.
func (st *stage) fir(d, x, y, height float32) {
	color, snow := mix(st.zenith, rgb{0.05, 0.12, 0.12}, 0.55), pale(st.near, 0.35)
	st.thing(d, x, y, height, mix(color, st.sky, 0.2), color, pine)
	st.thing(d, x, y, height, snow, snow, drifts...)
}

// fire builds an erupting volcano or a campfire.
func (st *stage) fire() {
	if st.has("volcano eruption lava magma dragon") {
		st.volcano()
		return
	}
	horizon, glow := st.tall*0.6, hex(0xff8a34)
	st.light = hex(0xf2ead8) // a small moon in the corner, whatever the palette says
	st.heaven(horizon, sun{x: st.wide * 0.82, y: 0.2 * horizon, r: 0.035}, 0.12)
	x, y := st.wide*st.rand(0.42, 0.58), st.tall*0.8
	// Trees behind the fire; the glow lies between the two rows.
	st.pines(0.1, horizon+0.06, 0.08, 0.16, mix(st.far, st.near, 0.35))
	st.halo(x, y-0.1, 0.95, 0.42, glow, st.flicker)
	st.pines(0.25, horizon+0.12, 0.05, 0.3, mix(st.near, glow, 0.06))
	line := func(px float32) float32 { return st.tall*0.74 - 0.025*st.n.fbm(px*2, 5, 3) }
	// The ground, with the light of the fire on it. The area is flattened, since it is seen from
	// the side.
	st.put(ridge(st.unit, -0.02, st.wide+0.02, st.tall*0.68, st.tall*0.8, line), still, func(t float32) shader {
		warm := 0.75 * st.flicker(t)
		return func(px, py float32) (rgb, float32) {
			d2 := square(px-x) + square((py-y-0.02)*2.6)
			lit := warm * (0.75*exp(-d2*9) + 0.3*exp(-d2*1.8)) * (0.8 + 0.35*st.n.at(px*22, py*70))
			return add(mix(st.near, st.far, 0.35), glow, lit), 1
		}
	})
	stone, bark := mix(hex(0xb8683a), st.near, 0.45), mix(hex(0x3a1a10), st.near, 0.3)
	for a := float32(0); a < 6.2; a += 0.57 { // a ring of stones
		st.thing(0, x+0.2*cos(a), y+0.012+0.04*sin(a), 0.02, stone, mix(stone, st.near, 0.6), oval{0, 0, st.rand(1.3, 1.9), st.rand(0.9, 1.3)})
	}
	st.flame(x, y, 0.34)
	st.thing(0, x, y, 1, bark, bark, logs...)
	st.embers(x, y-0.08, 0.16, 0.75, 60)
	for _, at := range []float32{0.01, 0.99} { // dark trees frame the picture
		st.thing(0, at*st.wide, st.tall*1.02, st.tall*0.95, dark(st.near, 0.5), dark(st.near, 0.5), pine)
	}
}

// volcano builds an erupting cone with a plume of ash, streams of lava and embers.
func (st *stage) volcano() {
	horizon, peak, cx := st.tall*0.7, st.tall*0.36, st.wide*st.rand(0.42, 0.58)
	glow, seed := hex(0xff6a24), st.rand(0, 50)
	// The glow of the sky comes from the crater. There is no sun.
	st.heaven(horizon, sun{x: cx, y: peak}, 0.75)
	ash := mix(st.zenith, st.far, 0.5)
	st.plume(cx, peak+0.02, peak+0.02, 0.3, 0.85, mix(ash, glow, 0.6), ash)
	st.halo(cx, peak, 0.5, 0.7, glow, st.flicker)
	st.hills(0.05, horizon, 0.12, 2.2, 4, mix(st.far, st.horizon, 0.3), mix(st.far, st.horizon, 0.5))
	// The cone: a steep slope that flattens out, with a flat top and rough flanks.
	cone := func(x float32) float32 {
		d := abs(x - cx)
		return peak + (horizon+0.04-peak)*(1-exp(-max(0, d-0.055)*3.1)) + 0.02*st.n.fbm(x*7+seed, 1, 4)*smooth(0, 0.3, d)
	}
	st.put(ridge(st.unit, -0.02, st.wide+0.02, peak-0.04, horizon+0.06, cone), still, func(t float32) shader {
		warm := 0.5 * st.flicker(t)
		return func(x, y float32) (rgb, float32) {
			// The glow of the crater lights the upper part of the cone.
			c := mix(mix(st.near, st.far, 0.35), st.near, smooth(peak, horizon, y))
			return add(c, glow, warm*exp(-15*square(x-cx)-20*square(y-peak))), 1
		}
	})
	lava := newMask(st.unit, point{cx - 0.6, peak - 0.02}, point{cx + 0.6, st.tall * 0.75})
	for k := range 5 { // streams that run down the slope in different directions and get narrower
		lean, length := (float32(k)-2)*0.5, st.rand(9, 17)
		at := point{cx + 0.028*lean, peak + 0.012}
		for i := float32(0); i < length; i++ {
			next := point{at.x + lean*0.016 + st.rand(-0.007, 0.007), 0}
			next.y = max(at.y+0.012, cone(next.x)+0.012+0.004*i)
			lava.stroke(at, next, 0.014*(1-0.8*i/length), 0.013*(1-0.8*i/length))
			at = next
		}
	}
	st.put(lava, still, func(t float32) shader {
		return func(x, y float32) (rgb, float32) {
			heat := 0.55 + 0.45*st.n.at(x*14, y*16-0.8*st.speed*t) // moves downwards
			return mix(hex(0xd8320e), hex(0xffd866), clamp(heat*1.15-0.9*(y-peak))), 1
		}
	})
	st.embers(cx, peak+0.02, 0.12, 0.42, 300)
	st.hills(0.5, st.tall*0.86, 0.1, 2.4, 4, mix(st.near, glow, 0.1), dark(st.near, 0.4))
	st.hills(1, st.tall*0.96, 0.08, 3, 4, dark(st.near, 0.35), dark(st.near, 0.6))
}

// meadow builds rolling hills under a wide sky, with a tree or a windmill and with flowers, either
// wild or in rows.
func (st *stage) meadow() {
	horizon := st.tall * st.rand(0.4, 0.48)
	s := st.sunAt(horizon, 0.25, 0.62, 0.06)
	st.heaven(horizon, s, st.rand(0.1, 0.3))
	if st.has("balloon balloons") {
		st.balloons(horizon)
	}
	// tone goes from the color of distant land at 0 to that of near land at 1.
	tone := func(f float32) rgb { return mix(st.far, st.near, f) }
	st.hills(0.08, horizon+0.03, 0.13, 1.2, 3, mix(st.horizon, st.far, 0.5), mix(st.horizon, st.far, 0.75))
	st.hills(0.18, horizon+0.1, 0.1, 1, 2, tone(0.2), tone(0.1))
	ground := st.hills(0.35, horizon+0.2, 0.12, 0.8, 2, tone(0.45), tone(0.3))
	away, rows := st.other(s.x), st.has("lavender sunflower tulip poppy poppies field")
	if st.has("windmill farm") {
		st.windmill(0.35, away, ground(away)+0.01, 0.3)
	} else if !rows {
		st.thing(0.35, away, ground(away)+0.02, 0.42, mix(dark(st.near, 0.3), st.light, 0.18), dark(st.near, 0.35), tree...)
	}
	if rows {
		st.furrows(horizon + 0.14)
	} else {
		st.hills(0.6, horizon+0.36, 0.1, 0.9, 2, tone(0.75), tone(0.6))
		st.flowers()
	}
	if st.hour == night {
		st.fireflies(50)
	} else {
		st.pollen(26)
	}
}

// flowers puts grass and flowers close to the viewer, swaying. Stems, petals and eyes are separate
// masks, since each has one color.
func (st *stage) flowers() {
	x0, x1 := st.reach(1)
	base := st.tall * 0.94
	ground := func(x float32) float32 { return base - 0.04*st.n.at(x*1.4, 6) }
	stems := ridge(st.unit, x0, x1, base-0.3, st.tall, ground)
	heads, eyes := newMask(st.unit, point{x0, base - 0.34}, point{x1, base}), newMask(st.unit, point{x0, base - 0.34}, point{x1, base})
	st.grass(stems, x0, x1, 0.13, ground)
	for x := x0; x < x1; x += st.rand(0.03, 0.1) {
		top, r := point{x + st.rand(-0.02, 0.02), ground(x) - st.rand(0.09, 0.22)}, st.rand(0.008, 0.016)
		stems.stroke(point{x, ground(x) + 0.01}, top, 0.004, 0.003)
		heads.add(top.x, top.y, r, flower...)
		eyes.add(top.x, top.y, r, oval{0, 0, 0.5, 0.5})
	}
	move := st.swaying(1, 0.006)
	st.put(stems, move, fade(mix(dark(st.near, 0.2), st.light, 0.12), dark(st.near, 0.35), base-0.15, base))
	st.put(heads, move, plain(mix(st.accent, st.far, st.by(0, 0, 0.6)))) // at night all are pale
	st.put(eyes, move, plain(mix(hex(0xffd34a), st.near, 0.25)))
}

// furrows puts rows of flowers that run towards the horizon and converge at the middle of the
// picture.
func (st *stage) furrows(y float32) {
	color := st.accent
	for _, f := range []struct {
		words string
		color uint32
	}{{"lavender", 0x8a6ad8}, {"sunflower tulip", 0xf7c52e}, {"poppy poppies", 0xe0362c}} {
		if st.has(f.words) {
			color = mix(hex(f.color), st.near, 0.08)
			break
		}
	}
	m := newMask(st.unit, point{0, y}, point{st.wide, st.tall})
	for k := -14; k <= 14; k++ {
		x := float32(k) * 0.19
		m.stroke(point{st.wide/2 + x*0.12, y}, point{st.wide/2 + x*2.3, st.tall}, 0.008, 0.2)
	}
	// Break the rows up into plants, which get smaller in the distance.
	m = m.carve(func(x, yy float32) float32 {
		return smooth(-0.75, -0.2, st.n.at(x*24/(0.3+yy-y), yy*60/(0.3+yy-y))) * smooth(y, y+0.05, yy)
	})
	st.put(m, still, fade(mix(color, st.horizon, 0.35), mix(color, st.near, 0.12), y, st.tall))
}
