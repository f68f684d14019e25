//go:build unix

package plainhttp

import (
	"errors"
	"net"
	"syscall"
)

// prober checks whether the peer has closed a connection or sent anything, without blocking
// and without consuming data.
type prober struct {
	raw syscall.RawConn
	// look is created once per connection: a closure per call would be an allocation.
	look func(fd uintptr) bool
	ok   bool
	buf  [1]byte
}

// of prepares the prober for a connection. A connection without a file descriptor, such as a
// net.Pipe, stays unknown.
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
	// MSG_PEEK leaves what it finds in the system's buffer. EAGAIN is the good case: the
	// connection is open and silent. No error means that there is a byte, or the end of the
	// connection.
	p.look = func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), p.buf[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		p.ok = errors.Is(err, syscall.EAGAIN)
		return true
	}
}

// quiet reports whether the connection is open and has nothing to read. known is false if the
// prober cannot tell.
func (p *prober) quiet() (quiet, known bool) {
	if p.raw == nil {
		return false, false
	}
	p.ok = false
	return p.raw.Read(p.look) == nil && p.ok, true
}

// descriptor returns the connection's descriptor, or nil if it has none.
func (p *prober) descriptor() syscall.RawConn { return p.raw }
