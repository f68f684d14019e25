package metrics

import (
	"bytes"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
)

// ticks is the number of clock ticks of a second in /proc, on every architecture that Linux has for Go.
const ticks = 100

// Process adds what the operating system knows of this process: CPU, memory and open files, under the names
// that dashboards know (process_...). What cannot be read is left out.
func (r *Registry) Process() {
	gauge := func(kind Kind, name, help string, read func() (float64, bool)) {
		r.Func(kind, name, help, nil, func(emit func(float64, ...string)) {
			if v, ok := read(); ok {
				emit(v)
			}
		})
	}
	gauge(Counter, "process_cpu_seconds_total", "CPU time of this process, in user and kernel mode.", func() (float64, bool) {
		s, ok := stat()
		return (s.user + s.system) / ticks, ok
	})
	gauge(Gauge, "process_resident_memory_bytes", "Memory of this process that is in RAM.", func() (float64, bool) {
		s, ok := stat()
		return s.pages * float64(os.Getpagesize()), ok
	})
	gauge(Gauge, "process_virtual_memory_bytes", "Address space of this process.", func() (float64, bool) {
		s, ok := stat()
		return s.virtual, ok
	})
	gauge(Gauge, "process_start_time_seconds", "When this process started, in Unix seconds.", sync.OnceValues(func() (float64, bool) {
		s, ok := stat()
		boot, known := bootTime()
		return boot + s.start/ticks, ok && known
	}))
	gauge(Gauge, "process_open_fds", "Open files and connections of this process.", func() (float64, bool) {
		dir, err := os.Open("/proc/self/fd")
		if err != nil {
			return 0, false
		}
		defer dir.Close()
		names, err := dir.Readdirnames(-1)
		return float64(len(names) - 1), err == nil // without dir itself
	})
	gauge(Gauge, "process_max_fds", "Open files and connections that this process may have.", func() (float64, bool) {
		return limit("Max open files")
	})
	gauge(Gauge, "process_virtual_memory_max_bytes", "Address space that this process may have.", func() (float64, bool) {
		return limit("Max address space")
	})
}

// processStat is what /proc/self/stat says. CPU times and the start are in ticks.
type processStat struct{ user, system, start, virtual, pages float64 }

// stat reads /proc/self/stat. The second field is the name of the program in parentheses, which may hold
// anything, so that the fields are counted from its end.
func stat() (s processStat, ok bool) {
	text, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return s, false
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 22 {
		return s, false
	}
	for i, to := range map[int]*float64{11: &s.user, 12: &s.system, 19: &s.start, 20: &s.virtual, 21: &s.pages} {
		if *to, err = strconv.ParseFloat(fields[i], 64); err != nil {
			return s, false
		}
	}
	return s, true
}

// bootTime returns when the machine started, in Unix seconds.
func bootTime() (float64, bool) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "btime "); found {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			return v, err == nil
		}
	}
	return 0, false
}

// limit returns the soft limit of /proc/self/limits with the given name.
func limit(name string) (float64, bool) {
	text, err := os.ReadFile("/proc/self/limits")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		rest, found := strings.CutPrefix(line, name)
		if fields := strings.Fields(rest); found && len(fields) > 0 {
			if fields[0] == "unlimited" {
				return math.Inf(1), true
			}
			v, err := strconv.ParseFloat(fields[0], 64)
			return v, err == nil
		}
	}
	return 0, false
}
