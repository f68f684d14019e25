package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"sluice/bench/history"
)

// door is a dialect in which the gateway is asked for the same.
type door struct {
	name, path string
	// members are those of the body behind the model, with a %s where the upstream is told what to reply.
	members string
	end     string // what the line begins with that ends a stream
	model   string // empty: that of the target
}

func (d *door) body(model, directive string, stream bool) string {
	return fmt.Sprintf(`{"model":%q,"stream":%t,`+d.members+`}`, cmp.Or(d.model, model), stream, directive)
}

// The words of all doors, which are those of the workloads without one.
const (
	doorSystem = "You are a helpful assistant. Answer briefly, keep to the facts, and say so where you do not know."
	doorUser   = "Explain in a few sentences how a gateway hands a streamed reply on, and what it must not hold back. %s"
)

// doorsOf returns the doors. The first one is what the others are compared with.
func doorsOf() []*door {
	const responses = `"instructions":"` + doorSystem + `","input":"` + doorUser + `","temperature":0.7,"max_output_tokens":256`
	const completed = "event: response.completed"
	return []*door{
		{"chat completions", "/v1/chat/completions", `"messages":[{"role":"system","content":"` + doorSystem + `"},{"role":"user","content":"` + doorUser + `"}],"temperature":0.7,"max_tokens":256`, "data: [DONE]", ""},
		{"messages", "/v1/messages", `"system":"` + doorSystem + `","messages":[{"role":"user","content":"` + doorUser + `"}],"temperature":0.7,"max_tokens":256`, "event: message_stop", ""},
		{"responses, store: false", "/v1/responses", responses + `,"store":false`, completed, ""},
		{"responses, stored", "/v1/responses", responses, completed, ""},
	}
}

// autosOf returns a chat completion that names its model, and the same one through the router.
func autosOf() []*door {
	named := doorsOf()[0]
	named.name = "named"
	auto := *named
	auto.name, auto.model = "service/auto", "service/auto"
	return []*door{named, &auto}
}

// doors measures what a request costs through each of some doors of one gateway, and compares them with the first.
func (p plan) doors(ctx context.Context, self, bin, scratch string, doors []*door, out io.Writer) error {
	_, err := p.through(ctx, self, bin, scratch, doors, []workload{one, some, flood}, out)
	return err
}

// through is doors with the loads to measure under. It returns the median time of a request through each door with each load, in
// the order of the lines that it prints.
func (p plan) through(ctx context.Context, self, bin, scratch string, doors []*door, under []workload, out io.Writer) (medians []float64, err error) {
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return nil, err
	}
	targets, stop, err := startAll(ctx, self, bin, scratch)
	defer stop()
	if err != nil {
		return nil, err
	}
	gateway := targets[len(targets)-1]
	gateway.lag = p.lag
	r := newResults(targets)
	var loads []workload
	for _, callers := range under {
		for _, d := range doors {
			w := callers
			w.name, w.door = d.name+", "+callers.name, d
			loads = append(loads, w)
		}
	}
	for range p.rounds {
		for _, w := range loads {
			s, err := w.run(ctx, gateway, p.slice)
			if err != nil {
				return nil, err
			}
			r.add(w, gateway, s)
		}
	}
	var kept []history.Figure
	fmt.Fprintf(out, "%-34s%12s%20s%16s\n", "CPU µs per request", "sluice", "to "+doors[0].name, "median µs")
	for i, w := range loads {
		base := loads[i/len(doors)*len(doors)]
		kept = append(kept, r.ratios(w.name+", to "+doors[0].name, p.rounds, func(one *results) float64 {
			return one.perRequest(w, gateway.name) / one.perRequest(base, gateway.name)
		}))
		cost := r.perRequest(w, gateway.name)
		medians = append(medians, r.typical(w, gateway.name))
		fmt.Fprint(out, w.name, strings.Repeat(" ", 34-len(w.name)), cell(12, 1, cost), cell(20, 2, cost/r.perRequest(base, gateway.name)), cell(16, 0, medians[i]), "\n")
	}
	return medians, errors.Join(r.firstError(), p.remember("bench/load, "+doors[0].name+" and others", kept, out))
}
