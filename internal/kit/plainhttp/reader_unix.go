//go:build unix

package plainhttp

import (
	"errors"
	"os"
	"syscall"
)

// tryRead reads without waiting. It reports false if there is nothing to read yet; it is called again when there is.
func (in *reader) tryRead(fd uintptr) bool {
	in.take()
	for {
		in.n, in.err = syscall.Read(int(fd), in.buf[in.w:])
		switch {
		case errors.Is(in.err, syscall.EINTR):
			continue
		case errors.Is(in.err, syscall.EAGAIN):
			in.give()
			return false
		}
		in.n = max(in.n, 0) // -1 with an error
		if in.err != nil {
			in.err = os.NewSyscallError("read", in.err)
		}
		return true
	}
}
