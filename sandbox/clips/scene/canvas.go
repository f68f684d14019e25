package scene

import "encoding/binary"

// Colors are soft: they are computed only at points that lie cell pixels apart, and interpolated in
// between. Shapes are sharp: masks have every pixel. That makes a picture cheap to draw and cheap
// to encode.
const (
	// A cell is 8 pixels wide, because eight bytes of a mask can be tested as one uint64.
	cellBits = 3
	cell     = 1 << cellBits
	strip    = 32 // rows that are painted together; a multiple of cell
)

// shader returns the color at a point, in units.
type shader func(x, y float32) rgb

// veil returns a color at a point and how opaque it is, from 0 to 1.
type veil func(x, y float32) (rgb, float32)

// canvas is a strip of a picture that is being painted, at most strip rows high. Items are painted
// from back to front. Each goroutine uses a canvas of its own.
type canvas struct {
	y, u, v []uint8 // the whole planes of the picture, not only the strip
	stride  int
	w, h    int
	y0, y1  int     // the rows of the strip, from y0 up to y1; y0 is a multiple of cell
	unit    float32 // pixels in one unit
	t       float32 // seconds since the beginning of the clip

	// These are scratch space for one item: its colors at the corners of all cells of the strip,
	// the same along one row of pixels, the coverage of two adjacent rows by a mask, and a row for
	// the mask's own use.
	points [strip/cell + 1]colors
	line   colors
	alpha  [2][]uint8
	spare  []uint8
}

// colors are video colors, and opacities from 0 to 256, at points that lie cell pixels apart. All
// are in 1/65536: fixed point keeps the inner loops on integers.
type colors struct{ y, u, v, a []int32 }

// newColors returns space for n points in one allocation.
func newColors(n int) colors {
	all := make([]int32, 4*n)
	return colors{all[:n], all[n : 2*n], all[2*n : 3*n], all[3*n:]}
}

// opaque is full opacity in the scale of colors.
const opaque = 256 << 16

// newCanvas returns a canvas for pictures of w by h pixels. A Scene keeps it for reuse.
func newCanvas(w, h int, unit float32) *canvas {
	c := &canvas{w: w, h: h, unit: unit}
	// One point to the right of the last cell, and one more for a width that is not a multiple of
	// cell.
	n := w/cell + 2
	for r := range c.points {
		c.points[r] = newColors(n)
	}
	c.line = newColors(n)
	// Rows of masks are read a cell at a time, so they extend a little beyond the picture.
	c.alpha = [2][]uint8{make([]uint8, w+cell), make([]uint8, w+cell)}
	c.spare = make([]uint8, w)
	return c
}

// bayer is an ordered dither matrix. It hides the steps of slow gradients, and unlike noise it is
// the same in every frame, so it is cheap to encode. The values are fractions of one level, in
// 1/65536.
var bayer = [4][4]int32{
	{0x0800, 0x8800, 0x2800, 0xa800},
	{0xc800, 0x4800, 0xe800, 0x6800},
	{0x3800, 0xb800, 0x1800, 0x9800},
	{0xf800, 0x7800, 0xd800, 0x5800},
}

// span returns the first and last of the points around the pixels from x0 up to x1.
func span(x0, x1 int) (first, last int) { return x0 / cell, (x1-1)/cell + 1 }

// compute evaluates a shader at the points from first to last in all rows of points of the strip.
func (c *canvas) compute(f shader, first, last int) {
	for r := 0; r*cell < c.y1-c.y0+cell; r++ {
		y := float32(c.y0+r*cell) / c.unit
		row := &c.points[r]
		for k := first; k <= last; k++ {
			v := f(float32(k*cell)/c.unit, y).video()
			row.y[k], row.u[k], row.v[k] = v.y, v.u, v.v
		}
	}
}

