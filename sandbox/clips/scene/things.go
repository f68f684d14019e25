package scene

import "math"

// outline is a part of a silhouette. Its points are relative to the place where the thing stands,
// in parts of its size, and y grows upwards.
type outline interface{ corners() []point }

type (
	poly   []float32  // a polygon: x and y of each corner
	mirror []float32  // the right half of a symmetric polygon, from top to bottom
	oval   [4]float32 // center and radii
	line   [6]float32 // from, to, and the widths at both ends
)

func (p poly) corners() []point {
	var all []point
	for i := 0; i < len(p); i += 2 {
		all = append(all, point{p[i], p[i+1]})
	}
	return all
}

func (m mirror) corners() []point {
	all := poly(m).corners()
	for i := len(all) - 1; i >= 0; i-- {
		all = append(all, point{-all[i].x, all[i].y})
	}
	return all
}

func (o oval) corners() []point { return ellipse(o[0], o[1], o[2], o[3]) }

func (l line) corners() []point { return stroke(point{l[0], l[1]}, point{l[2], l[3]}, l[4], l[5]) }

// The silhouettes of things, drawn by hand.
var (
	pine    = mirror{0, 1, 0.06, 0.72, 0.09, 0.74, 0.1, 0.52, 0.16, 0.55, 0.13, 0.33, 0.22, 0.36, 0.16, 0.13, 0.26, 0.15, 0.04, 0.12, 0.03, 0}
	drifts  = []outline{poly{-0.06, 0.72, 0.01, 0.97, 0.02, 0.8}, poly{-0.12, 0.55, -0.04, 0.74, 0.02, 0.66}, poly{-0.17, 0.36, -0.05, 0.58, 0.02, 0.48}, poly{-0.2, 0.16, -0.06, 0.4, 0.03, 0.28}}
	tree    = []outline{line{0, 0, 0, 0.6, 0.09, 0.05}, oval{0, 0.7, 0.24, 0.22}, oval{-0.2, 0.62, 0.15, 0.13}, oval{0.2, 0.64, 0.16, 0.14}, oval{-0.12, 0.83, 0.15, 0.14}, oval{0.13, 0.84, 0.14, 0.13}}
	cactus  = []outline{line{0, 0, 0, 0.93, 0.13, 0.13}, oval{0, 0.93, 0.065, 0.065}, line{-0.2, 0.42, 0.19, 0.5, 0.09, 0.09}, line{-0.2, 0.4, -0.2, 0.68, 0.09, 0.09}, oval{-0.2, 0.68, 0.045, 0.045}, line{0.2, 0.46, 0.2, 0.76, 0.09, 0.09}, oval{0.2, 0.76, 0.045, 0.045}, oval{0, 0, 0.2, 0.03}}
	hull    = []outline{poly{-0.5, 0.12, 0.55, 0.14, 0.36, -0.06, -0.36, -0.06}}
	sails   = []outline{line{0, 0.1, 0, 1.15, 0.025, 0.015}, poly{0.04, 1.1, 0.3, 0.6, 0.48, 0.22, 0.04, 0.2}, poly{-0.04, 0.98, -0.2, 0.5, -0.42, 0.2, -0.04, 0.22}}
	camel   = []outline{oval{0, 0.55, 0.34, 0.15}, oval{-0.08, 0.7, 0.12, 0.14}, oval{0.14, 0.68, 0.1, 0.12}, line{-0.3, 0.55, -0.47, 0.62, 0.13, 0.08}, line{-0.46, 0.6, -0.52, 0.88, 0.09, 0.06}, oval{-0.58, 0.9, 0.1, 0.045}, line{-0.24, 0.5, -0.27, 0, 0.07, 0.035}, line{-0.14, 0.5, -0.17, 0, 0.07, 0.035}, line{0.16, 0.5, 0.13, 0, 0.07, 0.035}, line{0.26, 0.5, 0.23, 0, 0.07, 0.035}}
	walker  = []outline{oval{0, 0.86, 0.075, 0.075}, mirror{0.1, 0.76, 0.14, 0.3}, line{-0.06, 0.32, -0.08, 0, 0.07, 0.05}, line{0.06, 0.32, 0.08, 0, 0.07, 0.05}, line{0.09, 0.5, 0.09, 1.1, 0.018, 0.018}}
	shield  = []outline{poly{-0.36, 0.98, -0.31, 1.1, -0.17, 1.21, 0.07, 1.26, 0.31, 1.21, 0.45, 1.1, 0.5, 0.98}}
	basket  = []outline{oval{0, 0, 1, 1.05}, mirror{0.88, -0.5, 0.16, -1.45}, mirror{0.14, -1.62, 0.14, -1.85}, line{-0.13, -1.4, -0.12, -1.65, 0.02, 0.02}, line{0.13, -1.4, 0.12, -1.65, 0.02, 0.02}}
	stripe  = []outline{oval{0, 0, 0.34, 1.05}, mirror{0.28, -0.6, 0.05, -1.42}}
	mill    = []outline{mirror{0, 0.98, 0.16, 0.73, 0.13, 0.73, 0.2, -0.03}}
	house   = []outline{mirror{0, 0.86, 0.5, 0.4, 0.5, -0.05}, poly{0.22, 0.95, 0.33, 0.95, 0.33, 0.5, 0.22, 0.5}}
	roof    = []outline{poly{-0.64, 0.34, 0, 0.96, 0.64, 0.34, 0.55, 0.3, 0, 0.84, -0.55, 0.3}, poly{0.2, 1, 0.35, 1, 0.35, 0.94, 0.2, 0.94}}
	windows = []outline{poly{-0.36, 0.3, -0.16, 0.3, -0.16, 0.12, -0.36, 0.12}, poly{0.16, 0.3, 0.36, 0.3, 0.36, 0.12, 0.16, 0.12}}
	rocket  = []outline{mirror{0, 1, 0.07, 0.9, 0.12, 0.75, 0.135, 0.55, 0.11, 0}, poly{-0.1, 0.3, -0.28, -0.1, -0.08, 0}, poly{0.1, 0.3, 0.28, -0.1, 0.08, 0}}
	exhaust = []outline{mirror{0.08, 0.01, 0.06, -0.25, 0, -0.7}}
	spacer  = []outline{oval{0, 0.9, 0.145, 0.145}, oval{0, 0.59, 0.155, 0.23}, poly{-0.23, 0.77, -0.09, 0.77, -0.09, 0.41, -0.23, 0.41}, line{-0.11, 0.73, -0.25, 0.39, 0.11, 0.09}, line{0.11, 0.73, 0.3, 0.5, 0.11, 0.09}, line{-0.06, 0.45, -0.11, 0, 0.14, 0.11}, line{0.06, 0.45, 0.12, 0, 0.14, 0.11}}
	visor   = []outline{oval{0.03, 0.9, 0.1, 0.085}}
	tower   = []outline{mirror{0.06, 1, 0.095, -0.1}}
	bands   = []outline{mirror{0.083, 0.35, 0.089, 0.18}, mirror{0.071, 0.69, 0.077, 0.52}}
	gallery = []outline{mirror{0.09, 1.02, 0.09, 0.98}, mirror{0, 1.22, 0.067, 1.13, 0.045, 1.13, 0.045, 1.02, 0.036, 1.02, 0.036, 1.13}, mirror{0.004, 1.27, 0.004, 1.2}}
	lantern = []outline{mirror{0.033, 1.12, 0.033, 1.02}}
	post    = []outline{mirror{0.02, 1.04, 0.035, 0.97, 0.008, 0.97, 0.012, 0}}
	bulb    = []outline{oval{0, 0.945, 0.024, 0.03}}
	logs    = []outline{line{-0.17, -0.015, 0.07, 0.055, 0.036, 0.03}, line{0.17, -0.015, -0.07, 0.055, 0.036, 0.03}, line{-0.12, -0.022, 0.13, -0.018, 0.04, 0.036}}
	flower  = []outline{oval{0.8, 0.3, 0.6, 0.5}, oval{-0.8, 0.3, 0.6, 0.5}, oval{0, 1, 0.6, 0.5}, oval{0.5, -0.6, 0.6, 0.5}, oval{-0.5, -0.6, 0.6, 0.5}}
	mesa    = poly{0, 1, 1, 0.98, 1.06, 0.5, 1.25, 0.22, 1.6, -0.05, -0.6, -0.05, -0.25, 0.22, -0.06, 0.5}
)

