package history

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is outside of the noise of both runs is told, and nothing else.
func TestAdd(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "results")
	add := func(suite string, figures ...Figure) string {
		t.Helper()
		var out strings.Builder
		if err := Add(folder, suite, figures, &out); err != nil {
			t.Fatalf("Add = %v", err)
		}
		return out.String()
	}
	if got := add("load", Figure{"a", []float64{10, 11, 12}}, Figure{"b", []float64{10, 11, 12}}, Figure{"c", []float64{10, 11, 12}}, Figure{"alone", []float64{5}}); !strings.Contains(got, "the first run on this machine") {
		t.Errorf("the first run = %q", got)
	}
	add("other", Figure{"a", []float64{1, 1, 1}})
	// A line that was cut off, by an interrupted run.
	files, err := filepath.Glob(filepath.Join(folder, "*.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files = %v, %v, want one for this machine", files, err)
	}
	f, err := os.OpenFile(files[0], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"suite":"load","figures":[` + "\n"); err != nil {
		t.Fatal(err)
	}
	f.Close()
	got := add("load", Figure{"a", []float64{12.5, 13, 14}}, Figure{"b", []float64{11, 12, 14}}, Figure{"c", []float64{8, 9, 7}}, Figure{"new", []float64{100, 100}}, Figure{"alone", []float64{50}}, Figure{"none", []float64{math.NaN(), math.Inf(1)}})
	for _, want := range []string{"slower by more than the noise: 1\n", "+18.2 %  a: 13 (12.5 to 14), was 11 (10 to 12)\n", "faster by more than the noise: 1\n", "-27.3 %  c:", "load: 5 figures beside"} {
		if !strings.Contains(got, want) {
			t.Errorf("the second run printed no %q:\n%s", want, got)
		}
	}
	for _, no := range []string{"  b:", "  new:", "  alone:", "none"} {
		if strings.Contains(got, no) {
			t.Errorf("the second run printed %q:\n%s", no, got)
		}
	}
	// One sample has no noise of its own; after three runs it has theirs.
	add("load", Figure{"alone", []float64{6}})
	if got := add("load", Figure{"alone", []float64{51}}); !strings.Contains(got, "slower by more than the noise: 1\n") || !strings.Contains(got, "alone: 51 (51 to 51), was 6 (5 to 50)") {
		t.Errorf("a figure with one sample above all earlier ones = %s", got)
	}
	if got := add("load", Figure{"alone", []float64{40}}); !strings.Contains(got, "slower by more than the noise: 0\n") {
		t.Errorf("a figure with one sample among earlier ones = %s", got)
	}
}
