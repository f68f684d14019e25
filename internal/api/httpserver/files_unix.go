//go:build unix

package httpserver

import "syscall"

// fileLimit returns how many files, connections included, the process may have open, and reports whether there is
// such a limit.
func fileLimit() (uint64, bool) {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 0, false
	}
	return uint64(l.Cur), true //nolint:unconvert // signed on some systems
}
