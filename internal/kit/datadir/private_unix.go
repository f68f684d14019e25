//go:build unix

package datadir

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Umask makes every file and folder that this process creates private to its user. The program
// calls it before anything else. The umask is global to the process, so tests must not call it.
func Umask() { syscall.Umask(0o077) }

// Check returns ErrExposed if other users own the folder or can read it. It changes nothing. A
// folder owned by root is accepted, because root can read everything anyway.
func Check(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("check the data folder: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("the data folder %s is a file", path)
	}
	if owner, ok := ownerOf(info); ok && os.Geteuid() != 0 && owner != os.Geteuid() && owner != 0 {
		return fmt.Errorf("%w: %s belongs to the user with id %d, but this process runs as %d; run it as the owner, or choose another folder with --data",
			ErrExposed, path, owner, os.Geteuid())
	}
	if isExposed(info) {
		return exposed(path, info)
	}
	return nil
}

// isExposed reports whether anyone but the owner has any permission on the file.
func isExposed(info os.FileInfo) bool { return info.Mode().Perm()&0o077 != 0 }

// isOurs reports whether the effective user of this process owns the file.
func isOurs(info os.FileInfo) bool {
	owner, ok := ownerOf(info)
	return ok && owner == os.Geteuid()
}

// handBack gives what root owns in the folder of another user to that user. Links are left alone: the user could have
// put one there to a file that is not theirs.
func handBack(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	folder, err := os.Stat(path)
	if err != nil {
		return nil // the folder is gone
	}
	to, ok := folder.Sys().(*syscall.Stat_t)
	if !ok || to.Uid == 0 {
		return nil
	}
	return filepath.WalkDir(path, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // deleted meanwhile
		}
		info, err := e.Info()
		if err != nil {
			return nil
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || st.Uid != 0 || !info.IsDir() && (!info.Mode().IsRegular() || st.Nlink > 1) {
			return nil
		}
		return os.Lchown(name, int(to.Uid), int(to.Gid))
	})
}

// ownerOf returns the user id of the file's owner. The second result is false if the platform does
// not report one.
func ownerOf(info os.FileInfo) (int, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}
