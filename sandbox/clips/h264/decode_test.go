package h264

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// content draws hostile pictures: what a calm encoder would never meet.
var content = map[string]func(r *rand.Rand, p []uint8, w, h, frame int){
	"noise": func(r *rand.Rand, p []uint8, _, _, _ int) {
		for i := range p {
			p[i] = uint8(r.UintN(256))
		}
	},
	"extremes": func(r *rand.Rand, p []uint8, _, _, _ int) {
		for i := range p {
			p[i] = uint8(255 * r.UintN(2))
		}
	},
	"checkerboard": func(_ *rand.Rand, p []uint8, w, _, frame int) {
		size := 1 + frame%5
		for i := range p {
			p[i] = uint8(255 * ((i%w/size + i/w/size + frame) & 1))
		}
	},
	"shift": func(r *rand.Rand, p []uint8, w, h, frame int) {
		if frame == 0 {
			for i := range p {
				p[i] = uint8(128 + 90*((i%w/7+i/w/5)&1) - int(r.UintN(30)))
			}
			return
		}
		old := bytes.Clone(p)
		dx, dy := 3-frame%7, frame%5-2
		for i := range p {
			p[i] = old[(i/w+dy+h)%h*w+(i%w+dx+w)%w]
		}
	},
	// A slope that moves by fractions of a pixel, with noise too small to code everywhere.
	"drift": func(r *rand.Rand, p []uint8, w, _, frame int) {
		for i := range p {
			x, y := i%w*4+frame*3, i/w*4+frame
			p[i] = uint8((x*x/97+y*y/61)/16) + uint8(r.UintN(3))
		}
	},
}

// quantisers are used in turn: fine ones make long codes, coarse ones leave macroblocks out.
var quantisers = []int{MinQP, 11, 16, 22, 25, 28, 33, MaxQP, 12, 30, 35, 19}

// TestDecodersAgree checks that ffmpeg's decoder shows, byte for byte, what the encoder expects.
func TestDecodersAgree(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("ffmpeg"); err != nil {
		t.Skipf("needs ffmpeg: %v", err)
	}
	seeds := 1
	if os.Getenv("SLUICE_SOAK") != "" {
		seeds = 20
	}
	for name, draw := range content {
		for _, size := range [][2]int{{16, 16}, {64, 64}, {86, 48}, {134, 138}, {240, 200}} {
			t.Run(fmt.Sprintf("%s %dx%d", name, size[0], size[1]), func(t *testing.T) {
				t.Parallel()
				for seed := range seeds {
					stream, want, _ := record(t, draw, size[0], size[1], seed)
					if got := decode(t, stream); !bytes.Equal(got, want) {
						t.Errorf("seed %d: ffmpeg decodes %d bytes that differ at %d, want the %d bytes of the encoder", seed, len(got), mismatch(got, want), len(want))
					}
				}
			})
		}
	}
}

// TestEveryFractionIsUsed checks that the pictures above use all four kinds of interpolation, so that
// the decoder has judged each of them.
func TestEveryFractionIsUsed(t *testing.T) {
	t.Parallel()
	seen := map[vector]bool{}
	for _, name := range []string{"drift", "shift"} {
		_, _, vectors := record(t, content[name], 240, 200, 0)
		for v := range vectors {
			seen[vector{v.x & 3, v.y & 3}] = true
		}
	}
	if len(seen) != 4 {
		t.Errorf("fractions of motion vectors = %v, want all 4", seen)
	}
}

// record encodes pictures and returns the stream, the pictures as the encoder expects them to be
// decoded, and the motion vectors that it used.
func record(t *testing.T, draw func(r *rand.Rand, p []uint8, w, h, frame int), w, h, seed int) (stream, decoded []byte, vectors map[vector]bool) {
	t.Helper()
	e, err := New(w, h, 24)
	if err != nil {
		t.Fatal(err)
	}
	vectors = map[vector]bool{}
	r := rand.New(rand.NewPCG(uint64(h*w), uint64(seed)))
	stream = append(startCode(e.SPS()), startCode(e.PPS())...)
	y, u, v := make([]uint8, w*h), make([]uint8, w*h/4), make([]uint8, w*h/4)
	for frame, qp := range quantisers {
		draw(r, y, w, h, frame)
		draw(r, u, w/2, h/2, frame)
		draw(r, v, w/2, h/2, frame)
		sample := e.Encode(frame == 6, qp, func(p *Planes, y0, y1 int) {
			copyRows(p.Y, p.Stride, y, w, y0, y1)
			copyRows(p.U, p.Stride/2, u, w/2, y0/2, y1/2)
			copyRows(p.V, p.Stride/2, v, w/2, y0/2, y1/2)
		})
		for len(sample) > 0 {
			n := binary.BigEndian.Uint32(sample)
			stream = append(stream, startCode(sample[4:4+n])...)
			sample = sample[4+n:]
		}
		for _, v := range e.mv {
			vectors[v] = true
		}
		p := e.Decoded()
		decoded = appendCropped(decoded, p.Y, p.Stride, w, h)
		decoded = appendCropped(decoded, p.U, p.Stride/2, w/2, h/2)
		decoded = appendCropped(decoded, p.V, p.Stride/2, w/2, h/2)
	}
	return stream, decoded, vectors
}

func startCode(nal []byte) []byte { return append([]byte{0, 0, 0, 1}, nal...) }

func copyRows(dst []uint8, stride int, src []uint8, w, y0, y1 int) {
	for y := y0; y < y1; y++ {
		copy(dst[y*stride:], src[y*w:(y+1)*w])
	}
}

func appendCropped(out, p []uint8, stride, w, h int) []byte {
	for y := range h {
		out = append(out, p[y*stride:y*stride+w]...)
	}
	return out
}

func decode(t *testing.T, stream []byte) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "clip.h264")
	if err := os.WriteFile(file, stream, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "ffmpeg", "-v", "error", "-xerror", "-threads", "1", "-i", file, "-fps_mode", "passthrough", "-f", "rawvideo", "-pix_fmt", "yuv420p", "-")
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil || complaints.Len() > 0 {
		t.Fatalf("ffmpeg: %v: %s", err, complaints.Bytes())
	}
	return out
}

func mismatch(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}
