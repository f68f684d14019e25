package usage

import (
	"errors"
	"os"
	"syscall"
)

// allocate takes room for a file from the disk.
func allocate(f *os.File, size int64) error {
	err := syscall.Fallocate(int(f.Fd()), 0, 0, size)
	for errors.Is(err, syscall.EINTR) { // the runtime's own signals break it off on some file systems
		err = syscall.Fallocate(int(f.Fd()), 0, 0, size)
	}
	if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) {
		return allocateByWriting(f, size)
	}
	return err
}
