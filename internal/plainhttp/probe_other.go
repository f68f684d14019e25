//go:build !unix

package plainhttp

import "net"

// prober cannot inspect connections on this system; see conn.quiet.
type prober struct{}

func (*prober) of(net.Conn) {}

func (*prober) quiet() (quiet, known bool) { return false, false }
