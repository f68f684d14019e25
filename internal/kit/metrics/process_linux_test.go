package metrics

import (
	"os"
	"testing"
	"time"
)

// What is read of /proc agrees with what is known otherwise.
func TestProcess(t *testing.T) {
	t.Parallel()
	r := NewRegistry()
	r.Process()
	read := func() map[string]map[string]float64 { return parse(t, string(r.Append(nil))) }
	before := read()
	for _, name := range []string{"process_resident_memory_bytes", "process_virtual_memory_bytes", "process_max_fds", "process_virtual_memory_max_bytes"} {
		if before[name][""] <= 0 {
			t.Errorf("%s = %v, want more than 0", name, before[name])
		}
	}
	if age := float64(time.Now().Unix()) - before["process_start_time_seconds"][""]; age < -1 || age > 3600 {
		t.Errorf("the process started %v s ago, want less than an hour", age)
	}
	// Other tests open files at the same time, but not that many.
	const many = 200
	for range many {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
	}
	after := read()
	if more := after["process_open_fds"][""] - before["process_open_fds"][""]; more < many-50 {
		t.Errorf("%v more open files, want about %d", more, many)
	}
	// Reading uses the CPU.
	for deadline := time.Now().Add(time.Minute); read()["process_cpu_seconds_total"][""] <= before["process_cpu_seconds_total"][""]; {
		if time.Now().After(deadline) {
			t.Fatalf("CPU time is still %v after a minute of work", before["process_cpu_seconds_total"])
		}
	}
}
