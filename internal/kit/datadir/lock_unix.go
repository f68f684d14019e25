//go:build unix

package datadir

import (
	"errors"
	"os"
	"syscall"
)

// tryLock tries to take an exclusive lock on f without blocking and reports whether it succeeded.
// flock locks belong to the open file, so closing f, or the end of the process, releases the lock.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
