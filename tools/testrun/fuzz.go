package main

import (
	"fmt"
	"regexp"
	"time"
)

// fuzzTime is how long a soak fuzzes each target; all of them together take about six minutes of its hour. In
// other runs their corpora are ordinary tests.
const fuzzTime = 10 * time.Second

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
		s.show("go", "test", "-run", "^$", "-fuzz", "^"+t.name+"$", "-fuzztime", fmt.Sprint(fuzzTime), t.pkg)
	}
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
