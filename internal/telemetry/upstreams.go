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

// Upstreams registers the metrics of the providers. read is called at each scrape.
func (m *Metrics) Upstreams(read func() []Upstream) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("sluice_upstream_"+name, help, append([]string{"provider"}, labels...), nil)
	}
	m.registry.MustRegister(&upstreams{
		read:         read,
		targets:      desc("targets", "Targets, by provider and by the state of their breakers.", "state"),
		attempts:     desc("attempts_total", "Attempts at a provider, by outcome: answered is with content, failed also counts replies that broke off later.", "outcome"),
		running:      desc("calls_running", "Calls under way at a provider."),
		errorRate:    desc("error_rate", "Share of failed calls, a moving average, of a provider's worst target."),
		firstContent: desc("first_content_seconds", "Time to the first content, a moving average, of a provider's slowest target."),
	})
}

// upstreams is the prometheus.Collector behind Upstreams.
type upstreams struct {
	read                                                func() []Upstream
	targets, attempts, running, errorRate, firstContent *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (u *upstreams) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{u.targets, u.attempts, u.running, u.errorRate, u.firstContent} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (u *upstreams) Collect(to chan<- prometheus.Metric) {
	for _, p := range u.read() {
		gauge := func(d *prometheus.Desc, v float64, labels ...string) {
			to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{p.Provider}, labels...)...)
		}
		for state, n := range p.States {
			gauge(u.targets, float64(n), state)
		}
		to <- prometheus.MustNewConstMetric(u.attempts, prometheus.CounterValue, float64(p.Answered), p.Provider, "answered")
		to <- prometheus.MustNewConstMetric(u.attempts, prometheus.CounterValue, float64(p.Failed), p.Provider, "failed")
		gauge(u.running, float64(p.Running))
		gauge(u.errorRate, p.ErrorRate)
		gauge(u.firstContent, p.FirstContent)
	}
}
