//go:build !unix

package plainhttp

import (
	"net"
	"syscall"
)

// prober cannot inspect connections on this system; see conn.quiet.
type prober struct{}

func (*prober) of(net.Conn) {}

func (*prober) quiet() (quiet, known bool) { return false, false }

func (*prober) descriptor() syscall.RawConn { return nil }