// add adds a silhouette that stands on (x, y).
func (m *mask) add(x, y, size float32, parts ...outline) {
	for _, part := range parts {
		m.poly(place(part, x, y, size)...)
	}
}

// place returns the corners of a part in the picture.
func place(part outline, x, y, size float32) []point {
	all := part.corners()
	for i, p := range all {
		all[i] = point{x + size*p.x, y - size*p.y}
	}
	return all
}

// trace returns a mask with a silhouette.
func (st *stage) trace(x, y, size float32, parts ...outline) *mask {
	var all []point
	for _, part := range parts {
		all = append(all, place(part, x, y, size)...)
	}
	x0, y0, x1, y1 := bounds(all)
	// A pixel more on each side leaves room to soften the edges.
	margin := 2 / st.unit
	m := newMask(st.unit, point{x0 - margin, y0 - margin}, point{x1 + margin, y1 + margin})
	m.add(x, y, size, parts...)
	return m
}

// thing puts a silhouette at a depth, in a color that goes from top to low.
func (st *stage) thing(d, x, y, size float32, top, low rgb, parts ...outline) {
	st.moving(st.depth(d), x, y, size, top, low, parts...)
}

// moving does the same for something that moves by itself.
func (st *stage) moving(move motion, x, y, size float32, top, low rgb, parts ...outline) {
	st.put(st.trace(x, y, size, parts...), move, fade(top, low, y-size, y))
}

