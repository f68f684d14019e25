package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"sluice/bench/process"
)

// crowded measures what 10,000 streams cost that are open at the same time.
func (p plan) crowded(ctx context.Context, self, bin, scratch string, out io.Writer) error {
	streams, length := 10_000, 40*time.Second
	if p.quick {
		streams, length = p.streams, p.open
	}
	// A gateway has two connections for each stream. What is started later inherits the limit.
	const others = 200
	allowed, err := process.AllowFiles(2*streams + others)
	if err != nil {
		return err
	}
	if allowed < 2*streams+others {
		streams = (allowed - others) / 2
		fmt.Fprintf(out, "a process may have %d open files here, so there are fewer streams\n", allowed)
	}
	metrics, err := process.FreeAddress()
	if err != nil {
		return err
	}
	targets, stop, err := p.startAll(ctx, self, bin, scratch, true, out, "--metrics-listen", metrics)
	defer stop()
	if err != nil {
		return err
	}
	gateway := targets[len(targets)-1]
	gateway.metrics = metrics
	r := newResults(targets)
	fmt.Fprintf(out, "%d streams open at the same time, each for %v\n", streams, length)
	fmt.Fprintf(out, "%-12s%10s%10s%16s%14s%10s%20s%8s\n", "", "idle MB", "peak MB", "KB per stream", "goroutines", "files", "CPU µs per chunk", "errors")
	for _, t := range targets[1:] {
		h, err := hold(ctx, t, streams, length)
		if err != nil {
			return err
		}
		r.held[t.name] = h
		goroutines := none
		if h.goroutines > 0 {
			goroutines = float64(h.goroutines)
		}
		fmt.Fprint(out, t.name, strings.Repeat(" ", 12-len(t.name)), cell(10, 1, float64(h.idle)/1e6), cell(10, 1, float64(h.most)/1e6), cell(16, 1, h.perStream/1000),
			cell(14, 0, goroutines), cell(10, 0, float64(h.files)), cell(20, 1, micros(h.cpu)/float64(h.chunks)), cell(8, 0, float64(h.errors)), "\n")
	}
	return errors.Join(r.wrong(), ledger(ctx, gateway, filepath.Join(scratch, "data"), out))
}
