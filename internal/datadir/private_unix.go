//go:build unix

package datadir

import (
	"fmt"
	"os"
	"syscall"
)

// Umask makes every file and folder that this process creates private. The program calls it first thing; it
// is the process's, so tests do not.
func Umask() { syscall.Umask(0o077) }

// Check returns ErrExposed where other users can read the folder or own it. It changes nothing. Root may own
// the folder: it can read everything anyway.
func Check(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("look at the data folder: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("the data folder %s is a file", path)
	}
	if owner, ok := ownerOf(info); ok && os.Geteuid() != 0 && owner != os.Geteuid() && owner != 0 {
		return fmt.Errorf("%w: %s belongs to the user with the id %d, and this process runs as %d; run it as the owner, or name another folder with --data",
			ErrExposed, path, owner, os.Geteuid())
	}
	if isExposed(info) {
		return exposed(path, info)
	}
	return nil
}

// isExposed reports whether anybody but the owner has a right to a file.
func isExposed(info os.FileInfo) bool { return info.Mode().Perm()&0o077 != 0 }

func isOurs(info os.FileInfo) bool {
	owner, ok := ownerOf(info)
	return ok && owner == os.Geteuid()
}

func ownerOf(info os.FileInfo) (int, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}
