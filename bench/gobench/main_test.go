package main

import (
	"strings"
	"testing"
)

const printed = `goos: linux
pkg: sluice/internal/ledger/usage
BenchmarkAppend-2         	  100	      1042 ns/op	      24 B/op	       1 allocs/op
BenchmarkAppend-2         	  100	      1000 ns/op	      24 B/op	       1 allocs/op
BenchmarkBatch/large-3-2  	  100	      99.5 ns/op
BenchmarkSizes-2          	  100	      12 B/account
PASS
ok  	sluice/internal/ledger/usage	1.2s
`

func TestRun(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for i, tt := range []struct{ in, want string }{
		{printed, "go test -bench: the first run on this machine"},
		{strings.ReplaceAll(strings.ReplaceAll(printed, "1042", "3042"), "1000 ns", "3000 ns"), "internal/ledger/usage Append: 3021 (3000 to 3042), was 1021 (1000 to 1042)"},
	} {
		var out strings.Builder
		if err := run(strings.NewReader(tt.in), &out, folder); err != nil {
			t.Fatalf("run %d = %v", i, err)
		}
		if !strings.HasPrefix(out.String(), tt.in) || !strings.Contains(out.String(), tt.want) {
			t.Errorf("run %d printed\n%s, want what it has read, and %q", i, &out, tt.want)
		}
	}
	if err := run(strings.NewReader("--- FAIL: BenchmarkX\nFAIL\n"), &strings.Builder{}, folder); err == nil {
		t.Error("run of a benchmark that failed = nil")
	}
	for line, want := range map[string]string{"BenchmarkBatch/large-3-2 100 99.5 ns/op": "Batch/large-3", "BenchmarkX 1 5 B/op": "", "ok x": ""} {
		if name, _, _ := parse(line); name != want {
			t.Errorf("parse(%s) = %q, want %q", line, name, want)
		}
	}
}
