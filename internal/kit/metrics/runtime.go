package metrics

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Runtime adds what is usual about a Go program: goroutines, memory and garbage collection, under the names
// that dashboards know (go_...).
func (r *Registry) Runtime() {
	r.Func(Gauge, "go_info", "Information about the Go environment.", []string{"version"}, func(emit func(float64, ...string)) {
		emit(1, runtime.Version())
	})
	for _, m := range runtimeMetrics {
		r.Func(m.kind, m.name, m.help, nil, func(emit func(float64, ...string)) {
			samples := make([]metrics.Sample, len(m.sum))
			for i, name := range m.sum {
				samples[i].Name = name
			}
			metrics.Read(samples) // stops nobody
			total := 0.0
			for _, s := range samples {
				switch s.Value.Kind() {
				case metrics.KindUint64:
					total += float64(s.Value.Uint64())
				case metrics.KindFloat64:
					total += s.Value.Float64()
				default: // a later Go may have dropped it
					return
				}
			}
			emit(total)
		})
	}
	r.add(&family{name: "go_gc_duration_seconds", help: "How long the garbage collector stopped the program.", kind: summary, write: pauses})
	r.Func(Gauge, "go_memstats_last_gc_time_seconds", "When the last garbage collection ended, in Unix seconds.", nil, func(emit func(float64, ...string)) {
		var s debug.GCStats
		debug.ReadGCStats(&s)
		if s.LastGC.IsZero() || s.LastGC.UnixNano() <= 0 {
			emit(0)
			return
		}
		emit(float64(s.LastGC.UnixNano()) / 1e9)
	})
}

// pauses writes the pauses of the garbage collector as a summary.
func pauses(p *page) {
	const name = "go_gc_duration_seconds"
	s := debug.GCStats{PauseQuantiles: make([]time.Duration, 5)}
	debug.ReadGCStats(&s)
	for i, q := range s.PauseQuantiles {
		p.line(name, "", "", `quantile="`+number(float64(i)/4)+`"`, q.Seconds())
	}
	p.line(name, "_sum", "", "", s.PauseTotal.Seconds())
	p.line(name, "_count", "", "", float64(s.NumGC))
}

// runtimeMetrics maps the usual names to what the runtime counts. Each is the sum of several.
var runtimeMetrics = []struct {
	name, help string
	kind       Kind
	sum        []string
}{
	{"go_goroutines", "Goroutines that exist.", Gauge, []string{"/sched/goroutines:goroutines"}},
	{"go_threads", "Threads of the operating system that exist.", Gauge, []string{"/sched/threads/total:threads"}},
	{"go_sched_gomaxprocs_threads", "Threads that can run Go code at once.", Gauge, []string{"/sched/gomaxprocs:threads"}},
	{"go_gc_gogc_percent", "The target of the garbage collector: how much the heap may grow.", Gauge, []string{"/gc/gogc:percent"}},
	{"go_gc_gomemlimit_bytes", "The memory limit of the garbage collector.", Gauge, []string{"/gc/gomemlimit:bytes"}},
	{"go_memstats_alloc_bytes", "Bytes of the heap that are in use.", Gauge, []string{"/memory/classes/heap/objects:bytes"}},
	{"go_memstats_alloc_bytes_total", "Bytes that were ever allocated.", Counter, []string{"/gc/heap/allocs:bytes"}},
	{"go_memstats_mallocs_total", "Objects that were ever allocated.", Counter, []string{"/gc/heap/allocs:objects"}},
	{"go_memstats_frees_total", "Objects that were ever freed.", Counter, []string{"/gc/heap/frees:objects"}},
	{"go_memstats_heap_objects", "Objects of the heap that exist.", Gauge, []string{"/gc/heap/objects:objects"}},
	{"go_memstats_heap_alloc_bytes", "Bytes of the heap that are in use.", Gauge, []string{"/memory/classes/heap/objects:bytes"}},
	{"go_memstats_heap_inuse_bytes", "Bytes of spans of the heap that are in use.", Gauge, []string{"/memory/classes/heap/objects:bytes", "/memory/classes/heap/unused:bytes"}},
	{"go_memstats_heap_idle_bytes", "Bytes of spans of the heap that are not in use.", Gauge, []string{"/memory/classes/heap/free:bytes", "/memory/classes/heap/released:bytes"}},
	{"go_memstats_heap_released_bytes", "Bytes of the heap that were given back to the operating system.", Gauge, []string{"/memory/classes/heap/released:bytes"}},
	{"go_memstats_heap_sys_bytes", "Bytes of the heap, used or not.", Gauge, []string{
		"/memory/classes/heap/objects:bytes", "/memory/classes/heap/unused:bytes", "/memory/classes/heap/free:bytes", "/memory/classes/heap/released:bytes",
	}},
	{"go_memstats_stack_inuse_bytes", "Bytes of stacks.", Gauge, []string{"/memory/classes/heap/stacks:bytes"}},
	{"go_memstats_next_gc_bytes", "Size of the heap at which the next garbage collection begins.", Gauge, []string{"/gc/heap/goal:bytes"}},
	{"go_memstats_sys_bytes", "Bytes that were obtained from the operating system.", Gauge, []string{"/memory/classes/total:bytes"}},
}
