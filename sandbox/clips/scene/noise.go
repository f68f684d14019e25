package scene

import "math/rand/v2"

// noise is smooth random noise with values from -1 to 1: random values at the points of a grid,
// interpolated in between (value noise). It repeats after 256 units.
type noise struct {
	perm  [512]uint8 // a permutation, twice, which hashes grid points
	value [256]float32
}

// newNoise returns noise that depends only on the state of r.
func newNoise(r *rand.Rand) *noise {
	n := &noise{}
	for i, p := range r.Perm(256) {
		n.perm[i], n.perm[i+256] = uint8(p), uint8(p)
	}
	for i := range n.value {
		n.value[i] = 2*r.Float32() - 1
	}
	return n
}

// at returns the noise at a point.
func (n *noise) at(x, y float32) float32 {
	fx, fy := floor(x), floor(y)
	tx, ty := x-fx, y-fy
	ix, iy := int(fx)&255, int(fy)&255
	// Hash the four corners of the grid cell.
	a, b := int(n.perm[ix]), int(n.perm[(ix+1)&255])
	v00, v10 := n.value[n.perm[a+iy]], n.value[n.perm[b+iy]]
	iy = (iy + 1) & 255
	v01, v11 := n.value[n.perm[a+iy]], n.value[n.perm[b+iy]]
	// Ease in and out, so that the slope is continuous at the grid lines.
	tx *= tx * (3 - 2*tx)
	ty *= ty * (3 - 2*ty)
	top, low := v00+(v10-v00)*tx, v01+(v11-v01)*tx
	return top + (low-top)*ty
}

// fbm adds up octaves of noise, each with half of the size and half of the strength of the one
// before (fractal Brownian motion). The offsets keep the grid points of the octaves apart.
func (n *noise) fbm(x, y float32, octaves int) float32 {
	sum, strength := float32(0), float32(0.55)
	for range octaves {
		sum += strength * n.at(x, y)
		x, y = 2*x+17.3, 2*y+9.1
		strength /= 2
	}
	return sum
}
