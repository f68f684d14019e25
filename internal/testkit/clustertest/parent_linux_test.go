package clustertest

import "syscall"

// endWithParent makes the kernel end a child when this process dies without stopping it.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
