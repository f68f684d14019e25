package scene

import "math"

// pine adds a conifer that stands on (x, y): a trunk and tiers of branches, each smaller than the
// one below.
func (m *mask) pine(st *stage, x, y, height float32) {
	width := height * st.rand(0.21, 0.29)
	tiers := 6
	m.rect(x-0.025*height, y-0.2*height, x+0.025*height, y+0.02*height)
	for i := range tiers {
		f := float32(i) / float32(tiers)
		base := y - height*(0.1+0.78*f)
		half := width * (1 - 0.86*f) * st.rand(0.88, 1.1)
		tip := base - height*(0.3-0.1*f)
		m.poly(point{x - half, base}, point{x - 0.4*half, base - 0.03*height}, point{x, tip}, point{x + 0.4*half, base - 0.03*height}, point{x + half, base}, point{x, base - 0.035*height})
	}
}

// tree adds a tree with a round crown that stands on (x, y).
func (m *mask) tree(st *stage, x, y, height float32) {
	m.stroke(point{x, y + 0.02*height}, point{x + 0.02*height, y - 0.5*height}, 0.09*height, 0.04*height)
	m.stroke(point{x, y - 0.35*height}, point{x - 0.16*height, y - 0.55*height}, 0.035*height, 0.02*height)
	m.stroke(point{x, y - 0.38*height}, point{x + 0.18*height, y - 0.6*height}, 0.035*height, 0.02*height)
	// The crown is an ellipse with a ragged edge of small discs.
	m.ellipse(x+0.01*height, y-0.7*height, 0.27*height, 0.2*height)
	for i := range 34 {
		a := 2 * math.Pi * float32(i) / 34
		d := st.rand(0.75, 1.05)
		m.disc(x+0.3*height*d*cos(a), y-0.69*height+0.22*height*d*sin(a), height*st.rand(0.045, 0.085))
	}
}

// palm adds a palm tree that stands on (x, y). Its trunk bends to one side.
func (m *mask) palm(st *stage, x, y, height float32) {
	// at returns a place on the trunk, from 0 at the foot to 1 at the top.
	lean := height * st.rand(-0.25, 0.25)
	at := func(f float32) point { return point{x + lean*f*f, y - height*f} }
	for i := range 8 {
		f := float32(i) / 8
		m.stroke(at(f), at(f+0.13), height*(0.045-0.02*f), height*(0.043-0.02*f))
	}
	top := at(1)
	for i := range 10 { // fronds that hang down at their ends, each with leaves on both sides
		// The fronds fan out from the top; at returns a place on the frond, which falls like a
		// thrown stone.
		a := math.Pi * (-0.12 + 1.24*float32(i)/9)
		reach := height * st.rand(0.32, 0.44)
		at := func(f float32) point {
			return point{top.x + reach*f*cos(a), top.y - reach*f*(0.25+0.8*sin(a)) + 0.62*reach*f*f}
		}
		for f := float32(0); f < 1; f += 0.07 {
			p, q := at(f), at(f+0.08)
			m.stroke(p, q, 0.012*height, 0.01*height)
			leaf := 0.13 * height * (1 - f) * (0.35 + f)
			m.stroke(p, point{q.x + 0.5*leaf*cos(a), q.y + leaf*1.5}, 0.014*height, 0.002*height)
			m.stroke(p, point{q.x + 0.9*leaf*cos(a), q.y - 0.35*leaf}, 0.012*height, 0.002*height)
		}
	}
}

// cactus adds a saguaro with two arms.
func (m *mask) cactus(st *stage, x, y, height float32) {
	w := 0.13 * height
	// limb adds an upright part with round ends.
	limb := func(x, low, high, w float32) {
		m.rect(x-w/2, high, x+w/2, low)
		m.disc(x, high, w/2)
		m.disc(x, low, w/2)
	}
	limb(x, y, y-0.93*height, w)
	for _, side := range []float32{-1, 1} {
		at, reach, up := st.rand(0.35, 0.55), st.rand(0.17, 0.24), st.rand(0.2, 0.32)
		elbow := y - at*height
		m.stroke(point{x, elbow}, point{x + side*reach*height, elbow}, 0.7*w, 0.7*w)
		limb(x+side*reach*height, elbow, elbow-up*height, 0.7*w)
	}
}

