// Package pulse notices silence on many streams with a single goroutine.
//
// A stream with a timer of its own would have to reset it with every event. Here it sets a flag instead,
// and once a second one goroutine looks at the flags of all streams. So silence is noticed up to a second
// late. What is done about it runs on a goroutine for each silent stream: one that blocks holds up no other.
package pulse

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/kit/pace"
)

// tick is how often Run looks at all beats. It is the precision of every duration here.
const tick = time.Second

// Pulse watches streams while Run is running. It is safe for concurrent use.
type Pulse struct {
	mu    sync.Mutex // guards beats; held during a look at all flags, but not while silent functions run
	beats map[*Beat]struct{}
}

// New returns a Pulse that watches nothing yet.
func New() *Pulse { return &Pulse{beats: map[*Beat]struct{}{}} }

// Beat is one watched stream. Whoever gets one from Watch must call Stop.
type Beat struct {
	pulse   *Pulse
	touched atomic.Bool  // since the last tick
	after   atomic.Int32 // ticks of silence after which silent is called
	idle    int32        // ticks since the last touch; used by Run alone

	mu      sync.Mutex // held while silent runs, so that Stop can wait for it
	stopped bool
	silent  func()
}

// Watch calls silent when nobody has touched the beat for the given time, and again each time that much
// more silence has passed. Silent runs on a goroutine of its own, which Run waits for when it ends. While it
// runs it is not called again for the same stream.
func (p *Pulse) Watch(after time.Duration, silent func()) *Beat {
	b := &Beat{pulse: p, silent: silent}
	b.After(after)
	p.mu.Lock()
	p.beats[b] = struct{}{}
	p.mu.Unlock()
	return b
}

// After changes how long the stream may be silent, counted from now. Less than a tick counts as one.
func (b *Beat) After(after time.Duration) {
	b.after.Store(int32(max(1, after/tick)))
	b.touched.Store(true) // the current tick has partly passed and does not count
}

// Touch records that the stream is alive. It is called for every write, so it costs one load in the usual
// case.
func (b *Beat) Touch() {
	if !b.touched.Load() { // a load is cheaper than a store to a cache line that another core reads
		b.touched.Store(true)
	}
}

// Stop ends the watch. When it returns, silent is not running and will not run again. Silent itself must not
// call it: that would deadlock.
func (b *Beat) Stop() {
	b.pulse.mu.Lock()
	delete(b.pulse.beats, b)
	b.pulse.mu.Unlock()
	b.mu.Lock()
	b.stopped = true
	b.mu.Unlock()
}

// Watched returns the number of streams that are being watched.
func (p *Pulse) Watched() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.beats)
}

// Run looks at all beats once a second until ctx ends.
func (p *Pulse) Run(ctx context.Context) {
	var telling sync.WaitGroup
	defer telling.Wait()
	var quiet []*Beat // reused in every tick
	for range pace.Every(ctx, tick) {
		quiet = p.quiet(quiet[:0])
		for _, b := range quiet {
			telling.Go(b.tell)
		}
		clear(quiet) // keeps no finished stream in memory
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

// tell calls silent, unless the beat was stopped after quiet returned it, or silent is still running.
func (b *Beat) tell() {
	if !b.mu.TryLock() {
		return
	}
	defer b.mu.Unlock()
	if !b.stopped {
		b.silent()
	}
}
