// Command load measures what the gateway costs: CPU time for each request and each chunk of a stream,
// the time it adds, and the memory that an open stream holds.
//
// It builds the binary as a release is built, unless one is named with -bin, and starts it beside a
// fake upstream (bench/upstream) and a bare net/http proxy (bench/floor), each in a process of its own.
// All three are put under the same load in turns, several times over, so that whatever else the machine
// does meets all of them alike: read the ratios, the figures themselves are the machine's. It judges
// nothing; only replies that are wrong or missing make it fail.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"sluice/bench/process"
)

// plan says what is measured.
type plan struct {
	bin     string        // empty: build one
	rounds  int           // turns of each target under each load
	streams int           // held open while memory is read
	open    time.Duration // how long each of them is
	slice   time.Duration // the measured part of a turn
	lag     time.Duration // for how long the gateway may put off what it has to do about a call
}

func main() {
	if len(os.Args) > 1 && roles[os.Args[1]] != nil {
		if err := play(os.Args[1:]); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[1], err)
			os.Exit(1)
		}
		return
	}
	p := plan{
		streams: 1000, open: 3 * time.Second, slice: 400 * time.Millisecond,
		lag: 1200 * time.Millisecond, // it moves settlements into the database every second
	}
	flag.StringVar(&p.bin, "bin", "", "measure this binary instead of building one")
	flag.IntVar(&p.rounds, "rounds", 3, "turns of each target under each load")
	quick := flag.Bool("quick", false, "one short round: a check that everything runs")
	flag.Parse()
	p.rounds = max(p.rounds, 1)
	if *quick {
		p.rounds, p.streams, p.open, p.slice = 1, 100, time.Second, 100*time.Millisecond
	}
	process.Main("load", p.run)
}

func (p plan) run(ctx context.Context, out io.Writer) error {
	scratch, err := os.MkdirTemp("", "sluice-load-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	self, err := os.Executable() // plays upstream and floor, too; see roles
	if err != nil {
		return err
	}
	bin := filepath.Join(scratch, "sluice")
	if p.bin != "" {
		bin, err = filepath.Abs(p.bin)
	} else {
		err = process.Build(ctx, bin)
	}
	if err != nil {
		return err
	}
	began := time.Now()
	targets, stop, err := startAll(ctx, self, bin, scratch)
	defer stop()
	if err != nil {
		return err
	}
	targets[len(targets)-1].lag = p.lag
	r := newResults(targets)
	// First, while the processes are fresh: a heap that has grown hides what streams need.
	for _, t := range targets[1:] {
		h, err := hold(ctx, t, p.streams, p.open)
		if err != nil {
			return err
		}
		r.held[t.name] = h
	}
	for round := range p.rounds {
		for _, w := range workloads {
			for i := range targets {
				t := targets[(i+round)%len(targets)] // nobody is always the first
				s, err := w.run(ctx, t, p.slice)
				if err != nil {
					return err
				}
				r.add(w, t, s)
			}
		}
	}
	fmt.Fprintf(out, "rounds: %d, in %v; direct is the upstream alone, floor a bare net/http proxy\n", p.rounds, time.Since(began).Round(time.Second))
	r.print(out)
	if err := r.firstError(); err != nil {
		return fmt.Errorf("some replies were wrong: %w", err)
	}
	return nil
}

// wait pauses, unless the run is over.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return errors.New("interrupted")
	case <-time.After(d):
		return nil
	}
}
