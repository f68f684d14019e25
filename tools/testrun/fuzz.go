package main

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"time"
)

// fuzzTime is how long a soak fuzzes each target, and laneTime those that compare package lane with
// net/http: a difference there can hide a request from whatever stands in front of us. All of
// them together take about 36 minutes. In other runs the corpora are ordinary tests.
const (
	fuzzTime = 10 * time.Second
	laneTime = 15 * time.Minute
)

// fuzzAttempts is how many times a target is fuzzed if the fuzzer itself fails; see endedLate.
const fuzzAttempts = 3

// fuzzFunc finds fuzz targets by their text, as benchmarkFunc finds benchmarks.
var fuzzFunc = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)

// target is one fuzz target: its package, as go test names it, and its function.
type target struct{ pkg, name string }

// time returns how long the target is fuzzed.
func (t target) time() time.Duration {
	if t.pkg == "./internal/lane" {
		return laneTime
	}
	return fuzzTime
}

// fuzz looks for inputs that break what the corpora do not, one target after the other. Go fuzzes only one target
// per command, and each uses all cores.
func (s *session) fuzz() {
	targets, err := fuzzTargets(s.root)
	if err != nil {
		s.report.failWith("fuzz targets", err.Error())
		return
	}
	for _, t := range targets {
		s.fuzzOne(t)
	}
}

// fuzzOne fuzzes a target for its time. An input that fails is a failure at once; Go writes it to the target's
// testdata, where the next run of the tests finds it.
func (s *session) fuzzOne(t target) {
	for attempt := 1; s.ctx.Err() == nil; attempt++ {
		var out bytes.Buffer
		// The output is shown as it comes and kept, to find out why a run failed.
		// Without a bound most of the time is spent on making interesting inputs shorter.
		text, err := s.showTo(io.MultiWriter(s.out, &out), "go", "test", "-run", "^$", "-fuzz", "^"+t.name+"$", "-fuzztime", fmt.Sprint(t.time()), "-fuzzminimizetime", "100x", t.pkg)
		if err == nil {
			return
		}
		// A real failure is never retried.
		if attempt == fuzzAttempts || !endedLate(out.Bytes()) {
			s.report.failWith(text, err.Error())
			return
		}
		fmt.Fprintf(s.out, "%s: the fuzzer was still minimizing when its time was up; retrying\n", t.name)
	}
}

// endedLate reports whether a fuzz run failed only because its time ended while the fuzzer was minimizing an
// input. Go reports that as a failure without a failing input. A real failure names the file that it wrote.
func endedLate(out []byte) bool {
	return bytes.Contains(out, []byte("    context deadline exceeded\n")) && !bytes.Contains(out, []byte("Failing input written to"))
}

// fuzzTargets returns all fuzz targets of the module.
func fuzzTargets(root string) (targets []target, err error) {
	err = testFiles(root, func(pkg string, text []byte) {
		for _, m := range fuzzFunc.FindAllSubmatch(text, -1) {
			targets = append(targets, target{pkg, string(m[1])})
		}
	})
	return targets, err
}
