package main

import (
	"image"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// look is a coarse summary of a picture.
type look struct {
	palette [6 * 6 * 6]float64 // how much of the picture each colour takes
	layout  [18 * 10]float64   // where it is light and dark, whatever its colours and contrast
}

const lookWide, lookHigh = 18, 10

// lookAt ignores the caption, which all pictures have.
func lookAt(img image.Image) look {
	var l look
	b := img.Bounds()
	high := b.Dy() * 4 / 5
	var counts [lookWide * lookHigh]float64
	for y := range high {
		for x := range b.Dx() {
			r, g, bl, _ := img.At(x, y).RGBA()
			l.palette[r*6>>16*36+g*6>>16*6+bl*6>>16] += 1 / float64(high*b.Dx())
			cell := y*lookHigh/high*lookWide + x*lookWide/b.Dx()
			l.layout[cell] += float64(r+g+bl) / 3 / 65535
			counts[cell]++
		}
	}
	mean, spread := 0.0, 0.0
	for i := range l.layout {
		l.layout[i] /= counts[i]
		mean += l.layout[i] / float64(len(l.layout))
	}
	for i := range l.layout {
		l.layout[i] -= mean
		spread += l.layout[i] * l.layout[i]
	}
	for i := range l.layout {
		l.layout[i] /= math.Sqrt(spread) + 1e-9
	}
	return l
}

// common is the part of both pictures that has the same colours, from 0 to 1.
func (l *look) common(m *look) float64 {
	sum := 0.0
	for i, p := range l.palette {
		sum += min(p, m.palette[i])
	}
	return sum
}

// correlation is 1 where light and dark lie in the same places.
func (l *look) correlation(m *look) float64 {
	sum := 0.0
	for i, v := range l.layout {
		sum += v * m.layout[i]
	}
	return sum
}

// alike returns how similar two pictures are in colors and layout: 1 for the same picture, and
// nearly 0 if the colors or the layout differ.
func alike(l, m *look) float64 { return l.common(m) * max(0, l.correlation(m)) }

// mostAlike is how similar two of the samples may be.
const mostAlike = 0.35

func TestNoTwoSamplesAreAlike(t *testing.T) {
	t.Parallel()
	looks := make([]look, len(prompts))
	for i, p := range prompts {
		all, err := frames(p.prompt, 160, 90, []int{20, 90})
		if err != nil {
			t.Fatal(err)
		}
		later := lookAt(all[1])
		looks[i] = lookAt(all[0])
		// The measure must recognize a scene three seconds later, or it says nothing about others.
		if got := alike(&looks[i], &later); got < mostAlike {
			t.Errorf("alike(%s, itself later) = %.2f, want %v or more", p.name, got, mostAlike)
		}
	}
	for i := range prompts {
		for j := range i {
			if got := alike(&looks[i], &looks[j]); got > mostAlike {
				t.Errorf("alike(%s, %s) = %.2f (palette %.2f, layout %.2f), want %v at most", prompts[i].name, prompts[j].name,
					got, looks[i].common(&looks[j]), looks[i].correlation(&looks[j]), mostAlike)
			}
		}
	}
}

// TestSheets checks that the command writes what the documentation shows, and that no picture is larger
// than a page should load.
func TestSheets(t *testing.T) {
	t.Parallel()
	docs := filepath.Join("..", "..", "..", "docs", "video")
	for i, p := range prompts {
		names := []string{p.name + ".jpg"}
		if slices.Contains(stills, p.name) {
			names = append(names, "still-"+p.name+".jpg")
		}
		for _, name := range names {
			info, err := os.Stat(filepath.Join(docs, name))
			if err != nil {
				t.Errorf("a picture is missing: run go run ./sandbox/clips/sheets: %v", err)
				continue
			}
			if info.Size() > 150_000 {
				t.Errorf("%s has %d bytes, want 150,000 at most", name, info.Size())
			}
		}
		if i > 0 {
			continue // one is enough to see that the command works
		}
		folder := t.TempDir()
		if err := write(folder, p.name, p.prompt); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
				t.Errorf("the command does not write it: %v", err)
			}
		}
	}
}
