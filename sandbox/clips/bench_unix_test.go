//go:build unix

package clips

import (
	"math"
	"syscall"
	"testing"
	"time"
)

// BenchmarkRender reports what five seconds of 1280x720 take: CPU time on all cores together,
// including drawing, the number of bytes, and the fidelity of the coded pictures. The first prompt
// is a typical one, the second one the hardest that we know.
func BenchmarkRender(b *testing.B) {
	for _, prompt := range []string{"a lighthouse at dusk", "neon city skyline by the river at midnight"} {
		b.Run(prompt, func(b *testing.B) {
			s := Spec{prompt, 1280, 720, 5}
			var size int
			before := cpuTime(b)
			for b.Loop() {
				size = len(render(b, s))
			}
			b.ReportMetric((cpuTime(b)-before).Seconds()/float64(b.N), "cpu-s/op")
			b.ReportMetric(float64(size), "bytes")
			b.ReportMetric(fidelity(b, s), "dB")
		})
	}
}

// BenchmarkMemory reports how much the process grows when two clips of 1920x1080 are rendered at
// the same time.
func BenchmarkMemory(b *testing.B) {
	var grown uint64
	for b.Loop() {
		grown = max(grown, twoLargeClips(b, 20))
	}
	b.ReportMetric(float64(grown)/(1<<20), "MB")
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// fidelity is the peak signal-to-noise ratio of a whole clip, all planes together.
func fidelity(b *testing.B, s Spec) float64 {
	b.Helper()
	c, err := newClip(s)
	if err != nil {
		b.Fatal(err)
	}
	squares, pixels := 0.0, 0
	for range s.Seconds * fps {
		c.next()
		drawn, decoded := c.encoder.Source(), c.encoder.Decoded()
		for _, p := range [][2][]uint8{{drawn.Y, decoded.Y}, {drawn.U, decoded.U}, {drawn.V, decoded.V}} {
			for i, v := range p[0] {
				d := float64(v) - float64(p[1][i])
				squares += d * d
			}
			pixels += len(p[0])
		}
	}
	return 10 * math.Log10(255*255*float64(pixels)/squares)
}