// boat puts a sailing boat that rides on the water.
func (st *stage) boat(x, y float32) {
	size := float32(0.13)
	if st.has("ship") {
		size = 0.19
	}
	// By day the sails are white; against a darker sky they are silhouettes.
	cloth := mix(st.near, st.horizon, 0.12)
	if st.hour == day {
		cloth = rgb{0.98, 0.97, 0.94}
	}
	move := func(t float32) (float32, float32) { return 0.006 * t, 0.004 * sin(1.1*t) }
	st.moving(move, x, y, size, cloth, cloth, sails...)
	st.moving(move, x, y, size, dark(st.near, 0.5), dark(st.near, 0.5), hull...)
}

// lighthouse puts a tower on a cape and, unless it is day, its turning beams.
func (st *stage) lighthouse(x, horizon float32) {
	// side is 1 if the cape reaches to the right edge of the picture.
	side := float32(1)
	if x < st.wide/2 {
		side = -1
	}
	foot, seed := horizon+0.075, st.rand(0, 50)
	rock := dark(st.near, 0.3)
	const h = 0.36
	white := mix(mix(rgb{0.96, 0.94, 0.9}, st.sky, st.by(0.25, 0.25, 0.75)), st.near, 0.1)
	st.thing(0, x, foot, h, white, mix(white, rock, 0.4), tower...)
	st.thing(0, x, foot, h, mix(hex(0xb8302c), st.near, 0.35), mix(hex(0xb8302c), st.near, 0.35), bands...)
	st.thing(0, x, foot, h, rock, rock, gallery...)
	// The cape is level at the tower and falls off into the sea.
	st.put(ridge(st.unit, -0.04, st.wide+0.04, foot-0.08, st.tall+0.02, func(px float32) float32 {
		return foot + 0.03*st.n.fbm(px*9+seed, 1, 4) + (st.tall-0.2-foot)*smooth(-0.03, -0.3, (px-x)*side)
	}), still, fade(mix(rock, st.horizon, 0.12), rock, foot-0.05, foot+0.2))
	lamp := mix(st.light, hex(0xffe9b0), 0.6)
	st.thing(0, x, foot, h, lamp, lamp, lantern...)
	if st.hour != day {
		st.beams(x, foot-1.07*h, lamp)
	}
}