// computeVeil does the same for a veil.
func (c *canvas) computeVeil(f veil, first, last int) {
	for r := 0; r*cell < c.y1-c.y0+cell; r++ {
		y := float32(c.y0+r*cell) / c.unit
		row := &c.points[r]
		for k := first; k <= last; k++ {
			color, a := f(float32(k*cell)/c.unit, y)
			v := color.video()
			row.y[k], row.u[k], row.v[k], row.a[k] = v.y, v.u, v.v, int32(a*opaque)
		}
	}
}

// interpolate fills line with the luma of row y, from the points above and below it. On even rows
// it also fills in the chroma, which has half as many rows.
func (c *canvas) interpolate(y, first, last int) {
	upper, lower := &c.points[(y-c.y0)/cell], &c.points[(y-c.y0)/cell+1]
	f := int32(y-c.y0) % cell
	between(c.line.y, upper.y, lower.y, f, first, last)
	if y&1 == 0 {
		between(c.line.u, upper.u, lower.u, f, first, last)
		between(c.line.v, upper.v, lower.v, f, first, last)
	}
}

// between interpolates at f/cell of the way from the upper to the lower row of points.
func between(out, upper, lower []int32, f int32, first, last int) {
	out, upper, lower = out[first:last+1], upper[first:last+1], lower[first:last+1]
	for k, a := range upper {
		out[k] = a + (lower[k]-a)>>cellBits*f
	}
}

// fill paints the whole strip.
func (c *canvas) fill(f shader) {
	first, last := span(0, c.w)
	c.compute(f, first, last)
	for y := c.y0; y < c.y1; y++ {
		c.interpolate(y, first, last)
		row, dither := c.y[y*c.stride:][:c.w], &bayer[y&3]
		for x := 0; x < c.w; x += cell {
			k := x / cell
			paintCell(row[x:min(x+cell, c.w)], c.line.y[k], c.line.y[k+1], dither)
		}
		if y&1 == 0 {
			rowU, rowV := c.chroma(y)
			for x := 0; x < c.w/2; x += cell / 2 {
				k, end := x*2/cell, min(x+cell/2, c.w/2)
				paintChroma(rowU[x:end], c.line.u[k], c.line.u[k+1])
				paintChroma(rowV[x:end], c.line.v[k], c.line.v[k+1])
			}
		}
	}
}

// paintCell fills the pixels of a cell, from one point to the next.
func paintCell(out []uint8, v, next int32, dither *[4]int32) {
	step := (next - v) >> cellBits
	for i := range out {
		out[i] = uint8((v + dither[i&3]) >> 16)
		v += step
	}
}

// paintChroma does the same for chroma, which has half as many pixels and is not dithered.
func paintChroma(out []uint8, v, next int32) {
	step := (next - v) >> (cellBits - 1)
	v += half
	for i := range out {
		out[i] = uint8(v >> 16)
		v += step
	}
}

// half rounds a fixed-point value to the nearest.
const half = 0x8000

// chroma returns the rows of U and V that belong to a row of luma.
func (c *canvas) chroma(y int) (u, v []uint8) {
	o := y / 2 * c.stride / 2
	return c.u[o:][:c.w/2], c.v[o:][:c.w/2]
}

// blend moves a pixel towards a value by a/256 of the way.
func blend(out *uint8, value, a int32) {
	old := int32(*out)
	*out = uint8(old + ((value-old)*a+128)>>8)
}

