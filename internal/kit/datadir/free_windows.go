package datadir

import "golang.org/x/sys/windows"

// Free returns the number of bytes that are free on the disk that holds path, and reports whether it is known.
func Free(path string) (uint64, bool) {
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, false
	}
	var free uint64
	err = windows.GetDiskFreeSpaceEx(p, &free, nil, nil)
	return free, err == nil
}
