//go:build !linux

package httpapi

import (
	"errors"
	"net"
)

// withdraw does nothing on systems other than Linux: there a server that cannot serve answers 503.
func withdraw(net.Listener) ([]net.Conn, bool) { return nil, false }

// relisten has nothing to undo.
func relisten(net.Listener) error { return errors.ErrUnsupported }
