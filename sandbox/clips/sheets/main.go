// Command sheets redraws the pictures in docs/video: a contact sheet for each sample prompt, with
// six pictures of its clip in order, and the stills of the page about video.
//
//	go run ./sandbox/clips/sheets
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

	"sluice/sandbox/clips/scene"
)

// The length of the clips that are sampled, the layout of a sheet, and the JPEG quality.
const (
	fps, seconds  = 24, 5
	columns, rows = 3, 2
	quality       = 82
)

// stills are the pictures that docs/call/videos.md shows, by the name of their prompt.
var stills = []string{"lighthouse", "cabin", "caravan"}

func main() {
	out := flag.String("out", filepath.Join("docs", "video"), "the folder to write to")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "sheets:", err)
		os.Exit(1)
	}
}

// run writes the pictures of all prompts to a folder.
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

// write draws the contact sheet of a prompt and, if it has one, its still.
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
	// A picture two seconds into the clip.
	still, err := frames(prompt, 854, 480, []int{2 * fps})
	if err != nil {
		return err
	}
	return save(filepath.Join(folder, "still-"+name+".jpg"), still[0])
}

// sheet draws pictures from a clip, evenly spread over its length, in a grid.
func sheet(prompt string, w, h int) (image.Image, error) {
	var numbers []int
	for i := range columns * rows {
		// The first and the last picture are among them.
		numbers = append(numbers, i*(seconds*fps-1)/(columns*rows-1))
	}
	all, err := frames(prompt, w, h, numbers)
	if err != nil {
		return nil, err
	}
	// White lines of 4 pixels separate the pictures.
	const gap = 4
	img := image.NewRGBA(image.Rect(0, 0, columns*(w+gap)-gap, rows*(h+gap)-gap))
	draw.Draw(img, img.Rect, image.White, image.Point{}, draw.Src)
	for i, f := range all {
		at := image.Pt(i%columns*(w+gap), i/columns*(h+gap))
		draw.Draw(img, image.Rectangle{at, at.Add(image.Pt(w, h))}, f, image.Point{}, draw.Src)
	}
	return img, nil
}

// frames draws the pictures of a clip that have the given numbers.
func frames(prompt string, w, h int, numbers []int) ([]image.Image, error) {
	s, err := scene.New(prompt, w, h, fps, seconds)
	if err != nil {
		return nil, err
	}
	// The scene draws into planes as the encoder has them: 4:2:0, with a stride of whole
	// macroblocks.
	stride := (w + 15) &^ 15
	y, u, v := make([]uint8, stride*h), make([]uint8, stride*h/4), make([]uint8, stride*h/4)
	var all []image.Image
	for _, n := range numbers {
		s.Draw(y, u, v, stride, n, 0, h)
		all = append(all, screen(y, u, v, stride, w, h))
	}
	return all, nil
}

// screen converts a picture of video (BT.709, limited range) to RGB.
func screen(y, u, v []uint8, stride, w, h int) image.Image {
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for r := range h {
		for c := range w {
			// Luma goes from 16 to 235 and chroma from 16 to 240 around 128. The factors expand
			// them to full range and apply the BT.709 matrix.
			l := 1.164384 * (float64(y[r*stride+c]) - 16)
			cb, cr := float64(u[r/2*stride/2+c/2])-128, float64(v[r/2*stride/2+c/2])-128
			p := img.Pix[r*img.Stride+4*c:][:4]
			p[0], p[1], p[2], p[3] = level(l+1.792741*cr), level(l-0.213249*cb-0.532909*cr), level(l+2.112402*cb), 255
		}
	}
	return img
}

// level rounds a value to a byte and clips it.
func level(v float64) uint8 { return uint8(max(0, min(255, v+0.5))) }

// save writes an image as a JPEG file.
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
