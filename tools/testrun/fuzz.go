package main

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"time"
)

// fuzzTime is how long a soak fuzzes each target, and laneTime those that compare package lane with
// net/http: a difference there can hide a request from whatever stands in front of us. longTime is what make
// fuzz gives to each of the others. In other runs the corpora are ordinary tests.
const (
	fuzzTime = 10 * time.Second
	laneTime = 15 * time.Minute
	longTime = 10 * time.Minute
)

// fuzzAttempts is how many times a target is fuzzed if the fuzzer itself fails; see endedLate.
const fuzzAttempts = 3

// fuzzFunc finds fuzz targets by their text, as benchmarkFunc finds benchmarks.
var fuzzFunc = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)

// target is one fuzz target: its package, as go test names it, and its function.
type target struct{ pkg, name string }

// time returns how long the target is fuzzed; the lane's have their own time.
func (t target) time(others time.Duration) time.Duration {
	if t.pkg == "./internal/kit/lane" {
		return laneTime
	}
	return others
}

// fuzz looks for inputs that break what the corpora do not, one target after the other. Go fuzzes only one target
// per command.
func (s *session) fuzz() {
	targets, err := fuzzTargets(s.root)
	if err != nil {
		s.report.failWith("fuzz targets", err.Error())
		return
	}
	for _, failed := range s.fuzzEach(targets, longTime) {
		s.report.failWith(failed.name, failed.text)
	}
}

// fuzzBeside fuzzes with what the tests leave of the machine: the lane's targets, and beside them the others, which
// together take as long. The caller must call wait at the end, which returns when all targets had their time and
// reports what failed.
func (s *session) fuzzBeside() (wait func()) {
	targets, err := fuzzTargets(s.root)
	if err != nil {
		return func() { s.report.failWith("fuzz targets", err.Error()) }
	}
	var lane, others []target
	for _, t := range targets {
		if t.time(fuzzTime) == laneTime {
			lane = append(lane, t)
		} else {
			others = append(others, t)
		}
	}
	// The environment grows while the tests run.
	beside := *s
	beside.env = slices.Clone(s.env)
	found := make(chan []failure, 2)
	for _, targets := range [][]target{lane, others} {
		go func() {
			// Nicer than the tests, and yet not so nice that a build takes minutes while they keep the machine busy.
			found <- beside.fuzzEach(targets, fuzzTime, "nice", "-n", "10")
		}()
	}
	return func() {
		fmt.Fprintln(s.out, "the tests have ended; what is left to fuzz:")
		for range cap(found) {
			for _, failed := range <-found {
				s.report.failWith(failed.name, failed.text)
			}
		}
	}
}

// failure is a check that failed, and what it printed.
type failure struct{ name, text string }

// fuzzEach fuzzes the targets in turn, with words in front of each command, and returns those that failed.
func (s *session) fuzzEach(targets []target, each time.Duration, before ...string) (failures []failure) {
	for i, t := range targets {
		if s.ctx.Err() != nil {
			return failures
		}
		began := time.Now()
		if text, err := s.fuzzOne(t, t.time(each), before); err != nil {
			failures = append(failures, failure{t.pkg + " " + t.name, text + err.Error()})
			fmt.Fprintf(s.out, "FAIL  %s %s: reported at the end\n", t.pkg, t.name)
			continue
		}
		fmt.Fprintf(s.out, "fuzz  %-40s %6.2fs  (%d of %d)\n", t.pkg+" "+t.name, time.Since(began).Seconds(), i+1, len(targets))
	}
	return failures
}

// fuzzOne fuzzes a target for a time and returns what was printed. An input that fails is a failure at once; Go
// writes it to the target's testdata, where the next run of the tests finds it.
func (s *session) fuzzOne(t target, d time.Duration, before []string) (text string, err error) {
	for range fuzzAttempts {
		var out bytes.Buffer
		// Without a bound most of the time is spent on making interesting inputs shorter.
		line := append(slices.Clip(before), "go", "test", "-run", "^$", "-fuzz", "^"+t.name+"$", "-fuzztime", fmt.Sprint(d), "-fuzzminimizetime", "100x", t.pkg)
		cmd := s.command(s.root, line[0], line[1:]...)
		cmd.Stdout, cmd.Stderr = &out, &out
		err = cmd.Run()
		// A real failure is never retried.
		if text = out.String(); err == nil || s.ctx.Err() != nil || !endedLate(out.Bytes()) {
			break
		}
	}
	return text, err
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
