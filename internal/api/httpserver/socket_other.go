//go:build !linux

package httpserver

import (
	"errors"
	"net"
)

// withdraw does nothing on systems other than Linux: there a server that cannot serve answers 503.
func withdraw(net.Listener) ([]net.Conn, bool) { return nil, false }

// relisten has nothing to undo.
func relisten(net.Listener) error { return errors.ErrUnsupported }

// finish does nothing on systems other than Linux: connections that wait to be accepted are reset.
func finish(net.Listener) []net.Conn { return nil }

// boundUnsent does nothing on systems other than Linux: they hold as much of an unread reply as they like.
func boundUnsent(net.Conn) {}
