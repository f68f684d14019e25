package scene

// builders put the items of each family on a stage. The keys are the names in families.
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

// sunAt returns a place for the sun or moon: in the left or right third of the picture, and between
// lowest and highest above the horizon, as parts of its height. At dusk it is as low as possible.
func (st *stage) sunAt(horizon, lowest, highest, r float32) sun {
	third := st.rand(0.2, 0.36)
	if st.rng.IntN(2) == 0 {
		third = 1 - third
	}
	up := st.rand(lowest, highest)
	if st.hour == dusk {
		up = lowest
	}
	if st.hour == night {
		r *= 0.75
	}
	return sun{third * st.wide, horizon * (1 - up), r}
}

// other returns a place on the side of the picture where x is not, to balance it.
func (st *stage) other(x float32) float32 {
	if x > st.wide/2 {
		return st.wide * st.rand(0.18, 0.3)
	}
	return st.wide * st.rand(0.7, 0.82)
}

// hills puts a layer of land and returns its profile. The profile is noise of the given frequency
// that rises by up to amp above the row base. The color goes from top at the ridge to low.
func (st *stage) hills(d, base, amp, frequency float32, octaves int, top, low rgb) (ground func(x float32) float32) {
	seed := st.rand(0, 200)
	ground = func(x float32) float32 { return base - amp*(0.5+0.9*st.n.fbm(x*frequency+seed, seed, octaves)) }
	x0, x1 := st.reach(d)
	st.put(cutout{
		mask: ridge(st.unit, x0, x1, base-1.3*amp, base+0.4*amp, ground), move: st.depth(d),
		paint: fade(top, low, base-0.8*amp, base+0.22*st.tall),
	})
	return ground
}

// shape puts a shape that draw adds to a mask for the area from a to b.
func (st *stage) shape(d float32, a, b point, paint func(t float32) shader, draw func(m *mask)) {
	m := newMask(st.unit, a, b)
	draw(m)
	st.put(cutout{mask: m, paint: paint, move: st.depth(d)})
}

// halo puts a glow of radius r around a place. Its brightness changes over time with flicker.
func (st *stage) halo(x, y, r, strength float32, color rgb, flicker func(t float32) float32) {
	st.put(haze{x0: x - r, y0: y - r, x1: x + r, y1: y + r, paint: func(t float32) veil {
		a := strength * flicker(t)
		return func(px, py float32) (rgb, float32) {
			d2 := ((px-x)*(px-x) + (py-y)*(py-y)) / (r * r)
			// A bright core and a wide skirt that ends softly at r.
			return color, a * (1 - smooth(0, 1, sqrt(d2))) * (0.35 + 0.65*exp(-6*d2))
		}
	}})
}

// steady is the flicker of a light that does not flicker.
func steady(float32) float32 { return 1 }
