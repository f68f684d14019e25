package sqlstore

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// giveUpUnacked makes the system close a connection whose peer does not acknowledge what was sent. Keep-alive
// probes are not sent while something is unacknowledged, and without this the system tries for a quarter of an
// hour.
func giveUpUnacked(_, _ string, c syscall.RawConn) error {
	const patience = 30 * time.Second
	return c.Control(func(fd uintptr) {
		// Unix sockets have no such option, and a connection without it is better than none.
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(patience.Milliseconds()))
	})
}
