package main

import (
	"cmp"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"sluice/internal/kit/datadir"
)

// process is what must be known of this process to write down a command that somebody types elsewhere.
type process struct {
	id   int
	host string
}

// thisProcess describes this process.
func thisProcess() process {
	host, _ := os.Hostname() // without a name, the hint lacks it, too
	return process{os.Getpid(), host}
}

// way returns what its reader must type before "sluice" to get to where the process runs: in a container whose first
// process it is, as the user of a service of systemd, or nothing.
func (p *program) way(is process) string {
	first := is.id == 1
	marked := func(path string) bool { return exists(filepath.Join(p.machine, path)) }
	switch {
	// The name of a pod is that of its host. Its namespace is known if the pod has a service account.
	case first && p.variable("KUBERNETES_SERVICE_HOST") != "":
		space, _ := os.ReadFile(filepath.Join(p.machine, "/var/run/secrets/kubernetes.io/serviceaccount/namespace"))
		name := cmp.Or(strings.TrimSpace(string(space)), p.variable("POD_NAMESPACE"))
		if name != "" {
			name = "-n " + name + " "
		}
		return "kubectl exec " + name + is.host + " -- "
	// Both engines name the host after the container's id, which they accept in place of a name.
	case first && (marked("/run/.containerenv") || p.variable("container") == "podman"): // with --read-only, the file is hidden
		return "podman exec " + is.host + " "
	case first && marked("/.dockerenv"):
		return "docker exec " + is.host + " "
	case p.variable("SYSTEMD_EXEC_PID") == strconv.Itoa(is.id) && p.variable("USER") != "" && p.variable("USER") != "root":
		return "sudo -u " + p.variable("USER") + " "
	}
	return ""
}

// hint returns a command line about the data folder of this server, as it must be typed.
func (p *program) hint(is process, data, words string) string {
	if full, err := filepath.Abs(data); err == nil {
		data = full // whoever types it is in another folder
	}
	return p.way(is) + "sluice " + words + " --data " + datadir.ShellWord(data)
}
