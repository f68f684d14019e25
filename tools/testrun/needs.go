package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/testkit/clustertest"
	"sluice/internal/testkit/pgtest"
	"sluice/internal/testkit/redistest"
)

// need is something outside the repository that tests use. Tests do not know this table: they look for
// the program themselves and skip without it.
type need struct {
	name     string   // as tests name it when they skip: "needs PostgreSQL"
	purpose  string   // what cannot run without it
	packages []string // the Debian packages that provide it
	// find returns where it is, or an error that says what is missing. It must not change anything.
	find func() (where string, err error)
}

// needs returns everything that the tests under root need. To let tests use another program, add its
// row here.
func needs(root string) []need {
	table := []need{
		{"gcc", "the race detector", []string{"gcc", "libc6-dev"}, findGCC},
		{"PostgreSQL", "the tests of the PostgreSQL store", []string{"postgresql"}, findPostgres},
		{"redis-server", "the tests of limits on Redis", []string{"redis-server"}, redistest.Find},
		{"nginx", "the test of a whole cluster", []string{"nginx"}, clustertest.FindNginx},
		{"HAProxy", "the test of a whole cluster", []string{"haproxy"}, clustertest.FindHAProxy},
		{"curl", "the test of the first commands of the README", []string{"curl"}, func() (string, error) { return exec.LookPath("curl") }},
		{"Prometheus", "the tests of alerts and the dashboard", []string{"prometheus"}, findPrometheus},
		{"systemd", "the test of the systemd unit", []string{"systemd"}, findSystemd},
		{"podman", "the tests that start containers", []string{"podman", "runc"}, findPodman},
		{"ffmpeg", "the tests that decode video clips", []string{"ffmpeg"}, findFfmpeg},
		{"Chromium", "the tests in a browser", []string{"chromium-headless-shell"}, findChromium},
	}
	// A copy of the repository without the JavaScript clients needs no Node.
	if exists(nodeFolder(root), "package.json") {
		table = append(table, need{"Node.js", "the tests with JavaScript clients", []string{"nodejs", "npm"}, findNode})
	}
	return table
}

// missing is a need that is not met, and why: what find returned, and why it could not be installed.
type missing struct {
	need   need
	reason string
}

// ensure looks for every need and installs what is missing, where it may. It returns the names of the
// needs that are met at the end, and the needs that are not. It looks again after an installation: a
// package may be older than what the tests need.
func (s *session) ensure(table []need) (found map[string]bool, lost []missing) {
	fmt.Fprintln(s.out, "Needs")
	found = map[string]bool{}
	lost = s.look(table, found)
	if len(lost) == 0 {
		return found, nil
	}

	var packages []string
	var again []need
	for _, m := range lost {
		packages = append(packages, m.need.packages...)
		again = append(again, m.need)
	}
	if err := s.install(packages); err != nil {
		for i := range lost {
			lost[i].reason += fmt.Sprintf("; %v (Debian packages: %s)", err, strings.Join(lost[i].need.packages, " "))
		}
		return found, lost
	}
	return found, s.look(again, found)
}

// look prints where each need is, adds those that are met to found, and returns the others.
func (s *session) look(table []need, found map[string]bool) (lost []missing) {
	for _, n := range table {
		where, err := n.find()
		if err != nil {
			fmt.Fprintf(s.out, "  %-12s missing: %v\n", n.name, err)
			lost = append(lost, missing{n, err.Error()})
			continue
		}
		fmt.Fprintf(s.out, "  %-12s %s\n", n.name, where)
		found[n.name] = true
	}
	return lost
}

// installVar is the environment variable that forbids every installation when it is "no".
const installVar = "SLUICE_INSTALL"

// mayInstall reports whether the run may install what is missing.
func (s *session) mayInstall() bool { return s.value(installVar) != "no" }

// lacks returns what is missing for the tests: needs of the table, and npm packages. It prints and
// installs nothing.
func (s *session) lacks(table []need) (lost []string) {
	var packages []string
	for _, n := range table {
		if _, err := n.find(); err != nil {
			lost = append(lost, fmt.Sprintf("%s, for %s: %v", n.name, n.purpose, err))
			packages = append(packages, n.packages...)
		}
	}
	if len(packages) > 0 {
		lost = append(lost, "To install them on Debian: apt-get install "+strings.Join(packages, " "))
	}
	// npm packages are no row of the table, because npm installs them and not apt-get.
	if dir := nodeFolder(s.root); exists(dir, "package.json") && !nodePackagesInstalled(dir) {
		lost = append(lost, "npm packages, for the tests with JavaScript clients and in a browser: run npm ci in oracles/node")
	}
	return lost
}

// refuse fails the run if something is missing and nothing may be installed. It reports whether it did.
func (s *session) refuse(table []need) bool {
	if s.mayInstall() {
		return false
	}
	lost := s.lacks(table)
	if len(lost) == 0 {
		return false
	}
	// The last lines say what was not done, and what works without it.
	lost = append(lost, "Nothing was installed, because "+installVar+"=no, and no test was run.",
		"go test ./... needs none of this: tests that miss something skip.")
	s.report.failWith("what the tests need is missing", strings.Join(lost, "\n"))
	return true
}