// beams puts the turning light of a lighthouse. Seen from the side a beam is long and bright; when
// it points at the viewer, the lamp flashes. A second, weaker beam points in the opposite direction.
func (st *stage) beams(x, y float32, lamp rgb) {
	st.veil(0, y-0.35, st.wide, y+0.35, func(t float32) shader {
		// sweep is the direction: 1 to the right, 0 towards the viewer, -1 to the left.
		sweep := cos(0.75*t + 0.4)
		return func(px, py float32) (rgb, float32) {
			dx, dy := px-x, py-y
			r := sqrt(dx*dx + dy*dy)
			beam := exp(-90*square((dy+0.05*abs(dx))/(abs(dx)+0.015))) * abs(sweep) * exp(-1.1*r)
			if dx*sweep < 0 {
				beam *= 0.55
			}
			return lamp, min(0.9, 0.62*beam+exp(-r*r*130)*(1.3-0.6*abs(sweep)))
		}
	})
}

// palm puts a palm tree that stands on (x, y), leans to one side and sways.
func (st *stage) palm(x, y, height float32, color rgb) {
	lean := height * st.rand(-0.25, 0.25)
	m := newMask(st.unit, point{x - 0.8*height, y - 1.4*height}, point{x + 0.8*height, y})
	m.stroke(point{x, y}, point{x + 0.35*lean, y - 0.6*height}, 0.045*height, 0.032*height)
	top := point{x + lean, y - height}
	m.stroke(point{x + 0.35*lean, y - 0.6*height}, top, 0.032*height, 0.024*height)
	for i := range 9 { // fronds that fan out from the top and hang down at their ends
		a := math.Pi * (-0.12 + 1.24*float32(i)/8)
		reach := height * st.rand(0.32, 0.44)
		// at returns a place on the frond, which falls like a thrown stone.
		at := func(f float32) point {
			return point{top.x + reach*f*cos(a), top.y - reach*f*(0.25+0.8*sin(a)) + 0.62*reach*f*f}
		}
		for f := float32(0); f < 1; f += 0.1 {
			m.stroke(at(f), at(f+0.1), 0.075*height*(1.1-f)*(0.4+f), 0.07*height*(1-f)*(0.5+f))
		}
	}
	st.put(m, st.swaying(1, 0.003), plain(color))
}

// cabin puts a house with a snowy roof, lit windows and smoke.
func (st *stage) cabin(d, x, y, size float32) {
	wood, snow := mix(hex(0x4a2c20), st.zenith, 0.3), pale(st.near, 0.3)
	st.thing(d, x, y, size, wood, dark(wood, 0.4), house...)
	st.thing(d, x, y, size, snow, snow, roof...)
	st.thing(d, x, y, size, st.accent, st.accent, windows...)
	st.halo(x, y-0.2*size, 1.6*size, st.by(0.2, 0.55, 0.55), st.accent, steady)
	smoke := mix(st.horizon, st.light, 0.3)
	st.plume(x+0.27*size, y-size, 0.3, 0.08, 0.6, smoke, smoke)
}

// bridge puts a suspension bridge across a river.
func (st *stage) bridge(deck float32) {
	steel := mix(st.near, hex(0x8a2f2a), 0.3)
	m := newMask(st.unit, point{-0.02, deck - 0.36}, point{st.wide + 0.02, deck + 0.14})
	m.rect(-0.02, deck, st.wide+0.02, deck+0.012)
	for _, x := range []float32{0.24 * st.wide, 0.76 * st.wide} { // towers of two posts and a beam
		m.rect(x-0.018, deck-0.3, x-0.008, deck+0.12)
		m.rect(x+0.008, deck-0.3, x+0.018, deck+0.12)
		m.rect(x-0.018, deck-0.2, x+0.018, deck-0.188)
	}
	// The main cable: a parabola between the towers, and parts of others outside of them.
	cable := func(x float32) float32 { return deck - 0.3*square(2*abs(wrap((x/st.wide-0.24)/0.52)-0.5)) }
	for x := float32(0); x < st.wide; x += 0.02 {
		m.stroke(point{x, cable(x)}, point{x + 0.02, cable(x + 0.02)}, 0.005, 0.005)
		m.stroke(point{x, cable(x)}, point{x, deck}, 0.0016, 0.0016)
	}
	st.put(m, still, fade(mix(steel, st.light, 0.25), steel, deck-0.3, deck+0.1))
}

// windmill puts a mill whose sails turn.
func (st *stage) windmill(d, x, y, size float32) {
	body := mix(st.near, rgb{0.95, 0.92, 0.86}, st.by(0.45, 0.15, 0.15))
	st.thing(d, x, y, size, body, mix(body, st.near, 0.5), mill...)
	color := dark(st.near, 0.4)
	// The sails are drawn in each frame, since a mask can only be moved, not turned.
	st.small(func(c *canvas) {
		hub := point{x - st.pan*d*c.t, y - 0.78*size}
		for k := range 4 {
			a := 0.5*st.speed*c.t + math.Pi/2*float32(k)
			dx, dy := cos(a)*size, sin(a)*size
			c.streak(hub, point{hub.x + 0.62*dx, hub.y + 0.62*dy}, 0.015*size, color, 1)
			// Cloth on one side of the arm.
			c.streak(point{hub.x + 0.2*dx - 0.07*dy, hub.y + 0.2*dy + 0.07*dx}, point{hub.x + 0.58*dx - 0.07*dy, hub.y + 0.58*dy + 0.07*dx}, 0.04*size, color, 0.75)
		}
	})
}

// balloons puts hot-air balloons into the sky, each in a color of its own. They rise slowly.
func (st *stage) balloons(horizon float32) {
	for i := range 4 {
		x, y, r := st.wide*(0.14+0.24*float32(i)), horizon*st.rand(0.22, 0.66), st.rand(0.04, 0.085)
		phase := st.rand(0, 6)
		color := turn(mix(st.accent, hex(0xe8502e), 0.4), 0.17*float32(i))
		move := func(t float32) (float32, float32) { return 0.006 * sin(phase+0.3*t), -0.004*t + 0.004*sin(phase+0.7*t) }
		st.moving(move, x, y, r, mix(color, st.light, 0.35), mix(color, st.zenith, 0.3), basket...)
		st.moving(move, x, y, r, pale(st.horizon, 0.6), mix(color, st.horizon, 0.5), stripe...)
	}
}

// pyramids puts three pyramids with a bright and a dark face.
func (st *stage) pyramids(base, x float32, s sun) {
	bright, shaded := mix(st.far, st.light, 0.3), mix(st.near, st.far, 0.35)
	left, right := bright, shaded
	if s.x > x {
		left, right = shaded, bright
	}
	for _, p := range []struct{ x, size float32 }{{-0.34, 0.2}, {0, 0.32}, {0.33, 0.15}} {
		st.thing(0.1, x+p.x, base, p.size, left, left, poly{0, 1, 0.2, -0.06, -0.8, -0.06})
		st.thing(0.1, x+p.x, base, p.size, right, right, poly{0, 1, 0.8, -0.06, 0.2, -0.06})
	}
}

// caravan puts camels that walk along a crest. They follow its height as they go.
func (st *stage) caravan(d, x float32, crest profile) {
	color := dark(st.near, 0.5)
	for i := range 5 {
		px, phase := x-0.28+0.14*float32(i), float32(i)
		st.moving(func(t float32) (float32, float32) {
			step := -0.01 * st.speed * t
			return step - st.pan*d*t, crest(px+step) - crest(px) + 0.001*sin(phase+5*t)
		}, px, crest(px)+0.006, 0.085, color, color, camel...)
	}
}

