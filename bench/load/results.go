package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"sluice/bench/history"
)

// results holds everything that was measured. Figures are computed when they are printed.
type results struct {
	targets []*target
	// samples holds the turns by workload and target, in the order of the rounds.
	samples map[string]map[string][]*sample
	held    map[string]held
}

// newResults returns empty results. The first target is the upstream itself, which the others
// are compared with.
func newResults(targets []*target) *results {
	return &results{targets: targets, samples: map[string]map[string][]*sample{}, held: map[string]held{}}
}

// add adds the sample of one turn. Samples must be added in the order of the rounds.
func (r *results) add(w workload, t *target, s *sample) {
	if r.samples[w.name] == nil {
		r.samples[w.name] = map[string][]*sample{}
	}
	r.samples[w.name][t.name] = append(r.samples[w.name][t.name], s)
}

// none is a figure that does not exist.
var none = math.NaN()

// figure is a row of the table.
type figure struct {
	name string
	of   func(target string) float64
}

// figures returns the rows.
func (r *results) figures() []figure {
	return []figure{
		{"CPU µs per request, c=1", func(t string) float64 { return r.perRequest(one, t) }},
		{"CPU µs per request, c=32", func(t string) float64 { return r.perRequest(some, t) }},
		{"CPU µs per request, c=256", func(t string) float64 { return r.perRequest(many, t) }},
		{"CPU µs per chunk, paced", func(t string) float64 { return r.perChunk(paced, t) }},
		{"CPU µs per chunk, flood", func(t string) float64 { return r.perChunk(flood, t) }},
		{"CPU µs per request, TLS", func(t string) float64 { return r.perRequest(secure, t) }},
		{"CPU µs per MB, 200 KB prompt", func(t string) float64 { return r.perMegabyte(long, t) }},
		{"CPU µs per MB, 400 KB, agent", func(t string) float64 { return r.perMegabyte(agents, t) }},
		{"CPU µs per MB, 5 MB prompt", func(t string) float64 { return r.perMegabyte(longest, t) }},
		{"CPU µs per MB, 5 MB image", func(t string) float64 { return r.perMegabyte(pictures, t) }},
		{"added µs, median, c=1", func(t string) float64 { return r.added(one, t, 0.5, (*sample).ends) }},
		{"added µs, p99, c=1", func(t string) float64 { return r.added(one, t, 0.99, (*sample).ends) }},
		{"added µs to the first chunk", func(t string) float64 { return r.added(paced, t, 0.5, (*sample).firsts) }},
		{"MB without a load", r.idle},
		{"KB per open stream", r.memory},
		{"requests per second", r.throughput},
		{"errors", r.errors},
	}
}

// print writes one row for each figure. The last column is the ratio of the gateway to the
// floor: what the gateway does beyond copying bytes.
func (r *results) print(out io.Writer) { r.table(out, r.figures()) }

// table is print for some figures.
func (r *results) table(out io.Writer, rows []figure) {
	fmt.Fprintf(out, "%-30s", "")
	for _, t := range r.targets {
		fmt.Fprintf(out, "%12s", t.name)
	}
	// The floor and the gateway are the last two.
	names := r.targets[len(r.targets)-2:]
	fmt.Fprintf(out, "%16s\n", names[1].name+"/"+names[0].name)
	for _, row := range rows {
		// Padded by hand: fmt pads by bytes, and µ has two.
		fmt.Fprint(out, row.name, strings.Repeat(" ", 30-len([]rune(row.name))))
		for _, t := range r.targets {
			fmt.Fprint(out, cell(12, 1, row.of(t.name)))
		}
		fmt.Fprintln(out, cell(16, 2, row.of(names[1].name)/row.of(names[0].name)))
	}
}

// round returns the results of one round alone.
func (r *results) round(n int) *results {
	one := newResults(r.targets)
	one.held = r.held
	for w, byTarget := range r.samples {
		one.samples[w] = map[string][]*sample{}
		for t, samples := range byTarget {
			if n < len(samples) {
				one.samples[w][t] = samples[n : n+1]
			}
		}
	}
	return one
}

// ratios returns a ratio in each round, for the history: what else the machine does affects both sides of it.
func (r *results) ratios(name string, rounds int, of func(*results) float64) history.Figure {
	f := history.Figure{Name: name}
	for n := range rounds {
		f.Samples = append(f.Samples, of(r.round(n)))
	}
	return f
}

