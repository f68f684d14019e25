package telemetry

import "sluice/internal/kit/metrics"

// Upstream holds the metrics of one provider. Keys and models are not labels: there may be
// many, and each would be a time series.
type Upstream struct {
	Provider string
	Running  int64
	// Answered and Failed count attempts since the start.
	Answered, Failed int64
	// States counts the provider's targets by the state of their breaker.
	States map[string]int
	// ErrorRate is that of the provider's worst target, from 0 to 1.
	ErrorRate float64
	// FirstContent is the time to the first content, in seconds, of the slowest target.
	FirstContent float64
}

// Upstreams registers the metrics of the providers. read is called at each scrape, once for each family.
func (m *Metrics) Upstreams(read func() []Upstream) {
	add := func(kind metrics.Kind, name, help string, more []string, of func(p *Upstream, emit func(float64, ...string))) {
		m.registry.Func(kind, "sluice_upstream_"+name, help, append([]string{"provider"}, more...), func(emit func(float64, ...string)) {
			for _, p := range read() {
				of(&p, emit)
			}
		})
	}
	add(metrics.Gauge, "targets", "Targets, by provider and by the state of their breakers.", []string{"state"}, func(p *Upstream, emit func(float64, ...string)) {
		for state, n := range p.States {
			emit(float64(n), p.Provider, state)
		}
	})
	add(metrics.Counter, "attempts_total", "Attempts at a provider, by outcome: answered is with content, failed also counts replies that broke off later.", []string{"outcome"}, func(p *Upstream, emit func(float64, ...string)) {
		emit(float64(p.Answered), p.Provider, "answered")
		emit(float64(p.Failed), p.Provider, "failed")
	})
	add(metrics.Gauge, "calls_running", "Calls under way at a provider.", nil, func(p *Upstream, emit func(float64, ...string)) { emit(float64(p.Running), p.Provider) })
	add(metrics.Gauge, "error_rate", "Share of failed calls, a moving average, of a provider's worst target.", nil, func(p *Upstream, emit func(float64, ...string)) { emit(p.ErrorRate, p.Provider) })
	add(metrics.Gauge, "first_content_seconds", "Time to the first content, a moving average, of a provider's slowest target.", nil, func(p *Upstream, emit func(float64, ...string)) { emit(p.FirstContent, p.Provider) })
}
