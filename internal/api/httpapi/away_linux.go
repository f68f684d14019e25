package httpapi

import (
	"errors"
	"net"
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

// control calls f with the socket of a listener.
func control(l *net.TCPListener, f func(fd int) error) error {
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = f(int(fd)) })
	return errors.Join(err, failed)
}
