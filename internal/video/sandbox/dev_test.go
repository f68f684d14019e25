package sandbox

import (
	"fmt"
	"math"
	"os"
	"syscall"
	"testing"
	"time"

	"sluice/internal/video/sandbox/h264"
)

func TestDev(t *testing.T) {
	prompt := os.Getenv("P")
	if prompt == "" {
		t.Skip()
	}
	w, h, sec := 1280, 720, 5
	fmt.Sscanf(os.Getenv("S"), "%dx%dx%d", &w, &h, &sec)
	f, _ := os.Create(os.Getenv("O"))
	start := time.Now()
	var a, b syscall.Rusage
	syscall.Getrusage(0, &a)
	if err := Render(t.Context(), f, Spec{prompt, w, h, sec}, nil); err != nil {
		t.Fatal(err)
	}
	syscall.Getrusage(0, &b)
	cpu := time.Duration(b.Utime.Nano() + b.Stime.Nano() - a.Utime.Nano() - a.Stime.Nano())
	st, _ := f.Stat()
	c, _ := newClip(Spec{prompt, w, h, sec})
	var se, n float64
	worst := 99.0
	var draw time.Duration
	for i := range sec * fps {
		c.next()
		var fe, fn float64
		s, d := c.encoder.Source(), c.encoder.Decoded()
		for _, p := range [][2][]uint8{{s.Y, d.Y}, {s.U, d.U}, {s.V, d.V}} {
			for k := range p[0] {
				e := float64(p[0][k]) - float64(p[1][k])
				fe += e * e
			}
			fn += float64(len(p[0]))
		}
		worst = min(worst, 10*math.Log10(255*255*fn/fe))
		se += fe
		n += fn
		if i%10 == 0 {
			p := &h264.Planes{Y: make([]uint8, 4096*2200), U: make([]uint8, 2048*1100), V: make([]uint8, 2048*1100), Stride: 4096}
			t0 := time.Now()
			c.scene.Draw(p.Y, p.U, p.V, p.Stride, i, 0, h)
			draw += time.Since(t0)
		}
	}
	fmt.Printf("%-40s wall %v cpu %v (draw about %v) %d KB PSNR %.1f worst %.1f qp %d\n", prompt, time.Since(start).Round(time.Millisecond), cpu.Round(time.Millisecond), (draw * 10).Round(time.Millisecond), st.Size()/1000, 10*math.Log10(255*255*n/se), worst, c.rate.qp(false))
}
