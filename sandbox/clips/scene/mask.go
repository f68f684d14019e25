package scene

import (
	"image"
	"image/draw"
	"math"

	"golang.org/x/image/vector"
)

// point is a place in units.
type point struct{ x, y float32 }

// mask is a shape: how much of each pixel it covers, from 0 to 255. It is a bitmap for a part of
// the picture, made once and then moved.
type mask struct {
	unit  float32
	x, y  int // position of its first pixel in the picture; may be outside
	w, h  int
	pix   []uint8 // nil if everything is covered
	solid bool    // everything below the last row is covered, too
}

// area returns a mask that covers everything from a to b.
func area(unit float32, a, b point) *mask {
	m := &mask{unit: unit, x: int(floor(a.x * unit)), y: int(floor(a.y * unit))}
	m.w, m.h = max(1, int(b.x*unit+1)-m.x), max(1, int(b.y*unit+1)-m.y)
	return m
}

// newMask returns an empty mask for the area from a to b.
func newMask(unit float32, a, b point) *mask {
	m := area(unit, a, b)
	m.pix = make([]uint8, m.w*m.h)
	return m
}

// ridge returns a mask of everything below a profile, from x0 to x1. The profile returns y for each
// x; its values should lie between top and low, which bound the mask.
func ridge(unit, x0, x1, top, low float32, profile func(x float32) float32) *mask {
	m := newMask(unit, point{x0, top}, point{x1, low})
	m.solid = true
	for x := range m.w {
		// The edge covers a part of a pixel.
		edge := profile(float32(m.x+x)/unit)*unit - float32(m.y)
		for y := max(0, int(edge)); y < m.h; y++ {
			m.pix[y*m.w+x] = uint8(255 * clamp(float32(y+1)-edge))
		}
	}
	return m
}

// carve returns the part of the mask that a texture with values from 0 to 1 leaves. It is not
// solid.
func (m *mask) carve(f func(x, y float32) float32) *mask {
	c := *m
	c.solid, c.pix = false, make([]uint8, len(m.pix))
	for i, p := range m.pix {
		if p > 0 {
			c.pix[i] = uint8(float32(p) * clamp(f(float32(m.x+i%m.w)/m.unit, float32(m.y+i/m.w)/m.unit)))
		}
	}
	return &c
}

// soften spreads edges by one pixel to each side. A shape that moves by fractions of a pixel then
// looks the same at every position, so it does not shimmer, and the encoder can predict it.
func (m *mask) soften() {
	for at := 0; at < len(m.pix); at += m.w {
		row := m.pix[at : at+m.w]
		// A filter with the weights 1, 2, 1. Pixels beyond the ends repeat the last one.
		left := int(row[0])
		for x, p := range row {
			right := int(row[min(x+1, len(row)-1)])
			row[x] = uint8((left + 2*int(p) + right + 2) / 4)
			left = int(p)
		}
	}
}

// poly adds the inside of a polygon. Overlapping shapes are united, not blended.
func (m *mask) poly(p ...point) {
	x0, y0, x1, y1 := bounds(p)
	// Rasterize only the part of the mask that the polygon touches.
	box := image.Rect(int(floor(x0*m.unit))-m.x, int(floor(y0*m.unit))-m.y, int(x1*m.unit)+2-m.x, int(y1*m.unit)+2-m.y)
	box = box.Intersect(image.Rect(0, 0, m.w, m.h))
	if box.Empty() {
		return
	}
	// The rasterizer computes how much of each pixel is covered.
	z := vector.NewRasterizer(box.Dx(), box.Dy())
	ox, oy := float32(m.x+box.Min.X), float32(m.y+box.Min.Y)
	z.MoveTo(p[0].x*m.unit-ox, p[0].y*m.unit-oy)
	for _, q := range p[1:] {
		z.LineTo(q.x*m.unit-ox, q.y*m.unit-oy)
	}
	z.ClosePath()
	shape := image.NewAlpha(image.Rect(0, 0, box.Dx(), box.Dy()))
	z.DrawOp = draw.Src
	z.Draw(shape, shape.Rect, image.Opaque, image.Point{})
	for y := range box.Dy() {
		out := m.pix[(box.Min.Y+y)*m.w+box.Min.X:][:box.Dx()]
		for x, a := range shape.Pix[y*shape.Stride:][:len(out)] {
			out[x] = max(out[x], a)
		}
	}
}

