package datadir

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// tryLock tries to take an exclusive lock on f without blocking and reports whether it succeeded.
// It locks the first byte of the file; the system releases the lock when the handle is closed.
func tryLock(f *os.File) (bool, error) {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &windows.Overlapped{})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}
