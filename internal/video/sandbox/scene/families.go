package scene

// builders put the items of each family on a stage.
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

// sunAt is a place for the light: in a third of the picture, at a height above the horizon.
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

// other is a place on the side of the picture where x is not.
func (st *stage) other(x float32) float32 {
	if x > st.wide/2 {
		return st.wide * st.rand(0.18, 0.3)
	}
	return st.wide * st.rand(0.7, 0.82)
}

// hills puts a layer of land below a profile, with light on its upper edge. Profiles are made of noise
// of a frequency, and rise by up to amp above the row base.
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

// shape puts a shape that is drawn into a mask between two places.
func (st *stage) shape(d float32, a, b point, paint func(t float32) shader, draw func(m *mask)) {
	m := newMask(st.unit, a, b)
	draw(m)
	st.put(cutout{mask: m, paint: paint, move: st.depth(d)})
}

// halo puts a glow around a place.
func (st *stage) halo(x, y, r, strength float32, color rgb, flicker func(t float32) float32) {
	st.put(haze{x0: x - r, y0: y - r, x1: x + r, y1: y + r, paint: func(t float32) veil {
		a := strength * flicker(t)
		return func(px, py float32) (rgb, float32) {
			d2 := ((px-x)*(px-x) + (py-y)*(py-y)) / (r * r)
			return color, a * (1 - smooth(0, 1, sqrt(d2))) * (0.35 + 0.65*exp(-6*d2))
		}
	}})
}

func steady(float32) float32 { return 1 }
