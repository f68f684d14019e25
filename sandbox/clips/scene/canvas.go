package scene

import (
	"bytes"
	"encoding/binary"
)

// Colors are soft: they are computed only at points that lie cell pixels apart, and interpolated in
// between. Shapes are sharp: masks have every pixel. That makes a picture cheap to draw and cheap
// to encode.
const (
	// A cell is 8 pixels wide, because eight bytes of a mask can be tested as one uint64.
	cellBits = 3
	cell     = 1 << cellBits
	strip    = 32 // rows that are painted together; a multiple of cell
)

// shader returns the color at a point, in units, and how opaque it is, from 0 to 1.
type shader func(x, y float32) (rgb, float32)

// canvas is a strip of a picture that is being painted, at most strip rows high. Items are painted
// from back to front. Each goroutine uses a canvas of its own.
type canvas struct {
	planes [3][]uint8 // Y, U and V of the whole picture, not only of the strip
	stride int        // of Y; the others have half of it
	w      int
	y0, y1 int     // the rows of the strip, from y0 up to y1; y0 is a multiple of cell
	unit   float32 // pixels in one unit
	t      float32 // seconds since the beginning of the clip

	// These are scratch space for one item: its colors at the corners of all cells of the strip,
	// the same along one row of pixels, the coverage of an even row, of an odd row and of the
	// chroma of both, a row for the mask's own use, and the coverage of a row without free pixels.
	points [strip/cell + 1]colors
	line   colors
	cover  [3][]uint8
	spare  []uint8
	full   []uint8
	opaque bool // all of the item's colors are
}

// colors are Y, U and V, and opacities from 0 to 256, at points that lie cell pixels apart. All are
// in 1/65536: fixed point keeps the inner loops on integers.
type colors [4][]int32

// opaque is full opacity in the scale of colors, and half rounds a value in it to the nearest.
const (
	opaque = 256 << 16
	half   = 0x8000
)

