//go:build !linux

package pgtest

import (
	"bytes"
	"os/exec"
	"strconv"
)

// children returns the processes whose parent is pid.
func children(pid int) (pids []int) {
	out, _ := exec.Command("pgrep", "-P", strconv.Itoa(pid)).Output() // fails if there are none
	for _, field := range bytes.Fields(out) {
		if child, err := strconv.Atoi(string(field)); err == nil {
			pids = append(pids, child)
		}
	}
	return pids
}

// awaitStop does nothing: there is no way to tell.
func awaitStop(int) {}
