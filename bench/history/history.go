// Package history keeps what was measured on a machine, and says what got slower since the last time.
//
// Each run of a suite is a line in the file of its machine. A figure is compared as samples, those of the rounds of a run:
// it got slower if even the best round of this run is worse than the worst one of the last. So the noise of a figure is
// that of its own rounds, and nothing has to be known of the machine. What is measured, and whether anybody minds, is not
// decided here.
package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Folder is where the files are, from the root of the repository.
const Folder = "bench/results"

const (
	// least is the smallest change of the median that is told. A change within the noise is never told.
	least = 0.02
	// maxLine bounds a line of the file, and lookBack how many runs of a suite are looked at.
	maxLine  = 4 << 20
	lookBack = 20
)

// Figure is something that was measured, of which less is better.
type Figure struct {
	Name string `json:"name"`
	// Samples has one value for each round. A figure with one value is compared with several runs; see compare.
	Samples []float64 `json:"samples"`
}

// run is a line of the file.
type run struct {
	At      time.Time `json:"at"`
	Commit  string    `json:"commit,omitempty"`
	Suite   string    `json:"suite"`
	Figures []Figure  `json:"figures"`
}

// Add compares figures with the last runs of the suite on this machine, prints what has changed, and adds them to the file
// in a folder. Values that are no numbers are left out.
func Add(folder, suite string, figures []Figure, out io.Writer) error {
	path := filepath.Join(folder, machine()+".jsonl")
	runs, err := read(path, suite)
	if err != nil {
		return fmt.Errorf("read the history: %w", err)
	}
	now := run{At: time.Now().UTC().Truncate(time.Second), Commit: commit(), Suite: suite}
	for _, f := range figures {
		f.Samples = slices.DeleteFunc(slices.Clone(f.Samples), func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
		if len(f.Samples) > 0 {
			now.Figures = append(now.Figures, f)
		}
	}
	report(out, path, runs, &now)
	line, err := json.Marshal(&now)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// read returns the last runs of a suite, the newest last. Lines that cannot be read are left out: a run may have been
// interrupted.
func read(path, suite string) (runs []run, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var r run
		if json.Unmarshal(lines.Bytes(), &r) == nil && r.Suite == suite {
			if runs = append(runs, r); len(runs) > lookBack {
				runs = runs[1:]
			}
		}
	}
	return runs, lines.Err()
}

// report prints what has changed since the last run.
func report(out io.Writer, path string, runs []run, now *run) {
	if len(runs) == 0 {
		fmt.Fprintf(out, "%s: the first run on this machine; the next one is compared with it (%s)\n", now.Suite, path)
		return
	}
	last := &runs[len(runs)-1]
	var slower, faster []string
	for _, f := range now.Figures {
		before := earlier(runs, f)
		change := median(f.Samples)/median(before) - 1
		line := fmt.Sprintf("  %+6.1f %%  %s: %s, was %s", 100*change, f.Name, span(f.Samples), span(before))
		switch {
		case len(before) == 0:
		case change > least && slices.Min(f.Samples) > slices.Max(before):
			slower = append(slower, line)
		case change < -least && slices.Max(f.Samples) < slices.Min(before):
			faster = append(faster, line)
		}
	}
	fmt.Fprintf(out, "%s: %d figures beside those of %s %s (%s)\n", now.Suite, len(now.Figures), last.At.Format("2006-01-02 15:04"), last.Commit, path)
	for _, change := range []struct {
		what  string
		lines []string
	}{{"slower by more than the noise", slower}, {"faster by more than the noise", faster}} {
		if fmt.Fprintf(out, "%s: %d\n", change.what, len(change.lines)); len(change.lines) > 0 {
			fmt.Fprintln(out, strings.Join(change.lines, "\n"))
		}
	}
}

// earlier returns what a figure is compared with: its samples of the last run that has it. If there is one alone, or f has,
// nothing tells its noise, and it is compared with those of up to five runs, if there are three.
func earlier(runs []run, f Figure) (samples []float64) {
	n := 0
	for _, r := range slices.Backward(runs) {
		i := slices.IndexFunc(r.Figures, func(g Figure) bool { return g.Name == f.Name })
		if i < 0 {
			continue
		}
		if n == 0 && len(f.Samples) > 1 && len(r.Figures[i].Samples) > 1 {
			return r.Figures[i].Samples
		}
		samples = append(samples, r.Figures[i].Samples...)
		if n++; n == 5 {
			break
		}
	}
	if n < 3 {
		return nil
	}
	return samples
}

// span returns the smallest, the middle and the largest of some values.
func span(values []float64) string {
	if len(values) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.4g (%.4g to %.4g)", median(values), slices.Min(values), slices.Max(values))
}

// median returns the median, or NaN of no values.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// machine returns a name for what decides how fast this machine is: its processor, and how many of it we have.
func machine() string {
	name := "unknown"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range bytes.Lines(text) {
			if key, value, ok := strings.Cut(string(line), ":"); ok && strings.TrimSpace(key) == "model name" {
				name = strings.TrimSpace(value)
				break
			}
		}
	}
	slug := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	return strings.Join(append(slug, runtime.GOARCH, fmt.Sprint(runtime.NumCPU())), "-")
}

// commit returns what is checked out, or "" if nobody can say.
func commit() string {
	text, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