// bounds returns the least rectangle around points.
func bounds(p []point) (x0, y0, x1, y1 float32) {
	x0, y0, x1, y1 = p[0].x, p[0].y, p[0].x, p[0].y
	for _, q := range p {
		x0, y0, x1, y1 = min(x0, q.x), min(y0, q.y), max(x1, q.x), max(y1, q.y)
	}
	return x0, y0, x1, y1
}

// rect adds a rectangle.
func (m *mask) rect(x0, y0, x1, y1 float32) {
	m.poly(point{x0, y0}, point{x1, y0}, point{x1, y1}, point{x0, y1})
}

// stroke adds a line from a to b whose width goes from wa to wb.
func (m *mask) stroke(a, b point, wa, wb float32) { m.poly(stroke(a, b, wa, wb)...) }

// stroke returns the corners of a line from a to b whose width goes from wa to wb.
func stroke(a, b point, wa, wb float32) []point {
	dx, dy := b.x-a.x, b.y-a.y
	l := max(1e-6, sqrt(dx*dx+dy*dy))
	// (nx, ny) is half a unit long and perpendicular to the line.
	nx, ny := -dy/l/2, dx/l/2
	return []point{{a.x + nx*wa, a.y + ny*wa}, {b.x + nx*wb, b.y + ny*wb}, {b.x - nx*wb, b.y - ny*wb}, {a.x - nx*wa, a.y - ny*wa}}
}

// ellipse returns points on an ellipse.
func ellipse(x, y, rx, ry float32) []point {
	p := make([]point, 36)
	for i := range p {
		a := 2 * math.Pi * float32(i) / float32(len(p))
		p[i] = point{x + rx*cos(a), y + ry*sin(a)}
	}
	return p
}

// flip returns the mask upside down, mirrored at the row y. It is not solid.
func (m *mask) flip(y float32) *mask {
	f := &mask{unit: m.unit, x: m.x, w: m.w, h: m.h, pix: make([]uint8, len(m.pix))}
	// The last row of the mask becomes the first one.
	f.y = 2*int(y*m.unit) - m.y - m.h
	for r := range m.h {
		copy(f.pix[r*m.w:(r+1)*m.w], m.pix[(m.h-1-r)*m.w:])
	}
	return f
}

// covers reports whether the mask, moved down by dy, covers all of row y between its sides.
func (m *mask) covers(y int, dy float32) bool {
	r := float32(y-m.y) - dy
	return m.solid && r >= float32(m.h) || m.pix == nil && r >= 0 && r < float32(m.h)
}

// row writes how much of each pixel of row y, from x0 on, is covered by the mask when it is moved
// by (dx, dy). Fractions of a pixel are interpolated. spare is scratch space of the same length as
// out.
func (m *mask) row(out, spare []uint8, y int, dx, dy float32, x0 int) {
	whole := floor(dy)
	r := y - m.y - int(whole)
	// Below a solid mask everything is covered.
	if r >= m.h && m.solid {
		for i := range out {
			out[i] = 255
		}
		return
	}
	clear(out)
	left := floor(dx)
	at, part := x0-m.x-int(left), int32((dx-left)*256)
	shifted(out, m.line(r), at, part)
	if down := int32((dy - whole) * 256); down > 0 { // the mask moved down by a fraction, so mix in the row above
		clear(spare)
		shifted(spare, m.line(r-1), at, part)
		for i, a := range spare {
			out[i] += uint8((int32(a) - int32(out[i])) * down >> 8)
		}
	}
}

// line returns a row of the mask, or nil if there is none.
func (m *mask) line(r int) []uint8 {
	if r < 0 || r >= m.h || m.pix == nil {
		return nil
	}
	return m.pix[r*m.w : (r+1)*m.w]
}

// shifted copies a line, starting at index at, with each pixel mixed with the one to its left by
// part/256. Pixels of out beyond the line stay as they are.
func shifted(out, line []uint8, at int, part int32) {
	if at < 0 { // out begins to the left of the mask
		if -at >= len(out) {
			return
		}
		out, at = out[-at:], 0
	}
	if at >= len(line) {
		return
	}
	previous := int32(line[max(0, at-1)])
	line = line[at:]
	n := min(len(out), len(line))
	out, line = out[:n], line[:n]
	if part == 0 {
		copy(out, line)
		return
	}
	for i, p := range line {
		a := int32(p)
		// Most neighbors are equal, inside or outside of the shape.
		if a == previous {
			out[i] = p
			continue
		}
		out[i] = uint8(a + (previous-a)*part>>8)
		previous = a
	}
}
