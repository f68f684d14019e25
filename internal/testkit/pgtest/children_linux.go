package pgtest

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"time"
)

// awaitStop waits until a process has been stopped by a signal, for some seconds at most.
func awaitStop(pid int) {
	for until := time.Now().Add(5 * time.Second); time.Now().Before(until); runtime.Gosched() {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			return
		}
		if fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]); len(fields) > 0 && string(fields[0]) == "T" {
			return
		}
	}
}

// children returns the processes whose parent is pid.
func children(pid int) (pids []int) {
	entries, _ := os.ReadDir("/proc") // an empty list if it is not mounted
	for _, e := range entries {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		// "pid (name) state parent …"; the name may hold anything.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) > 1 && string(fields[1]) == strconv.Itoa(pid) {
			pids = append(pids, child)
		}
	}
	return pids
}
