// Command startup measures how long the gateway takes from the start of its process to its
// first successful reply, how much memory it uses when idle, and how large the binary is.
//
// It builds the binary like a release, unless -bin names one. It prints figures and does not
// judge them. Load is measured by bench/load.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"sluice/bench/history"
	"sluice/bench/process"
)

// memoryRuns is how many of the starts are kept running to read their memory.
const memoryRuns = 3

// plan says what is measured.
type plan struct {
	// bin is the binary to measure. If empty, one is built.
	bin string
	// runs is the number of starts of each kind.
	runs int
	// idle is how long a gateway is left alone before its memory is read.
	idle time.Duration
	// history is the folder in which figures are remembered. If empty, they are not.
	history string
}

func main() {
	p := plan{idle: 3 * time.Second, history: history.Folder}
	flag.StringVar(&p.bin, "bin", "", "measure this binary instead of building one")
	flag.IntVar(&p.runs, "n", 10, "number of starts of each kind")
	flag.Parse()
	p.runs = max(p.runs, 1)
	process.Main("startup", p.run)
}

func (p plan) run(ctx context.Context, out io.Writer) error {
	scratch, err := os.MkdirTemp("", "sluice-startup-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	bin, err := filepath.Abs(p.bin)
	if err != nil {
		return err
	}
	if p.bin == "" {
		bin = filepath.Join(scratch, "sluice")
		if err := process.Build(ctx, bin); err != nil {
			return err
		}
	}
	info, err := os.Stat(bin)
	if err != nil {
		return err
	}

	var fresh, known []time.Duration
	var memory, own []int64
	for i := range p.runs {
		dir := filepath.Join(scratch, fmt.Sprintf("data-%d", i))
		// A new data folder has no known key yet, so the first successful reply is that of the
		// readiness check.
		took, err := measure(ctx, bin, dir, "/readyz", "")
		if err != nil {
			return err
		}
		fresh = append(fresh, took)

		key, err := process.MasterKey(ctx, bin, dir)
		if err != nil {
			return err
		}
		if took, err = measure(ctx, bin, dir, "/v1/models", key); err != nil {
			return err
		}
		known = append(known, took)

		// Waiting for idle memory takes seconds, so not every run does it.
		if i < memoryRuns {
			resident, private, err := idleMemory(ctx, bin, dir, p.idle)
			if err != nil {
				return err
			}
			memory, own = append(memory, resident), append(own, private)
		}
	}

	fmt.Fprintf(out, "%d starts of each kind, timed from the start of the process\n", p.runs)
	row(out, "a new data folder, until /readyz answers 200", fresh)
	row(out, "a known data folder, until /v1/models answers 200", known)
	fmt.Fprintf(out, "  idle memory %v after the start, median of %d: %.1f MB, of which %.1f MB are not pages of the binary (at most 33.6)\n", p.idle, len(memory), float64(median(memory))/1e6, float64(median(own))/1e6)
	fmt.Fprintf(out, "  size of the binary: %.1f MB (at most 50.3)\n", float64(info.Size())/1e6)
	if p.history == "" {
		return nil
	}
	fmt.Fprintln(out)
	return history.Add(p.history, "bench/startup", []history.Figure{
		{Name: "ms until a new data folder answers", Samples: scaled(fresh, time.Millisecond)},
		{Name: "ms until a known data folder answers", Samples: scaled(known, time.Millisecond)},
		{Name: "MB of idle memory", Samples: scaled(memory, 1e6)},
		{Name: "MB of idle memory that are not pages of the binary", Samples: scaled(own, 1e6)},
		{Name: "MB of the binary", Samples: []float64{float64(info.Size()) / 1e6}},
	}, out)
}

// scaled returns values in a unit.
func scaled[T ~int64](values []T, unit T) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = float64(v) / float64(unit)
	}
	return out
}

// measure starts the gateway on a data folder, waits for the first 200 on a path, and stops
// it.
func measure(ctx context.Context, bin, dir, path, key string) (time.Duration, error) {
	g, err := start(ctx, bin, dir)
	if err != nil {
		return 0, err
	}
	defer g.Stop()
	return g.answers(ctx, path, key)
}

// idleMemory returns the memory and the private memory of a gateway that has been idle for a while.
func idleMemory(ctx context.Context, bin, dir string, idle time.Duration) (resident, own int64, err error) {
	g, err := start(ctx, bin, dir)
	if err != nil {
		return 0, 0, err
	}
	defer g.Stop()
	if _, err := g.answers(ctx, "/readyz", ""); err != nil {
		return 0, 0, err
	}
	select {
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	case <-time.After(idle):
		return g.Memory()
	}
}

// row prints the median, minimum and maximum of some times.
func row(out io.Writer, what string, times []time.Duration) {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	fmt.Fprintf(out, "  %-50s median %6.1f ms   min %6.1f ms   max %6.1f ms\n",
		what, ms(median(times)), ms(slices.Min(times)), ms(slices.Max(times)))
}

// median returns the median of at least one value. For an even number of values it is the mean
// of the middle two.
func median[T ~int64](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
