package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestNeedsTable(t *testing.T) {
	t.Parallel()
	names := func(root string) string {
		var all []string
		for _, n := range needs(root) {
			all = append(all, n.name)
			if n.purpose == "" || len(n.packages) == 0 || n.find == nil {
				t.Errorf("need %q is incomplete: it wants a purpose, packages and find", n.name)
			}
		}
		return strings.Join(all, " ")
	}

	root := t.TempDir()
	if got, want := names(root), "gcc PostgreSQL redis-server nginx HAProxy curl Prometheus systemd podman ffmpeg Chromium"; got != want {
		t.Errorf("needs without oracles/node = %q, want %q", got, want)
	}
	if err := os.MkdirAll(nodeFolder(root), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(nodeFolder(root), "package.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, want := names(root), "gcc PostgreSQL redis-server nginx HAProxy curl Prometheus systemd podman ffmpeg Chromium Node.js"; got != want {
		t.Errorf("needs with oracles/node = %q, want %q", got, want)
	}
}

// table returns a need that is met and one that is not.
func table() []need {
	return []need{
		{"here", "one thing", []string{"a"}, func() (string, error) { return "/usr/bin/here", nil }},
		{"away", "another", []string{"b", "c"}, func() (string, error) { return "", errors.New("no away in PATH") }},
	}
}

func TestEnsureWhereNothingMayBeInstalled(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	s := &session{ctx: t.Context(), out: &out, env: []string{"SLUICE_INSTALL=no"}}
	found, lost := s.ensure(table())
	if !found["here"] || found["away"] {
		t.Errorf("found = %v, want here alone", found)
	}
	if len(lost) != 1 || lost[0].need.name != "away" {
		t.Fatalf("lost = %v, want away alone", lost)
	}
	for _, want := range []string{"no away in PATH", "SLUICE_INSTALL=no", "Debian packages: b c"} {
		if !strings.Contains(lost[0].reason, want) {
			t.Errorf("reason = %q, want %q in it", lost[0].reason, want)
		}
	}
	for _, want := range []string{"/usr/bin/here", "missing: no away in PATH"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("printed %q, want %q in it", out.String(), want)
		}
	}
}

func TestRefuse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		env   []string
		table []need
		want  bool
	}{
		{"installing is allowed", nil, table(), false},
		{"nothing is missing", []string{"SLUICE_INSTALL=no"}, table()[:1], false},
		{"something is missing", []string{"SLUICE_INSTALL=no"}, table(), true},
	} {
		var out strings.Builder
		s := &session{root: t.TempDir(), out: &out, env: tt.env, report: newReport(&out)}
		if got := s.refuse(tt.table); got != tt.want {
			t.Errorf("%s: refuse = %t, want %t", tt.name, got, tt.want)
		}
		if code := s.report.close(); (code != 0) != tt.want {
			t.Errorf("%s: exit code %d, want a failure: %t", tt.name, code, tt.want)
		}
		for _, want := range []string{"away, for another: no away in PATH", "apt-get install b c", "Nothing was installed", "SLUICE_INSTALL=no"} {
			if strings.Contains(out.String(), want) != tt.want {
				t.Errorf("%s: printed %q; %q in it should be %t", tt.name, out.String(), want, tt.want)
			}
		}
	}
}

// npm packages count as installed only while the stamp matches the lock file.
func TestLacksNodePackages(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, "{}", nodeFolder(root), "package.json")
	write(t, "1", nodeFolder(root), "package-lock.json")
	s := &session{root: root}
	if lost := s.lacks(nil); len(lost) != 1 || !strings.Contains(lost[0], "npm ci") {
		t.Errorf("lacks without node_modules = %q, want the npm packages", lost)
	}
	stamp, want, err := nodeStamp(nodeFolder(root))
	if err != nil {
		t.Fatal(err)
	}
	write(t, want, stamp)
	if lost := s.lacks(nil); len(lost) != 0 {
		t.Errorf("lacks with node_modules = %q, want nothing", lost)
	}
	if err := os.Remove(stamp); err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(filepath.Dir(stamp), ".package-lock.json")
	write(t, "", list) // npm ci by hand
	if lost := s.lacks(nil); len(lost) != 0 {
		t.Errorf("lacks after npm ci = %q, want nothing", lost)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(list, old, old); err != nil {
		t.Fatal(err)
	}
	if lost := s.lacks(nil); len(lost) != 1 {
		t.Errorf("lacks after an npm ci for an older lock file = %q, want the npm packages", lost)
	}
	write(t, want, stamp)
	write(t, "2", nodeFolder(root), "package-lock.json")
	if lost := s.lacks(nil); len(lost) != 1 {
		t.Errorf("lacks with the node_modules of another lock file = %q, want the npm packages", lost)
	}
}

func write(t *testing.T, text string, elem ...string) {
	t.Helper()
	name := filepath.Join(elem...)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestAnnounce(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	s := &session{out: &out, mode: mode{name: "test"}}
	s.announce([]string{"gcc", "postgresql"})
	const want = "INSTALLING SYSTEM PACKAGES with apt-get: gcc postgresql. To avoid this, press Ctrl-C and run make test with SLUICE_INSTALL=no, which lists what is missing and installs nothing.\n"
	if out.String() != want {
		t.Errorf("announce printed %q, want %q", out.String(), want)
	}
}

// Long runs say how long they take, and a run that would install something can be told not to.
func TestPlans(t *testing.T) {
	t.Parallel()
	for _, m := range modes() {
		if m.takes == "" || len(m.plan) == 0 {
			t.Errorf("mode %s does not say what it does and how long it takes", m.name)
		}
	}
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	// In a fresh clone the go command downloads modules before testrun can print anything, so the
	// first line is the Makefile's.
	_, recipe, _ := strings.Cut(string(makefile), "\ntest: ")
	lines := strings.SplitN(recipe, "\n", 3)
	if len(lines) < 3 || !strings.HasPrefix(lines[1], "\t@echo ") {
		t.Fatalf("the recipe of make test begins with %q, want a line for the reader", lines)
	}
	for _, want := range []string{"lint", "all tests", "about " + modes()[0].takes, "apt-get", "SLUICE_INSTALL=no"} {
		if !strings.Contains(lines[1], want) {
			t.Errorf("make test begins with %q, want %q in it", lines[1], want)
		}
	}
}

func TestSessionValue(t *testing.T) {
	t.Parallel()
	s := &session{env: []string{"A=1", "AB=2", "A=3"}}
	for name, want := range map[string]string{"A": "3", "AB": "2", "B": ""} {
		if got := s.value(name); got != want {
			t.Errorf("value(%q) = %q, want %q", name, got, want)
		}
	}
}
