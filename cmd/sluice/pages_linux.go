package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// releasePages gives back the pages of the binary that only the start needed: reading the configuration,
// opening the database, building the pages. The kernel maps 64 KB for every byte that is touched, so they
// are most of what an idle server seems to use. What is needed again is mapped again from the page cache,
// within a microsecond a page. A failure changes nothing but this figure, so it is not reported.
func releasePages() {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(maps)) {
		var from, to uintptr
		var mode string
		_, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &mode)
		// Only what is never written: of a private mapping with changes, the changes would be lost.
		if err != nil || !strings.HasSuffix(strings.TrimSpace(line), " "+exe) || len(mode) < 2 || mode[1] == 'w' {
			continue
		}
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED)
	}
}