// planet puts a lit sphere, with or without a ring.
func (st *stage) planet(x, y, r float32, ringed bool) {
	seed, move := st.rand(0, 99), st.depth(0.25)
	const tilt = 0.34
	// (lx, ly, lz) points to the light, which comes from above and from the middle of the picture.
	lx, ly, lz := float32(-0.62), float32(-0.45), float32(0.64)
	if x < st.wide/2 {
		lx = -lx
	}
	st.halo(x, y, 1.5*r, 0.28, mix(st.far, st.light, 0.4), steady)
	// half puts the half of the ring behind the planet, or the one in front of it.
	half := func(front bool) {
		m := st.trace(x, y, r, poly{-2.05, -1, 2.05, -1, 2.05, 1, -2.05, 1}).carve(func(px, py float32) float32 {
			// Rotate by the tilt. The ring is a circle seen at a low angle, so its height is
			// stretched; d is the distance from the planet's center in radii.
			u, v := (px-x)*cos(tilt)+(py-y)*sin(tilt), (py-y)*cos(tilt)-(px-x)*sin(tilt)
			d, soft := sqrt(u*u+22*v*v)/r, 2/(r*st.unit)
			if !ringed || v > 0 != front {
				return 0
			}
			return smooth(1.3-soft, 1.3+soft, d) * smooth(2+soft, 2-soft, d) * (0.55 + 0.3*st.n.at(d*14, 5))
		})
		st.put(m, move, fade(mix(st.light, st.horizon, 0.3), mix(st.light, st.far, 0.5), y-r, y+r))
	}
	half(false)
	st.put(st.trace(x, y, r, oval{0, 0, 1, 1}), move, func(t float32) shader {
		shift, _ := move(t)
		return func(px, py float32) (rgb, float32) {
			u, v := (px-x-shift)/r, (py-y)/r
			// z is the height of the sphere above the plane of the picture, so (u, v, z) is its
			// normal.
			z := sqrt(max(0, 1-u*u-v*v))
			// Bands along the tilted equator, compressed towards the edge and slowly turning.
			bands := st.n.fbm(seed+0.9*u/(0.4+z)+0.05*t, (v+tilt*u)*5+seed, 4)
			surface := mix(st.far, mix(st.light, st.far, 0.35), smooth(-0.3, 0.45, bands))
			// Lambert's law: the light on a surface is the product of its normal and the direction
			// of the light. The atmosphere shines at the lit edge.
			light := u*lx + v*ly + z*lz
			c := mix(dark(st.near, 0.4), surface, smooth(-0.12, 0.75, light))
			return add(c, pale(st.far, 0.5), 0.6*smooth(0.55, 0, z)*smooth(-0.1, 0.6, light)), 1
		}
	})
	half(true)
}

// comet puts a comet that crosses the sky with a long tail: streaks of different lengths on top of
// each other.
func (st *stage) comet() {
	x, y := st.rand(0.1, 0.4)*st.wide, st.rand(0.08, 0.25)*st.tall
	st.small(func(c *canvas) {
		p := point{x + 0.05*st.speed*c.t, y + 0.02*st.speed*c.t}
		for f := float32(0); f < 1; f += 0.08 {
			c.streak(p, point{p.x - 0.22 + 0.2*f, p.y - 0.088 + 0.08*f}, 0.0005+0.0016*f, pale(st.accent, 0.7), 0.07+0.1*f)
		}
	})
}

// flame puts a fire of the given height on (x, y).
func (st *stage) flame(x, y, height float32) {
	outer, middle, inner := hex(0xf2501a), hex(0xff9a2a), hex(0xfff0b0)
	st.veil(x-0.3, y-1.4*height, x+0.3, y+0.03, func(t float32) shader {
		lift := 1.5 * st.speed * t // how far the turbulence has risen
		return func(px, py float32) (rgb, float32) {
			up := (y - py) / height
			// The flame leans, gets narrower towards its tip, and is torn by turbulence that moves
			// upwards. d is the distance from its middle, about 1 at its edge.
			bend := 0.05 * up * st.n.at(px*2, up*1.6-0.8*lift)
			width := 0.135 * (1 - 0.62*up) * smooth(-0.1, 0.12, up)
			turbulence := 0.42 * st.n.fbm(px*13, up*3.2-lift, 3)
			d := abs(px-x-bend)/max(0.01, width) + 0.75*up*up + turbulence*(0.35+0.9*up)
			// From red at the edge over orange to pale yellow at the core, which is shorter than
			// the flame.
			c := mix(outer, middle, smooth(0.95, 0.55, d))
			return mix(c, inner, smooth(0.6, 0.2, d+0.25*up)), smooth(1.05, 0.62, d)
		}
	})
	st.halo(x, y-0.35*height, 0.34, 0.4, middle, st.flicker)
}
