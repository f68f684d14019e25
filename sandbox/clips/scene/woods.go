package scene

import "math"

// forest builds a forest, seen from above in the fog or from inside.
func (st *stage) forest() {
	if st.has("fog foggy mist misty treetops pine pines hills valley aerial") {
		st.treetops()
		return
	}
	st.trunks()
}

// trunks builds the forest from inside: light falls between the trunks.
func (st *stage) trunks() {
	st.pan *= 0.6 // among trees every movement shows
	// (lx, ly) is where the light comes from, and ground is the row of the farthest ground.
	lx, ly := st.rand(0.3, 0.7)*st.wide, st.tall*st.rand(0.3, 0.42)
	ground := st.tall * st.rand(0.74, 0.8)
	// The background: leaves in front of a bright place that the light comes from.
	st.put(backdrop{func(t float32) shader {
		return func(x, y float32) rgb {
			c := mix(st.zenith, st.sky, smooth(0, 0.55*st.tall, y))
			c = mix(c, st.horizon, 0.7*smooth(0.35*st.tall, ground, y))
			dx, dy := (x-lx)*0.9, (y-ly)*0.75
			d2 := dx*dx + dy*dy
			c = add(c, st.light, 0.75*exp(-d2*7)+0.25*exp(-d2*1.8))
			leaves := st.n.fbm(x*5+0.04*t, y*5, 3)
			return mix(c, st.far, 0.35*smooth(0, 0.4, leaves)*smooth(0.75*ground, 0.2*ground, y))
		}
	}})
	// Five layers of trunks, from pale in the distance to dark. The rays of light lie between them.
	const layers = 5
	for i := range layers {
		f := float32(i) / (layers - 1)
		// f is 0 for the farthest layer and 1 for the nearest.
		color := mix(mix(st.horizon, st.far, 0.6), st.near, smooth(0, 1, f))
		st.stems(0.12+0.88*f*f, ground+0.2*f*f*(st.tall-ground), 0.012+0.05*f*f, 0.24-0.02*f, f, color)
		if i == 2 {
			st.shafts(lx, ly)
		}
	}
	dark := mix(st.near, rgb{}, 0.35)
	st.canopy(dark)
	// The forest floor with grass and ferns, closest to the viewer.
	d := float32(1)
	x0, x1 := st.reach(d)
	seed := st.rand(0, 9)
	floor := func(x float32) float32 { return st.tall*0.93 - 0.03*st.n.fbm(x*2+seed, 2, 3) }
	m := ridge(st.unit, x0, x1, st.tall*0.78, st.tall, floor)
	m.grass(st, x0, x1, 0.08, floor)
	for x := x0; x < x1; x += st.rand(0.12, 0.3) {
		m.fern(st, x, floor(x)+0.01, st.rand(0.08, 0.15))
	}
	st.put(cutout{mask: m, move: st.depth(d), paint: plain(dark)})
	switch {
	// Something floats in the air at every hour.
	case st.hour == night:
		st.fireflies(55)
	case st.hour == dusk:
		st.petals(30, []rgb{st.accent, mix(st.accent, st.light, 0.5), mix(st.accent, st.near, 0.4)})
	default:
		st.pollen(40)
	}
}

// stems puts a layer of trunks and the ground that they stand on. near is 0 for the farthest layer
// and 1 for the nearest.
func (st *stage) stems(d, ground, width, gap, near float32, color rgb) {
	x0, x1 := st.reach(d)
	seed := st.rand(0, 50)
	line := func(x float32) float32 { return ground - 0.035*st.n.fbm(x*1.8+seed, seed, 3) }
	m := ridge(st.unit, x0, x1, 0, ground+0.04, line)
	for x := x0 + st.rand(0, gap); x < x1; x += gap * st.rand(0.45, 1.5) * (0.6 + near) {
		w := width * st.rand(0.6, 1.3)
		lean := st.rand(-0.05, 0.05)
		foot := point{x, line(x) + 0.01}
		head := point{x + lean, -0.02}
		// A trunk with a flared foot, and three branches.
		m.stroke(foot, head, w, 0.62*w)
		m.poly(point{foot.x - 1.05*w, foot.y + 0.01}, point{foot.x - 0.42*w, foot.y - 1.6*w}, point{foot.x + 0.42*w, foot.y - 1.6*w}, point{foot.x + 1.05*w, foot.y + 0.01})
		for range 3 {
			f := st.rand(0.35, 0.9)
			at := point{foot.x + (head.x-foot.x)*f, foot.y + (head.y-foot.y)*f}
			side := float32(1 - 2*st.rng.IntN(2))
			tip := point{at.x + side*st.rand(0.04, 0.13), at.y - st.rand(0.03, 0.12)}
			m.stroke(at, tip, 0.28*w, 0.04*w)
		}
	}
	st.put(cutout{mask: m, move: st.depth(d), paint: fade(mix(color, st.sky, 0.12*(1-near)), mix(color, st.horizon, 0.35*(1-near)), 0.2*st.tall, ground)})
}

