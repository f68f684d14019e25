package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
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
