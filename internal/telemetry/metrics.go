package telemetry

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics holds everything that /metrics shows. It is safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry

	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge
	reloads  *prometheus.CounterVec
}

// NewMetrics returns the metrics of one process. Each has its own registry, so that tests do
// not share counters.
func NewMetrics(version string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_http_requests_total", Help: "Requests answered, by route, method and status.",
		}, []string{"route", "method", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sluice_http_request_duration_seconds", Help: "Time from the first byte of a request to the last of its reply.",
			// From a refused request (1 ms) to a long stream (5 minutes).
			Buckets: []float64{.001, .005, .025, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300},
		}, []string{"route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sluice_http_requests_in_flight", Help: "Requests being answered now.",
		}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_config_reloads_total", Help: "Configuration reloads, by outcome.",
		}, []string{"outcome"}),
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "sluice_build_info", Help: "Always 1; the label says which version runs.", ConstLabels: prometheus.Labels{"version": version},
	})
	info.Set(1)
	m.registry.MustRegister(m.requests, m.duration, m.inFlight, m.reloads, info,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Handler serves the metrics in the Prometheus text format.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Gauge registers a gauge whose value is read at each scrape. It panics if the name exists.
func (m *Metrics) Gauge(name, help string, read func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read))
}

// RequestStarted counts a request as in progress. RequestEnded must follow.
func (m *Metrics) RequestStarted() { m.inFlight.Inc() }

// RequestEnded counts a finished request by route, method and status.
func (m *Metrics) RequestEnded(e *Event, took time.Duration) {
	m.inFlight.Dec()
	route := e.Route
	if route == "" {
		route = "none" // all unknown paths share one label
	}
	m.requests.WithLabelValues(route, knownMethod(e.Method), strconv.Itoa(e.Status)).Inc()
	m.duration.WithLabelValues(route).Observe(took.Seconds())
}

// Reloaded counts an attempt to load a changed configuration.
func (m *Metrics) Reloaded(ok bool) {
	outcome := "ok"
	if !ok {
		outcome = "refused"
	}
	m.reloads.WithLabelValues(outcome).Inc()
}

// knownMethod replaces unknown methods by "other", so that callers cannot create labels.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}
