//go:build !linux

package usage

import "os"

// allocate reserves disk space for the first size bytes of f, so that later writes there cannot
// fail because the disk is full.
func allocate(f *os.File, size int64) error { return allocateByWriting(f, size) }