// install installs Debian packages, after a line that says so. The error says why it could not.
func (s *session) install(packages []string) error {
	if !s.mayInstall() {
		return errors.New("not installed because " + installVar + "=no")
	}
	// Only Debian and its relatives are supported; elsewhere people install what is missing themselves.
	if _, err := exec.LookPath("apt-get"); err != nil {
		return errors.New("there is no apt-get on this machine: install it yourself")
	}
	prefix, err := asRoot(s.ctx)
	if err != nil {
		return err
	}
	// Nothing is installed before this line.
	s.announce(packages)
	for _, args := range [][]string{
		{"update"},
		append([]string{"install", "-y", "--no-install-recommends"}, packages...),
	} {
		// Without the variable, packages may ask questions and wait for an answer.
		line := slices.Concat(prefix, []string{"env", "DEBIAN_FRONTEND=noninteractive", "apt-get"}, args)
		fmt.Fprintf(s.out, "  running apt-get %s\n", strings.Join(args, " "))
		quiet := s.tell("apt-get " + args[0])
		out, err := s.command(s.root, line[0], line[1:]...).CombinedOutput()
		quiet()
		if err != nil {
			return fmt.Errorf("apt-get %s: %w: %s", args[0], err, lastLine(out))
		}
	}
	return nil
}

// announce says what is about to be installed, and how to avoid it.
func (s *session) announce(packages []string) {
	fmt.Fprintf(s.out, "INSTALLING SYSTEM PACKAGES with apt-get: %s. To avoid this, press Ctrl-C and run make %s with %s=no, which lists what is missing and installs nothing.\n",
		strings.Join(packages, " "), s.mode.name, installVar)
}

// asRoot returns the prefix of a command that needs root: nothing for root, otherwise sudo if it asks
// for no password. A prompt in the middle of a run would wait forever.
func asRoot(ctx context.Context) ([]string, error) {
	if os.Geteuid() == 0 {
		return nil, nil
	}
	if exec.CommandContext(ctx, "sudo", "-n", "true").Run() == nil {
		return []string{"sudo", "-n"}, nil
	}
	return nil, errors.New("installing it needs root")
}

// findGCC returns the path of a C compiler that the race detector can use.
func findGCC() (string, error) {
	path, err := exec.LookPath("gcc")
	if err != nil {
		return "", errors.New("no gcc in PATH")
	}
	// A compiler may be installed without the C library's headers, which the race detector needs too.
	if err := exec.Command(path, "-E", "-include", "stdlib.h", "-x", "c", os.DevNull).Run(); err != nil {
		return "", errors.New("gcc does not find the C library's headers")
	}
	return path, nil
}

// findPostgres returns the folder and version of PostgreSQL's programs. The tests start a server of
// their own; a running one is not used.
func findPostgres() (string, error) {
	programs, err := pgtest.Find()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s (version %d)", programs.Dir, programs.Version), nil
}

// oldestNode is the first major version that the JavaScript clients in oracles/node run on.
const oldestNode = 18

// findNode returns the path and version of node, if it is new enough and npm is there as well.
func findNode() (string, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return "", errors.New("no node in PATH")
	}
	if _, err := exec.LookPath("npm"); err != nil {
		return "", errors.New("no npm in PATH")
	}
	out, err := exec.Command(node, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("node --version: %w", err)
	}
	version := strings.TrimSpace(string(out))
	major, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	if n, err := strconv.Atoi(major); err != nil || n < oldestNode {
		return "", fmt.Errorf("node %s is too old: %d or later is needed", version, oldestNode)
	}
	return fmt.Sprintf("%s (%s)", node, version), nil
}

// findPrometheus looks for promtool as well, which Debian installs together with Prometheus.
func findPrometheus() (string, error) {
	if _, err := exec.LookPath("promtool"); err != nil {
		return "", errors.New("no promtool in PATH")
	}
	path, err := exec.LookPath("prometheus")
	if err != nil {
		return "", errors.New("no prometheus in PATH")
	}
	return path, nil
}

// findSystemd returns the path of the program that checks units. systemd itself need not run.
func findPodman() (string, error) {
	if _, err := exec.LookPath("runc"); err != nil {
		return "", err
	}
	return exec.LookPath("podman")
}

func findSystemd() (string, error) {
	path, err := exec.LookPath("systemd-analyze")
	if err != nil {
		return "", errors.New("no systemd-analyze in PATH")
	}
	return path, nil
}

// findFfmpeg looks for ffprobe as well, which Debian installs together with ffmpeg.
func findFfmpeg() (string, error) {
	if _, err := exec.LookPath("ffprobe"); err != nil {
		return "", errors.New("no ffprobe in PATH")
	}
	path, err := exec.LookPath("ffmpeg")
	if err != nil {
		return "", errors.New("no ffmpeg in PATH")
	}
	return path, nil
}

// findChromium returns the path of the first browser that the tests can drive, under the names that
// distributions give it.
func findChromium() (string, error) {
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no chromium in PATH")
}

// exists reports whether there is a file or folder with the joined path.
func exists(elem ...string) bool {
	_, err := os.Stat(filepath.Join(elem...))
	return err == nil
}

// lastLine returns the last line of a command's output that is not empty.
func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}
