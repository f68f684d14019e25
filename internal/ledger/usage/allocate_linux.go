package usage

import (
	"errors"
	"os"
	"syscall"
)

// allocate reserves disk space for the first size bytes of f, so that later writes there cannot
// fail because the disk is full.
func allocate(f *os.File, size int64) error {
	err := syscall.Fallocate(int(f.Fd()), 0, 0, size)
	for errors.Is(err, syscall.EINTR) { // on some file systems the Go runtime's own signals interrupt it
		err = syscall.Fallocate(int(f.Fd()), 0, 0, size)
	}
	if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) {
		return allocateByWriting(f, size)
	}
	return err
}
