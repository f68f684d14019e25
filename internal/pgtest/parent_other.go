//go:build !linux

package pgtest

import "syscall"

// endWithParent does nothing: only Linux can tie a child's life to ours.
func endWithParent(*syscall.SysProcAttr) {}
