package config

import (
	"errors"
	"os"
	"syscall"
)

// The numbers of fcntl(2) that package syscall does not have.
const setLease, readLease, noLease = 1024, syscall.F_RDLCK, syscall.F_UNLCK

// openForWriting reports whether some process has the file open for writing. The kernel grants a read
// lease only if nobody has. The lease is given back at once; who opens the file meanwhile waits for
// that, a few microseconds. Only the owner of a file can ask. For others the answer is no.
func openForWriting(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	_, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), setLease, readLease)
	if errno == 0 {
		_, _, _ = syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), setLease, noLease) // closing gives it back, too
	}
	return errors.Is(errno, syscall.EAGAIN)
}
