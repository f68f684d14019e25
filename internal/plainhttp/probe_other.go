//go:build !unix

package plainhttp

import "net"

// prober cannot look into connections here.
type prober struct{}

func (*prober) of(net.Conn) {}

func (*prober) quiet() (quiet, known bool) { return false, false }