// newCanvas returns a canvas for pictures of a width. A Scene keeps it for reuse.
func newCanvas(w int, unit float32) *canvas {
	c := &canvas{w: w, unit: unit, spare: make([]uint8, w), full: bytes.Repeat([]byte{255}, w+cell)}
	// One point to the right of the last cell, and two more for a width that is not a multiple of
	// the cells of chroma.
	for i := range c.line {
		c.line[i] = make([]int32, w/cell+3)
		for r := range c.points {
			c.points[r][i] = make([]int32, w/cell+3)
		}
	}
	// Coverage is read a cell at a time, so its rows extend a little beyond the picture.
	for i := range c.cover {
		c.cover[i] = make([]uint8, w+cell)
	}
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

// plainly rounds to the nearest, for chroma, which is not dithered.
var plainly = [4]int32{half, half, half, half}

// paint paints the colors of f through a mask that is moved by (dx, dy) pixels.
func (c *canvas) paint(f shader, m *mask, dx, dy float32) {
	left, top := m.x+int(floor(dx)), m.y+int(floor(dy))
	if top >= c.y1 || top+m.h < c.y0 && !m.solid {
		return
	}
	// Start at the beginning of a cell of chroma, where a point is. A mask that is moved by a
	// fraction takes one more column.
	x0, x1 := max(0, left)&^(2*cell-1), min(c.w, left+m.w+2)&^1
	if x0 >= x1 {
		return
	}
	first, last := x0/cell, (x1-1)/cell+2
	c.compute(f, first, last)
	for y := c.y0; y < c.y1; y++ {
		c.interpolate(y, first, last)
		cover, covers := c.full, m.covers(y&^1, dy)
		if !covers {
			cover = c.cover[y&1]
			m.row(cover[x0:x1], c.spare[x0:x1], y, dx, dy, x0)
		}
		paintRow(c.planes[0][y*c.stride:][x0:x1], cover[x0:], c.line[0][first:], c.line[3][first:], 1, &bayer[y&3])
		// Chroma needs the coverage of both rows, so it is painted after the second one.
		if y&1 == 0 {
			continue
		}
		if !covers {
			cover = c.halve(x0, x1)
		}
		for p := 1; p <= 2; p++ {
			paintRow(c.planes[p][y/2*c.stride/2:][x0/2:x1/2], cover[x0/2:], c.line[p][first:], c.line[3][first:], 2, &plainly)
		}
	}
}

// compute evaluates a shader at the points from first to last in all rows of points of the strip.
func (c *canvas) compute(f shader, first, last int) {
	c.opaque = true
	for r := 0; r*cell < c.y1-c.y0+cell; r++ {
		y := float32(c.y0+r*cell) / c.unit
		row := &c.points[r]
		for k := first; k <= last; k++ {
			color, a := f(float32(k*cell)/c.unit, y)
			v := color.video()
			row[0][k], row[1][k], row[2][k], row[3][k] = v.y, v.u, v.v, int32(clamp(a)*opaque)
			c.opaque = c.opaque && a >= 1
		}
	}
	copy(c.line[3][first:last+1], c.points[0][3][first:])
}

// interpolate fills line with the colors of row y, from the points above and below it. Chroma has
// half as many rows, so it is filled in on even rows only.
func (c *canvas) interpolate(y, first, last int) {
	upper, lower := &c.points[(y-c.y0)/cell], &c.points[(y-c.y0)/cell+1]
	f := int32(y-c.y0) % cell
	for i := range c.line {
		if y&1 == 1 && (i == 1 || i == 2) || i == 3 && c.opaque {
			continue
		}
		out, above, below := c.line[i][first:last+1], upper[i][first:last+1], lower[i][first:last+1]
		for k, a := range above {
			out[k] = a + (below[k]-a)>>cellBits*f
		}
	}
}

// halve computes the coverage of chroma pixels: the mean of two of the four pixels that each stands
// for, at opposite corners.
func (c *canvas) halve(x0, x1 int) []uint8 {
	even, odd, out := c.cover[0][x0:x1], c.cover[1][x0:x1], c.cover[2][x0/2:x1/2]
	for i := range out {
		out[i] = uint8((int(even[2*i]) + int(odd[2*i+1])) >> 1)
	}
	return c.cover[2]
}

// paintRow paints a row of one plane, cell by cell. The colors of a cell are those of two points
// that are apart points from each other: one for luma, and two for chroma, which has half as many
// pixels. Most cells are either free or covered altogether, and those are fast.
func paintRow(out, cover []uint8, values, alpha []int32, apart int, dither *[4]int32) {
	for k := 0; len(out) > 0; k += apart {
		covered := binary.LittleEndian.Uint64(cover)
		pixels := out[:min(cell, len(out))]
		out, cover = out[len(pixels):], cover[len(pixels):]
		a, more := alpha[k], alpha[k+apart]
		if covered == 0 || (a|more)>>16 == 0 { // less than 1/256 changes nothing
			continue
		}
		v, step := values[k], (values[k+apart]-values[k])>>cellBits
		if covered == allCovered && a&more == opaque {
			for i := range pixels {
				pixels[i] = uint8((v + dither[i&3]) >> 16)
				v += step
			}
			continue
		}
		more = (more - a) >> cellBits
		for i := range pixels {
			// Adding the top bit maps coverage from 0..255 to 0..256.
			if p := int32(covered & 255); p != 0 {
				blend(&pixels[i], (v+dither[i&3])>>16, a>>16*(p+p>>7)>>8)
			}
			v, a, covered = v+step, a+more, covered>>8
		}
	}
}

// allCovered is the coverage of a cell whose eight pixels are all covered.
const allCovered = 1<<64 - 1

// blend moves a pixel towards a value by a/256 of the way.
func blend(out *uint8, value, a int32) {
	old := int32(*out)
	*out = uint8(old + ((value-old)*a+128)>>8)
}

// streak paints a soft line with round ends from a to b, or a disc if both are the same. Everything
// is in units; r is the radius, and alpha the opacity.
// It is for small things: it evaluates the distance to the line for every pixel of its bounding
// box.
func (c *canvas) streak(a, b point, r float32, color rgb, alpha float32) {
	ax, ay, bx, by, r := a.x*c.unit, a.y*c.unit, b.x*c.unit, b.y*c.unit, r*c.unit
	top, low := min(ay, by)-r-1, max(ay, by)+r+1
	if low < float32(c.y0) || top >= float32(c.y1) || alpha <= 0 {
		return
	}
	x0, x1 := max(0, int(min(ax, bx)-r-1)), min(c.w-1, int(max(ax, bx)+r+2))
	y0, y1 := max(c.y0, int(top)), min(c.y1-1, int(low)+1)
	// The line is a + t*(dx, dy) for t from 0 to 1; length is the square of its length.
	dx, dy := bx-ax, by-ay
	length := dx*dx + dy*dy
	// cover returns the opacity at a pixel: 256*alpha inside, falling to 0 over one pixel at the
	// edge.
	cover := func(x, y float32) int32 {
		px, py := x-ax, y-ay
		if length > 0 {
			// t is the nearest place on the line, from 0 at a to 1 at b.
			t := clamp((px*dx + py*dy) / length)
			px, py = px-t*dx, py-t*dy
		}
		return int32(256 * alpha * clamp(r+0.5-sqrt(px*px+py*py)))
	}
	v := color.video()
	for y := y0; y <= y1; y++ {
		for x := x0; x <= x1; x++ {
			blend(&c.planes[0][y*c.stride+x], v.y>>16, cover(float32(x), float32(y)))
		}
	}
	// Chroma pixels lie in the middle of four luma pixels.
	for y := (y0 + 1) / 2; y <= y1/2; y++ {
		for x := x0 / 2; x <= min(x1/2, c.w/2-1); x++ {
			k := cover(float32(2*x)+0.5, float32(2*y)+0.5)
			blend(&c.planes[1][y*c.stride/2+x], v.u>>16, k)
			blend(&c.planes[2][y*c.stride/2+x], v.v>>16, k)
		}
	}
}
