package telemetry

import "github.com/prometheus/client_golang/prometheus"

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

// Upstreams registers the metrics of the providers. read is called once at each scrape.
func (m *Metrics) Upstreams(read func() []Upstream) { m.registry.MustRegister(upstreams(read)) }

// upstreams is a prometheus.Collector.
type upstreams func() []Upstream

var (
	targets      = upstreamDesc("targets", "Targets, by provider and by the state of their breakers.", "state")
	attempts     = upstreamDesc("attempts_total", "Attempts at a provider, by outcome: answered is with content, failed also counts replies that broke off later.", "outcome")
	callsRunning = upstreamDesc("calls_running", "Calls under way at a provider.")
	errorRate    = upstreamDesc("error_rate", "Share of failed calls, a moving average, of a provider's worst target.")
	firstContent = upstreamDesc("first_content_seconds", "Time to the first content, a moving average, of a provider's slowest target.")
)

func upstreamDesc(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc("sluice_upstream_"+name, help, append([]string{"provider"}, more...), nil)
}

// Describe implements prometheus.Collector.
func (upstreams) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{targets, attempts, callsRunning, errorRate, firstContent} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (read upstreams) Collect(to chan<- prometheus.Metric) {
	for _, p := range read() {
		emit := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, more ...string) {
			to <- prometheus.MustNewConstMetric(d, kind, v, append([]string{p.Provider}, more...)...)
		}
		for state, n := range p.States {
			emit(targets, prometheus.GaugeValue, float64(n), state)
		}
		emit(attempts, prometheus.CounterValue, float64(p.Answered), "answered")
		emit(attempts, prometheus.CounterValue, float64(p.Failed), "failed")
		emit(callsRunning, prometheus.GaugeValue, float64(p.Running))
		emit(errorRate, prometheus.GaugeValue, p.ErrorRate)
		emit(firstContent, prometheus.GaugeValue, p.FirstContent)
	}
}
