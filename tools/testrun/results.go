package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// tally is what the events of one go test say.
type tally struct {
	part    []byte               // the beginning of an event that is not complete
	last    map[test]string      // the last action of each test, and of each package as a test without a name
	said    map[test]string      // the last line that each test logged
	soak    []string             // lines that begin with "soak:"
	running map[string]time.Time // packages, and when they started
	ended   int                  // packages
}

// test is the name of a test.
type test struct{ pkg, name string }

func newTally() *tally {
	return &tally{last: map[test]string{}, said: map[test]string{}, running: map[string]time.Time{}}
}

// logged matches a line of t.Log.
var logged = regexp.MustCompile(`^\s*\S+\.go:\d+: (.*)\n?$`)

// read reads the events that were written since the last call.
func (t *tally) read(events io.Reader) {
	text, _ := io.ReadAll(events) // what is lost is not counted; go test still says whether something failed
	lines := bytes.Split(append(t.part, text...), []byte("\n"))
	t.part = lines[len(lines)-1]
	for _, line := range lines[:len(lines)-1] {
		var e struct {
			Time                          time.Time
			Action, Package, Test, Output string
		}
		if json.Unmarshal(line, &e) != nil || e.Package == "" {
			continue // output of the go command itself
		}
		name := test{e.Package, e.Test}
		switch e.Action {
		case "output":
			if m := logged.FindStringSubmatch(e.Output); m != nil {
				t.said[name] = m[1]
				if strings.HasPrefix(m[1], "soak:") {
					t.soak = append(t.soak, e.Package+" "+e.Test+" "+m[1])
				}
			}
		case "start":
			t.running[e.Package] = e.Time
		case "run", "pass", "fail", "skip":
			t.last[name] = e.Action
			if e.Test == "" {
				delete(t.running, e.Package)
				t.ended++
			}
		}
	}
}

// progress says how many of all packages have ended, and which are running, the one that started first at the beginning.
func (t *tally) progress(now time.Time, all int) string {
	if len(t.running) == 0 && t.ended == 0 {
		return "running" // no tests, or none yet
	}
	names := slices.SortedFunc(maps.Keys(t.running), func(a, b string) int { return t.running[a].Compare(t.running[b]) })
	for i, name := range names {
		names[i] = fmt.Sprintf("%s for %.0fs", strings.TrimPrefix(name, "sluice/"), now.Sub(t.running[name]).Seconds())
	}
	return fmt.Sprintf("%d packages left, running %s", all-t.ended, strings.Join(names, ", "))
}

// add counts the results of one go test and reports whether something failed. A test with subtests counts as its
// subtests, a package only if it failed and none of its tests did.
func (r *run) add(t *tally) (failed bool) {
	parents, blamed := map[test]bool{}, map[string]bool{}
	for name, action := range t.last {
		for parent := path.Dir(name.name); parent != "."; parent = path.Dir(parent) {
			parents[test{name.pkg, parent}] = true
		}
		blamed[name.pkg] = blamed[name.pkg] || name.name != "" && action != "pass" && action != "skip"
	}
	for name, action := range t.last {
		full, said := name.pkg+" "+name.name, t.said[name]
		switch {
		case parents[name] || name.name == "" && (action != "fail" || blamed[name.pkg]):
			continue
		case action == "pass":
			r.note("passed", full)
			continue
		case action == "skip" && !(r.strict && unmetNeed(said)):
			r.note("skipped", full+": "+said)
			continue
		case action == "skip":
			full += ": skipped although everything is installed: " + said
		case action == "run":
			full += ": did not finish"
		}
		r.note("failed", full)
		failed = true
	}
	if os.Getenv("SLUICE_SOAK") != "" {
		r.note("measured", t.soak...)
	}
	return failed
}

// unmetNeed reports whether a test skipped for lack of something that testrun provides. The rest is never installed, or
// only for a soak.
func unmetNeed(said string) bool {
	return strings.HasPrefix(said, "needs ") && !regexp.MustCompile(`Ollama|llama\.cpp|a newer Node|agents`).MatchString(said)
}
