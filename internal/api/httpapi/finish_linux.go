package httpapi

import (
	"errors"
	"net"
	"os"
	"syscall"
)

// maxLate bounds how many waiting connections finish takes. It is the largest queue that Linux
// keeps by default.
const maxLate = 4096

// finish takes the connections that wait to be accepted and makes the system refuse further ones.
// Closing alone would reset the waiting ones, whose requests may have been sent already. What
// arrives between the two system calls is still lost; that is about a microsecond.
func finish(l net.Listener) (late []net.Conn) {
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	var sockets []int
	_ = raw.Control(func(fd uintptr) {
		for len(sockets) < maxLate {
			s, _, err := syscall.Accept4(int(fd), syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
			if errors.Is(err, syscall.EINTR) || errors.Is(err, syscall.ECONNABORTED) {
				continue
			}
			if err != nil {
				break // none is waiting
			}
			sockets = append(sockets, s)
		}
		_ = syscall.Shutdown(int(fd), syscall.SHUT_RD) // the caller closes it in any case
	})
	for _, s := range sockets {
		f := os.NewFile(uintptr(s), "")
		switch nc, err := net.FileConn(f); { // it has a copy of the descriptor
		case err != nil:
		case nc.RemoteAddr() == nil: // the caller has reset it while it waited
			_ = nc.Close()
		default:
			late = append(late, nc)
		}
		_ = f.Close()
	}
	return late
}
