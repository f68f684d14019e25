//go:build !linux

package httpapi

import "net"

// boundUnsent does nothing on systems other than Linux: they hold as much of an unread reply as they like.
func boundUnsent(net.Conn) {}
