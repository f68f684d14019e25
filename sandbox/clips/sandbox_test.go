package clips

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/sandbox/clips/scene"
)

func render(t testing.TB, s Spec) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := Render(t.Context(), &out, s, nil); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Not parallel: it changes how many cores are used, and measures memory.
func TestMemoryOfTwoLargeClips(t *testing.T) {
	if grown := twoLargeClips(t, 1); grown > 150<<20 {
		t.Errorf("two clips of 1920x1080 take %d MB, want 150 at most", grown>>20)
	}
}

// twoLargeClips renders two clips of 1920x1080 and 20 seconds at the same time, but stops after
// some frames of each: the rest would only add coded pictures. It returns the largest growth of the
// process's memory, as if all pictures had been coded at their highest rate.
func twoLargeClips(t testing.TB, frames int32) uint64 {
	const seconds = 20
	debug.FreeOSMemory()
	before := resident()
	var peak atomic.Uint64
	var wg sync.WaitGroup
	for _, prompt := range []string{"neon city skyline by the river at midnight", "a forest in autumn"} {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var count atomic.Int32
			err := Render(ctx, &bytes.Buffer{}, Spec{prompt, 1920, 1080, seconds}, func(int) {
				for now, old := resident(), peak.Load(); now > old && !peak.CompareAndSwap(old, now); old = peak.Load() {
				}
				if count.Add(1) > frames {
					cancel()
				}
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Render = %v, want %v", err, context.Canceled)
			}
		})
	}
	wg.Wait()
	coded := 2 * uint64(newRate(1920, 1080).perFrame*seconds*fps)
	return peak.Load() - min(before, peak.Load()) + coded
}

// resident is the memory that the process holds.
func resident() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64() - s[1].Value.Uint64()
}

// Not parallel: it changes how many cores are used.
func TestSameBytesOnAnyCores(t *testing.T) {
	s := Spec{"a campfire crackles under the stars", 256, 256, 1}
	want := render(t, s)
	for _, cores := range []int{1, 7} {
		old := runtime.GOMAXPROCS(cores)
		got := render(t, s)
		runtime.GOMAXPROCS(old)
		if !bytes.Equal(got, want) {
			t.Errorf("the clip on %d cores differs from that on %d", cores, old)
		}
	}
	other := render(t, Spec{"a campfire crackles under the moon", 256, 256, 1})
	if bytes.Equal(other, want) {
		t.Error("another prompt gives the same bytes")
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	for _, at := range []int32{1, 7} {
		ctx, cancel := context.WithCancel(t.Context())
		var calls atomic.Int32
		var out bytes.Buffer
		err := Render(ctx, &out, Spec{"the sea", 128, 96, 20}, func(int) {
			if calls.Add(1) == at {
				cancel()
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Render = %v, want %v", err, context.Canceled)
		}
		if got := calls.Load(); got != at {
			t.Errorf("Render went on for %d frames after it was canceled", got-at)
		}
		if out.Len() > 0 {
			t.Errorf("Render wrote %d bytes of a canceled clip, want none", out.Len())
		}
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	last, calls := -1, 0
	err := Render(t.Context(), &bytes.Buffer{}, Spec{"rain", 128, 96, 1}, func(percent int) {
		if percent < last || percent > 100 {
			t.Errorf("progress went from %d to %d", last, percent)
		}
		last = percent
		calls++
	})
	if err != nil {
		t.Fatal(err)
	}
	if last != 100 || calls != fps+1 {
		t.Errorf("progress ended at %d after %d calls, want 100 after %d", last, calls, fps+1)
	}
}

func TestRefusedSpecs(t *testing.T) {
	t.Parallel()
	for _, s := range []Spec{{"x", 480, 480, 0}, {"x", 481, 480, 1}, {"x", 480, 0, 1}} {
		if err := Render(t.Context(), &bytes.Buffer{}, s, nil); err == nil {
			t.Errorf("Render(%+v) = nil, want an error", s)
		}
	}
}

func TestWriterErrors(t *testing.T) {
	t.Parallel()
	err := Render(t.Context(), brokenWriter{}, Spec{"fire", 128, 96, 1}, nil)
	if !errors.Is(err, errBroken) {
		t.Errorf("Render = %v, want %v", err, errBroken)
	}
}

var errBroken = errors.New("broken")

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

// TestFileSaysWhatItIs checks the tags, and that the index comes first.
func TestFileSaysWhatItIs(t *testing.T) {
	t.Parallel()
	file := render(t, Spec{"snow\nover  " + strings.Repeat("Zürich ", 500), 128, 96, 1})
	moov, mdat := bytes.Index(file, []byte("moov")), bytes.Index(file, []byte("mdat"))
	if moov < 0 || mdat < moov {
		t.Errorf("moov at %d, mdat at %d, want moov first", moov, mdat)
	}
	head := string(file[:mdat])
	for _, want := range []string{scene.Notice, "snow over Zürich Zürich", "…"} {
		if !strings.Contains(head, want) {
			t.Errorf("the file's head lacks %q", want)
		}
	}
	if size := binary.BigEndian.Uint32(file[mdat-4:]); int(size) != len(file)-mdat+4 {
		t.Errorf("mdat says %d bytes, want %d", size, len(file)-mdat+4)
	}
}

// TestRate checks that a clip stays within its size on any content: a picture's bytes halve with
// every six steps of the quantiser, more or less.
func TestRate(t *testing.T) {
	t.Parallel()
	for _, hardness := range []float64{0.2, 1, 2, 3} { // of the allowance, at the finest quantiser
		r := newRate(1280, 720)
		spent := 0.0
		for frame := range 5 * fps {
			key := frame%keyInterval == 0
			n := r.perFrame * hardness * math.Pow(2, float64(fineQP-r.qp(key))/6)
			if key {
				n *= 6
			}
			r.spend(int(n))
			spent += n
		}
		if spent > 1e6 {
			t.Errorf("five seconds of hardness %v take %.0f bytes, want 1,000,000 at most", hardness, spent)
		}
	}
}
