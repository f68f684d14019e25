package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestBenchmarked(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for path, text := range map[string]string{
		"go.mod":                   "module x",
		"internal/a/a_test.go":     "package a\n\nfunc BenchmarkA(b *testing.B) {}\n",
		"internal/a/b_test.go":     "package a\n\nfunc BenchmarkB(b *testing.B) {}\n",
		"internal/b/b_test.go":     "package b\n\n// func BenchmarkB(b *testing.B) is elsewhere\n",
		"internal/c/testdata/x.go": "func BenchmarkC(",
		"oracles/go.mod":           "module y",
		"oracles/o_test.go":        "package o\n\nfunc BenchmarkO(b *testing.B) {}\n",
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := benchmarked(root)
	if want := []string{"./internal/a"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("benchmarked = %q, %v, want %q", got, err, want)
	}
}
