//go:build unix

package app

import "syscall"

// freeBytes is how much room is left where the path lies.
func freeBytes(path string) (uint64, bool) {
	var st syscall.Statfs_t
	if syscall.Statfs(path, &st) != nil {
		return 0, false
	}
	return st.Bavail * uint64(st.Bsize), true
}

// fileLimit is how many files, connections included, the process may have open.
func fileLimit() (uint64, bool) {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 0, false
	}
	return uint64(l.Cur), true //nolint:unconvert // signed on some systems
}
