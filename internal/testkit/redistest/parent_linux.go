package redistest

import "syscall"

// endWithParent makes the kernel stop the child when this process dies without stopping it, as
// a test does when it exceeds its time limit.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
