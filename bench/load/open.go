package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/bench/process"
)

// The loads of -only open. There are more callers than a target with a free processor ever needs at a time.
var (
	steady = workload{name: "1,000 requests/s", callers: 256, rate: 1000}
	busy   = workload{name: "5,000 requests/s", callers: 256, rate: 5000}
)

// ticket is one request of an open loop.
type ticket struct {
	due      time.Time
	measured bool // it is not part of the warm-up
}

// arrive sends requests at a fixed rate. A caller that waits for a slow reply delays no other request, as it would in a loop
// of call and reply: the next request is due at its time, and its latency counts from then, whether there is a free caller
// or not. Requests that wait for a caller ten seconds after the last one was due are not sent. What they have waited is their
// latency.
func (w workload) arrive(ctx context.Context, t *target, slice time.Duration) (*sample, error) {
	const grace = 10 * time.Second
	request := w.request(t)
	warm := slice / 5
	first := int(float64(w.rate) * warm.Seconds())
	total := first + max(1, int(float64(w.rate)*slice.Seconds()))
	queue := make(chan ticket, total) // sending to it never waits
	parts := make([]sample, w.callers)
	var over atomic.Bool
	var callers sync.WaitGroup
	for i := range parts {
		callers.Go(func() { w.serve(t, request, queue, &parts[i], &over) })
	}
	all := &sample{bytes: len(request)}
	began := time.Now().Add(20 * time.Millisecond)
	due := func(n int) time.Time { return began.Add(time.Duration(n) * time.Second / time.Duration(w.rate)) }
	for n := range total {
		if ctx.Err() != nil {
			break
		}
		process.SleepUntil(due(n))
		queue <- ticket{due(n), n >= first}
		if n >= first {
			all.late = append(all.late, time.Since(due(n)))
		}
	}
	close(queue)
	end := time.AfterFunc(grace, func() { over.Store(true) })
	if ctx.Err() != nil {
		over.Store(true)
	}
	callers.Wait()
	took := time.Since(due(first))
	end.Stop()
	if ctx.Err() != nil {
		return nil, errors.New("interrupted")
	}
	for i := range parts {
		all.join(&parts[i])
	}
	all.rate = float64(len(all.latency)-all.unsent) / took.Seconds()
	slices.Sort(all.latency)
	slices.Sort(all.first)
	slices.Sort(all.late)
	return all, nil
}

// serve is one caller of an open loop. It sends what is due until nothing more comes.
func (w workload) serve(t *target, request []byte, queue <-chan ticket, to *sample, over *atomic.Bool) {
	c := newConn(t.addr)
	defer c.close()
	defer func() { t.answered.Add(int64(to.requests)) }()
	for due := range queue {
		switch {
		case over.Load() || to.errors > 20: // too slow, or broken
			if due.measured {
				to.unsent++
			}
		default:
			if err := w.call(c, request, func() { to.chunks++ }); err != nil {
				to.fail(err)
				continue
			}
			to.requests++
		}
		if due.measured {
			to.latency = append(to.latency, time.Since(due.due))
		}
	}
}

// warm gives each target a short turn that does not count: heaps grow with the first load.
func warm(ctx context.Context, targets []*target, w workload, slice time.Duration) error {
	for _, t := range targets {
		if _, err := w.run(ctx, t, slice); err != nil {
			return err
		}
	}
	return nil
}

// fail counts an error and keeps the first one.
func (s *sample) fail(err error) {
	if s.errors++; s.err == nil {
		s.err = err
	}
}

// openLoop measures the latency of requests that arrive at a fixed rate.
func (p plan) openLoop(ctx context.Context, self, bin, scratch string, out io.Writer) error {
	targets, stop, err := p.startAll(ctx, self, bin, scratch, true, out)
	defer stop()
	if err != nil {
		return err
	}
	loads, slice := []workload{steady, busy}, 25*p.slice // 10 s: with 1,000 requests/s, 10 are slower than the 99.9th percentile
	if err := warm(ctx, targets, some, p.slice); err != nil {
		return err
	}
	r := newResults(targets)
	for round := range p.rounds {
		for _, w := range loads {
			for i := range targets {
				t := targets[(i+round)%len(targets)]
				s, err := w.run(ctx, t, slice)
				if err != nil {
					return err
				}
				r.add(w, t, s)
			}
		}
	}
	fmt.Fprintf(out, "open loop: %d rounds of %v; latency from the time at which a request was due, in milliseconds; medians of the rounds\n", p.rounds, slice)
	for _, w := range loads {
		fmt.Fprintln(out)
		fmt.Fprintf(out, "%-20s%12s%12s%10s%10s%10s%10s%12s%10s%8s\n", w.name, "answered/s", "CPU µs each", "p50", "p90", "p99", "p99.9", "sent late", "not sent", "errors")
		for _, t := range targets {
			samples := r.samples[w.name][t.name]
			middle := func(of func(*sample) float64) float64 {
				var values []float64
				for _, s := range samples {
					values = append(values, of(s))
				}
				return median(values)
			}
			latency := func(part float64) string {
				return cell(10, 2, middle(func(s *sample) float64 { return micros(share(s.latency, part)) / 1000 }))
			}
			unsent := 0
			for _, s := range samples {
				unsent += s.unsent
			}
			fmt.Fprint(out, t.name, strings.Repeat(" ", 20-len(t.name)), cell(12, 0, middle(func(s *sample) float64 { return s.rate })), cell(12, 1, r.perRequest(w, t.name)),
				latency(0.5), latency(0.9), latency(0.99), latency(0.999), cell(12, 2, middle(func(s *sample) float64 { return micros(share(s.late, 0.99)) / 1000 })), cell(10, 0, float64(unsent)), cell(8, 0, r.failures(w, t.name)), "\n")
		}
	}
	fmt.Fprintln(out, "\nsent late: how late the load generator itself was, 99th percentile; it is part of the latencies; not sent: the target was too slow")
	return errors.Join(r.wrong(), ledger(ctx, targets[len(targets)-1], filepath.Join(scratch, "data"), out))
}

// wrong returns the first error of the floor or the gateway. Other programs may refuse what is too much for them: their errors
// are in the tables.
func (r *results) wrong() error {
	own := newResults(r.targets[len(r.targets)-2:])
	own.samples, own.held = r.samples, r.held
	if err := own.firstError(); err != nil {
		return fmt.Errorf("some replies were wrong: %w", err)
	}
	return nil
}
