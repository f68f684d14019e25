//go:build !linux

package clustertest

import "syscall"

// endWithParent does nothing where the system has no such feature.
func endWithParent(*syscall.SysProcAttr) {}
