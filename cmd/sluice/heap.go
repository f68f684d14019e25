package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// gcPercent lets a small heap grow further than Go's default before it is collected.
	// Little lives on it, so the collector runs half as often for little memory.
	gcPercent = 200
	// headroom limits the garbage of a heap, in bytes, as long as the heap is not larger than
	// twice that. Without it, a burst that keeps 80 MB alive for a moment would let the
	// process grow to 240 MB.
	headroom = 40 << 20
	// leastPercent is how much a large heap may always grow. Less would make the collector run
	// constantly.
	leastPercent = 50
)

// paceCollector adjusts the garbage collector after each collection, so that a burst of large
// requests adds only a bounded amount to the process: see docs/security.md#memory. If GOGC is
// set, it does nothing: the operator has decided.
func paceCollector() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(gcPercent)
	// Reused by every call of watch. Finalizers run one after the other, so nothing needs a lock.
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	percent := gcPercent
	// The runtime calls the finalizer of an unreachable object once, after a collection. Each
	// call creates the object for the next one.
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

// percentFor returns how much a heap with live bytes may grow before it is collected, in
// percent. Up to 20 MB of live data that is gcPercent; above 80 MB it is leastPercent; between
// them the garbage is limited to headroom.
func percentFor(live uint64) int {
	return int(min(gcPercent, max(leastPercent, 100*headroom/max(live, 1))))
}
