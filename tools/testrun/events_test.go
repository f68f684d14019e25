package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

// play processes events, one JSON object per line, and returns the packages that ended.
func play(t *testing.T, strict bool, lines string) []*outcome {
	t.Helper()
	tally := newTally(strict)
	var ended []*outcome
	for text := range strings.Lines(strings.TrimSpace(lines)) {
		var e event
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			t.Fatalf("event %s: %v", text, err)
		}
		if o := tally.add(e); o != nil {
			ended = append(ended, o)
		}
	}
	return ended
}

func TestTally(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		events   string
		passed   int
		failures []string
		skips    []skipped
		output   string
		empty    bool
		cached   bool
	}{
		{
			name: "subtests are counted, their parent is not",
			events: `
{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/one"}
{"Action":"pass","Package":"p","Test":"TestA/one"}
{"Action":"run","Package":"p","Test":"TestA/two"}
{"Action":"pass","Package":"p","Test":"TestA/two"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestAB"}
{"Action":"pass","Package":"p","Test":"TestAB"}
{"Action":"pass","Package":"p","Elapsed":0.5}`,
			passed: 3,
		},
		{
			name: "the report of a race is shown although the test that it stands in passed",
			events: `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestA","Output":"WARNING: DATA RACE\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"Read at 0x1 by goroutine 2:\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    testing.go:1: race detected during execution of test\n"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p","Elapsed":0.1}`,
			passed:   1,
			failures: []string{"p TestB"},
			output:   "WARNING: DATA RACE\nRead at 0x1 by goroutine 2:\n    testing.go:1: race detected during execution of test\n",
		},
		{
			name: "a failure brings its own output and its parent's, and nobody else's",
			events: `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: before\n"}
{"Action":"run","Package":"p","Test":"TestA/one"}
{"Action":"output","Package":"p","Test":"TestA/one","Output":"    a_test.go:2: F(1) = 2, want 3\n"}
{"Action":"fail","Package":"p","Test":"TestA/one"}
{"Action":"run","Package":"p","Test":"TestA/two"}
{"Action":"output","Package":"p","Test":"TestA/two","Output":"    a_test.go:3: fine\n"}
{"Action":"pass","Package":"p","Test":"TestA/two"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"FAIL\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p","Elapsed":0.1}`,
			passed:   1,
			failures: []string{"p TestA/one"},
			output:   "    a_test.go:1: before\n    a_test.go:2: F(1) = 2, want 3\n",
		},
		{
			name: "a package that does not build",
			events: `
{"Action":"build-output","ImportPath":"p [p.test]","Output":"# p [p.test]\n"}
{"Action":"build-output","ImportPath":"p [p.test]","Output":"./p_test.go:3:1: undefined: x\n"}
{"Action":"build-fail","ImportPath":"p [p.test]"}
{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}
{"Action":"fail","Package":"p","FailedBuild":"p [p.test]"}`,
			failures: []string{"p (does not build)"},
			output:   "# p [p.test]\n./p_test.go:3:1: undefined: x\n",
			empty:    true,
		},
		{
			name: "a process that dies is blamed on the test that ran, not on the ones that waited",
			events: `
{"Action":"run","Package":"p","Test":"TestWaits"}
{"Action":"pause","Package":"p","Test":"TestWaits"}
{"Action":"run","Package":"p","Test":"TestHangs"}
{"Action":"output","Package":"p","Test":"TestHangs","Output":"panic: test timed out after 8m0s\n"}
{"Action":"fail","Package":"p","Elapsed":480}`,
			failures: []string{"p TestHangs (did not finish)"},
			output:   "panic: test timed out after 8m0s\n",
		},
		{
			name: "a package that fails after its tests passed",
			events: `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"goleak: a goroutine is left\n"}
{"Action":"output","Package":"p","Output":"exit status 1\n"}
{"Action":"fail","Package":"p"}`,
			passed:   1,
			failures: []string{"p"},
			output:   "goleak: a goroutine is left\n",
		},
		{
			name: "a skip keeps the last thing the test said",
			events: `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: looking\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:2: soak tests run with make soak\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- SKIP: TestA (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p"}`,
			skips: []skipped{{"p TestA", "soak tests run with make soak"}},
		},
		{
			name: "no tests",
			events: `
{"Action":"output","Package":"p","Output":"?   \tp\t[no test files]\n"}
{"Action":"skip","Package":"p"}`,
			empty: true,
		},
		{
			name: "cached",
			events: `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"ok  \tp\t(cached)\n"}
{"Action":"pass","Package":"p"}`,
			passed: 1,
			cached: true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ended := play(t, true, tt.events)
			if len(ended) != 1 {
				t.Fatalf("packages that ended = %d, want 1", len(ended))
			}
			o := ended[0]
			if o.passed != tt.passed {
				t.Errorf("passed = %d, want %d", o.passed, tt.passed)
			}
			if !slices.Equal(o.failures, tt.failures) {
				t.Errorf("failures = %q, want %q", o.failures, tt.failures)
			}
			if o.failed != (len(tt.failures) > 0) {
				t.Errorf("failed = %t, want %t", o.failed, len(tt.failures) > 0)
			}
			if !slices.Equal(o.skips, tt.skips) {
				t.Errorf("skips = %q, want %q", o.skips, tt.skips)
			}
			if o.output != tt.output {
				t.Errorf("output = %q, want %q", o.output, tt.output)
			}
			if o.empty != tt.empty || o.cached != tt.cached {
				t.Errorf("empty, cached = %t, %t, want %t, %t", o.empty, o.cached, tt.empty, tt.cached)
			}
		})
	}
}

