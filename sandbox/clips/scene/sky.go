package scene

import "math"

// sun is the light of a scene, be it the sun or the moon: where it stands and its radius. A radius
// of 0 means that it is hidden.
type sun struct{ x, y, r float32 }

// sunAt returns a place for the sun or moon: in the left or right third of the picture, and between
// lowest and highest above the horizon, as parts of its height. At dusk it is as low as possible.
func (st *stage) sunAt(horizon, lowest, highest, r float32) sun {
	third := st.rand(0.2, 0.36)
	up := st.rand(lowest, highest)
	return sun{st.either(third, 1-third) * st.wide, horizon * (1 - st.by(up, lowest, up)), r * st.by(1, 1, 0.75)}
}

// other returns a place on the side of the picture where x is not, to balance it.
func (st *stage) other(x float32) float32 {
	if x > st.wide/2 {
		return st.wide * st.rand(0.18, 0.3)
	}
	return st.wide * st.rand(0.7, 0.82)
}

// heaven puts the sky with its light, clouds and stars. Below the row horizon it continues, for
// water to mirror. Clouds is how much of the sky they take, from 0 to 1.
func (st *stage) heaven(horizon float32, s sun, clouds float32) {
	glow := st.by(0.55, 0.55, 0.3)
	seed, wind := st.rand(0, 100), 0.012*st.speed
	lit, shade := mix(st.light, st.horizon, 0.35), mix(st.sky, st.zenith, 0.35)
	// The layers are: a gradient of three colors, a glow around the light, and clouds of noise that
	// drift.
	st.backdrop(func(t float32) shader {
		height := s.y + st.sink()*t
		return func(x, y float32) (rgb, float32) {
			// v is 0 at the top of the picture and 1 at the horizon.
			v := y / horizon
			c := mix(st.zenith, st.sky, smooth(0, 0.62, v))
			c = mix(c, st.horizon, smooth(0.42, 1, v))
			d2 := square(x-s.x) + square(y-height)
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
			return c, 1
		}
	})
	if st.hour == night && clouds < 0.8 {
		st.swarm(drift{count: 150, colors: []rgb{pale(st.light, 0.5)}, size: [2]float32{0.0006, 0.002}, alpha: [2]float32{0.4, 1}, blink: 0.3, fade: -1}, point{}, point{st.wide, horizon})
	}
	if s.r == 0 {
		return
	}
	// The disc: plain by day, paler at its top in the evening, and with dark areas at night.
	paint := fade(st.light, mix(st.light, st.horizon, st.by(0, 0.7, 0)), s.y-s.r, s.y+s.r)
	if st.hour == night {
		paint = func(float32) shader {
			return func(x, y float32) (rgb, float32) {
				return mix(st.light, st.sky, 0.3*smooth(0, 0.5, st.n.fbm((x-s.x)/s.r*1.6+9, (y-s.y)/s.r*1.6, 3))), 1
			}
		}
	}
	st.put(st.trace(s.x, s.y, s.r, oval{0, 0, 1, 1}), func(t float32) (float32, float32) { return 0, st.sink() * t }, paint)
}

// sink returns how fast the sun or moon goes down, in units per second. It only does so in the
// evening; at other times it rises.
func (st *stage) sink() float32 {
	if st.hour == dusk && !st.dawn {
		return 0.005
	}
	return -0.006
}

// aurora puts northern lights into the sky: three curtains with a sharp lower edge that fade
// upwards.
func (st *stage) aurora(horizon float32) {
	green, violet := hex(0x4dffa6), hex(0x8a5cff)
	seed := st.rand(0, 50)
	st.veil(0, 0, st.wide, horizon, func(t float32) shader {
		return func(x, y float32) (rgb, float32) {
			sum, color := float32(0), green
			for k := range 3 {
				f := float32(k)
				// base is the lower edge of the curtain, which waves slowly, and h the height above
				// it.
				base := horizon * (0.36 + 0.16*f + 0.16*st.n.at(x*1.1+seed+f*7, t*0.09+f*3))
				h := base - y
				// Vertical rays of different brightness wander along the curtain.
				rays := 0.7 + 0.3*st.n.fbm(x*6+f*31+0.25*t, 0.15*t+f, 2)
				sum += rays * smooth(-0.05, 0.03, h) * exp(-max(0, h)*(6.5-f)) * 0.6
				color = mix(color, violet, 0.35*smooth(0.05, 0.3, h))
			}
			return color, min(0.8, sum)
		}
	})
}

// mist puts fog that drifts around a row.
func (st *stage) mist(y, height, strength float32, color rgb) {
	seed := st.rand(0, 100)
	st.veil(0, y-height, st.wide, y+height, func(t float32) shader {
		return func(x, yy float32) (rgb, float32) {
			f := 0.6 + 0.8*st.n.fbm(x*1.6+seed+0.03*st.speed*t, yy*5, 3)
			return color, strength * f * (1 - smooth(0, height, abs(yy-y)))
		}
	})
}

