// Package clustertest tests a whole installation with several nodes: three servers on one PostgreSQL,
// one Redis and one object store, with nginx in front.
//
// The tests build the real program and start everything themselves, on free ports of the loopback
// address and in temporary folders. They make parts fail and compare what callers saw with what the
// books say. The table in cluster_test.go lists the faults. Outside of tests the package only says
// where nginx is.
package clustertest

import (
	"errors"
	"os/exec"
)

// FindNginx returns the path of nginx.
func FindNginx() (string, error) {
	// Debian installs it where ordinary users have no programs.
	for _, name := range []string{"nginx", "/usr/sbin/nginx"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no nginx in PATH (Debian package nginx)")
}
