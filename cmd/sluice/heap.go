package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// gcPercent lets a small heap grow further than Go's default before it is collected: what lives on it is
	// little, so the collector runs half as often for little memory.
	gcPercent = 200
	// headroom is how many bytes of garbage a heap may collect at most, while it is not larger than twice
	// that. Without it, whoever makes 80 MB live for a moment would let the process grow to 240.
	headroom = 40 << 20
	// leastPercent is what a large heap may grow by.
	leastPercent = 50
)

// paceCollector makes the garbage collector run often enough to bound what a burst of large requests adds
// to the process: see docs/security.md#memory. GOGC in the environment turns it off.
func paceCollector() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(gcPercent)
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	percent := gcPercent
	// A finalizer of an object that nobody holds runs once after each collection. It makes the next one.
	var watch func(*[1]*int)
	watch = func(*[1]*int) {
		metrics.Read(live)
		if next := percentFor(live[0].Value.Uint64()); next != percent {
			percent = next
			debug.SetGCPercent(percent)
		}
		runtime.SetFinalizer(&[1]*int{}, watch)
	}
	runtime.SetFinalizer(&[1]*int{}, watch)
}

// percentFor is how much a heap with so many live bytes may grow before it is collected, in percent.
func percentFor(live uint64) int {
	return int(min(gcPercent, max(leastPercent, 100*headroom/max(live, 1))))
}
