//go:build !linux

package sqlstore

import "syscall"

// giveUpUnacked does nothing: the option is Linux's own. Deadlines of calls end what is under way.
func giveUpUnacked(_, _ string, _ syscall.RawConn) error { return nil }