// history returns the figures for the history: the gateway beside the floor. Those of which more is better, and counts of
// errors, are not among them.
func (r *results) history(rounds int) (list []history.Figure) {
	names := r.targets[len(r.targets)-2:]
	for i, row := range r.figures() {
		if row.name == "requests per second" || row.name == "errors" {
			continue
		}
		n := rounds
		if row.name == "KB per open stream" || row.name == "MB without a load" {
			n = 1 // it is measured once
		}
		list = append(list, r.ratios(row.name+", to the floor", n, func(one *results) float64 {
			row := one.figures()[i]
			return row.of(names[1].name) / row.of(names[0].name)
		}))
	}
	return list
}

// cell formats a figure, or "-" if it does not exist.
func cell(width, decimals int, v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Sprintf("%*s", width, "-")
	}
	return fmt.Sprintf("%*.*f", width, decimals, v)
}

// ends and firsts return the times of a sample that added compares.
func (s *sample) ends() []time.Duration   { return s.latency }
func (s *sample) firsts() []time.Duration { return s.first }

// perRequest returns the CPU time of all rounds divided by their requests. Long sums make up
// for the coarse clock.
func (r *results) perRequest(w workload, t string) float64 {
	return r.pooled(w, t, func(s *sample) int { return s.requests })
}

// perChunk returns the CPU time of all rounds divided by their chunks.
func (r *results) perChunk(w workload, t string) float64 {
	return r.pooled(w, t, func(s *sample) int { return s.chunks })
}

// perMegabyte returns the CPU time of all rounds divided by the size of their requests.
func (r *results) perMegabyte(w workload, t string) float64 {
	return r.pooled(w, t, func(s *sample) int { return s.requests * s.bytes }) * 1e6
}

// pooled returns the CPU time per counted unit over all rounds, in microseconds.
func (r *results) pooled(w workload, t string, count func(*sample) int) float64 {
	var cpu time.Duration
	n := 0
	for _, s := range r.samples[w.name][t] {
		cpu += s.cpu
		n += count(s)
	}
	return micros(cpu) / float64(n)
}

// added returns the time beyond that of the upstream alone in the same round: the median of
// all rounds, in microseconds. Comparing within a round cancels what else the machine was
// doing.
func (r *results) added(w workload, t string, of float64, times func(*sample) []time.Duration) float64 {
	direct := r.targets[0].name
	if t == direct {
		return none
	}
	// Samples of the same index belong to the same round.
	var differences []float64
	for i, s := range r.samples[w.name][t] {
		base := times(r.samples[w.name][direct][i])
		if len(base) > 0 && len(times(s)) > 0 {
			differences = append(differences, micros(share(times(s), of)-share(base, of)))
		}
	}
	return median(differences)
}

// typical returns the median time of a request, in microseconds: the median of all rounds.
func (r *results) typical(w workload, t string) float64 {
	var medians []float64
	for _, s := range r.samples[w.name][t] {
		medians = append(medians, micros(share(s.latency, 0.5)))
	}
	return median(medians)
}

// memory returns kilobytes per open stream. The upstream itself is not measured.
func (r *results) memory(t string) float64 {
	h, ok := r.held[t]
	if !ok {
		return none
	}
	return h.perStream / 1000
}

// idle returns the memory of a target before its first load, in megabytes.
func (r *results) idle(t string) float64 {
	h, ok := r.held[t]
	if !ok {
		return none
	}
	return float64(h.idle) / 1e6
}

// throughput returns the highest rate of the workloads without streams, in requests per second.
func (r *results) throughput(t string) float64 {
	most := 0.0
	for _, w := range []workload{one, some, many} {
		var rates []float64
		for _, s := range r.samples[w.name][t] {
			rates = append(rates, s.rate)
		}
		most = max(most, median(rates))
	}
	return most
}

// errors returns the number of failed requests and streams of a target.
func (r *results) errors(t string) float64 {
	n := r.held[t].errors
	for _, w := range workloads {
		for _, s := range r.samples[w.name][t] {
			n += s.errors
		}
	}
	return float64(n)
}

// firstError returns the first error of any target, or nil. It names the target and the workload.
func (r *results) firstError() error {
	for _, t := range r.targets {
		if err := r.held[t.name].err; err != nil {
			return fmt.Errorf("%s, open streams: %w", t.name, err)
		}
		for _, name := range slices.Sorted(maps.Keys(r.samples)) {
			for _, s := range r.samples[name][t.name] {
				if s.err != nil {
					return fmt.Errorf("%s, %s: %w", t.name, name, s.err)
				}
			}
		}
	}
	return nil
}

// micros returns a duration in microseconds.
func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// median returns the median. For an even number of values it is the mean of the middle two.
func median(values []float64) float64 {
	if len(values) == 0 {
		return none
	}
	// A copy, so that values keeps its order.
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
