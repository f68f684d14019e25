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

	"sluice/internal/pgtest"
)

// need is something outside the repository that tests use.
type need struct {
	// name is what tests call it when they skip: "needs PostgreSQL".
	name string
	// purpose says what is skipped without it.
	purpose string
	// packages are the Debian packages that provide it.
	packages []string
	// find returns where it is, or an error that says what is wrong.
	find func() (where string, err error)
}

// needs returns everything that the tests under root need. To let tests use another program,
// add a row here.
func needs(root string) []need {
	table := []need{
		{"gcc", "the race detector", []string{"gcc", "libc6-dev"}, findGCC},
		{"PostgreSQL", "the tests of the PostgreSQL store", []string{"postgresql"}, findPostgres},
		{"ffmpeg", "the tests that decode video clips", []string{"ffmpeg"}, findFfmpeg},
		{"Chromium", "the tests in a browser", []string{"chromium"}, findChromium},
	}
	if exists(nodeFolder(root), "package.json") {
		table = append(table, need{"Node.js", "the tests with JavaScript clients", []string{"nodejs", "npm"}, findNode})
	}
	return table
}

// missing is a need that is not met, and the reason.
type missing struct {
	need   need
	reason string
}

// ensure looks for every need and installs what is missing, if it may. It returns the names of
// what is there in the end, and what is not.
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
	// The tests that need nothing of this still run.
	if err := s.install(packages); err != nil {
		for i := range lost {
			lost[i].reason += fmt.Sprintf("; %v (Debian packages: %s)", err, strings.Join(lost[i].need.packages, " "))
		}
		return found, lost
	}
	return found, s.look(again, found)
}

// look prints where each need is, adds it to found, and returns those that are missing.
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

// install installs Debian packages. The error says why it could not; it becomes part of the
// report.
func (s *session) install(packages []string) error {
	if os.Getenv("SLUICE_TEST_INSTALL") == "no" {
		return errors.New("not installed because SLUICE_TEST_INSTALL=no")
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return errors.New("there is no apt-get on this machine: install it yourself")
	}
	prefix, err := asRoot(s.ctx)
	if err != nil {
		return err
	}
	for _, args := range [][]string{
		// Package lists of a fresh container are empty.
		{"update"},
		append([]string{"install", "-y", "--no-install-recommends"}, packages...),
	} {
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

// asRoot returns the prefix of a command that needs root: nothing, or sudo if it works without
// a password.
func asRoot(ctx context.Context) ([]string, error) {
	if os.Geteuid() == 0 {
		return nil, nil
	}
	if exec.CommandContext(ctx, "sudo", "-n", "true").Run() == nil {
		return []string{"sudo", "-n"}, nil
	}
	return nil, errors.New("installing it needs root")
}

// findGCC looks for a C compiler, which the race detector needs.
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

// findPostgres looks for the server programs, which Debian keeps out of PATH.
func findPostgres() (string, error) {
	programs, err := pgtest.Find()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s (version %d)", programs.Dir, programs.Version), nil
}

// oldestNode is the oldest major version that the JavaScript clients in oracles/node run on.
const oldestNode = 18

// findNode looks for node and npm in a recent version.
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

// findFfmpeg looks for ffmpeg and ffprobe, which comes with it.
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

// findChromium looks for a browser under its usual names.
func findChromium() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no chromium in PATH")
}

// exists reports whether a path exists.
func exists(elem ...string) bool {
	_, err := os.Stat(filepath.Join(elem...))
	return err == nil
}

// lastLine returns the last non-empty line of a command's output.
func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}
