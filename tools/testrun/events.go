package main

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

// event is one line of "go test -json". The names of the fields are those of the JSON; see
// "go doc test2json".
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64 // seconds
	// ImportPath is the package of a build-output event.
	ImportPath string
	// FailedBuild is the ImportPath whose build failed, on a package that could not be built
	// because of it.
	FailedBuild string
}

// tally follows the events of one "go test -json" and summarizes each package when it ends. Events of
// several packages come mixed, because go test runs packages in parallel.
type tally struct {
	// strict makes a test fail that skips although everything it needs is there.
	strict  bool
	running map[string]*progress
	// builds holds the compiler's output by import path.
	builds map[string]string
}

// newTally returns a tally that has seen no event yet.
func newTally(strict bool) *tally {
	return &tally{strict: strict, running: map[string]*progress{}, builds: map[string]string{}}
}

// progress is a package whose tests are running. It keeps all output, because only the end tells which
// part of it is worth printing.
type progress struct {
	began time.Time
	// states holds the last action of each test: run, pause, cont, pass, fail or skip.
	states map[string]string
	// order holds the tests in the order of their first events.
	order []string
	lines []line
}

// line is one line of output. test is empty if it belongs to the package as a whole.
type line struct{ test, text string }

// outcome is the result of a package, as the report prints it.
type outcome struct {
	path    string
	elapsed time.Duration
	cached  bool
	failed  bool
	// unbuilt reports that the package does not compile, and empty that it has no tests.
	unbuilt bool
	empty   bool

	passed int
	// failures holds the failed tests, or the package itself if no test is to blame.
	failures []string
	skips    []skipped
	// output is the complete output of what failed.
	output string
	soak   []measure
}

// skipped is a test, or a part of the run, that was skipped.
type skipped struct{ name, reason string }

// measure is a line that a soak test reports, with figures for the report.
type measure struct{ test, text string }

// add processes the next event. It returns the package's outcome if this event ends a package,
// and nil otherwise. Events of actions that it does not know are ignored: newer versions of Go add some.
func (t *tally) add(e event) *outcome {
	// Compiler output comes before the package event that refers to it.
	if e.Action == "build-output" {
		t.builds[e.ImportPath] += e.Output
		return nil
	}
	// Other events of the build belong to no package.
	if e.Package == "" {
		return nil
	}
	p := t.running[e.Package]
	if p == nil {
		p = &progress{began: time.Now(), states: map[string]string{}}
		t.running[e.Package] = p
	}
	switch e.Action {
	case "output":
		p.lines = append(p.lines, line{e.Test, e.Output})
	case "run", "pause", "cont", "pass", "fail", "skip":
		// An event without a test is the last one of its package.
		if e.Test == "" {
			delete(t.running, e.Package)
			return t.end(p, e)
		}
		if _, known := p.states[e.Test]; !known {
			p.order = append(p.order, e.Test)
		}
		p.states[e.Test] = e.Action
	}
	return nil
}

