package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// cover runs the module's tests with coverage and prints the coverage of each package. There is no
// minimum: a figure says where to look, not whether the tests are good.
func (s *session) cover() {
	done := s.provide()
	defer done()
	dir := filepath.Join(s.root, "coverage")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		s.report.failWith("coverage", err.Error())
		return
	}
	// The folder is ignored by git.
	profile, page := filepath.Join(dir, "cover.out"), filepath.Join(dir, "index.html")
	// A line counts as covered whichever package's test reaches it, so end-to-end tests count
	// as well.
	s.goTest(s.root, append(s.mode.args, "-coverpkg=./internal/...,./cmd/...", "-coverprofile="+profile)...)

	// If tests failed, the profile may still be there and is worth reading.
	f, err := os.Open(profile)
	if err != nil {
		s.report.failWith("coverage", err.Error())
		return
	}
	defer f.Close()
	packages, err := readProfile(f)
	if err != nil {
		s.report.failWith("coverage", err.Error())
		return
	}
	fmt.Fprintln(s.out, "\nCoverage")
	var all coverage
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		c := packages[name]
		all.reached += c.reached
		all.total += c.total
		fmt.Fprintf(s.out, "  %5.1f%%  %s\n", c.percent(), name)
	}
	fmt.Fprintf(s.out, "  %5.1f%%  in all\n", all.percent())
	if s.check("coverage page", s.command(s.root, "go", "tool", "cover", "-html="+profile, "-o", page), nil) {
		s.report.note("coverage page: coverage/index.html")
	}
}

// coverage counts statements: all of them, and those that some test reached.
type coverage struct{ reached, total int }

// percent returns the share that was reached, and 0 if there are no statements.
func (c coverage) percent() float64 {
	if c.total == 0 {
		return 0
	}
	return 100 * float64(c.reached) / float64(c.total)
}

// readProfile summarizes a coverage profile by package, without packages of test support.
// Every test binary writes every block, so a block is covered if any of its lines says so.
func readProfile(r io.Reader) (map[string]coverage, error) {
	type block struct {
		statements int
		reached    bool
	}
	blocks := map[string]block{}
	for lines := bufio.NewScanner(r); ; {
		if !lines.Scan() {
			if err := lines.Err(); err != nil {
				return nil, err
			}
			break
		}
		if strings.HasPrefix(lines.Text(), "mode: ") {
			continue
		}
		// name.go:line.column,line.column statements hits
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 {
			return nil, fmt.Errorf("coverage profile: cannot read the line %q", lines.Text())
		}
		statements, err := strconv.Atoi(fields[1])
		if err != nil {
			return nil, fmt.Errorf("coverage profile: %w", err)
		}
		// The same block appears once per test binary.
		b := blocks[fields[0]]
		blocks[fields[0]] = block{statements, b.reached || fields[2] != "0"}
	}
	// By package, weighted with the number of statements.
	packages := map[string]coverage{}
	for place, b := range blocks {
		file, _, _ := strings.Cut(place, ":")
		name := path.Dir(file)
		// Test support is run by tests only, and its coverage means nothing.
		if strings.HasSuffix(name, "test") {
			continue
		}
		c := packages[name]
		c.total += b.statements
		if b.reached {
			c.reached += b.statements
		}
		packages[name] = c
	}
	return packages, nil
}