// shafts puts rays of light that fall to the ground. They spread from a point above the picture.
func (st *stage) shafts(lx, ly float32) {
	strength := float32(0.55)
	if st.hour == night {
		strength = 0.2
	}
	st.put(haze{x0: 0, y0: 0, x1: st.wide, y1: st.tall, paint: func(t float32) veil {
		return func(x, y float32) (rgb, float32) {
			// The rays meet 0.75 units above the light.
			dx, dy := x-lx, y-ly+0.75
			// a is the direction of the ray through this place; noise over the direction makes
			// rays.
			a := dx / max(0.05, dy)
			rays := smooth(-0.05, 0.5, st.n.fbm(a*7, 0.06*t+3, 3))
			return st.light, strength * rays * smooth(1.2*st.tall, 0.3*st.tall, y) * smooth(-0.1, 0.25, y) * exp(-1.2*dx*dx)
		}
	}})
}

// canopy puts leaves at the upper edge that sway a little.
func (st *stage) canopy(color rgb) {
	x0, x1 := st.reach(1)
	m := newMask(st.unit, point{x0, 0}, point{x1, 0.26})
	for x := x0; x < x1; x += 0.02 {
		// reach is how far the leaves hang down at this place.
		reach := 0.09 + 0.09*st.n.fbm(x*2.4, 11, 3)
		for range 3 {
			m.ellipse(x+st.rand(-0.03, 0.03), st.rand(-0.02, reach), st.rand(0.012, 0.034), st.rand(0.009, 0.02))
		}
	}
	st.put(cutout{mask: m, paint: plain(color), move: func(t float32) (float32, float32) { return -st.pan*t + 0.004*sin(0.9*t), 0.002 * sin(1.3*t) }})
}

// fern adds a fern that grows on (x, y).
func (m *mask) fern(st *stage, x, y, size float32) {
	for i := range 7 {
		// Seven fronds in a fan, each bending down at its end.
		a := math.Pi * (0.12 + 0.76*float32(i)/6)
		reach := size * st.rand(0.7, 1.1)
		previous := point{x, y}
		for k := 1; k <= 5; k++ {
			f := float32(k) / 5
			next := point{x + reach*f*cos(a), y - reach*f*sin(a) + 0.45*reach*f*f}
			m.stroke(previous, next, size*0.09*(1.15-f), size*0.09*(1-f)+0.0006)
			previous = next
		}
	}
}

// pollen puts specks of light into the air.
func (st *stage) pollen(count int) {
	all := st.motes(count)
	color := mix(st.light, rgb{1, 1, 1}, 0.5).video()
	st.put(swarm(func(c *canvas) {
		for _, m := range all {
			x := (wrap(m.x+0.012*st.speed*c.t)*st.wide + 0.02*sin(m.phase+0.6*c.t)) * c.unit
			y := (wrap(m.y-0.01*c.t)*st.tall + 0.015*cos(m.phase+0.5*c.t)) * c.unit
			c.streak(x, y, x, y, (0.0009+0.0018*m.depth)*c.unit, color, 0.5*smooth(-0.2, 1, sin(m.phase+0.9*c.t)))
		}
	}))
}

// treetops builds the forest from a hill: rows of conifers with fog between them.
func (st *stage) treetops() {
	s := st.sunAt(st.tall*0.55, 0.35, 0.7, 0.05)
	st.heaven(st.tall*0.6, s, 0.3)
	const rows = 6
	for i := range rows {
		f := float32(i) / (rows - 1)
		// Rows get darker and larger towards the viewer, and the fog between them thins out.
		base := st.tall * (0.42 + 0.55*f)
		color := mix(mix(st.horizon, st.far, 0.35), st.near, smooth(-0.1, 1, f))
		st.pines(0.1+0.9*f*f, base, 0.13, 0.06+0.17*f*f, color)
		if i < rows-1 {
			st.mist(base+0.07*st.tall, 0.1, 0.6*(1-0.5*f), mix(st.horizon, st.light, 0.15))
		}
	}
	if st.hour == night {
		st.fireflies(25)
	}
}

