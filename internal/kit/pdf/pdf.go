// Package pdf writes documents of one page: lines of text and rules, in Helvetica.
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

// Page is a page that is being written.
type Page struct{ content bytes.Buffer }

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
	p.Text(x-width(text, size), y, size, bold, text)
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

// width returns how wide a text is. It is exact for the digits and signs of amounts; bold letters are a little wider.
func width(text string, size float64) float64 {
	sum := 0
	for _, c := range []byte(encode(text)) {
		w := 556
		if c >= ' ' && int(c-' ') < len(widths) {
			w = widths[c-' ']
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
