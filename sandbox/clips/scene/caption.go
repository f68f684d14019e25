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

// captionText returns the text of the caption at the lower edge of a picture: the prompt or, if the
// font lacks most of its letters, the title of the scene.
func captionText(prompt, title string, w, h int) (*mask, error) {
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

	return &mask{unit: 1, y: top, w: w, h: h - top, pix: picture.Pix}, nil
}

// shade returns what darkens the picture behind a caption. It fades in above the first line.
func shade(text *mask, unit float32) item {
	size := unit / 24 // of the letters
	top := float32(text.y)
	from := top - 2.2*size
	return item{mask: &mask{y: int(from), w: text.w, h: text.y + text.h - int(from)}, move: still, paint: func(float32) shader {
		return func(_, y float32) (rgb, float32) { return rgb{}, 0.42 * smooth(from, top+0.6*size, y*unit) }
	}}
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