// meadow builds rolling hills under a wide sky, with a tree or a windmill and with flowers, either
// wild or in rows.
func (st *stage) meadow() {
	horizon := st.tall * st.rand(0.46, 0.56)
	s := st.sunAt(horizon, 0.25, 0.62, 0.06)
	if st.hour == day {
		st.heaven(horizon, s, 0.12)
		st.cumulus(3+int(2*st.wide), 0.14*horizon, 0.8*horizon)
	} else {
		st.heaven(horizon, s, st.rand(0.3, 0.5))
	}
	if st.has("balloon balloons") {
		st.balloons(horizon)
	}
	// tone goes from the color of distant land at 0 to that of near land at 1.
	tone := func(f float32) rgb { return mix(st.far, st.near, f) }
	st.hills(0.08, horizon+0.03, 0.13, 1.2, 3, mix(st.horizon, st.far, 0.5), mix(st.horizon, st.far, 0.75))
	st.hills(0.18, horizon+0.1, 0.1, 1, 2, tone(0.2), tone(0.1))
	away := st.other(s.x)
	dark := mix(st.near, rgb{0.02, 0.05, 0.04}, 0.35)
	ground := st.hills(0.35, horizon+0.2, 0.12, 0.8, 2, tone(0.45), tone(0.3))
	switch {
	// A windmill, or else a tree, unless the prompt asks for a field of flowers.
	case st.has("windmill farm"):
		st.windmill(0.35, away, ground(away)+0.01, 0.3)
	case st.has("lavender sunflower tulip poppy poppies field"):
	default:
		m := newMask(st.unit, point{away - 0.3, ground(away) - 0.5}, point{away + 0.3, ground(away) + 0.04})
		m.tree(st, away, ground(away)+0.02, 0.42)
		st.put(cutout{mask: m, move: st.depth(0.35), paint: fade(mix(dark, st.light, 0.18), dark, ground(away)-0.4, ground(away)-0.1)})
	}
	if st.has("lavender sunflower tulip poppy poppies field") {
		st.furrows(horizon + 0.14)
	} else {
		st.hills(0.6, horizon+0.36, 0.1, 0.9, 2, tone(0.75), tone(0.6))
		st.flowers(dark)
	}
	if st.hour == night {
		st.fireflies(50)
	} else {
		st.pollen(26)
	}
	if st.hour == day {
		st.birds(4, s.x, 0.35*horizon)
	}
}

// flowers puts grass and flowers close to the viewer, swaying. Stems, petals and eyes are separate
// masks, since each has one color.
func (st *stage) flowers(green rgb) {
	for row := range 2 {
		// Two rows: the second is nearer, lower and darker.
		d := 0.8 + 0.3*float32(row)
		x0, x1 := st.reach(d)
		base := st.tall * (0.9 + 0.08*float32(row))
		line := func(x float32) float32 { return base - 0.04*st.n.at(x*1.4+float32(row)*9, 6) }
		stems := ridge(st.unit, x0-0.02, x1+0.02, base-0.3, st.tall, line)
		heads := newMask(st.unit, point{x0 - 0.02, base - 0.34}, point{x1 + 0.02, base})
		eyes := newMask(st.unit, point{x0 - 0.02, base - 0.34}, point{x1 + 0.02, base})
		stems.grass(st, x0, x1, 0.13, line)
		for x := x0; x < x1; x += st.rand(0.035, 0.14) {
			h, r := st.rand(0.09, 0.22), st.rand(0.008, 0.016)
			foot := point{x, line(x) + 0.01}
			top := point{x + st.rand(-0.02, 0.02), foot.y - h}
			stems.stroke(foot, top, 0.004, 0.003)
			for k := range 6 {
				a := math.Pi * float32(k) / 3
				heads.ellipse(top.x+r*cos(a), top.y+0.8*r*sin(a), 0.62*r, 0.55*r)
			}
			eyes.disc(top.x, top.y, 0.5*r)
		}
		phase := float32(row) * 2.2
		move := func(t float32) (float32, float32) { return -st.pan*d*t + 0.006*sin(phase+1.1*st.speed*t), 0 }
		color := mix(green, st.near, 0.6-0.5*float32(row))
		st.put(cutout{mask: stems, move: move, paint: fade(mix(color, st.light, 0.12), color, base-0.15, base)})
		// The nearer row has flowers of another hue. At night all are pale.
		petal := st.accent
		if row == 1 && st.hour != night {
			petal = turn(st.accent, 0.09)
		}
		if st.hour == night {
			petal = mix(st.far, st.light, 0.35)
		}
		st.put(cutout{mask: heads, move: move, paint: plain(petal)})
		st.put(cutout{mask: eyes, move: move, paint: plain(mix(hex(0xffd34a), st.near, 0.25))})
	}
}

