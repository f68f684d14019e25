// Package colour knows the colours that an operator may choose for the pages: how they are
// written, mixed, and whether people can read one on the other.
//
// The configuration checks colours with it, and package webui makes style sheets of them. It
// knows nothing else of either.
package colour

import (
	"fmt"
	"math"
	"strconv"
)

// Colour is a colour of the sRGB space.
type Colour struct{ R, G, B uint8 }

// The colours of the pages that a text in another colour stands on.
var (
	paper = Colour{0xfb, 0xfb, 0xfc}
	night = Colour{0x0b, 0x0b, 0x0d}
	white = Colour{0xff, 0xff, 0xff}
	ink   = Colour{0x0c, 0x10, 0x24}
)

// Readable is the least contrast of text and its background (WCAG 2.2, level AA).
const Readable = 4.5

// Parse reads a colour in the form #rrggbb.
func Parse(text string) (Colour, error) {
	if len(text) == 7 && text[0] == '#' {
		if n, err := strconv.ParseUint(text[1:], 16, 32); err == nil {
			return Colour{uint8(n >> 16), uint8(n >> 8), uint8(n)}, nil
		}
	}
	return Colour{}, fmt.Errorf("%q is not a colour; write it as #rrggbb, such as #3451d1", text)
}

// String returns the colour in the form #rrggbb.
func (c Colour) String() string { return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B) }

// Contrast returns the contrast of two colours, from 1 to 21.
func Contrast(a, b Colour) float64 {
	x, y := a.luminance(), b.luminance()
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// luminance returns how bright the colour is, from 0 to 1.
func (c Colour) luminance() float64 {
	part := func(v uint8) float64 {
		if s := float64(v) / 255; s > 0.04045 {
			return math.Pow((s+0.055)/1.055, 2.4)
		}
		return float64(v) / 255 / 12.92
	}
	return 0.2126*part(c.R) + 0.7152*part(c.G) + 0.0722*part(c.B)
}

// mix returns the background with a share of the colour on it.
func (c Colour) mix(share float64, background Colour) Colour {
	part := func(a, b uint8) uint8 { return uint8(math.Round(share*float64(a) + (1-share)*float64(b))) }
	return Colour{part(c.R, background.R), part(c.G, background.G), part(c.B, background.B)}
}

// Accent is the one colour that stands out on a page, in one theme: of links, buttons and marks.
type Accent struct {
	Colour Colour
	Soft   Colour // a background for text in the colour
	On     Colour // for text on the colour
	dark   bool
}

// NewAccent returns the accent of the light theme, or of the dark one.
func NewAccent(c Colour, dark bool) Accent {
	a := Accent{Colour: c, Soft: c.mix(0.08, white), On: white, dark: dark}
	if dark {
		a.Soft = c.mix(0.16, night)
	}
	if Contrast(c, ink) > Contrast(c, white) {
		a.On = ink
	}
	return a
}

// Problem says why people could not read the accent on the pages. It returns "" if they can.
func (a Accent) Problem() string {
	page, name, way := paper, "light", "darker"
	if a.dark {
		page, name, way = night, "dark", "lighter"
	}
	least := min(Contrast(a.Colour, page), Contrast(a.Colour, a.Soft))
	if least >= Readable {
		return ""
	}
	return fmt.Sprintf("the contrast of %s on the %s pages is %.1f:1, below the %.1f:1 that text needs; choose a %s colour", a.Colour, name, math.Floor(least*10)/10, Readable, way)
}
