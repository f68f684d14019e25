package main

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"slices"
)

// colours is how many colours a picture keeps: all that a palette can have, or small badges lose theirs.
const colours = 256

// shrink replaces a PNG by one with a palette, which takes a third of the space, unless it has one.
func shrink(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	img, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if _, done := img.(*image.Paletted); done {
		return nil
	}
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, reduce(img)); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

// tint is a colour and how many pixels have it.
type tint struct {
	rgb    [3]uint8
	pixels int
}

// reduce returns the picture with at most that many colours, chosen by median cut.
func reduce(img image.Image) *image.Paletted {
	at := img.Bounds()
	counts := map[[3]uint8]int{}
	for y := at.Min.Y; y < at.Max.Y; y++ {
		for x := at.Min.X; x < at.Max.X; x++ {
			counts[rgbOf(img.At(x, y))]++
		}
	}
	all := make([]tint, 0, len(counts))
	for rgb, n := range counts {
		all = append(all, tint{rgb, n})
	}
	slices.SortFunc(all, func(a, b tint) int { return slices.Compare(a.rgb[:], b.rgb[:]) }) // the same picture gives the same file
	palette, index := color.Palette{}, map[[3]uint8]uint8{}
	for i, box := range cut(all) {
		palette = append(palette, mean(box))
		for _, t := range box {
			index[t.rgb] = uint8(i)
		}
	}
	out := image.NewPaletted(at, palette)
	for y := at.Min.Y; y < at.Max.Y; y++ {
		for x := at.Min.X; x < at.Max.X; x++ {
			out.SetColorIndex(x, y, index[rgbOf(img.At(x, y))])
		}
	}
	return out
}

func rgbOf(c color.Color) [3]uint8 {
	r, g, b, _ := c.RGBA()
	return [3]uint8{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8)}
}

// cut divides tints into boxes of similar ones. The box with the most tints, weighed by how far they differ, is divided next.
func cut(all []tint) [][]tint {
	boxes := [][]tint{all}
	for len(boxes) < colours {
		worst, most := -1, 0
		for i, box := range boxes {
			if _, span := widest(box); len(box) > 1 && span*len(box) > most {
				worst, most = i, span*len(box)
			}
		}
		if worst < 0 {
			break
		}
		box := boxes[worst]
		channel, _ := widest(box)
		slices.SortStableFunc(box, func(a, b tint) int { return int(a.rgb[channel]) - int(b.rgb[channel]) })
		half := len(box) / 2
		boxes[worst] = box[:half]
		boxes = append(boxes, box[half:])
	}
	return boxes
}

// widest returns the channel in which the tints differ most, and by how much.
func widest(box []tint) (channel, span int) {
	for c := range 3 {
		least, most := 255, 0
		for _, t := range box {
			least, most = min(least, int(t.rgb[c])), max(most, int(t.rgb[c]))
		}
		if most-least >= span {
			channel, span = c, most-least
		}
	}
	return channel, span
}

// mean returns the colour of a box: that of most of its pixels if it has a clear favourite, or else the average.
func mean(box []tint) color.Color {
	var sum [3]int
	n, top := 0, box[0]
	for _, t := range box {
		for c := range 3 {
			sum[c] += int(t.rgb[c]) * t.pixels
		}
		if n += t.pixels; t.pixels > top.pixels {
			top = t
		}
	}
	if 2*top.pixels > n {
		return color.RGBA{top.rgb[0], top.rgb[1], top.rgb[2], 255}
	}
	return color.RGBA{uint8(sum[0] / n), uint8(sum[1] / n), uint8(sum[2] / n), 255}
}