// furrows puts rows of flowers that run towards the horizon. The rows converge at the middle of the
// picture.
func (st *stage) furrows(y float32) {
	// The rows meet at the column vx.
	vx := st.wide * 0.5
	color := st.accent
	if st.has("lavender") {
		color = mix(hex(0x8a6ad8), st.near, 0.1)
	} else if st.has("sunflower tulip") {
		color = mix(hex(0xf7c52e), st.near, 0.08)
	} else if st.has("poppy poppies") {
		color = mix(hex(0xe0362c), st.near, 0.08)
	}
	m := newMask(st.unit, point{0, y}, point{st.wide, st.tall})
	for k := -14; k <= 14; k++ {
		x := float32(k) * 0.19
		m.poly(point{vx + x*0.12 - 0.004, y}, point{vx + x*0.12 + 0.004, y}, point{vx + x*2.3 + 0.13, st.tall}, point{vx + x*2.3 - 0.13, st.tall})
	}
	// Break the rows up into plants, which get smaller in the distance.
	m.carve(func(x, yy float32) float32 {
		return smooth(-0.75, -0.2, st.n.at(x*24/(0.3+yy-y), yy*60/(0.3+yy-y))) * smooth(y, y+0.05, yy)
	})
	st.put(cutout{mask: m, move: still, paint: fade(mix(color, st.horizon, 0.35), mix(color, st.near, 0.12), y, st.tall)})
}

// balloons puts hot-air balloons into the sky, each in a color of its own.
func (st *stage) balloons(horizon float32) {
	for i := range 4 {
		x, y, r := st.wide*(0.14+0.24*float32(i)), horizon*st.rand(0.22, 0.66), st.rand(0.04, 0.085)
		phase := st.rand(0, 6)
		color := turn(mix(st.accent, hex(0xe8502e), 0.4), 0.17*float32(i))
		a, b := point{x - 1.1*r, y - 1.2*r}, point{x + 1.1*r, y + 2*r}
		// Balloons rise slowly and drift.
		move := func(t float32) (float32, float32) { return 0.006 * sin(phase+0.3*t), -0.004*t + 0.004*sin(phase+0.7*t) }
		m := newMask(st.unit, a, b)
		m.balloon(x, y, r)
		st.put(cutout{mask: m, move: move, paint: func(float32) shader {
			return func(px, py float32) rgb {
				return mix(mix(color, st.light, 0.35), mix(color, st.zenith, 0.5), smooth(-r, r, px-x+0.4*(py-y)))
			}
		}})
		// A bright stripe down the middle.
		stripe := newMask(st.unit, a, b)
		// The envelope and the skirt below it.
		stripe.ellipse(x, y, 0.34*r, 1.05*r)
		stripe.poly(point{x - 0.28*r, y + 0.6*r}, point{x + 0.28*r, y + 0.6*r}, point{x + 0.05*r, y + 1.42*r}, point{x - 0.05*r, y + 1.42*r})
		st.put(cutout{mask: stripe, move: move, paint: fade(mix(rgb{1, 0.97, 0.9}, st.horizon, 0.2), mix(color, st.horizon, 0.5), y-r, y+1.4*r)})
	}
}

// windmill puts a mill whose sails turn.
func (st *stage) windmill(d, x, y, size float32) {
	body := mix(st.near, rgb{0.95, 0.92, 0.86}, 0.45)
	if st.hour != day {
		body = mix(st.near, st.sky, 0.2)
	}
	st.shape(d, point{x - 0.4*size, y - 1.1*size}, point{x + 0.4*size, y + 0.05*size}, fade(body, mix(body, st.near, 0.5), y-size, y), func(m *mask) {
		m.poly(point{x - 0.13*size, y - 0.75*size}, point{x + 0.13*size, y - 0.75*size}, point{x + 0.2*size, y + 0.03*size}, point{x - 0.2*size, y + 0.03*size})
		m.poly(point{x - 0.16*size, y - 0.73*size}, point{x, y - 0.98*size}, point{x + 0.16*size, y - 0.73*size})
	})
	color := mix(st.near, rgb{0.1, 0.07, 0.06}, 0.5).video()
	// (hx, hy) is the hub of the sails.
	hx, hy := x, y-0.78*size
	// The sails are drawn in each frame, since a mask can only be moved, not turned.
	st.put(swarm(func(c *canvas) {
		cx, cy := (hx-st.pan*d*c.t)*c.unit, hy*c.unit
		for k := range 4 {
			a := 0.5*st.speed*c.t + math.Pi/2*float32(k)
			dx, dy := cos(a)*c.unit*size, sin(a)*c.unit*size
			c.streak(cx, cy, cx+0.62*dx, cy+0.62*dy, 0.015*c.unit*size, color, 1)
			for rib := range 4 { // cloth on a lattice, on one side of the arm
				off := 0.03 + 0.026*float32(rib)
				c.streak(cx+0.18*dx-off*dy, cy+0.18*dy+off*dx, cx+0.6*dx-off*dy, cy+0.6*dy+off*dx, 0.009*c.unit*size, color, 0.75)
			}
		}
	}))
}
