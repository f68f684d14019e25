package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// bareEnv names the root folder of a bare Debian with our package in /root. tools/barecheck makes one.
const bareEnv = "SLUICE_TEST_BARE_ROOT"

// TestBareMachine follows README.md and the pages of docs/start and docs/run as TestCommandsOfPages does, but on copies of
// a bare Debian: apt, curl, the package, paths and addresses are real. systemctl still does what the units say, serve
// returns when the server is ready, and nothing is edited or made from source.
func TestBareMachine(t *testing.T) {
	root := os.Getenv(bareEnv)
	if root == "" {
		t.Skip("tools/barecheck runs it on a bare machine")
	}
	all := readPages(t)
	for _, path := range slices.Sorted(maps.Keys(pages)) {
		if path != "README.md" && !strings.HasPrefix(path, "docs/start/") && !strings.HasPrefix(path, "docs/run/") {
			continue
		}
		t.Run(path, func(t *testing.T) {
			if path == "docs/run/postgresql.md" {
				t.Skip("the machine has no PostgreSQL")
			}
			row := pages[path]
			if !strings.Contains(row.before, "apt install") && path != "docs/run/one-server.md" {
				row.before = "dpkg -x sluice_*_amd64.deb /\n" + row.before // the binary alone, as from an archive
			}
			newBareMachine(t, root).follows(row, slices.DeleteFunc(all[path], func(b block) bool { return b.language != "sh" }))
		})
	}
}

// packages are the names of the package in the pages: a version has its own.
var packages = regexp.MustCompile(`\./sluice_[0-9*][^ ]*_amd64\.deb`)

// newBareMachine starts a machine on a copy of a bare root, in namespaces of its own: nothing else listens there, and
// what it starts ends with it.
func newBareMachine(t *testing.T, template string) *machine {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	if out, err := exec.Command("cp", "-a", "--reflink=auto", template, root).CombinedOutput(); err != nil {
		t.Fatalf("cp = %v: %s", err, out)
	}
	m := &machine{t: t, root: root, dir: filepath.Join(root, "root"), bare: true, lines: make(chan string)}
	// The package starts its service where systemd runs.
	for _, folder := range []string{"typed", "run/systemd/system"} {
		must(t, os.MkdirAll(filepath.Join(root, folder), 0o755))
	}
	for _, name := range []string{"systemctl", "sluice", "editor", "interrupt", "createuser", "createdb", "make", "go", "sudo", "systemd-sysusers", "systemd-tmpfiles"} {
		text := shims[name]
		if name == "make" {
			text = ""
		}
		must(t, os.WriteFile(filepath.Join(root, "usr/local/bin", name), []byte("#!/bin/sh\nset -e\nPATH=/usr/local/bin:$PATH\n"+text), 0o755))
	}
	// Scripts of packages do not look below /usr/local.
	must(t, os.Symlink("/usr/local/bin/systemctl", filepath.Join(root, "usr/bin/systemctl")))
	for _, folder := range []string{"deploy", "docs/examples"} {
		must(t, os.CopyFS(filepath.Join(m.dir, folder), os.DirFS(filepath.Join("../..", folder))))
	}
	cmd := exec.Command("unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "sh", "-ec",
		`ip link set lo up; mount -t proc proc "$0/proc"; exec chroot "$0" /bin/bash --norc -ec 'cd /root; exec bash --norc -e'`, root)
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin", "HOME=/root", "USER=root", "LANG=C.UTF-8", "ROOT=", "STATE=/var/tmp", "PROGRAM=/usr/bin/sluice", "AS=runuser -u sluice --", "SLUICE_DISCOVER=false"}
	m.open(cmd)
	return m
}
