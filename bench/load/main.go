// Command load measures the cost of the gateway: CPU time per request and per chunk of a
// stream, added latency, and memory per open stream.
//
// It builds the binary like a release, unless -bin names one, and starts it together with a
// fake upstream (bench/upstream) and a bare net/http proxy (bench/floor), each in its own
// process. All three get the same load in turns, several times, so that other activity on the
// machine affects them equally. Read the ratios; the absolute figures depend on the machine.
// The command does not judge: it fails only if replies are wrong or missing.
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

	"sluice/bench/history"
	"sluice/bench/process"
)

// plan says what is measured, and for how long. Longer is more exact; -quick only checks that all of it
// works.
type plan struct {
	// bin is the binary to measure. If empty, one is built.
	bin string
	// rounds is how many turns each target gets under each workload.
	rounds int
	// streams is how many streams are open while memory is read, and open how long each lasts.
	streams int
	open    time.Duration
	// slice is the measured part of a turn.
	slice time.Duration
	// lag is how long the gateway may defer work for a call.
	lag time.Duration
	// only is the name of the one workload to run. If empty, all are, and memory is measured.
	only string
	// quick makes everything small.
	quick bool
	// grows adds what a request costs gateways that know more and more.
	grows bool
	// rivals adds other gateways to what is compared.
	rivals bool
	// long is how long the memory is watched; samples are that many.
	long    time.Duration
	samples int
	// history is the folder in which figures are remembered. If empty, they are not.
	history string
}

// parts are the measurements that -only names besides the loads.
var parts = map[string]func(p plan, ctx context.Context, self, bin, scratch string, out io.Writer) error{
	"growth":   plan.grow,
	"accounts": plan.grow,
	"doors": func(p plan, ctx context.Context, self, bin, scratch string, out io.Writer) error {
		return p.doors(ctx, self, bin, scratch, doorsOf(), out)
	},
	"auto": func(p plan, ctx context.Context, self, bin, scratch string, out io.Writer) error {
		return p.doors(ctx, self, bin, scratch, autosOf(), out)
	},
	"tools":   plan.tools,
	"cluster": plan.cluster,
	"open":    plan.openLoop,
	"prompts": plan.prompts,
	"streams": plan.crowded,
	"memory":  plan.memory,
}

// main measures, or plays a role for another instance of itself.
func main() {
	// The program starts itself as upstream and floor.
	if len(os.Args) > 1 && roles[os.Args[1]] != nil {
		if err := play(os.Args[1:]); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[1], err)
			os.Exit(1)
		}
		return
	}
	p := plan{
		streams: 1000, open: 3 * time.Second, slice: 400 * time.Millisecond,
		grows: true, history: history.Folder,
		lag: 1200 * time.Millisecond, // the gateway writes settlements to the database every second
	}
	flag.StringVar(&p.bin, "bin", "", "measure this binary instead of building one")
	flag.IntVar(&p.rounds, "rounds", 3, "turns of each target under each load")
	flag.StringVar(&p.only, "only", "", "run this workload alone, for example \"5 MB\" or \"TLS\", or one of the parts \"growth\", \"accounts\", \"doors\", \"auto\", \"tools\", \"cluster\", \"open\", \"prompts\", \"streams\" and \"memory\"")
	flag.BoolVar(&p.rivals, "rivals", false, "build and measure other gateways, too, and nginx, where it is installed")
	hours := flag.Float64("hours", 1, "how long -only memory runs")
	flag.BoolVar(&p.quick, "quick", false, "one short round: a check that everything runs")
	flag.Parse()
	p.rounds = max(p.rounds, 1)
	p.long = time.Duration(*hours * float64(time.Hour))
	p.samples = max(1, int(p.long/time.Minute))
	if p.quick {
		p.rounds, p.streams, p.open, p.slice, p.history = 1, 100, time.Second, 100*time.Millisecond, ""
		p.long, p.samples = 3*time.Second, 3
	}
	process.Main("load", p.run)
}

// run measures everything and prints the results. Wrong replies make it fail only after everything
// was printed, since the figures may help to find the cause.
func (p plan) run(ctx context.Context, out io.Writer) error {
	scratch, err := os.MkdirTemp("", "sluice-load-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	self, err := os.Executable() // also runs as upstream and floor; see roles
	if err != nil {
		return err
	}
	// In the scratch directory, unless the caller names a binary.
	bin := filepath.Join(scratch, "sluice")
	if p.bin != "" {
		bin, err = filepath.Abs(p.bin)
	} else {
		err = process.Build(ctx, bin)
	}
	if err != nil {
		return err
	}
	if part := parts[p.only]; part != nil {
		return part(p, ctx, self, bin, scratch, out)
	}
	began := time.Now()
	targets, stop, err := p.startAll(ctx, self, bin, scratch, p.rivals, out)
	defer stop()
	if err != nil {
		return err
	}
	r := newResults(targets)
	// Memory is measured first, while the processes are fresh: a heap that has grown would
	// hide what streams need.
	for _, t := range targets[1:] {
		if p.only != "" {
			break
		}
		h, err := hold(ctx, t, p.streams, p.open)
		if err != nil {
			return err
		}
		r.held[t.name] = h
	}
	// The order of the targets rotates with the rounds.
	for round := range p.rounds {
		for _, w := range workloads {
			if p.only != "" && p.only != w.name {
				continue
			}
			for i := range targets {
				t := targets[(i+round)%len(targets)] // each target is first in some round
				if w.secure {
					if t = t.secure; t == nil {
						continue // our callers do not speak TLS
					}
				}
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
	if err := p.remember("bench/load", r.history(p.rounds), out); err != nil {
		return err
	}
	// A fast target that replies with errors must not look like a good result.
	if err := r.wrong(); err != nil {
		return err
	}
	if err := ledger(ctx, targets[len(targets)-1], filepath.Join(scratch, "data"), out); err != nil {
		return err
	}
	if p.only != "" || !p.grows || p.rivals {
		return nil
	}
	stop() // the rest has the machine for itself
	fmt.Fprintln(out)
	if err := p.doors(ctx, self, bin, filepath.Join(scratch, "doors"), doorsOf(), out); err != nil {
		return err
	}
	fmt.Fprintln(out)
	if err := p.tools(ctx, self, bin, filepath.Join(scratch, "tools"), out); err != nil {
		return err
	}
	fmt.Fprintln(out)
	if err := p.cluster(ctx, self, bin, filepath.Join(scratch, "cluster"), out); err != nil {
		return err
	}
	fmt.Fprintln(out)
	return p.grow(ctx, self, bin, scratch, out)
}

// remember compares figures with those of the last run, and adds them to the history.
func (p plan) remember(suite string, figures []history.Figure, out io.Writer) error {
	if p.history == "" {
		return nil
	}
	fmt.Fprintln(out)
	return history.Add(p.history, suite, figures, out)
}

// wait sleeps for d. It returns an error if the run is interrupted.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return errors.New("interrupted")
	case <-time.After(d):
		return nil
	}
}
