package faulttest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// loadWatch samples what a process holds while things happen to it.
type loadWatch struct {
	s     *server
	began time.Time
	end   chan struct{}
	done  sync.WaitGroup
	mu    sync.Mutex // guards the fields below
	at    []sample
	marks []mark
}

// sample is what a process held at a moment.
type sample struct {
	when          time.Duration
	memory, files float64
}

// mark is when a fault began.
type mark struct {
	when time.Duration
	name string
}

// watchLoad samples a server's process until stop is called.
func watchLoad(s *server) *loadWatch {
	w := &loadWatch{s: s, began: time.Now(), end: make(chan struct{})}
	w.done.Go(func() {
		tick := time.NewTicker(time.Duration(scaled(50, 2000)) * time.Millisecond)
		defer tick.Stop()
		for {
			if memory, files := statm(s.pid.Load()); files > 0 {
				w.mu.Lock()
				w.at = append(w.at, sample{time.Since(w.began), memory, files})
				w.mu.Unlock()
			}
			select {
			case <-w.end:
				return
			case <-tick.C:
			}
		}
	})
	return w
}

func (w *loadWatch) stop() { close(w.end); w.done.Wait() }

// mark remembers that a fault begins.
func (w *loadWatch) mark(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.marks = append(w.marks, mark{time.Since(w.began), name})
}

// report logs the first and the last quarter, and draws the chart of a soak.
func (w *loadWatch) report(t *testing.T) {
	t.Helper()
	if len(w.at) < 4 { // no /proc on this system
		return
	}
	quarter := len(w.at) / 4
	first, last := mean(w.at[:quarter]), mean(w.at[len(w.at)-quarter:])
	t.Logf("soak: in the first quarter of the time %.1f MB and %.0f descriptors, in the last %.1f MB and %.0f", first.memory/1e6, first.files, last.memory/1e6, last.files)
	page := os.Getenv(figuresEnv)
	if page == "" {
		return
	}
	name := "soak-" + strings.ReplaceAll(filepath.Base(t.Name()), "_", "-") + ".svg"
	if err := os.WriteFile(filepath.Join(filepath.Dir(page), name), []byte(w.chart()), 0o644); err != nil {
		t.Error(err)
	}
}

// mean returns the mean of samples.
func mean(of []sample) (m sample) {
	for _, s := range of {
		m.memory += s.memory / float64(len(of))
		m.files += s.files / float64(len(of))
	}
	return m
}

// chart draws memory above descriptors, with a line where each fault began.
func (w *loadWatch) chart() string {
	const width, height, left, gap = 720.0, 120.0, 60.0, 40.0
	total := w.at[len(w.at)-1].when.Seconds()
	x := func(when time.Duration) float64 { return left + width*when.Seconds()/total }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="sans-serif" font-size="12" fill="#666">`+"\n", left+width+10, 2*(height+gap)+10)
	for i, panel := range []struct {
		title, color string
		value        func(sample) float64
	}{
		{"memory, MB", "#2563eb", func(s sample) float64 { return s.memory / 1e6 }},
		{"open descriptors", "#c2410c", func(s sample) float64 { return s.files }},
	} {
		top, most := gap/2+float64(i)*(height+gap), 0.0
		for _, s := range w.at {
			most = max(most, panel.value(s))
		}
		y := func(v float64) float64 { return top + height*(1-v/most) }
		fmt.Fprintf(&b, `<text x="%g" y="%g">%s</text>`+"\n", left, top-6, panel.title)
		for _, v := range []float64{0, most / 2, most} {
			fmt.Fprintf(&b, `<text x="%g" y="%.1f" text-anchor="end">%.0f</text><path d="M%g %.1fh%g" stroke="#bbb" stroke-width=".5"/>`+"\n", left-6, y(v)+4, v, left, y(v), width)
		}
		for _, m := range w.marks {
			fmt.Fprintf(&b, `<path d="M%.1f %gv%g" stroke="#ddd"><title>%s</title></path>`+"\n", x(m.when), top, height, m.name)
		}
		fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-width="1.2" points="`, panel.color)
		for _, s := range w.at {
			fmt.Fprintf(&b, "%.1f,%.1f ", x(s.when), y(panel.value(s)))
		}
		b.WriteString(`"/>` + "\n")
	}
	fmt.Fprintf(&b, `<text x="%g" y="%g">0</text><text x="%g" y="%g" text-anchor="end">%.0f minutes</text>`+"\n</svg>\n", left, 2*(height+gap)-2, left+width, 2*(height+gap)-2, total/60)
	return b.String()
}
