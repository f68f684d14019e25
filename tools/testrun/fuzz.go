package main

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"time"
)

// fuzzTime is how long a soak fuzzes each target; all of them together take about six minutes of its hour. In
// other runs their corpora are ordinary tests.
const fuzzTime = 10 * time.Second

// fuzzAttempts is how often a target is fuzzed when the fuzzer itself fails: see endedLate.
const fuzzAttempts = 3

var fuzzFunc = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)

// target is one thing to fuzz.
type target struct{ pkg, name string }

// fuzz looks for inputs that break what the corpora do not, one target after the other.
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

func (s *session) fuzzOne(t target) {
	for attempt := 1; s.ctx.Err() == nil; attempt++ {
		var out bytes.Buffer
		text, err := s.showTo(io.MultiWriter(s.out, &out), "go", "test", "-run", "^$", "-fuzz", "^"+t.name+"$", "-fuzztime", fmt.Sprint(fuzzTime), t.pkg)
		if err == nil {
			return
		}
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

// fuzzTargets are all of the module's.
func fuzzTargets(root string) (targets []target, err error) {
	err = testFiles(root, func(pkg string, text []byte) {
		for _, m := range fuzzFunc.FindAllSubmatch(text, -1) {
			targets = append(targets, target{pkg, string(m[1])})
		}
	})
	return targets, err
}
