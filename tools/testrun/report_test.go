package main

import (
	"strings"
	"testing"
	"time"
)

func TestReport(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	r := newReport(&out)
	r.soaking = true
	r.pass("go vet", time.Second)
	r.add(&outcome{path: "p/good", passed: 2, skips: []skipped{{"p/good TestB", "soak tests run with make soak"}}})
	r.add(&outcome{path: "p/none", empty: true})
	r.add(&outcome{path: "p/bad", passed: 1, failed: true, failures: []string{"p/bad TestC"}, output: "    c_test.go:1: wrong\n"})
	r.add(&outcome{path: "p/long", passed: 1, cached: true, soak: []measure{{"p/long TestD", "7 calls"}}})
	r.skip("Node.js, for JavaScript clients", "no node in PATH")
	if code := r.close(); code != 1 {
		t.Errorf("close() = %d, want 1 after a failure", code)
	}
	text := out.String()
	for _, want := range []string{
		"ok    go vet", "ok    p/good", "(3 tests)", "---   p/none", "no tests", "FAIL  p/bad", "(1 of 2 tests)",
		"          c_test.go:1: wrong\n", " cached  (1 test)",
		"\nSoak\n  p/long TestD  7 calls\n",
		"\nSkipped\n  no node in PATH\n      Node.js, for JavaScript clients\n  soak tests run with make soak\n      p/good TestB\n",
		"\nFailed\n  p/bad TestC\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("report lacks %q:\n%s", want, text)
		}
	}
	if want := "\n5 passed, 1 failed, 2 skipped\n"; !strings.HasSuffix(text, want) {
		t.Errorf("report ends with %q, want %q", text[max(0, len(text)-40):], want)
	}
}

func TestReportWithoutFailure(t *testing.T) {
	t.Parallel()
	r := newReport(&strings.Builder{})
	r.pass("go vet", time.Second)
	r.skip("p TestA", "no reason given")
	if code := r.close(); code != 0 {
		t.Errorf("close() = %d, want 0 without a failure", code)
	}
}
