//go:build unix

package plainhttp_test

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

// awaitInput waits until there is something to read on a connection, or its other side has closed it.
func awaitInput(t *testing.T, c net.Conn) {
	t.Helper()
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	if err := raw.Read(func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return !errors.Is(err, syscall.EAGAIN)
	}); err != nil && !errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
}
