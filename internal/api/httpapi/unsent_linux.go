package httpapi

import (
	"net"
	"syscall"
)

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
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, notSentLowat, maxUnsent) })
	}
}