// end summarizes a package whose last event is e. A package fails if one of its tests does, if one
// skips although t is strict, or if the process died without naming a test.
func (t *tally) end(p *progress, e event) *outcome {
	o := &outcome{
		path:    e.Package,
		elapsed: time.Duration(e.Elapsed * float64(time.Second)),
		failed:  e.Action == "fail",
		unbuilt: e.FailedBuild != "",
		empty:   e.Action == "skip" || len(p.order) == 0,
	}
	for _, l := range p.lines {
		// The event has no field for cached results, only the output line shows it.
		if l.test == "" && strings.HasPrefix(l.text, "ok ") && strings.Contains(l.text, "\t(cached)") {
			o.cached = true
		}
		// Soak tests log figures in lines that start with "soak:".
		if text := message(l.text); strings.HasPrefix(text, "soak:") && p.states[l.test] != "skip" {
			o.soak = append(o.soak, measure{o.path + " " + l.test, strings.TrimSpace(strings.TrimPrefix(text, "soak:"))})
		}
	}

	// blamed holds the tests whose output is shown. The package's own output always is.
	blamed := map[string]bool{"": true}
	for _, name := range p.order {
		full := o.path + " " + name
		switch p.states[name] {
		case "pass":
			// A test with subtests is not counted in addition to them.
			if !p.hasChildren(name, "") {
				o.passed++
			}
		case "fail":
			blamed[name] = true
			// A test that failed because of its subtests is not counted in addition to them.
			if !p.hasChildren(name, "fail") {
				o.failures = append(o.failures, full)
			}
		case "skip":
			reason := p.reason(name)
			// Otherwise a broken setup would silently skip tests.
			if t.strict && unmetNeed(reason) {
				blamed[name] = true
				o.failures = append(o.failures, full+" (skipped although everything it needs is installed)")
			} else {
				o.skips = append(o.skips, skipped{full, reason})
			}
		}
	}
	// A panic or a timeout ends the process before any test can report.
	if o.failed && len(o.failures) == 0 {
		o.blamePackage(p, blamed)
	}
	// A strict skip fails a package that go test has passed.
	o.failed = len(o.failures) > 0
	if o.failed {
		// The report of a race is among the output of whatever test ran at that moment.
		for _, l := range p.lines {
			if strings.Contains(l.text, "WARNING: DATA RACE") {
				blamed[l.test] = true
			}
		}
		o.output = t.build(e.FailedBuild) + p.text(blamed)
	}
	return o
}

// blamePackage names what failed when no test reported a failure: the tests that were running
// when the process died, or else the package.
func (o *outcome) blamePackage(p *progress, blamed map[string]bool) {
	for _, name := range p.order {
		if state := p.states[name]; (state == "run" || state == "cont") && !p.hasChildren(name, "") {
			blamed[name] = true
			o.failures = append(o.failures, o.path+" "+name+" (did not finish)")
		}
	}
	switch {
	case o.unbuilt:
		o.failures = []string{o.path + " (does not build)"}
	case len(o.failures) == 0:
		o.failures = []string{o.path}
		for _, name := range p.order { // any test's output may contain the reason
			blamed[name] = true
		}
	}
}

// build returns the compiler's output for an import path. Several packages may fail because of
// the same one, so the output is returned only once.
func (t *tally) build(path string) string {
	text := t.builds[path]
	if text != "" {
		// The next package that needs it gets this line instead.
		t.builds[path] = path + " does not build: see above\n"
	}
	return text
}

// hasChildren reports whether a test has subtests, in the given state unless that is empty.
func (p *progress) hasChildren(name, state string) bool {
	return slices.ContainsFunc(p.order, func(other string) bool {
		return strings.HasPrefix(other, name+"/") && (state == "" || p.states[other] == state)
	})
}

// reason returns the last message of a skipped test, which is what t.Skip printed.
func (p *progress) reason(name string) string {
	for _, l := range slices.Backward(p.lines) {
		if l.test == name {
			if text := message(l.text); text != "" {
				return text
			}
		}
	}
	return "no reason given"
}

// text returns the output of the blamed tests, without go test's own status lines.
func (p *progress) text(blamed map[string]bool) string {
	var b strings.Builder
	for _, l := range p.lines {
		if blamed[l.test] && !bookkeeping.MatchString(l.text) {
			b.WriteString(l.text)
		}
	}
	return b.String()
}

var (
	// bookkeeping matches status lines of go test. logged matches a line of t.Log.
	bookkeeping = regexp.MustCompile(`^(=== (RUN|PAUSE|CONT|NAME) |(FAIL|PASS)\n|(FAIL|ok  |\?   )\t|coverage: |exit status )`)
	logged      = regexp.MustCompile(`^\s*\S+\.go:\d+: (.*)\n?$`)
)

// message returns the text of a line that a test logged, or "" for any other line.
func message(text string) string {
	if m := logged.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

// uninstalled lists the needs that this command never provides, or only in a soak. Tests may always skip
// for them.
var uninstalled = []string{"Ollama", "llama.cpp", "a newer Node", "agents"}

// unmetNeed reports whether a test skipped for lack of something that this command provides. By
// convention such a message starts with "needs".
func unmetNeed(reason string) bool {
	return strings.HasPrefix(reason, "needs ") && !slices.ContainsFunc(uninstalled, func(name string) bool {
		return strings.Contains(reason, name)
	})
}
