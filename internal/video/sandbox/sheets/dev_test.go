package main

import (
	"fmt"
	"image"
	"image/draw"
	"image/png"
	"os"
	"strings"
	"testing"
)

func TestDev(t *testing.T) {
	if os.Getenv("O") == "" {
		t.Skip()
	}
	var w, h int
	fmt.Sscanf(os.Getenv("S"), "%dx%d", &w, &h)
	var nums []int
	for _, s := range strings.Fields(os.Getenv("F")) {
		var n int
		fmt.Sscan(s, &n)
		nums = append(nums, n)
	}
	var all []image.Image
	for _, p := range strings.Split(os.Getenv("P"), "|") {
		for _, q := range prompts {
			if q.name == p {
				p = q.prompt
			}
		}
		f, err := frames(p, w, h, nums)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, f...)
	}
	cols := min(len(all), 3)
	fmt.Sscan(os.Getenv("C"), &cols)
	rows := (len(all) + cols - 1) / cols
	img := image.NewRGBA(image.Rect(0, 0, cols*(w+4), rows*(h+4)))
	for i, f := range all {
		at := image.Pt(i%cols*(w+4), i/cols*(h+4))
		draw.Draw(img, image.Rectangle{at, at.Add(image.Pt(w, h))}, f, image.Point{}, draw.Src)
	}
	o, _ := os.Create(os.Getenv("O"))
	png.Encode(o, img)
	o.Close()
}
