package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestFuzzTargets(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for path, text := range map[string]string{
		"a/a_test.go":            "package a\n\nfunc FuzzOne(f *testing.F) {}\n\nfunc FuzzTwo(f *testing.F) {}\n",
		"a/a.go":                 "package a\n\nfunc FuzzNot() {}\n",
		"a/testdata/b_test.go":   "package b\n\nfunc FuzzData(f *testing.F) {}\n",
		"other/go.mod":           "module other\n",
		"other/other_test.go":    "package other\n\nfunc FuzzOther(f *testing.F) {}\n",
		"deep/er/deeper_test.go": "package er\n\n// func FuzzComment(\nfunc TestFuzz(t *testing.T) {}\n",
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := fuzzTargets(root)
	want := []target{{"./a", "FuzzOne"}, {"./a", "FuzzTwo"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("fuzzTargets = %v, %v, want %v", got, err, want)
	}
}

// The comparisons of the lane run for half an hour together. They are found by their names, so this
// fails if one is renamed or moved.
func TestFuzzTimes(t *testing.T) {
	t.Parallel()
	targets, err := fuzzTargets("../..")
	if err != nil {
		t.Fatal(err)
	}
	var lane time.Duration
	for _, target := range targets {
		if d := target.time(fuzzTime); d != fuzzTime {
			lane += d
		}
	}
	if lane != 30*time.Minute {
		t.Errorf("the comparisons of the lane are fuzzed for %v, want 30m", lane)
	}
}

func TestEndedLate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		out  string
		want bool
	}{
		{"--- FAIL: FuzzA (11.03s)\n    context deadline exceeded\nFAIL\n", true},
		{"--- FAIL: FuzzA (11.03s)\n    a_test.go:9: context deadline exceeded\n    Failing input written to testdata/fuzz/FuzzA/1\n", false},
		{"    context deadline exceeded\n    Failing input written to testdata/fuzz/FuzzA/1\n", false},
		{"--- FAIL: FuzzA (0.1s)\n    fuzzing process hung or terminated unexpectedly\n", false},
		{"", false},
	}
	for _, tt := range tests {
		if got := endedLate([]byte(tt.out)); got != tt.want {
			t.Errorf("endedLate(%q) = %v, want %v", tt.out, got, tt.want)
		}
	}
}
