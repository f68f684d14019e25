//go:build !linux

package usage

import "os"

// allocate takes room for a file from the disk.
func allocate(f *os.File, size int64) error { return allocateByWriting(f, size) }