// plume puts smoke of the given height that rises from a place, widens to spread, drifts to the
// right and fades.
func (st *stage) plume(x, y, height, spread, strength float32, low, high rgb) {
	st.veil(x-2*spread, y-height, x+2*spread, y, func(t float32) shader {
		return func(px, py float32) (rgb, float32) {
			up := (y - py) / height
			puff := st.n.fbm((px-x)*4/spread, up*5-0.4*st.speed*t, 3)
			d := abs(px-x-0.6*spread*up*up)/(spread*(0.1+0.9*up)) + 0.8*puff
			return mix(low, high, smooth(0, 0.5, up)), strength * smooth(1, 0.3, d) * smooth(1, 0.6, up) * smooth(0, 0.04, up)
		}
	})
}

// halo puts a glow of radius r around a place. Its brightness changes over time with flicker.
func (st *stage) halo(x, y, r, strength float32, color rgb, flicker func(t float32) float32) {
	st.veil(x-r, y-r, x+r, y+r, func(t float32) shader {
		a := strength * flicker(t)
		return func(px, py float32) (rgb, float32) {
			d2 := (square(px-x) + square(py-y)) / (r * r)
			// A bright core and a wide skirt that ends softly at r.
			return color, a * (1 - smooth(0, 1, sqrt(d2))) * (0.35 + 0.65*exp(-6*d2))
		}
	})
}

// steady is the flicker of a light that does not flicker.
func steady(float32) float32 { return 1 }

// flicker is the restless brightness of a fire, around 1: a slow and a fast noise over time.
func (st *stage) flicker(t float32) float32 {
	return 0.9 + 0.1*st.n.at(3.1*st.speed*t, 7) + 0.06*st.n.at(7.3*st.speed*t, 2)
}

// lightning lights up the clouds now and then, with a bolt at the brightest moment.
func (st *stage) lightning(horizon float32) {
	x, violet := st.rand(0.15, 0.85)*st.wide, hex(0xdfe4ff)
	bolt := newMask(st.unit, point{x - 0.3, 0}, point{x + 0.3, horizon})
	// The bolt wanders down.
	for at := (point{x, 0.08 * horizon}); at.y < horizon*0.97; {
		next := point{at.x + st.rand(-0.045, 0.045), at.y + st.rand(0.02, 0.055)}
		bolt.stroke(at, next, 0.006, 0.005)
		at = next
	}
	// A flash comes every 2.6 seconds; it rises at once, flickers and fades.
	flash := func(t float32) float32 {
		beat := wrap(t / 2.6)
		return smooth(0.3, 0.31, beat) * smooth(0.5, 0.34, beat) * (0.7 + 0.3*sin(60*beat))
	}
	st.veil(0, 0, st.wide, horizon, func(t float32) shader {
		a := 0.55 * flash(t)
		return func(px, py float32) (rgb, float32) {
			return violet, a * exp(-2.2*(square(px-x)+square(py-0.3*horizon)))
		}
	})
	st.put(bolt, still, func(t float32) shader {
		a := smooth(0.3, 0.4, flash(t))
		return func(float32, float32) (rgb, float32) { return violet, a }
	})
}

// nebula puts glowing gas that fills the picture, and the arms of a galaxy if it is a spiral.
func (st *stage) nebula(spiral bool) {
	seed, angle := st.rand(0, 100), st.rand(-0.8, 0.8)
	co, si := cos(angle), sin(angle)
	st.backdrop(func(t float32) shader {
		return func(x, y float32) (rgb, float32) {
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
			c := mix(mix(st.zenith, st.sky, glow), st.horizon, 0.75*heat)
			c = mix(c, st.zenith, 0.55*dust*glow)
			if spiral {
				c = st.whirl(c, u, v, dust, t)
			}
			return c, 1
		}
	})
}

// whirl adds the arms and the core of a spiral galaxy to a color. u and v are coordinates in the
// galaxy's own axes.
func (st *stage) whirl(c rgb, u, v, dust, t float32) rgb {
	v *= 2.3 // the galaxy is seen at an angle
	r := sqrt(u*u+v*v) + 0.001
	turn := float32(math.Atan2(float64(v), float64(u)))
	// The arms follow a logarithmic spiral.
	arm := 0.5 + 0.5*cos(2*turn-6.5*float32(math.Log(float64(r)))+0.12*st.speed*t)
	arm = smooth(0.25, 1, arm-0.35*dust) * exp(-r*2.6) * smooth(0.04, 0.2, r)
	c = add(c, mix(st.horizon, st.light, 0.35*exp(-r*4)), 1.05*arm)
	return add(c, st.light, 0.95*exp(-r*r*60)+0.5*exp(-r*9))
}
