package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
)

// tokens is a prompt of 400 KB, which is about 100,000 tokens.
var tokens = workload{name: "100,000 tokens", callers: 4, prompt: 400_000}

// prompts measures how many prompts of 100,000 tokens a processor gets through.
func (p plan) prompts(ctx context.Context, self, bin, scratch string, out io.Writer) error {
	targets, stop, err := p.startAll(ctx, self, bin, scratch, true, out)
	defer stop()
	if err != nil {
		return err
	}
	if err := warm(ctx, targets, tokens, p.slice); err != nil {
		return err
	}
	r := newResults(targets)
	for round := range p.rounds {
		for i := range targets {
			t := targets[(i+round)%len(targets)]
			s, err := tokens.run(ctx, t, 5*p.slice)
			if err != nil {
				return err
			}
			r.add(tokens, t, s)
		}
	}
	fmt.Fprintf(out, "prompts of 400 KB, about 100,000 tokens, from %d callers; %d rounds\n", tokens.callers, p.rounds)
	r.table(out, []figure{
		{"CPU µs per request", func(t string) float64 { return r.perRequest(tokens, t) }},
		{"requests per second and core", func(t string) float64 { return 1e6 / r.perRequest(tokens, t) }},
		{"median ms", func(t string) float64 { return r.typical(tokens, t) / 1000 }},
		{"errors", func(t string) float64 { return r.failures(tokens, t) }},
	})
	return errors.Join(r.wrong(), ledger(ctx, targets[len(targets)-1], filepath.Join(scratch, "data"), out))
}

// failures returns the number of failed requests of a target under one load.
func (r *results) failures(w workload, t string) float64 {
	n := 0
	for _, s := range r.samples[w.name][t] {
		n += s.errors
	}
	return float64(n)
}
