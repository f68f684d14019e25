//go:build unix

package plainhttp

import (
	"errors"
	"net"
	"syscall"
)

// prober looks whether the other side has closed a connection or sent anything, without waiting.
type prober struct {
	raw  syscall.RawConn
	look func(fd uintptr) bool // made once: a closure a call would be garbage
	ok   bool
	buf  [1]byte
}

func (p *prober) of(c net.Conn) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	p.raw = raw
	p.look = func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), p.buf[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		p.ok = errors.Is(err, syscall.EAGAIN)
		return true
	}
}

// quiet reports whether there is nothing to read and the connection is open, if that can be told.
func (p *prober) quiet() (quiet, known bool) {
	if p.raw == nil {
		return false, false
	}
	p.ok = false
	return p.raw.Read(p.look) == nil && p.ok, true
}
