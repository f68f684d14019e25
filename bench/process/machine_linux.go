package process

import (
	"fmt"
	"syscall"
	"time"
)

// SleepUntil blocks the thread until a time, in the kernel: the timers of Go's runtime may be a millisecond late when nothing
// else happens.
func SleepUntil(t time.Time) {
	for {
		left := time.Until(t)
		if left <= 0 {
			return
		}
		span := syscall.NsecToTimespec(int64(left))
		_ = syscall.Nanosleep(&span, nil) // a signal may end it early
	}
}

// AllowFiles raises the number of files that this process may have open, and those that it starts later, to n. It returns how
// many there may be then, which are fewer where the limit of the user is lower.
func AllowFiles(n int) (int, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, err
	}
	want := max(uint64(n), limit.Cur)
	if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: want, Max: max(limit.Max, want)}) == nil {
		return int(want), nil
	}
	// Only root may raise the hard limit, and not above that of the kernel.
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("raising the number of open files to %d: %w", limit.Max, err)
	}
	return int(limit.Max), nil
}
