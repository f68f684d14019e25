package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// events are those of two packages: one with a test of each kind, and one that does not compile.
const events = `{"Action":"start","Package":"sluice/a"}
{"Action":"run","Package":"sluice/a","Test":"TestParent"}
{"Action":"run","Package":"sluice/a","Test":"TestParent/good"}
{"Action":"pass","Package":"sluice/a","Test":"TestParent/good"}
{"Action":"run","Package":"sluice/a","Test":"TestParent/bad"}
{"Action":"output","Package":"sluice/a","Test":"TestParent/bad","Output":"    a_test.go:3: soak: 3 rounds\n"}
{"Action":"fail","Package":"sluice/a","Test":"TestParent/bad"}
{"Action":"fail","Package":"sluice/a","Test":"TestParent"}
{"Action":"run","Package":"sluice/a","Test":"TestSkipped"}
{"Action":"output","Package":"sluice/a","Test":"TestSkipped","Output":"    a_test.go:4: needs PostgreSQL: run make test\n"}
{"Action":"skip","Package":"sluice/a","Test":"TestSkipped"}
{"Action":"run","Package":"sluice/a","Test":"TestLocal"}
{"Action":"output","Package":"sluice/a","Test":"TestLocal","Output":"    a_test.go:5: needs Ollama\n"}
{"Action":"skip","Package":"sluice/a","Test":"TestLocal"}
{"Action":"run","Package":"sluice/a","Test":"TestHangs"}
{"Action":"fail","Package":"sluice/a"}
{"Action":"start","Package":"sluice/b"}
{"Action":"fail","Package":"sluice/b"}
{"Action":"start","Package":"sluice/c"}
{"Action":"pass","Package":"sluice/c"}
`

// Only a soak shows what its tests have measured.
func TestAdd(t *testing.T) {
	for _, soak := range []string{"", "1"} {
		t.Run("soak="+soak, func(t *testing.T) {
			t.Setenv("SLUICE_SOAK", soak)
			var measured []string
			if soak != "" {
				measured = []string{"sluice/a TestParent/bad soak: 3 rounds"}
			}
			testAdd(t, measured)
		})
	}
}

func testAdd(t *testing.T, measured []string) {
	failures := []string{"sluice/a TestParent/bad", "sluice/a TestHangs: did not finish", "sluice/b "}
	for _, tt := range []struct {
		strict bool
		want   map[string][]string
	}{
		{false, map[string][]string{
			"passed":  {"sluice/a TestParent/good"},
			"failed":  failures,
			"skipped": {"sluice/a TestSkipped: needs PostgreSQL: run make test", "sluice/a TestLocal: needs Ollama"},
		}},
		{true, map[string][]string{
			"passed":  {"sluice/a TestParent/good"},
			"failed":  append(failures, "sluice/a TestSkipped: skipped although everything is installed: needs PostgreSQL: run make test"),
			"skipped": {"sluice/a TestLocal: needs Ollama"},
		}},
	} {
		if len(measured) > 0 {
			tt.want["measured"] = measured
		}
		r := &run{strict: tt.strict, results: map[string][]string{}}
		seen := newTally()
		// An event may be read in two parts.
		seen.read(strings.NewReader(events[:100]))
		seen.read(strings.NewReader(events[100:]))
		if !r.add(seen) {
			t.Errorf("add of failed tests = false, strict %t", tt.strict)
		}
		for _, lines := range []map[string][]string{r.results, tt.want} {
			for _, kind := range lines {
				slices.Sort(kind)
			}
		}
		if !maps.EqualFunc(r.results, tt.want, slices.Equal) {
			t.Errorf("results, strict %t = %q, want %q", tt.strict, r.results, tt.want)
		}
		if code := r.close(time.Now()); code != 1 {
			t.Errorf("exit code %d, want 1", code)
		}
		if want := []string{"sluice/a TestParent/bad soak: 3 rounds"}; !slices.Equal(seen.soak, want) {
			t.Errorf("soak = %q, want %q", seen.soak, want)
		}
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	now := time.Now()
	seen := newTally()
	if got, want := seen.progress(now, 3), "running"; got != want {
		t.Errorf("progress at first = %q, want %q", got, want)
	}
	seen.ended = 1
	seen.running = map[string]time.Time{"sluice/late": now.Add(-time.Second), "sluice/early": now.Add(-time.Minute)}
	if got, want := seen.progress(now, 5), "4 packages left, running early for 60s, late for 1s"; got != want {
		t.Errorf("progress = %q, want %q", got, want)
	}
}