// grass adds blades of grass along the line ground, from x0 to x1.
func (m *mask) grass(st *stage, x0, x1, height float32, ground func(x float32) float32) {
	for x := x0; x < x1; x += st.rand(0.003, 0.008) {
		h := height * st.rand(0.4, 1)
		// A blade is two strokes, so that it bends.
		lean := st.rand(-0.4, 0.4) * h
		y := ground(x) + 0.006
		middle := point{x + 0.35*lean, y - 0.6*h}
		m.stroke(point{x, y}, middle, 0.0045, 0.0032)
		m.stroke(middle, point{x + lean, y - h}, 0.0032, 0.0006)
	}
}

// boat adds a sailing boat whose hull lies on (x, y).
func (m *mask) boat(x, y, size float32) {
	m.poly(point{x - 0.5*size, y - 0.12*size}, point{x + 0.55*size, y - 0.14*size}, point{x + 0.36*size, y + 0.06*size}, point{x - 0.36*size, y + 0.06*size})
	m.stroke(point{x, y - 0.1*size}, point{x, y - 1.15*size}, 0.025*size, 0.015*size)
	m.poly(point{x + 0.04*size, y - 1.1*size}, point{x + 0.3*size, y - 0.6*size}, point{x + 0.48*size, y - 0.22*size}, point{x + 0.04*size, y - 0.2*size})
	m.poly(point{x - 0.04*size, y - 0.98*size}, point{x - 0.2*size, y - 0.5*size}, point{x - 0.42*size, y - 0.2*size}, point{x - 0.04*size, y - 0.22*size})
}

// figure adds a person who stands on (x, y) under an umbrella.
func (m *mask) figure(x, y, height float32) {
	m.disc(x, y-0.86*height, 0.075*height)
	m.poly(point{x - 0.1*height, y - 0.76*height}, point{x + 0.1*height, y - 0.76*height}, point{x + 0.14*height, y - 0.3*height}, point{x - 0.14*height, y - 0.3*height})
	m.stroke(point{x - 0.06*height, y - 0.32*height}, point{x - 0.08*height, y}, 0.07*height, 0.05*height)
	m.stroke(point{x + 0.06*height, y - 0.32*height}, point{x + 0.08*height, y}, 0.07*height, 0.05*height)
	m.stroke(point{x + 0.09*height, y - 0.5*height}, point{x + 0.09*height, y - 1.1*height}, 0.018*height, 0.018*height)
	// The umbrella: half an ellipse above the head.
	dome := []point{{x - 0.36*height, y - 0.98*height}}
	for i := range 13 {
		a := math.Pi * float32(i) / 12
		dome = append(dome, point{x + 0.07*height - 0.43*height*cos(a), y - 0.98*height - 0.27*height*sin(a)})
	}
	m.poly(dome...)
}

// camel adds a camel that walks to the left. Its feet are at y.
func (m *mask) camel(x, y, size float32) {
	m.ellipse(x, y-0.55*size, 0.34*size, 0.15*size)
	m.ellipse(x-0.08*size, y-0.7*size, 0.12*size, 0.14*size)
	m.ellipse(x+0.14*size, y-0.68*size, 0.1*size, 0.12*size)
	m.stroke(point{x - 0.3*size, y - 0.55*size}, point{x - 0.47*size, y - 0.62*size}, 0.13*size, 0.08*size)
	m.stroke(point{x - 0.46*size, y - 0.6*size}, point{x - 0.52*size, y - 0.88*size}, 0.09*size, 0.06*size)
	m.ellipse(x-0.58*size, y-0.9*size, 0.1*size, 0.045*size)
	for _, leg := range []float32{-0.24, -0.14, 0.16, 0.26} {
		m.stroke(point{x + leg*size, y - 0.5*size}, point{x + (leg-0.03)*size, y}, 0.07*size, 0.035*size)
	}
}

// balloon adds a hot-air balloon around (x, y).
func (m *mask) balloon(x, y, r float32) {
	m.ellipse(x, y, r, 1.05*r)
	m.poly(point{x - 0.88*r, y + 0.5*r}, point{x + 0.88*r, y + 0.5*r}, point{x + 0.16*r, y + 1.45*r}, point{x - 0.16*r, y + 1.45*r})
	m.rect(x-0.14*r, y+1.62*r, x+0.14*r, y+1.85*r)
	m.stroke(point{x - 0.13*r, y + 1.4*r}, point{x - 0.12*r, y + 1.65*r}, 0.02*r, 0.02*r)
	m.stroke(point{x + 0.13*r, y + 1.4*r}, point{x + 0.12*r, y + 1.65*r}, 0.02*r, 0.02*r)
}