// lay paints a veil over the pixels of the strip from x0 up to x1.
func (c *canvas) lay(f veil, x0, x1 int) {
	// Start at the beginning of a cell, where a point is.
	x0, x1 = max(0, x0)&^(cell-1), min(x1, c.w)
	if x0 >= x1 {
		return
	}
	first, last := span(x0, x1)
	c.computeVeil(f, first, last)
	for y := c.y0; y < c.y1; y++ {
		c.interpolate(y, first, last)
		upper, lower := &c.points[(y-c.y0)/cell], &c.points[(y-c.y0)/cell+1]
		between(c.line.a, upper.a, lower.a, int32(y-c.y0)%cell, first, last)
		row := c.y[y*c.stride:][:c.w]
		for x := x0; x < x1; x += cell {
			k := x / cell
			// Skip cells that the veil does not touch.
			if c.line.a[k]|c.line.a[k+1] != 0 {
				c.layCell(row[x:min(x+cell, x1)], k, &bayer[y&3])
			}
		}
		if y&1 == 1 {
			continue
		}
		rowU, rowV := c.chroma(y)
		for x := x0 / 2; x < x1/2; x += cell / 2 {
			k, end := x*2/cell, min(x+cell/2, x1/2)
			if c.line.a[k]|c.line.a[k+1] != 0 {
				layChroma(rowU[x:end], c.line.u, c.line.a, k)
				layChroma(rowV[x:end], c.line.v, c.line.a, k)
			}
		}
	}
}

// layChroma paints the chroma of a veil in cell k.
func layChroma(out []uint8, line, alpha []int32, k int) {
	v, step := line[k]+half, (line[k+1]-line[k])>>(cellBits-1)
	// a is the opacity, and more is how much it grows from pixel to pixel.
	a, more := alpha[k], (alpha[k+1]-alpha[k])>>(cellBits-1)
	for i := range out {
		blend(&out[i], v>>16, a>>16)
		v += step
		a += more
	}
}

// layCell paints the luma of a veil in cell k.
func (c *canvas) layCell(out []uint8, k int, dither *[4]int32) {
	v, step := c.line.y[k], (c.line.y[k+1]-c.line.y[k])>>cellBits
	a, more := c.line.a[k], (c.line.a[k+1]-c.line.a[k])>>cellBits
	for i := range out {
		blend(&out[i], (v+dither[i&3])>>16, a>>16)
		v += step
		a += more
	}
}

// stencil paints a color through a mask. The function shift returns, for each row, by how many
// pixels the mask is moved.
func (c *canvas) stencil(f shader, m *mask, shift func(row int) (dx, dy float32)) {
	x0, x1 := c.w, 0
	for y := c.y0; y < c.y1; y++ { // find the part of the strip that the mask touches
		dx, dy := shift(y)
		if from, to := m.reach(y, dx, dy, c.w); from < to {
			x0, x1 = min(x0, from), max(x1, to)
		}
	}
	if x0 >= x1 {
		return
	}
	// Extend it to whole cells.
	x0, x1 = x0&^(cell-1), min(c.w, (x1+cell-1)&^(cell-1))
	first, last := span(x0, x1)
	c.compute(f, first, last)
	for y := c.y0; y < c.y1; y++ {
		dx, dy := shift(y)
		c.interpolate(y, first, last)
		m.row(c.alpha[y&1][x0:x1], c.spare[x0:x1], y, dx, dy, x0)
		c.stencilLuma(y, x0, x1)
		// Chroma needs the coverage of both rows, so it is painted after the second one.
		if y&1 == 1 {
			c.stencilChroma(y, x0, x1)
		}
	}
}

// allCovered is the mask of a cell whose eight pixels are all covered.
const allCovered = 1<<64 - 1

// stencilLuma paints a row through the coverage in alpha. Most cells are either free or covered
// altogether, and those are fast.
func (c *canvas) stencilLuma(y, x0, x1 int) {
	row, alpha, dither := c.y[y*c.stride:][:c.w], c.alpha[y&1], &bayer[y&3]
	for x := x0; x < x1; x += cell {
		covered := binary.LittleEndian.Uint64(alpha[x:])
		if covered == 0 {
			continue
		}
		k := x / cell
		v, next := c.line.y[k], c.line.y[k+1]
		out := row[x:min(x+cell, x1)]
		if covered == allCovered {
			paintCell(out, v, next, dither)
			continue
		}
		step := (next - v) >> cellBits
		for i := range out {
			if a := int32(alpha[x+i]); a != 0 {
				// Adding the top bit maps coverage from 0..255 to 0..256.
				blend(&out[i], (v+dither[i&3])>>16, a+a>>7)
			}
			v += step
		}
	}
}

