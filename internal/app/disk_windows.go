package app

import "golang.org/x/sys/windows"

// freeBytes is how much room is left where the path lies.
func freeBytes(path string) (uint64, bool) {
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, false
	}
	var free uint64
	err = windows.GetDiskFreeSpaceEx(p, &free, nil, nil)
	return free, err == nil
}

// fileLimit is how many files the process may have open: there is no such limit.
func fileLimit() (uint64, bool) { return 0, false }
