// Command gobench passes on what "go test -bench" prints, and compares its figures with those of the last run on this
// machine; see package history. Run the benchmarks with -count, since their noise is that of the counts. It fails if a test
// does.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"sluice/bench/history"
	"sluice/bench/process"
)

func main() {
	process.Main("gobench", func(_ context.Context, out io.Writer) error { return run(os.Stdin, out, history.Folder) })
}

// run reads what go test prints and adds the times to the history in a folder.
func run(in io.Reader, out io.Writer, folder string) error {
	var figures []history.Figure
	places := map[string]int{}
	pkg, failed := "", false
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		fmt.Fprintln(out, line)
		if name, ok := strings.CutPrefix(line, "pkg: "); ok {
			pkg = strings.TrimPrefix(name, "sluice/")
		}
		failed = failed || strings.HasPrefix(line, "FAIL") || strings.HasPrefix(line, "--- FAIL")
		name, ns, ok := parse(line)
		if !ok {
			continue
		}
		name = pkg + " " + name
		if _, known := places[name]; !known {
			places[name] = len(figures)
			figures = append(figures, history.Figure{Name: name})
		}
		f := &figures[places[name]]
		f.Samples = append(f.Samples, ns)
	}
	if err := lines.Err(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	if err := history.Add(folder, "go test -bench", figures, out); err != nil {
		return err
	}
	if failed {
		return errors.New("a benchmark failed")
	}
	return nil
}

// parse returns the name and the time of a line such as "BenchmarkAppend-2  1000  1042 ns/op  24 B/op".
func parse(line string) (name string, ns float64, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
		return "", 0, false
	}
	name = strings.TrimPrefix(fields[0], "Benchmark")
	if i := strings.LastIndexByte(name, '-'); i > 0 { // the number of cores
		if _, err := strconv.Atoi(name[i+1:]); err == nil {
			name = name[:i]
		}
	}
	for i := 3; i < len(fields); i += 2 {
		if fields[i] == "ns/op" {
			ns, err := strconv.ParseFloat(fields[i-1], 64)
			return name, ns, err == nil
		}
	}
	return "", 0, false
}
