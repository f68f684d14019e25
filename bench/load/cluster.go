package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sluice/bench/history"
	"sluice/bench/process"
	"sluice/internal/testkit/pgtest"
	"sluice/internal/testkit/redistest"
)

// errNoServers says that there is nothing on which a gateway could run in cluster mode.
var errNoServers = errors.New("cluster mode is not measured: it needs PostgreSQL and redis-server on this machine")

// cluster measures what a request costs a gateway in cluster mode beside one that is alone: limits in Redis instead of
// memory, settlements in PostgreSQL instead of SQLite.
func (p plan) cluster(ctx context.Context, self, bin, scratch string, out io.Writer) error {
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return err
	}
	database, redis, done, err := servers(scratch)
	defer func() { done() }()
	if errors.Is(err, errNoServers) {
		fmt.Fprintln(out, err)
		return nil
	}
	if err != nil {
		return err
	}
	addr, err := process.FreeAddress()
	if err != nil {
		return err
	}
	up, err := process.Start(ctx, nil, self, "upstream", addr)
	if err != nil {
		return err
	}
	defer up.Stop()
	yaml := configuration("http://"+addr+"/v1", "http://"+addr+"/v1")
	var targets []*target
	for _, g := range []struct{ name, yaml string }{
		{"alone", yaml},
		{"cluster", fmt.Sprintf("database: %q\nredis: %q\nsecret: the-secret-of-all-nodes-of-this-measurement\n", database, redis) + yaml},
	} {
		t, err := startGateway(ctx, bin, filepath.Join(scratch, g.name), g.yaml, nil)
		if t != nil {
			targets = append(targets, t)
			defer t.Stop()
		}
		if err != nil {
			return err
		}
		t.name, t.model, t.lag = g.name, "bench/gpt", p.lag
		// Limits that are far away, but there: what has none is not counted.
		if err := t.open(ctx, bin, "100000000"); err != nil {
			return err
		}
		if err := t.probe(ctx); err != nil {
			return err
		}
	}
	idle := workload{name: "idle, CPU ms per second"}
	loads := []workload{one, some, many}
	r := newResults(targets)
	for round := range p.rounds {
		if err := p.idle(ctx, r, idle); err != nil {
			return err
		}
		for _, w := range loads {
			for i := range targets {
				t := targets[(i+round)%len(targets)]
				s, err := w.run(ctx, t, p.slice)
				if err != nil {
					return err
				}
				r.add(w, t, s)
			}
		}
	}
	var kept []history.Figure
	fmt.Fprintf(out, "%-30s%12s%12s%16s\n", "CPU µs per request", targets[0].name, targets[1].name, "ratio")
	for _, w := range append(loads, idle) {
		ratio := func(r *results) float64 { return r.perRequest(w, targets[1].name) / r.perRequest(w, targets[0].name) }
		if w.callers > 0 {
			kept = append(kept, r.ratios(w.name+", cluster mode, to alone", p.rounds, ratio))
		}
		fmt.Fprint(out, w.name, strings.Repeat(" ", 30-len(w.name)), cell(12, 1, r.perRequest(w, targets[0].name)), cell(12, 1, r.perRequest(w, targets[1].name)), cell(16, 2, ratio(r)), "\n")
	}
	return errors.Join(r.firstError(), p.remember("bench/load, cluster mode", kept, out))
}

// idle adds what the gateways use while nobody calls. With one caller that is a part of what a request costs, which is the larger
// the slower the machine is. What counts as a request is a millisecond, so the figure is in milliseconds per second.
func (p plan) idle(ctx context.Context, r *results, w workload) error {
	used := func() (all []time.Duration, err error) {
		for _, t := range r.targets {
			cpu, err := t.CPU()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", t.name, err)
			}
			all = append(all, cpu)
		}
		return all, nil
	}
	before, err := used()
	if err != nil {
		return err
	}
	if err := wait(ctx, p.open); err != nil {
		return err
	}
	after, err := used()
	if err != nil {
		return err
	}
	for i, t := range r.targets {
		r.add(w, t, &sample{cpu: after[i] - before[i], requests: int(p.open.Milliseconds())})
	}
	return nil
}

// servers returns the URLs of a new database in PostgreSQL and of a Redis. It takes the servers of the test run, and starts
// those that it has not named. done stops them, also after an error.
func servers(scratch string) (database, redis string, done func(), err error) {
	var stops []func() error
	done = func() {
		for _, stop := range stops {
			_ = stop() // the measurement is over
		}
	}
	// PostgreSQL runs as another user if this is root, so its folder cannot be below one that only we may enter.
	dir, err := os.MkdirTemp("", "sluice-load-")
	if err != nil {
		return "", "", done, err
	}
	stops = append(stops, func() error { return os.RemoveAll(dir) })
	postgres, redis := os.Getenv(pgtest.Env), os.Getenv(redistest.Env)
	if _, err := pgtest.Find(); postgres == "" && err != nil {
		return "", "", done, errNoServers
	}
	if _, err := redistest.Find(); redis == "" && err != nil {
		return "", "", done, errNoServers
	}
	if postgres == "" {
		s, err := pgtest.Start(dir, "fsync=on", "full_page_writes=on") // as in production
		if err != nil {
			return "", "", done, err
		}
		stops, postgres = append([]func() error{s.Stop}, stops...), s.URL()
	}
	if redis == "" {
		s, err := redistest.Start(scratch)
		if err != nil {
			return "", "", done, err
		}
		stops, redis = append([]func() error{s.Stop}, stops...), s.URL()
	}
	database, drop, err := pgtest.Create(postgres)
	if err != nil {
		return "", "", done, err
	}
	stops = append([]func() error{drop}, stops...)
	return database, redis, done, nil
}
