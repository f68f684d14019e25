// Package pulse notices silence on many streams with a single goroutine.
//
// A stream that keeps a timer of its own pays for it with every event. Here it sets a flag instead,
// and once a second one goroutine looks at the flags of all. Silence is told with that precision.
package pulse

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const tick = time.Second

// Pulse watches streams while Run runs.
type Pulse struct {
	mu    sync.Mutex
	beats map[*Beat]struct{}
}

// New returns a Pulse that watches nothing yet.
func New() *Pulse { return &Pulse{beats: map[*Beat]struct{}{}} }

// Beat is one watched stream.
type Beat struct {
	pulse   *Pulse
	touched atomic.Bool
	after   atomic.Int32 // ticks of silence
	idle    int32        // ticks since the last touch; used by Run alone

	mu      sync.Mutex // held while silent runs
	stopped bool
	silent  func()
}

// Watch calls silent whenever nobody touched the beat for the given time, and again after as much
// more silence. It is called from the pulse's own goroutine and must not block.
func (p *Pulse) Watch(after time.Duration, silent func()) *Beat {
	b := &Beat{pulse: p, silent: silent}
	b.After(after)
	p.mu.Lock()
	p.beats[b] = struct{}{}
	p.mu.Unlock()
	return b
}

// After changes how long the stream may be silent from now on.
func (b *Beat) After(after time.Duration) {
	b.after.Store(int32(max(1, after/tick)))
	b.touched.Store(true) // the tick under way does not count
}

// Touch says that the stream is alive.
func (b *Beat) Touch() {
	if !b.touched.Load() { // a load is cheaper than a store to a line that another core reads
		b.touched.Store(true)
	}
}

// Stop ends the watch. When it returns, silent is not running and will not run again.
func (b *Beat) Stop() {
	b.pulse.mu.Lock()
	delete(b.pulse.beats, b)
	b.pulse.mu.Unlock()
	b.mu.Lock()
	b.stopped = true
	b.mu.Unlock()
}

// Watched is how many streams are being watched.
func (p *Pulse) Watched() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.beats)
}

// Run looks at all beats once a second until ctx ends.
func (p *Pulse) Run(ctx context.Context) {
	t := time.NewTicker(tick)
	defer t.Stop()
	var quiet []*Beat
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		quiet = p.quiet(quiet[:0])
		for _, b := range quiet {
			b.tell()
		}
		clear(quiet)
	}
}

// quiet advances every beat and returns those that have been silent long enough.
func (p *Pulse) quiet(to []*Beat) []*Beat {
	p.mu.Lock()
	defer p.mu.Unlock()
	for b := range p.beats {
		if b.touched.Swap(false) {
			b.idle = 0
			continue
		}
		if b.idle++; b.idle >= b.after.Load() {
			b.idle = 0
			to = append(to, b)
		}
	}
	return to
}

func (b *Beat) tell() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.stopped {
		b.silent()
	}
}
