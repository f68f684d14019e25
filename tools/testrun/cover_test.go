package main

import (
	"maps"
	"strings"
	"testing"
)

func TestReadProfile(t *testing.T) {
	t.Parallel()
	// The first block is reached by the second test binary only.
	got, err := readProfile(strings.NewReader(`mode: set
sluice/internal/a/a.go:1.1,2.2 3 0
sluice/internal/a/a.go:1.1,2.2 3 1
sluice/internal/a/b.go:1.1,2.2 1 0
sluice/internal/b/b.go:1.1,2.2 5 0
sluice/internal/testkit/pgtest/server.go:1.1,2.2 5 1
`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]coverage{"sluice/internal/a": {3, 4}, "sluice/internal/b": {0, 5}}
	if !maps.Equal(got, want) {
		t.Errorf("readProfile = %v, want %v", got, want)
	}
	if p := got["sluice/internal/a"].percent(); p != 75 {
		t.Errorf("percent of 3 in 4 = %v, want 75", p)
	}
	if _, err := readProfile(strings.NewReader("mode: set\nnonsense\n")); err == nil {
		t.Error("readProfile of a broken line = nil error, want one")
	}
}
