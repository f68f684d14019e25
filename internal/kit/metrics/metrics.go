// Package metrics counts things and shows the counts in the text format of Prometheus.
//
// A Registry holds families: counters, gauges and histograms, each with a name and the names of its labels. A
// family that is made with Func is read at each scrape. The others are counted: With resolves the values of
// the labels to one series, which costs a lock and a lookup, so whoever counts often keeps the series.
// Counting itself takes no lock.
package metrics

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Kind is the type of a family.
type Kind string

// The kinds of families. There are no summaries except the one of the Go runtime.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
	summary   Kind = "summary"
)

// Registry holds the families of one process. It is safe for concurrent use.
type Registry struct {
	mu       sync.Mutex
	families map[string]*family
}

// family is what the metrics of one name have in common.
type family struct {
	name, help string
	kind       Kind
	labels     []string
	// write appends the lines of the family.
	write func(*page)
}

// NewRegistry returns a registry without families.
func NewRegistry() *Registry { return &Registry{families: map[string]*family{}} }

// add adds a family. It panics if the name exists or is not valid: the names are written in the program.
func (r *Registry) add(f *family) {
	for _, name := range append([]string{f.name}, f.labels...) {
		if !valid(name) {
			panic(fmt.Sprintf("metrics: %q is not a valid name", name))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.families[f.name] != nil {
		panic("metrics: there are two families with the name " + f.name)
	}
	r.families[f.name] = f
}

// valid reports whether a name is one that every reader of the format takes.
func valid(name string) bool {
	for i, c := range []byte(name) {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// Func adds a family whose values are read at each scrape: read calls emit for each series, with the values
// of the labels. The values must be a closed set.
func (r *Registry) Func(kind Kind, name, help string, labels []string, read func(emit func(v float64, values ...string))) {
	f := &family{name: name, help: help, kind: kind, labels: labels}
	f.write = func(p *page) {
		var lines []line
		read(func(v float64, values ...string) { lines = append(lines, line{f.pairs(values), v}) })
		slices.SortFunc(lines, func(a, b line) int { return strings.Compare(a.pairs, b.pairs) })
		for _, l := range lines {
			p.line(name, "", l.pairs, "", l.value)
		}
	}
	r.add(f)
}

// line is a series that was read.
type line struct {
	pairs string
	value float64
}

// pairs returns labels with values as they are written, ordered by the name of the label: a="1",b="2".
func (f *family) pairs(values []string) string {
	if len(values) != len(f.labels) {
		panic(fmt.Sprintf("metrics: %s has %d labels and got %d values", f.name, len(f.labels), len(values)))
	}
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = f.labels[i] + `="` + escapeValue(v) + `"`
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// group holds the series of a family that is counted, by their labels.
type group[T any] struct {
	*family
	make func() *T

	mu     sync.Mutex
	series map[string]*T
}

// With returns the series with the given values of the labels, and makes it if it is new.
func (g *group[T]) With(values ...string) *T {
	pairs := g.pairs(values)
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.series[pairs]
	if s == nil {
		s = g.make()
		g.series[pairs] = s
	}
	return s
}

// each calls do for each series, in the order of their labels.
func (g *group[T]) each(do func(pairs string, s *T)) {
	g.mu.Lock()
	all := maps.Clone(g.series)
	g.mu.Unlock()
	for _, pairs := range slices.Sorted(maps.Keys(all)) {
		do(pairs, all[pairs])
	}
}

// newGroup adds a family that is counted. If it has no labels, its one series is there from the start.
func newGroup[T any](r *Registry, kind Kind, name, help string, labels []string, make func() *T, write func(p *page, pairs string, s *T)) *group[T] {
	g := &group[T]{family: &family{name: name, help: help, kind: kind, labels: labels}, make: make, series: map[string]*T{}}
	g.family.write = func(p *page) {
		g.each(func(pairs string, s *T) { write(p, pairs, s) })
	}
	r.add(g.family)
	if len(labels) == 0 {
		g.With()
	}
	return g
}

// Counters is a family of counters.
type Counters struct{ *group[Count] }

// Counters adds a family of counters.
func (r *Registry) Counters(name, help string, labels ...string) Counters {
	return Counters{newGroup(r, Counter, name, help, labels, func() *Count { return &Count{} }, func(p *page, pairs string, c *Count) {
		p.line(name, "", pairs, "", c.value())
	})}
}

// Count is a number that only grows.
type Count struct {
	whole atomic.Uint64
	parts float // what was added by Add
}

// Inc adds 1.
func (c *Count) Inc() { c.whole.Add(1) }

// Add adds v, which must not be negative.
func (c *Count) Add(v float64) { c.parts.add(v) }

func (c *Count) value() float64 { return float64(c.whole.Load()) + c.parts.load() }

// Gauge adds a gauge without labels.
func (r *Registry) Gauge(name, help string) *Level {
	return newGroup(r, Gauge, name, help, nil, func() *Level { return &Level{} }, func(p *page, pairs string, l *Level) {
		p.line(name, "", pairs, "", l.v.load())
	}).With()
}

// Level is a number that goes up and down.
type Level struct{ v float }

// Set sets the number.
func (l *Level) Set(v float64) { l.v.bits.Store(math.Float64bits(v)) }

// Add adds v, which may be negative.
func (l *Level) Add(v float64) { l.v.add(v) }

// Histograms is a family of histograms.
type Histograms struct{ *group[Distribution] }

// Histograms adds a family of histograms. The buckets are their upper bounds, in ascending order, without the
// last one, which has none.
func (r *Registry) Histograms(name, help string, buckets []float64, labels ...string) Histograms {
	if !slices.IsSorted(buckets) {
		panic("metrics: the buckets of " + name + " are not in order")
	}
	le := make([]string, len(buckets)+1)
	for i, b := range buckets {
		le[i] = `le="` + number(b) + `"`
	}
	le[len(buckets)] = `le="+Inf"`
	return Histograms{newGroup(r, Histogram, name, help, labels, func() *Distribution {
		return &Distribution{bounds: buckets, counts: make([]atomic.Uint64, len(buckets)+1)}
	}, func(p *page, pairs string, d *Distribution) {
		// The buckets are read one after the other, while others count. Their sum is the count, so that the
		// last bucket and the count agree.
		total := uint64(0)
		for i := range d.counts {
			total += d.counts[i].Load()
			p.line(name, "_bucket", pairs, le[i], float64(total))
		}
		p.line(name, "_sum", pairs, "", d.sum.load())
		p.line(name, "_count", pairs, "", float64(total))
	})}
}

// Distribution counts values by the bucket they fall into.
type Distribution struct {
	bounds []float64
	counts []atomic.Uint64 // of each bucket alone
	sum    float
}

// Observe counts a value.
func (d *Distribution) Observe(v float64) {
	i, _ := slices.BinarySearch(d.bounds, v) // the first bound that is not below v
	d.counts[i].Add(1)
	d.sum.add(v)
}

// float is a number that many goroutines add to.
type float struct{ bits atomic.Uint64 }

func (f *float) add(v float64) {
	for {
		old := f.bits.Load()
		if f.bits.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+v)) {
			return
		}
	}
}

func (f *float) load() float64 { return math.Float64frombits(f.bits.Load()) }
