package scene

import "math"

// mote is one of many small things that drift through the picture. x, y and depth are from 0 to 1,
// and phase is an angle that keeps motes out of step.
type mote struct{ x, y, depth, phase float32 }

// motes returns motes at random places, about count for each square unit of the picture.
func (st *stage) motes(count int) []mote {
	all := make([]mote, max(1, int(float32(count)*st.wide*st.tall)))
	for i := range all {
		all[i] = mote{st.rand(0, 1), st.rand(0, 1), st.rand(0, 1), st.rand(0, 2*math.Pi)}
	}
	return all
}

// wrap returns the fraction of a value, from 0 to 1, so that what leaves on one side comes back on
// the other.
func wrap(v float32) float32 { return v - floor(v) }

// weather puts whatever the prompt's words bring into the air in front of everything else.
func (st *stage) weather() {
	if st.has("fog foggy mist misty haze hazy smoke") && st.family != "space" {
		st.mist(0.72*st.tall, 0.3*st.tall, 0.5, mix(st.horizon, st.sky, 0.3))
	}
	switch {
	case st.family == "space":
	case st.family == "rain" || st.has("rain rainy storm stormy thunderstorm drizzle downpour umbrella"):
		st.rain()
	case st.family == "snow" || st.has("snow snowy snowfall blizzard winter christmas"):
		st.snow()
	case st.has("leaf leaves autumn"):
		st.petals(36, []rgb{hex(0xe0812a), hex(0xc2481e), hex(0xf0b83c)})
	case st.has("petal petals blossom blossoms sakura cherry spring"):
		st.petals(36, []rgb{hex(0xffd1e0), hex(0xffb3cc), hex(0xffe6ee)})
	case st.has("firefly fireflies fairy magic magical enchanted dream dreamy"):
		st.fireflies(60)
	case st.has("sandstorm dust dusty windy"):
		st.dust(60)
	}
}

// snow lets snow fall. Nearer flakes are larger, faster and more transparent.
func (st *stage) snow() {
	all := st.motes(75)
	// Units per second.
	fall := 0.05 + 0.03*st.speed
	// Fast snow is a blizzard, which blows sideways.
	lean := 0.03 * st.speed * st.speed
	color := rgb{0.98, 0.99, 1}.video()
	st.put(swarm(func(c *canvas) {
		for _, m := range all {
			// Most flakes are far away.
			d := m.depth * m.depth
			x := wrap(m.x+(0.012*sin(m.phase+0.8*c.t)+lean*c.t*(0.5+d))/st.wide) * (st.wide + 0.04)
			y := wrap(m.y+fall*(0.6+1.1*d)*c.t/st.tall) * (st.tall + 0.04)
			px, py := (x-0.02)*c.unit, (y-0.02)*c.unit
			c.streak(px, py, px, py, (0.0012+0.0042*d)*c.unit, color, 0.85-0.3*d)
		}
	}))
}

// rain lets rain fall at a slant. Nearer drops are longer and faster.
func (st *stage) rain() {
	all := st.motes(85)
	color := mix(st.horizon, rgb{1, 1, 1}, 0.35).video()
	// slant is how far a drop moves sideways while it falls by one unit.
	slant := -0.1 - 0.08*st.speed
	st.put(swarm(func(c *canvas) {
		for _, m := range all {
			length := 0.025 + 0.04*m.depth
			y := wrap(m.y+(0.85+0.6*m.depth)*c.t/st.tall)*(st.tall+0.2) - 0.1
			x := wrap(m.x+slant*(0.85+0.6*m.depth)*c.t/st.wide)*(st.wide+0.2) - 0.1
			c.streak(x*c.unit, y*c.unit, (x+slant*length)*c.unit, (y+length)*c.unit, (0.0004+0.0006*m.depth)*c.unit, color, 0.14+0.2*m.depth)
		}
	}))
}

// petals lets petals in spring, or leaves in autumn, tumble down.
func (st *stage) petals(count int, colors []rgb) {
	all := st.motes(count)
	st.put(swarm(func(c *canvas) {
		for i, m := range all {
			y := wrap(m.y+0.05*st.speed*(0.6+m.depth)*c.t/st.tall) * (st.tall + 0.1)
			x := wrap(m.x+(0.04*sin(m.phase+0.9*c.t)-0.03*c.t)/st.wide) * (st.wide + 0.1)
			r := (0.0028 + 0.0042*m.depth) * c.unit
			// A turning streak looks like something flat that tumbles.
			// turn is the angle of the petal.
			turn := m.phase + 1.7*c.t
			px, py := (x-0.05)*c.unit, (y-0.05)*c.unit
			c.streak(px-r*cos(turn), py-0.6*r*sin(turn), px+r*cos(turn), py+0.6*r*sin(turn), 0.55*r, colors[i%len(colors)].video(), 0.9)
		}
	}))
}

// fireflies puts lights that wander and go on and off: a bright core and two circles of glow.
func (st *stage) fireflies(count int) {
	all := st.motes(count)
	glow, core := st.accent.video(), mix(st.accent, rgb{1, 1, 1}, 0.6).video()
	st.put(swarm(func(c *canvas) {
		for _, m := range all {
			x := (m.x*st.wide + 0.03*sin(m.phase+(0.3+0.4*m.depth)*c.t)) * c.unit
			y := ((0.4+0.55*m.y)*st.tall + 0.025*cos(1.3*m.phase+(0.4+0.3*m.depth)*c.t)) * c.unit
			a := smooth(0.1, 0.9, 0.5+0.5*sin(m.phase*3+(0.7+0.8*m.depth)*c.t))
			r := (0.0014 + 0.0016*m.depth) * c.unit
			c.streak(x, y, x, y, 4.2*r, glow, 0.1*a)
			c.streak(x, y, x, y, 2.2*r, glow, 0.25*a)
			c.streak(x, y, x, y, r, core, a)
		}
	}))
}

// embers lets embers rise from a place and fade.
func (st *stage) embers(x, y, spread, height float32, count int) {
	all := st.motes(count)
	hot, cool := hex(0xffe08a), hex(0xff5a1e)
	st.put(swarm(func(c *canvas) {
		for _, m := range all {
			// life goes from 0 to 1, again and again.
			life := wrap(m.y + (0.12+0.14*m.depth)*st.speed*c.t)
			px := x + (m.x-0.5)*spread*(0.4+1.6*life) + 0.03*sin(m.phase+5*life)
			py := y - height*life
			color := mix(hot, cool, life).video()
			cx, cy := px*c.unit, py*c.unit
			c.streak(cx, cy, cx+0.4*sin(m.phase)*0.004*c.unit, cy-0.004*c.unit, (0.0009+0.0013*m.depth)*(1-0.5*life)*c.unit, color, (1-life)*(0.55+0.45*sin(m.phase+7*c.t)))
		}
	}))
}

// dust blows dust along the ground.
func (st *stage) dust(count int) {
	all := st.motes(count)
	color := mix(st.far, st.light, 0.5).video()
	st.put(swarm(func(c *canvas) {
		for _, m := range all {
			x := wrap(m.x+(0.1+0.12*m.depth)*st.speed*c.t/st.wide)*(st.wide+0.2) - 0.1
			// Dust stays in the lower half of the picture.
			y := (0.5+0.5*m.y)*st.tall + 0.01*sin(m.phase+2*c.t)
			length := 0.02 + 0.05*m.depth
			c.streak(x*c.unit, y*c.unit, (x+length)*c.unit, (y-0.08*length)*c.unit, 0.0008*c.unit, color, 0.12+0.16*m.depth)
		}
	}))
}
