//go:build unix

package datadir

import "syscall"

// Free returns the number of bytes that are free on the disk that holds path, and reports whether it is known.
func Free(path string) (uint64, bool) {
	var st syscall.Statfs_t
	if syscall.Statfs(path, &st) != nil {
		return 0, false
	}
	return st.Bavail * uint64(st.Bsize), true
}
