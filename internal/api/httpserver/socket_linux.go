package httpserver

import (
	"errors"
	"net"
	"os"
	"syscall"
)

// backlog is how many connections may wait to be accepted; the system reduces it to what it allows.
const backlog = 4096

// withdraw makes the system refuse connections, and returns those that waited to be accepted. On Linux a socket that
// listens stops when its reading side is shut down.
func withdraw(l net.Listener) (late []net.Conn, ok bool) {
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return nil, false
	}
	var address syscall.Sockaddr
	if control(tcp, func(fd int) (err error) { address, err = syscall.Getsockname(fd); return err }) != nil {
		return nil, false
	}
	late = finish(l)
	// The socket keeps its port if somebody chose it. One that the system chose must be taken again, and at once; for
	// the other this is an error that does not matter.
	_ = control(tcp, func(fd int) error { return syscall.Bind(fd, address) })
	return late, true
}

// relisten undoes withdraw.
func relisten(l net.Listener) error {
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return errors.ErrUnsupported
	}
	return control(tcp, func(fd int) error { return syscall.Listen(fd, backlog) })
}

// control calls f with the socket of a listener or a connection.
func control(l syscall.Conn, f func(fd int) error) error {
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = f(int(fd)) })
	return errors.Join(err, failed)
}

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
	var sockets []int
	_ = control(tcp, func(fd int) error {
		for len(sockets) < maxLate {
			s, _, err := syscall.Accept4(fd, syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
			if errors.Is(err, syscall.EINTR) || errors.Is(err, syscall.ECONNABORTED) {
				continue
			}
			if err != nil {
				break // none is waiting
			}
			sockets = append(sockets, s)
		}
		return syscall.Shutdown(fd, syscall.SHUT_RD) // the caller closes it in any case
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

// maxUnsent is how much of a reply the system holds for a connection beyond what is on its way. Linux would hold up
// to 4 MiB for a caller that does not read, and writes would not block before that: a model that writes 4 KB a
// second would be noticed after a quarter of an hour only. What is on its way does not count, so the throughput
// stays the same.
const maxUnsent = 128 << 10

// notSentLowat is TCP_NOTSENT_LOWAT, which package syscall does not have.
const notSentLowat = 25

// boundUnsent sets maxUnsent for a connection. Setting it for the listener has no effect: Go's listeners speak
// Multipath TCP, and their connections do not take it over. A system that does not know the option holds more.
func boundUnsent(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = control(tcp, func(fd int) error { return syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, notSentLowat, maxUnsent) })
	}
}