// The compiler's output for a shared package is printed once, however many packages need it.
func TestTallyBuildOutputOnce(t *testing.T) {
	t.Parallel()
	ended := play(t, true, `
{"Action":"build-output","ImportPath":"dep","Output":"dep.go:1:1: broken\n"}
{"Action":"fail","Package":"a","FailedBuild":"dep"}
{"Action":"fail","Package":"b","FailedBuild":"dep"}`)
	if len(ended) != 2 {
		t.Fatalf("packages that ended = %d, want 2", len(ended))
	}
	if got, want := ended[0].output, "dep.go:1:1: broken\n"; got != want {
		t.Errorf("output of the first = %q, want %q", got, want)
	}
	if got, want := ended[1].output, "dep does not build: see above\n"; got != want {
		t.Errorf("output of the second = %q, want %q", got, want)
	}
}

func TestSkipForWantOfANeed(t *testing.T) {
	t.Parallel()
	const events = `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:2: REASON\n"}
{"Action":"skip","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p"}`
	for _, tt := range []struct {
		reason string
		strict bool
		failed bool
	}{
		{"needs PostgreSQL: run make test, or set SLUICE_TEST_POSTGRES", true, true},
		{"needs PostgreSQL: run make test, or set SLUICE_TEST_POSTGRES", false, false},
		{"needs Node.js", true, true},
		{"needs Ollama on this machine", true, false},
		{"needs a llama.cpp server", true, false},
		{"needs a newer Node: 22 or later, not v20.1.0", true, false},
		{"soak tests run with make soak", true, false},
		{"nothing here needs testing", true, false},
	} {
		o := play(t, tt.strict, strings.Replace(events, "REASON", tt.reason, 1))[0]
		if o.failed != tt.failed {
			t.Errorf("skip because %q, strict %t: failed = %t, want %t", tt.reason, tt.strict, o.failed, tt.failed)
		}
		if got, want := len(o.skips) == 0, tt.failed; got != want {
			t.Errorf("skip because %q, strict %t: skips = %q", tt.reason, tt.strict, o.skips)
		}
		if tt.failed && !strings.Contains(o.output, tt.reason) {
			t.Errorf("skip because %q: output = %q, want the reason in it", tt.reason, o.output)
		}
	}
}

func TestTallySoakLines(t *testing.T) {
	t.Parallel()
	o := play(t, true, `
{"Action":"run","Package":"p","Test":"TestLong"}
{"Action":"output","Package":"p","Test":"TestLong","Output":"    long_test.go:9: soak: 12000 calls, 0 lost\n"}
{"Action":"output","Package":"p","Test":"TestLong","Output":"    long_test.go:9: no soak: here\n"}
{"Action":"pass","Package":"p","Test":"TestLong"}
{"Action":"pass","Package":"p"}`)[0]
	if want := []measure{{"p TestLong", "12000 calls, 0 lost"}}; !slices.Equal(o.soak, want) {
		t.Errorf("soak = %q, want %q", o.soak, want)
	}
}

func TestStillRunning(t *testing.T) {
	t.Parallel()
	now := time.Now()
	tally := newTally(true)
	if got, want := tally.stillRunning(now), "building"; got != want {
		t.Errorf("stillRunning with nothing started = %q, want %q", got, want)
	}
	tally.running["young"] = &progress{began: now.Add(-5 * time.Second)}
	tally.running["old"] = &progress{began: now.Add(-65 * time.Second)}
	if got, want := tally.stillRunning(now), "running old for 65s, young for 5s"; got != want {
		t.Errorf("stillRunning = %q, want %q", got, want)
	}
}
