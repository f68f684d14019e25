//go:build !linux

package pgtest

import "syscall"

// endWithParent does nothing: only Linux can stop a child when its parent dies.
func endWithParent(*syscall.SysProcAttr) {}
