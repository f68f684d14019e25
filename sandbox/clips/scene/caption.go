package scene

import (
	"image"
	"strings"

	"golang.org/x/image/font"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
)

// Notice is the last line of every caption. It must stay: nobody may take a clip for the work of a
// generative model.
const Notice = "sandbox render, not a generative model"

// captionLines is the maximum number of lines of a prompt that are shown.
const captionLines = 3

// caption is the prompt, written at the lower edge on a shade that makes it readable.
type caption struct {
	text  *mask
	shade []int32 // how much each row of the picture is darkened, from 0 to 256
}

// newCaption renders the prompt. If the font lacks most of its letters, it shows the title of the
// scene instead.
func newCaption(prompt, title string, w, h int) (*caption, error) {
	parsed, err := typeface()
	if err != nil {
		return nil, err
	}
	face := func(size float64) (font.Face, error) {
		return opentype.NewFace(parsed, &opentype.FaceOptions{Size: size, DPI: 72, Hinting: font.HintingNone})
	}
	// Sizes are in pixels, since a point is a pixel at 72 dpi. Text scales with the picture, but
	// the notice never gets too small to read.
	size := float64(min(w, h)) / 24
	large, err := face(size)
	if err != nil {
		return nil, err
	}
	small, err := face(max(9.5, 0.5*size))
	if err != nil {
		return nil, err
	}
	// Only what the font can show; the file's title has the whole prompt.
	text := legible(prompt, parsed)
	if text == "" {
		text = title
	}
	margin := int(1.2 * size)
	lines := fold(text, captionLines, func(s string) bool { return font.MeasureString(large, s).Ceil() <= w-2*margin })
	lineHeight := int(1.28 * size)
	// Lay the lines out from the bottom: the notice, and above it the prompt.
	top := h - margin - int(0.95*size) - len(lines)*lineHeight
	// Draw the text once. It is the same in every frame.
	picture := image.NewAlpha(image.Rect(0, top, w, h))
	d := font.Drawer{Dst: picture, Src: image.Opaque, Face: large}
	for i, line := range lines {
		d.Dot = fixed.P(margin, top+i*lineHeight+int(0.95*size))
		d.DrawString(line)
	}
	d.Face = small
	d.Dot = fixed.P(margin, h-margin)
	d.DrawString(Notice)

	c := &caption{text: &mask{unit: 1, y: top, w: w, h: h - top, pix: picture.Pix}, shade: make([]int32, h)}
	// The shade fades in above the first line.
	from := float32(top) - 2.2*float32(size)
	for y := range c.shade {
		c.shade[y] = int32(256 * 0.42 * smooth(from, float32(top)+0.6*float32(size), float32(y)))
	}
	return c, nil
}

// fold breaks a text into lines that fit, and ends it with an ellipsis if there are more than most
// lines.
func fold(text string, most int, fits func(string) bool) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		for !fits(word) { // the word alone is longer than a line: break it
			// n is how many characters fit, at least one.
			n := len([]rune(word)) - 1
			for n > 1 && !fits(string([]rune(word)[:n])) {
				n--
			}
			if line != "" {
				lines = append(lines, line)
			}
			lines, line = append(lines, string([]rune(word)[:n])), ""
			word = string([]rune(word)[n:])
		}
		next := strings.TrimSpace(line + " " + word)
		if !fits(next) {
			lines = append(lines, line)
			next = word
		}
		line = next
	}
	if line != "" {
		lines = append(lines, line)
	}
	if len(lines) <= most {
		return lines
	}
	// Shorten the last line until the ellipsis fits.
	last := []rune(lines[most-1])
	for len(last) > 0 && !fits(string(last)+" …") {
		last = last[:len(last)-1]
	}
	return append(lines[:most-1], strings.TrimRight(string(last), " ,;:-")+" …")
}

// Luma of black and white, and chroma of both, in limited range.
const (
	black, white = 16, 236
	grey         = 128
)

// draw paints the caption over the strip.
func (p *caption) draw(c *canvas) {
	for y := c.y0; y < c.y1; y++ {
		a := p.shade[y]
		if a == 0 {
			continue
		}
		row := c.y[y*c.stride:][:c.w]
		for x := range row {
			blend(&row[x], black, a)
		}
		if text := p.text.line(y - p.text.y); text != nil {
			for x, k := range text {
				if k > 0 {
					blend(&row[x], white, int32(k)+int32(k>>7))
				}
			}
		}
		if y&1 == 1 {
			p.drawChroma(c, y, a)
		}
	}
}

// drawChroma removes the color from the rows y-1 and y where they are shaded or written on.
func (p *caption) drawChroma(c *canvas, y int, a int32) {
	u, v := c.u[y/2*c.stride/2:][:c.w/2], c.v[y/2*c.stride/2:][:c.w/2]
	text := p.text.line(y - p.text.y)
	for x := range u {
		// Text and shade are both gray, so the stronger of the two decides.
		k := a
		if text != nil {
			k = max(k, (int32(text[2*x])+int32(text[2*x+1]))/2)
		}
		blend(&u[x], grey, k)
		blend(&v[x], grey, k)
	}
}
