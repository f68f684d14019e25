// Package pdf writes documents of one page: lines of text, rules and filled boxes, in Helvetica.
//
// A reader has the font itself, so a file has a few kilobytes and no font in it. Letters are those of Windows-1252;
// any other becomes a question mark. Measures are points from the upper left corner of an A4 page.
package pdf

import (
	"bytes"
	"fmt"
	"strings"
)

// The size of a page, in points.
const (
	Width  = 595
	Height = 842
)

// Grey is how light something is: 0 is black and 1 is white.
type Grey float64

// Page is a page that is being written.
type Page struct{ content bytes.Buffer }

// Ink sets how light the text is that follows.
func (p *Page) Ink(g Grey) { fmt.Fprintf(&p.content, "%g g\n", float64(g)) }

// Fill fills a box whose upper left corner is at x and y. The ink is black afterwards.
func (p *Page) Fill(x, y, width, height float64, g Grey) {
	fmt.Fprintf(&p.content, "%g g %g %g %g %g re f 0 g\n", float64(g), x, Height-y-height, width, height)
}

// Text writes a line of text whose left end is at x and whose base is at y.
func (p *Page) Text(x, y, size float64, bold bool, text string) {
	font := "F1"
	if bold {
		font = "F2"
	}
	fmt.Fprintf(&p.content, "BT /%s %g Tf %g %g Td (%s) Tj ET\n", font, size, x, Height-y, escape(encode(text)))
}

// Right writes a line of text whose right end is at x.
func (p *Page) Right(x, y, size float64, bold bool, text string) {
	p.Text(x-width(text, size, bold), y, size, bold, text)
}

// Wrap returns a text as lines that are at most so wide. A word that is wider is cut.
func Wrap(text string, size float64, bold bool, most float64) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && width(line+" "+word, size, bold) <= most {
			line += " " + word
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		for width(word, size, bold) > most {
			cut := []rune(word)
			for len(cut) > 1 && width(string(cut), size, bold) > most {
				cut = cut[:len(cut)-1]
			}
			lines = append(lines, string(cut))
			word = strings.TrimPrefix(word, string(cut))
		}
		line = word
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// Rule draws a line from x to to.
func (p *Page) Rule(x, to, y float64) {
	fmt.Fprintf(&p.content, "0.75 G 0.7 w %g %g m %g %g l S\n", x, Height-y, to, Height-y)
}

// Bytes returns the file. Title is what readers show above it.
//
// A file is a list of numbered objects, a table of where each of them begins, and a trailer that
// names the first one to read. The four bytes in the second line tell programs that the file is
// binary.
func (p *Page) Bytes(title string) []byte {
	var out bytes.Buffer
	var starts []int
	object := func(body string) {
		starts = append(starts, out.Len())
		fmt.Fprintf(&out, "%d 0 obj\n%s\nendobj\n", len(starts), body)
	}
	out.WriteString("%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
	object("<< /Type /Catalog /Pages 2 0 R >>")
	object("<< /Type /Pages /Kids [3 0 R] /Count 1 >>")
	object(fmt.Sprintf("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 %d %d] /Resources << /Font << /F1 4 0 R /F2 5 0 R >> >> /Contents 6 0 R >>", Width, Height))
	object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>")
	object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold /Encoding /WinAnsiEncoding >>")
	object(fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", p.content.Len(), p.content.Bytes()))
	object(fmt.Sprintf("<< /Title (%s) >>", escape(encode(title))))
	table := out.Len()
	fmt.Fprintf(&out, "xref\n0 %d\n0000000000 65535 f \n", len(starts)+1)
	for _, at := range starts {
		fmt.Fprintf(&out, "%010d 00000 n \n", at)
	}
	fmt.Fprintf(&out, "trailer\n<< /Size %d /Root 1 0 R /Info 7 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(starts)+1, table)
	return out.Bytes()
}

// encode returns text in Windows-1252, without control characters.
func encode(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r >= ' ' && r < 0x7f, r >= 0xa0 && r <= 0xff:
			b.WriteByte(byte(r))
		case upper[r] != 0:
			b.WriteByte(upper[r])
		case r < ' ', r == 0x7f:
			b.WriteByte(' ')
		default:
			b.WriteByte('?')
		}
	}
	return b.String()
}

// upper are the letters of Windows-1252 that Unicode has elsewhere.
var upper = map[rune]byte{
	'€': 0x80, '‚': 0x82, '„': 0x84, '…': 0x85, '†': 0x86, '‡': 0x87, 'Š': 0x8a, 'Œ': 0x8c, 'Ž': 0x8e, '‘': 0x91, '’': 0x92,
	'“': 0x93, '”': 0x94, '•': 0x95, '–': 0x96, '—': 0x97, '™': 0x99, 'š': 0x9a, 'œ': 0x9c, 'ž': 0x9e, 'Ÿ': 0x9f, '−': 0x96,
}

// escape returns the inside of a string literal.
func escape(text string) string {
	return strings.NewReplacer("\\", "\\\\", "(", "\\(", ")", "\\)").Replace(text)
}

// width returns how wide a text is. It is exact for what ASCII has; other letters count as an average one.
func width(text string, size float64, bold bool) float64 {
	table := &widths
	if bold {
		table = &boldWidths
	}
	sum := 0
	for _, c := range []byte(encode(text)) {
		w := 556
		if c >= ' ' && int(c-' ') < len(table) {
			w = table[c-' ']
		}
		sum += w
	}
	return float64(sum) * size / 1000
}

// widths are those of the letters of Helvetica from the space on, in thousandths of the size.
var widths = [...]int{
	278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278,
	556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015,
	667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611,
	278, 278, 278, 469, 556, 333,
	556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500,
	334, 260, 334, 584,
}

// boldWidths are those of Helvetica-Bold.
var boldWidths = [...]int{
	278, 333, 474, 556, 556, 889, 722, 238, 333, 333, 389, 584, 278, 333, 278, 278,
	556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 333, 333, 584, 584, 584, 611, 975,
	722, 722, 722, 722, 667, 611, 778, 722, 278, 556, 722, 611, 833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611,
	333, 278, 333, 584, 556, 333,
	556, 611, 556, 611, 556, 333, 611, 611, 278, 278, 556, 278, 889, 611, 611, 611, 611, 389, 556, 333, 611, 556, 778, 556, 556, 500,
	389, 280, 389, 584,
}
