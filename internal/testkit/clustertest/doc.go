// Package clustertest tests a whole installation with several nodes: three servers on one PostgreSQL,
// one Redis and one object store, with nginx in front.
//
// The tests build the real program and start everything themselves, on free ports of the loopback
// address and in temporary folders. They make parts fail and compare what callers saw with what the
// books say. The table in cluster_test.go lists the faults; sick_linux_test.go makes one node unable to
// serve. Outside of tests the package only says where nginx and HAProxy are.
package clustertest

import (
	"fmt"
	"os/exec"
)

// FindNginx returns the path of nginx.
func FindNginx() (string, error) { return find("nginx") }

// FindHAProxy returns the path of HAProxy.
func FindHAProxy() (string, error) { return find("haproxy") }

// find returns the path of a program whose Debian package has the same name.
func find(program string) (string, error) {
	// Debian installs them where ordinary users have no programs.
	for _, name := range []string{program, "/usr/sbin/" + program} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no %[1]s in PATH (Debian package %[1]s)", program)
}
