//go:build !linux

package metrics

import "time"

// Process adds what is known of this process on every system: when it started.
func (r *Registry) Process() {
	start := float64(time.Now().Unix())
	r.Func(Gauge, "process_start_time_seconds", "When this process started, in Unix seconds.", nil, func(emit func(float64, ...string)) { emit(start) })
}
