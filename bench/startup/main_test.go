package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		values []int64
		want   int64
	}{
		{[]int64{7}, 7},
		{[]int64{9, 1, 5}, 5},
		{[]int64{4, 1, 9, 2}, 3},
	} {
		if got := median(tt.values); got != tt.want {
			t.Errorf("median(%v) = %d, want %d", tt.values, got, tt.want)
		}
	}
}

// stub behaves like the command line that is measured, as far as the measuring needs it.
const stub = `package main

import (
	"fmt"
	"net/http"
	"os"
)

func main() {
	if os.Args[1] == "key" {
		fmt.Println("{\"key\":\"service-1\"}")
		return
	}
	http.HandleFunc("/readyz", func(w http.ResponseWriter, r *http.Request) {})
	http.HandleFunc("/v1/models", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer service-1" {
			w.WriteHeader(401)
		}
	})
	http.ListenAndServe(os.Args[5], nil)
}
`

func TestRun(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("memory is read the way Linux shows it")
	}
	dir := t.TempDir()
	source, bin := filepath.Join(dir, "stub.go"), filepath.Join(dir, "stub")
	if err := os.WriteFile(source, []byte(stub), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", bin, source).CombinedOutput(); err != nil {
		t.Fatalf("building the stub: %v\n%s", err, out)
	}
	var out strings.Builder
	if err := (plan{bin: bin, runs: 1}).run(t.Context(), &out); err != nil {
		t.Fatalf("run = %v", err)
	}
	for _, want := range []string{
		`(?m)^  a new data folder, until /readyz answers 200 +median +\d+\.\d ms   min +\d+\.\d ms   max +\d+\.\d ms$`,
		`(?m)^  a known data folder, until /v1/models answers 200 +median`,
		`(?m)^  idle memory 0s after the start, median of 1: \d+\.\d MB, of which \d+\.\d MB are not pages of the binary \(at most 33\.6\)$`,
		`(?m)^  size of the binary: \d+\.\d MB \(at most 50\.3\)$`,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("run printed no line like %s:\n%s", want, out.String())
		}
	}
}

func TestRunNamesWhatEnded(t *testing.T) {
	t.Parallel()
	// A shell takes "serve" for a script that is not there.
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	err = plan{bin: shell, runs: 1}.run(t.Context(), &strings.Builder{})
	if err == nil || !strings.Contains(err.Error(), "ended before /readyz") || !strings.Contains(err.Error(), "sh: ") {
		t.Errorf("run of a gateway that ends at once = %v, want an error with what it printed", err)
	}
}
