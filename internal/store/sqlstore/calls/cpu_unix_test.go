//go:build unix

package calls_test

import (
	"syscall"
	"time"
)

// usedCPU returns the CPU time of this process. A PostgreSQL server has its own.
func usedCPU() time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		return 0
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
