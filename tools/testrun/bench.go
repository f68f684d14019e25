package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// benchPrograms are the programs that measure the whole binary, in the order they run.
var benchPrograms = []string{"./bench/startup", "./bench/load"}

// bench prints figures. It judges none of them, because they depend on the machine: only a program that
// cannot run is a failure.
func (s *session) bench() {
	done := s.provide()
	defer done()
	for _, program := range benchPrograms {
		s.show("go", "run", program)
	}
	// Only packages with benchmarks are named: go test would compile all others for nothing.
	packages, err := benchmarked(s.root)
	if err != nil {
		s.report.failWith("benchmarks", err.Error())
		return
	}
	if len(packages) > 0 {
		s.show("go", append([]string{"test", "-run", "^$", "-bench", ".", "-benchmem", "-benchtime", "200ms"}, packages...)...)
	}
}

// show runs a command whose output is the result, and reports a failure. After an interrupt it does
// nothing.
func (s *session) show(name string, args ...string) {
	if s.ctx.Err() != nil {
		return
	}
	if text, err := s.showTo(s.out, name, args...); err != nil {
		s.report.failWith(text, err.Error())
	}
}

// showTo runs a command whose output goes to out, and returns the command as text. The text itself goes
// to the session's output.
func (s *session) showTo(out io.Writer, name string, args ...string) (text string, err error) {
	// Printed first, so that a figure can be measured again by hand.
	text = name + " " + strings.Join(args, " ")
	fmt.Fprintf(s.out, "\n%s\n", text)
	cmd := s.command(s.root, name, args...)
	cmd.Stdout, cmd.Stderr = out, out
	return text, cmd.Run()
}

// benchmarkFunc finds benchmarks by their text. Listing them with go test would compile every package.
var benchmarkFunc = regexp.MustCompile(`(?m)^func Benchmark\w*\(`)

// benchmarked returns the packages of the module that have benchmarks, as go test names them.
func benchmarked(root string) ([]string, error) {
	var packages []string
	err := testFiles(root, func(pkg string, text []byte) {
		if benchmarkFunc.Match(text) {
			packages = append(packages, pkg)
		}
	})
	return slices.Compact(packages), err
}

// testFiles calls yield with the text of each test file of the module and its package, as go test names
// it. Files of one package come one after the other. Nested modules, testdata, node_modules and hidden
// folders are left out.
func testFiles(root string, yield func(pkg string, text []byte)) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			name := d.Name()
			// What ./... leaves out, and node_modules.
			if path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules" || exists(path, "go.mod")) {
				return fs.SkipDir
			}
		case strings.HasSuffix(path, "_test.go"):
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			yield("./"+filepath.ToSlash(rel), text)
		}
		return nil
	})
}
