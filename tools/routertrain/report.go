package main

import (
	"bytes"
	"fmt"
	"io"
)

// report prints how good the scores are, source by source.
func (t *trainer) report(w io.Writer, o options, scores []float64) {
	words, elsewhere := t.byWords(), t.elsewhere()
	fmt.Fprintln(w, "APGR: the share of the gap between a weak and a strong model that is won, averaged over all shares of")
	fmt.Fprintln(w, "strong calls. Stems are never on both sides. A fixed mix of the two models is chance, whatever the mix.")
	fmt.Fprintln(w)
	fmt.Fprintln(w, "| source | questions | pairs | chance, best fixed mix | list of words | learned | source not seen |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|")
	for _, from := range t.sources {
		of := func(scores []float64) measure { return measured(t.set, from, scores, o.resamples, o.seed) }
		l := of(scores)
		fmt.Fprintf(w, "| %s | %d | %d | 0.500 | %s | %s | %s |\n", from.name, l.questions, l.pairs, of(words), l, of(elsewhere))
	}
	fmt.Fprintln(w)
}

func (m measure) String() string { return fmt.Sprintf("%.3f (%.3f to %.3f)", m.value, m.low, m.high) }

// reportBins prints the reliability of the chances.
func reportBins(w io.Writer, bins []bin) {
	fmt.Fprintln(w, "| questions | predicted | seen |")
	fmt.Fprintln(w, "|---|---|---|")
	for _, b := range bins {
		fmt.Fprintf(w, "| %d | %.3f | %.3f |\n", b.questions, b.predicted, b.seen)
	}
}

// draw returns the reliability diagram: what was seen over what was predicted, beside the diagonal.
func draw(bins []bin) []byte {
	var b bytes.Buffer
	const side, edge = 320.0, 40.0
	const most = 0.6 // of both axes
	at := func(x, y float64) (float64, float64) { return edge + x/most*side, edge/2 + side - y/most*side }
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="sans-serif" font-size="11">`+"\n", side+edge*1.5, side+edge*1.5)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#fff"/>`+"\n")
	for v := 0.0; v <= most+0.01; v += 0.1 {
		x, y := at(v, 0)
		fmt.Fprintf(&b, `<text x="%.0f" y="%.0f" text-anchor="middle">%.1f</text>`, x, y+15, v)
		x, y = at(0, v)
		fmt.Fprintf(&b, `<text x="%.0f" y="%.0f" text-anchor="end">%.1f</text>`+"\n", x-6, y+4, v)
	}
	x0, y0 := at(0, 0)
	x1, y1 := at(most, most)
	fmt.Fprintf(&b, `<path d="M%.0f %.0fH%.0fM%.0f %.0fV%.0f" stroke="#888" fill="none"/>`+"\n", x0, y0, x1, x0, y0, y1)
	fmt.Fprintf(&b, `<path d="M%.0f %.0fL%.0f %.0f" stroke="#bbb" stroke-dasharray="4 4"/>`+"\n", x0, y0, x1, y1)
	for i, bin := range bins {
		x, y := at(bin.predicted, bin.seen)
		fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="4" fill="#1f6feb"/>`+"\n", x, y)
		if i > 0 {
			px, py := at(bins[i-1].predicted, bins[i-1].seen)
			fmt.Fprintf(&b, `<path d="M%.1f %.1fL%.1f %.1f" stroke="#1f6feb"/>`+"\n", px, py, x, y)
		}
	}
	fmt.Fprintf(&b, `<text x="%.0f" y="%.0f" text-anchor="middle">predicted difficulty</text>`+"\n", edge+side/2, side+edge*1.3)
	fmt.Fprintf(&b, `<text transform="translate(11 %.0f) rotate(-90)" text-anchor="middle">weak failed, strong did not</text>`+"\n</svg>\n", edge/2+side/2)
	return b.Bytes()
}
