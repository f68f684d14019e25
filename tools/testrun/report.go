package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// report prints each result as it arrives, and a summary at the end.
type report struct {
	out   io.Writer
	began time.Time

	mu sync.Mutex // of what follows: a soak runs two commands at once

	passed, failed int      // tests and other checks
	failures       []string // names, in the order of the run
	skips          []skipped
	notes          []string // lines of the summary
	soaking        bool     // print what the soak tests measured
	soak           []measure
}

// newReport returns an empty report. The total time counts from here.
func newReport(out io.Writer) *report { return &report{out: out, began: time.Now()} }

// pass reports a check that is not a Go test.
func (r *report) pass(name string, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.passed++
	fmt.Fprintf(r.out, "ok    %-40s %6.2fs\n", name, took.Seconds())
}

// failWith prints a failure with its details and counts it.
func (r *report) failWith(name, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, "FAIL  %s\n%s\n", name, indent(text))
	r.fail(name)
}

// fail counts a failure that has already been printed. Every failure of the run goes through it. The caller holds mu.
func (r *report) fail(name string) {
	r.failed++
	r.failures = append(r.failures, name)
}

// skip records something that was not run, and why. It does not fail the run: the summary lists it.
func (r *report) skip(name, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.skips = append(r.skips, skipped{name, reason})
}

// note adds a line to the summary.
func (r *report) note(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, text)
}

// add prints and counts the result of one package of Go tests. Skipped tests are collected and listed
// at the end.
func (r *report) add(o *outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.passed += o.passed
	r.skips = append(r.skips, o.skips...)
	r.soak = append(r.soak, o.soak...)
	took := fmt.Sprintf("%6.2fs", o.elapsed.Seconds())
	if o.cached {
		took = " cached"
	}
	// One line per package, and the output only of what failed.
	switch tests := o.passed + len(o.failures) + len(o.skips); {
	case o.unbuilt:
		fmt.Fprintf(r.out, "FAIL  %-40s does not build\n%s\n", o.path, indent(o.output))
		r.fail(o.failures[0])
	case o.failed:
		fmt.Fprintf(r.out, "FAIL  %-40s %s  (%d of %d tests)\n%s\n", o.path, took, len(o.failures), tests, indent(o.output))
		for _, name := range o.failures {
			r.fail(name)
		}
	case o.empty:
		fmt.Fprintf(r.out, "---   %-40s no tests\n", o.path)
	default:
		fmt.Fprintf(r.out, "ok    %-40s %s  (%s)\n", o.path, took, count(tests, "test"))
	}
}

// close prints the summary and returns the exit code. What failed comes after what was skipped, close to
// the end, where people look first.
func (r *report) close() int {
	if r.soaking && len(r.soak) > 0 {
		fmt.Fprintln(r.out, "\nSoak")
		w := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)
		for _, m := range r.soak {
			fmt.Fprintf(w, "  %s\t%s\n", m.test, m.text)
		}
		w.Flush()
	}
	r.closeSkips()
	if len(r.failures) > 0 {
		fmt.Fprintln(r.out, "\nFailed")
		for _, name := range r.failures {
			fmt.Fprintf(r.out, "  %s\n", name)
		}
	}
	fmt.Fprintln(r.out)
	for _, note := range r.notes {
		fmt.Fprintln(r.out, note)
	}
	fmt.Fprintf(r.out, "total time: %s\n", time.Since(r.began).Round(100*time.Millisecond))
	fmt.Fprintf(r.out, "%d passed, %d failed, %d skipped\n", r.passed, r.failed, len(r.skips))
	// Skips do not matter for the exit code; see session.strict for those that do.
	if r.failed > 0 {
		return 1
	}
	return 0
}

// closeSkips prints what was skipped, by reason: a missing program is usually the reason of many.
func (r *report) closeSkips() {
	if len(r.skips) == 0 {
		return
	}
	fmt.Fprintln(r.out, "\nSkipped")
	// Stable, so that tests with the same reason stay in the order of the run.
	slices.SortStableFunc(r.skips, func(a, b skipped) int { return strings.Compare(a.reason, b.reason) })
	for i, s := range r.skips {
		if i == 0 || s.reason != r.skips[i-1].reason {
			fmt.Fprintf(r.out, "  %s\n", s.reason)
		}
		fmt.Fprintf(r.out, "      %s\n", s.name)
	}
}

// indent indents every line of a text, to set it off from the report's own lines.
func indent(text string) string {
	return "      " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n      ")
}

// count returns a number with its noun, in the plural unless the number is one.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
