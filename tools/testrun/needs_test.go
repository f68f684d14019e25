package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	if got, want := names(root), "gcc PostgreSQL ffmpeg Chromium"; got != want {
		t.Errorf("needs without oracles/node = %q, want %q", got, want)
	}
	if err := os.MkdirAll(nodeFolder(root), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(nodeFolder(root), "package.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, want := names(root), "gcc PostgreSQL ffmpeg Chromium Node.js"; got != want {
		t.Errorf("needs with oracles/node = %q, want %q", got, want)
	}
}

// Not parallel: it forbids installing through the environment.
func TestEnsureWhereNothingMayBeInstalled(t *testing.T) {
	t.Setenv("SLUICE_TEST_INSTALL", "no")
	table := []need{
		{"here", "one thing", []string{"a"}, func() (string, error) { return "/usr/bin/here", nil }},
		{"away", "another", []string{"b", "c"}, func() (string, error) { return "", errors.New("no away in PATH") }},
	}
	var out strings.Builder
	s := &session{ctx: t.Context(), out: &out}
	found, lost := s.ensure(table)
	if !found["here"] || found["away"] {
		t.Errorf("found = %v, want here alone", found)
	}
	if len(lost) != 1 || lost[0].need.name != "away" {
		t.Fatalf("lost = %v, want away alone", lost)
	}
	for _, want := range []string{"no away in PATH", "SLUICE_TEST_INSTALL=no", "Debian packages: b c"} {
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

func TestSessionValue(t *testing.T) {
	t.Parallel()
	s := &session{env: []string{"A=1", "AB=2", "A=3"}}
	for name, want := range map[string]string{"A": "3", "AB": "2", "B": ""} {
		if got := s.value(name); got != want {
			t.Errorf("value(%q) = %q, want %q", name, got, want)
		}
	}
}
