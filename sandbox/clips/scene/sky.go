package scene

import "math"

// sun is the light of a scene, be it the sun or the moon: where it stands and its radius. A radius
// of 0 means that it is hidden.
type sun struct{ x, y, r float32 }

// heaven puts the sky with its light, clouds and stars. Below the row horizon it continues, for
// water to mirror. Clouds is how much of the sky they take, from 0 to 1.
func (st *stage) heaven(horizon float32, s sun, clouds float32) {
	// The moon lights the sky less than the sun does.
	glow := float32(0.55)
	if st.hour == night {
		glow = 0.3
	}
	seed := st.rand(0, 100)
	wind := 0.012 * st.speed
	lit := mix(st.light, st.horizon, 0.35)
	shade := mix(st.sky, st.zenith, 0.35)
	// The layers are: a gradient of three colors, a glow around the light, and clouds of noise that
	// drift.
	st.put(backdrop{func(t float32) shader {
		// height is where the light is now.
		height := s.y + st.sink()*t
		return func(x, y float32) rgb {
			// v is 0 at the top of the picture and 1 at the horizon.
			v := y / horizon
			c := mix(st.zenith, st.sky, smooth(0, 0.62, v))
			c = mix(c, st.horizon, smooth(0.42, 1, v))
			dx, dy := x-s.x, y-height
			d2 := dx*dx + dy*dy
			near := exp(-d2 * 9)
			c = add(c, st.light, glow*(0.75*near+0.5*exp(-d2*1.6)))
			if clouds > 0 && v < 1.1 {
				f := st.n.fbm(x*1.5+seed+t*wind, y*4.2+0.15*t*wind, 4)
				// Clouds are denser with a higher value of noise, brighter on top and near the
				// light, and fade at the horizon.
				a := smooth(0.32-0.6*clouds, 0.62-0.35*clouds, f) * smooth(1.1, 0.75, v)
				body := mix(shade, lit, clamp(0.45+1.2*(f-0.2)+0.5*near-0.15*v))
				c = mix(c, body, 0.75*a)
			}
			return c
		}
	}})
	if st.hour == night && clouds < 0.8 {
		st.stars(horizon, 150)
	}
	if s.r > 0 {
		st.orb(s)
	}
}

// orb puts the disc of the sun or moon.
func (st *stage) orb(s sun) {
	m := newMask(st.unit, point{s.x - s.r - 0.01, s.y - s.r - 0.01}, point{s.x + s.r + 0.01, s.y + s.r + 0.01})
	m.disc(s.x, s.y, s.r)
	// A crescent: cut another disc out of it.
	if st.has("crescent") {
		hole := m.copy()
		for i := range hole.pix {
			hole.pix[i] = 0
		}
		hole.disc(s.x+0.42*s.r, s.y-0.12*s.r, 0.9*s.r)
		for i, a := range hole.pix {
			m.pix[i] = min(m.pix[i], 255-a)
		}
	}
	paint := plain(st.light)
	if st.hour == night {
		paint = func(float32) shader {
			return func(x, y float32) rgb { // the moon has dark areas
				return mix(st.light, st.sky, 0.3*smooth(0, 0.5, st.n.fbm((x-s.x)/s.r*1.6+9, (y-s.y)/s.r*1.6, 3)))
			}
		}
	} else if st.hour == dusk {
		paint = fade(st.light, mix(st.light, st.horizon, 0.7), s.y-s.r, s.y+s.r)
	}
	st.put(cutout{mask: m, paint: paint, move: func(t float32) (float32, float32) { return 0, st.sink() * t }})
}

// sink returns how fast the sun or moon goes down, in units per second. It only does so in the
// evening; at other times it rises.
func (st *stage) sink() float32 {
	if st.hour == dusk && !st.dawn {
		return 0.005
	}
	return -0.006
}

// stars puts twinkling stars above a row. Most are faint, and they fade towards the horizon.
func (st *stage) stars(horizon float32, count int) {
	type star struct{ x, y, r, a, phase, pace float32 }
	all := make([]star, int(float32(count)*st.wide))
	for i := range all {
		// Squaring makes most stars faint.
		bright := st.rand(0, 1)
		bright *= bright
		all[i] = star{st.rand(0, st.wide), st.rand(0, horizon), 0.0006 + 0.0013*bright, 0.35 + 0.65*bright, st.rand(0, 7), st.rand(0.4, 1.8)}
	}
	color := mix(st.light, rgb{1, 1, 1}, 0.5).video()
	st.put(swarm(func(c *canvas) {
		for _, s := range all {
			x, y := s.x*c.unit, s.y*c.unit
			c.streak(x, y, x, y, s.r*c.unit, color, s.a*(0.75+0.25*sin(s.phase+s.pace*c.t))*smooth(horizon, 0.6*horizon, s.y))
		}
	}))
}

