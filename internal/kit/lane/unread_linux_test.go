package lane

import (
	"net"

	"golang.org/x/sys/unix"
)

// unread returns how many bytes have arrived that the server has not read, or 0 if it has closed the
// connection.
func unread(nc *net.TCPConn) (n int) {
	raw, err := nc.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ); err != nil {
			n = 0
		}
	}) // an error means that it is closed
	return n
}