// stencilChroma paints the chroma of the rows y-1 and y. A chroma pixel is covered as much as the
// mean of its four pixels.
func (c *canvas) stencilChroma(y, x0, x1 int) {
	rowU, rowV := c.chroma(y)
	for x := x0; x < x1; x += cell {
		upper, lower := binary.LittleEndian.Uint64(c.alpha[0][x:]), binary.LittleEndian.Uint64(c.alpha[1][x:])
		if upper|lower == 0 {
			continue
		}
		k := x / cell
		outU, outV := rowU[x/2:min(x+cell, x1)/2], rowV[x/2:min(x+cell, x1)/2]
		if upper&lower == allCovered {
			paintChroma(outU, c.line.u[k], c.line.u[k+1])
			paintChroma(outV, c.line.v[k], c.line.v[k+1])
			continue
		}
		u, stepU := c.line.u[k]+half, (c.line.u[k+1]-c.line.u[k])>>(cellBits-1)
		v, stepV := c.line.v[k]+half, (c.line.v[k+1]-c.line.v[k])>>(cellBits-1)
		// Two bytes of each row belong to one chroma pixel.
		for i := range outU {
			a := int32(upper&255+upper>>8&255+lower&255+lower>>8&255) >> 2
			a += a >> 7
			blend(&outU[i], u>>16, a)
			blend(&outV[i], v>>16, a)
			u, v = u+stepU, v+stepV
			upper, lower = upper>>16, lower>>16
		}
	}
}

// streak paints a soft line with round ends from a to b, or a disc if both are the same. Everything
// is in pixels; r is the radius.
// It is for small things: it evaluates the distance to the line for every pixel of its bounding
// box.
func (c *canvas) streak(ax, ay, bx, by, r float32, color video, a float32) {
	top, low := min(ay, by)-r-1, max(ay, by)+r+1
	if low < float32(c.y0) || top >= float32(c.y1) || a <= 0 {
		return
	}
	x0, x1 := max(0, int(min(ax, bx)-r-1)), min(c.w-1, int(max(ax, bx)+r+2))
	y0, y1 := max(c.y0, int(top)), min(c.y1-1, int(low)+1)
	// The line is a + t*(dx, dy) for t from 0 to 1; length is the square of its length.
	dx, dy := bx-ax, by-ay
	length := dx*dx + dy*dy
	strength := 256 * a
	// cover returns the opacity at a pixel: 256*a inside, falling to 0 over one pixel at the edge.
	cover := func(x, y float32) int32 {
		px, py := x-ax, y-ay
		if length > 0 {
			// t is the nearest place on the line, from 0 at a to 1 at b.
			t := clamp((px*dx + py*dy) / length)
			px, py = px-t*dx, py-t*dy
		}
		d := r + 0.5 - sqrt(px*px+py*py)
		if d <= 0 {
			return 0
		}
		return int32(strength * min(d, 1))
	}
	for y := y0; y <= y1; y++ {
		for x := x0; x <= x1; x++ {
			if k := cover(float32(x), float32(y)); k > 0 {
				blend(&c.y[y*c.stride+x], color.y>>16, k)
			}
		}
	}
	// Chroma pixels lie in the middle of four luma pixels.
	for y := (y0 + 1) / 2; y <= y1/2; y++ {
		for x := x0 / 2; x <= min(x1/2, c.w/2-1); x++ {
			if k := cover(float32(2*x)+0.5, float32(2*y)+0.5); k > 0 {
				at := y*c.stride/2 + x
				blend(&c.u[at], color.u>>16, k)
				blend(&c.v[at], color.v>>16, k)
			}
		}
	}
}
