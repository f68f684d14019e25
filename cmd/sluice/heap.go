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
	// slack is how many bytes of free pages the process may keep. Beyond that, the runtime returns
	// free pages to the operating system before it asks for more. Without it, the pages that one
	// burst leaves in pieces too small for the next would stay with the process for minutes.
	slack = 16 << 20
	// leastPercent is how much a large heap may always grow. Less would make the collector run
	// constantly.
	leastPercent = 50
)

// paceCollector adjusts the garbage collector after each collection, so that a burst of large
// requests adds only a bounded amount to the process: see docs/security.md#memory. If GOGC or
// GOMEMLIMIT is set, it does nothing: the operator has decided.
func paceCollector() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetGCPercent(gcPercent)
	// Reused by every call of watch. Finalizers run one after the other, so nothing needs a lock.
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
	}
	percent := gcPercent
	// The runtime calls the finalizer of an unreachable object once, after a collection. Each
	// call creates the object for the next one.
	var watch func(*[1]*int)
	watch = func(*[1]*int) {
		metrics.Read(samples)
		live, fixed := samples[0].Value.Uint64(), samples[1].Value.Uint64()
		for _, s := range samples[2:] {
			fixed -= min(fixed, s.Value.Uint64())
		}
		if next := percentFor(live); next != percent {
			percent = next
			debug.SetGCPercent(percent)
		}
		debug.SetMemoryLimit(limitFor(live, fixed))
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

// limitFor returns how much memory the runtime may have while live bytes are on its heap and
// fixed bytes are stacks and data of its own.
func limitFor(live, fixed uint64) int64 {
	return int64(live + live*uint64(percentFor(live))/100 + fixed + slack)
}