// cumulus puts round clouds with flat bottoms between two rows.
func (st *stage) cumulus(count int, top, low float32) {
	for i := range count {
		d := st.rand(0.15, 0.4)
		x0, x1 := st.reach(d)
		x, y := x0+(x1-x0)*(float32(i)+st.rand(0.2, 0.8))/float32(count), st.rand(top, low)
		// Lower clouds are larger.
		size := st.rand(0.09, 0.2) * (0.6 + 0.8*y/low)
		m := newMask(st.unit, point{x - 1.3*size, y - 0.8*size}, point{x + 1.3*size, y})
		// A cloud is a row of discs on a line, the largest in the middle.
		for k := range 9 {
			f := (float32(k) + 0.5) / 4.5
			bulge := sin(f * math.Pi / 2)
			r := size * (0.1 + 0.3*bulge) * st.rand(0.8, 1.15)
			m.disc(x+(f-1)*size, y-0.55*r-0.1*size*bulge, r)
		}
		white := mix(rgb{1, 1, 1}, st.light, 0.4)
		st.put(cutout{
			mask: m, move: st.depth(d),
			paint: fade(mix(white, st.sky, 0.05), mix(white, st.sky, 0.6), y-0.55*size, y+0.02*size),
		})
	}
}

// birds puts a flock that crosses the sky in the opposite direction to the camera.
func (st *stage) birds(count int, x, y float32) {
	type bird struct{ x, y, size, phase float32 }
	flock := make([]bird, count)
	for i := range flock {
		flock[i] = bird{x + st.rand(-0.2, 0.2), y + st.rand(-0.07, 0.07), st.rand(0.008, 0.016), st.rand(0, 6)}
	}
	color := mix(st.near, st.zenith, 0.25).video()
	way := float32(0.03)
	if st.pan > 0 {
		way = -way
	}
	st.put(swarm(func(c *canvas) {
		for _, b := range flock {
			// flap is the position of the wings. Each bird glides from time to time.
			flap := sin(b.phase+5*c.t) * (0.6 + 0.4*sin(b.phase+0.7*c.t))
			x, y := (b.x+way*c.t)*c.unit, (b.y+0.006*sin(b.phase+c.t))*c.unit
			s := b.size * c.unit
			// Each wing has two parts, and bends in the middle.
			for _, side := range []float32{-1, 1} {
				mx, my := x+side*0.55*s, y-0.45*s*flap-0.1*s
				c.streak(x, y, mx, my, 0.0013*c.unit, color, 0.85)
				c.streak(mx, my, x+side*1.1*s, my+0.2*s+0.15*s*flap, 0.0008*c.unit, color, 0.85)
			}
		}
	}))
}

// aurora puts northern lights into the sky: three curtains with a sharp lower edge that fade
// upwards.
func (st *stage) aurora(horizon float32) {
	green, violet := hex(0x4dffa6), hex(0x8a5cff)
	seed := st.rand(0, 50)
	st.put(haze{x0: 0, y0: 0, x1: st.wide, y1: horizon, paint: func(t float32) veil {
		return func(x, y float32) (rgb, float32) {
			sum, color := float32(0), green
			for k := range 3 {
				f := float32(k)
				// base is the lower edge of the curtain, which waves slowly, and h the height above
				// it.
				base := horizon * (0.36 + 0.16*f + 0.16*st.n.at(x*1.1+seed+f*7, t*0.09+f*3))
				h := base - y
				if h < -0.05 {
					continue
				}
				// Vertical rays of different brightness wander along the curtain.
				rays := 0.7 + 0.3*st.n.fbm(x*6+f*31+0.25*t, 0.15*t+f, 2)
				sum += rays * smooth(-0.05, 0.03, h) * exp(-h*(6.5-f)) * 0.6
				color = mix(color, violet, 0.35*smooth(0.05, 0.3, h))
			}
			return color, min(0.8, sum)
		}
	}})
}

// mist puts fog that drifts around a row.
func (st *stage) mist(y, height, strength float32, color rgb) {
	seed := st.rand(0, 100)
	st.put(haze{x0: 0, y0: y - height, x1: st.wide, y1: y + height, paint: func(t float32) veil {
		return func(x, yy float32) (rgb, float32) {
			d := abs(yy-y) / height
			f := 0.6 + 0.8*st.n.fbm(x*1.6+seed+0.03*st.speed*t, yy*5, 3)
			return color, clamp(strength * f * (1 - smooth(0, 1, d)))
		}
	}})
}
