// Command sheets draws the pictures of docs/video again: a contact sheet of each sample prompt, six
// pictures of its clip in their order, and the stills of the page about video.
//
//	go run ./internal/video/sandbox/sheets
package main

import (
	"flag"
	"fmt"
	"image"
	"image/draw"
	"image/jpeg"
	"os"
	"path/filepath"
	"slices"

	"sluice/internal/video/sandbox/scene"
)

const (
	fps, seconds  = 24, 5
	columns, rows = 3, 2
	quality       = 82
)

// stills are the pictures that docs/video.md shows, by the name of their prompt.
var stills = []string{"lighthouse", "cabin", "caravan"}

func main() {
	out := flag.String("out", filepath.Join("docs", "video"), "the folder to write to")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "sheets:", err)
		os.Exit(1)
	}
}

func run(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, p := range prompts {
		if err := write(folder, p.name, p.prompt); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// write draws the sheet of a prompt, and its still if it has one.
func write(folder, name, prompt string) error {
	img, err := sheet(prompt, 426, 240)
	if err != nil {
		return err
	}
	if err := save(filepath.Join(folder, name+".jpg"), img); err != nil {
		return err
	}
	if !slices.Contains(stills, name) {
		return nil
	}
	still, err := frames(prompt, 854, 480, []int{2 * fps})
	if err != nil {
		return err
	}
	return save(filepath.Join(folder, "still-"+name+".jpg"), still[0])
}

// sheet draws pictures of a clip, evenly spread over its length, side by side.
func sheet(prompt string, w, h int) (image.Image, error) {
	var numbers []int
	for i := range columns * rows {
		numbers = append(numbers, i*(seconds*fps-1)/(columns*rows-1))
	}
	all, err := frames(prompt, w, h, numbers)
	if err != nil {
		return nil, err
	}
	const gap = 4
	img := image.NewRGBA(image.Rect(0, 0, columns*(w+gap)-gap, rows*(h+gap)-gap))
	draw.Draw(img, img.Rect, image.White, image.Point{}, draw.Src)
	for i, f := range all {
		at := image.Pt(i%columns*(w+gap), i/columns*(h+gap))
		draw.Draw(img, image.Rectangle{at, at.Add(image.Pt(w, h))}, f, image.Point{}, draw.Src)
	}
	return img, nil
}

// frames draws some pictures of a clip, by their numbers.
func frames(prompt string, w, h int, numbers []int) ([]image.Image, error) {
	s, err := scene.New(prompt, w, h, fps, seconds)
	if err != nil {
		return nil, err
	}
	stride := (w + 15) &^ 15
	y, u, v := make([]uint8, stride*h), make([]uint8, stride*h/4), make([]uint8, stride*h/4)
	var all []image.Image
	for _, n := range numbers {
		s.Draw(y, u, v, stride, n, 0, h)
		all = append(all, screen(y, u, v, stride, w, h))
	}
	return all, nil
}

// screen is a picture of video (BT.709, limited range) in the colours of a screen.
func screen(y, u, v []uint8, stride, w, h int) image.Image {
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for r := range h {
		for c := range w {
			l := 1.164384 * (float64(y[r*stride+c]) - 16)
			cb, cr := float64(u[r/2*stride/2+c/2])-128, float64(v[r/2*stride/2+c/2])-128
			p := img.Pix[r*img.Stride+4*c:][:4]
			p[0], p[1], p[2], p[3] = level(l+1.792741*cr), level(l-0.213249*cb-0.532909*cr), level(l+2.112402*cb), 255
		}
	}
	return img
}

func level(v float64) uint8 { return uint8(max(0, min(255, v+0.5))) }

func save(name string, img image.Image) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := jpeg.Encode(f, img, &jpeg.Options{Quality: quality}); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
