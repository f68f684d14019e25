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
	// Replicas are its servers, if it has several.
	Replicas []Replica
}

// Replica holds the metrics of one server of a provider. There are few of them, so they are a label.
type Replica struct {
	Name             string
	Answered, Failed int64
	Running          int64 // calls of this node
	// Reports says that the server has said lately how busy it is: how many calls it works on and how many wait, and how much
	// of its cache is in use, from 0 to 1; below 0 if it does not say that.
	Reports                    bool
	Serving, Waiting, CacheUse float64
}

// Upstreams registers the metrics of the providers. read is called once at each scrape.
func (m *Metrics) Upstreams(read func() []Upstream) { m.registry.MustRegister(upstreams(read)) }

// upstreams is a prometheus.Collector.
type upstreams func() []Upstream

var (
	targets         = upstreamDesc("targets", "Targets, by provider and by the state of their breakers.", "state")
	attempts        = upstreamDesc("attempts_total", "Attempts at a provider, by outcome: answered is with content, failed also counts replies that broke off later.", "outcome")
	callsRunning    = upstreamDesc("calls_running", "Calls under way at a provider.")
	errorRate       = upstreamDesc("error_rate", "Share of failed calls, a moving average, of a provider's worst target.")
	replicaAttempts = upstreamDesc("replica_attempts_total", "Attempts at one server of a provider that has several, by outcome.", "replica", "outcome")
	replicaRunning  = upstreamDesc("replica_calls_running", "Calls of this node under way at one server of a provider.", "replica")
	replicaReports  = upstreamDesc("replica_reports", "1 if one server of a provider has said in its metrics how busy it is; 0 if it has none, or none lately.", "replica")
	replicaServing  = upstreamDesc("replica_server_running", "Calls that one server of a provider works on, as it says.", "replica")
	replicaWaiting  = upstreamDesc("replica_server_waiting", "Calls that wait in the queue of one server of a provider, as it says.", "replica")
	replicaCache    = upstreamDesc("replica_server_cache_ratio", "Share of the cache of one server of a provider that is in use, as it says.", "replica")
	firstContent    = upstreamDesc("first_content_seconds", "Time to the first content, a moving average, of a provider's slowest target.")
)

func upstreamDesc(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc("sluice_upstream_"+name, help, append([]string{"provider"}, more...), nil)
}

// Describe implements prometheus.Collector.
func (upstreams) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{targets, attempts, callsRunning, errorRate, firstContent, replicaAttempts, replicaRunning, replicaReports, replicaServing, replicaWaiting, replicaCache} {
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
		for _, r := range p.Replicas {
			emit(replicaAttempts, prometheus.CounterValue, float64(r.Answered), r.Name, "answered")
			emit(replicaAttempts, prometheus.CounterValue, float64(r.Failed), r.Name, "failed")
			emit(replicaRunning, prometheus.GaugeValue, float64(r.Running), r.Name)
			emit(replicaReports, prometheus.GaugeValue, float64(Bit(r.Reports)), r.Name)
			if !r.Reports {
				continue
			}
			emit(replicaServing, prometheus.GaugeValue, r.Serving, r.Name)
			emit(replicaWaiting, prometheus.GaugeValue, r.Waiting, r.Name)
			if r.CacheUse >= 0 {
				emit(replicaCache, prometheus.GaugeValue, r.CacheUse, r.Name)
			}
		}
	}
}
