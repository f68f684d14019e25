package pgtest

import "syscall"

// endWithParent has the kernel stop the child when we die without a chance to do it ourselves,
// as a test does that runs into its time limit.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGINT }
