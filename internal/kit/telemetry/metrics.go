package telemetry

import (
	"database/sql"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics holds everything that /metrics shows. It is safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	off      bool // nobody can read them, so requests are not counted

	requests *cache[requestKey, requestSeries]
	inFlight prometheus.Gauge
	overhead prometheus.Histogram
	reloads  *prometheus.CounterVec
	reloaded prometheus.Gauge
	calls    *calls
	tags     *tags
}

// requestSeries holds the resolved series of a request.
type requestSeries struct {
	total    prometheus.Counter
	duration prometheus.Observer
}

// requestKey holds the labels of a request.
type requestKey struct {
	route, method string
	status        int
}

// NewMetrics returns the metrics of one process. Each has its own registry, so that tests do
// not share counters. The revision may be empty.
func NewMetrics(version, revision string) *Metrics {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	to := promauto.With(r)
	m := &Metrics{
		registry: r,
		requests: newRequests(to),
		inFlight: to.NewGauge(prometheus.GaugeOpts{Name: "sluice_http_requests_in_flight", Help: "Requests being answered now."}),
		overhead: to.NewHistogram(prometheus.HistogramOpts{
			Name:    "sluice_overhead_seconds",
			Help:    "What the gateway itself added to a chat completion before its reply began: all but the waits for the caller's body, for upstreams and for tools.",
			Buckets: []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5},
		}),
		reloads:  to.NewCounterVec(prometheus.CounterOpts{Name: "sluice_config_reloads_total", Help: "Configuration reloads, by outcome."}, []string{"outcome"}),
		reloaded: to.NewGauge(prometheus.GaugeOpts{Name: "sluice_config_loaded_timestamp_seconds", Help: "When the configuration in force was loaded, in Unix seconds."}),
		calls:    newCalls(to),
		tags:     newTags(to),
	}
	m.reloaded.SetToCurrentTime()
	for _, outcome := range []string{"ok", "refused"} {
		m.reloads.WithLabelValues(outcome) // a rate needs a zero to begin with
	}
	to.NewGauge(prometheus.GaugeOpts{
		Name: "sluice_build_info", Help: "Always 1; the labels say which version runs.",
		ConstLabels: prometheus.Labels{"version": version, "revision": revision, "goversion": runtime.Version()},
	}).Set(1)
	return m
}

// mostRequestSeries bounds the series of requests. Routes, methods and statuses are closed sets; the
// bound is for a handler that makes up statuses.
const mostRequestSeries = 2000

// newRequests returns the series of requests.
func newRequests(to promauto.Factory) *cache[requestKey, requestSeries] {
	total := to.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_http_requests_total",
		Help: "Requests answered, by route, method and status. A stream that broke off counts with the status of its error, one whose caller hung up with 499.",
	}, []string{"route", "method", "status"})
	duration := to.NewHistogramVec(prometheus.HistogramOpts{
		Name: "sluice_http_request_duration_seconds", Help: "Time from the first byte of a request to the last of its reply.",
		// From a refused request (1 ms) to a long stream (5 minutes).
		Buckets: []float64{.001, .005, .025, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300},
	}, []string{"route"})
	return newCache(mostRequestSeries, requestKey{route: "other", method: "other"}, func(k requestKey) requestSeries {
		return requestSeries{total.WithLabelValues(k.route, k.method, strconv.Itoa(k.status)), duration.WithLabelValues(k.route)}
	})
}

// Off says that nobody can read the metrics, which saves counting. It is called before the first request,
// if at all.
func (m *Metrics) Off() { m.off = true }

// Handler serves the metrics in the format that the scraper prefers: Prometheus's text, or OpenMetrics, which has
// exemplars. A figure that cannot be read does not keep the others from being shown.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true, ErrorHandling: promhttp.ContinueOnError})
}

// Gauge registers a gauge whose value is read at each scrape, so that nothing else need update it. It panics if the
// name exists. Operators have dashboards and alerts on the names: add to them, do not change them.
func Gauge[T int | int64 | float64](m *Metrics, name, help string, read func() T) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(read()) }))
}

// Counter registers a counter whose value is read at each scrape. It panics if the name exists.
func (m *Metrics) Counter(name, help string, read func() int64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(read()) }))
}

// Bit returns 1 if yes, and else 0: the value of a gauge that answers a question.
func Bit(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// Counters registers counters with one label whose values are read at each scrape. It panics if the name
// exists. The values of the label must be a closed set.
func (m *Metrics) Counters(name, help, label string, read map[string]func() int64) {
	for value, read := range read {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: name, Help: help, ConstLabels: prometheus.Labels{label: value},
		}, func() float64 { return float64(read()) }))
	}
}

// Databases registers the metrics of pools of database connections, under the usual names (go_sql_...)
// with the name of the pool as the label db_name.
func (m *Metrics) Databases(pools map[string]*sql.DB) {
	for name, db := range pools {
		m.registry.MustRegister(collectors.NewDBStatsCollector(db, name))
	}
}

// RequestStarted counts a request as in progress. RequestEnded must follow.
func (m *Metrics) RequestStarted() {
	if !m.off {
		m.inFlight.Inc()
	}
}

// RequestEnded counts a finished request by route, method and status. One that is traced becomes the exemplar of its
// bucket, so that a slow request of a graph leads to its trace.
func (m *Metrics) RequestEnded(e *Event, took time.Duration) {
	if m.off {
		return
	}
	m.inFlight.Dec()
	k := requestKey{e.Route, knownMethod(e.Method), e.Outcome()}
	if k.route == "" {
		k.route = "none" // all unknown paths share one label
	}
	s := m.requests.of(k)
	s.total.Inc()
	if !e.Span.on() {
		s.duration.Observe(took.Seconds())
		return
	}
	s.duration.(prometheus.ExemplarObserver).ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": e.Span.TraceID()})
}

// Overhead counts what the gateway itself added to a chat completion.
func (m *Metrics) Overhead(d time.Duration) {
	if !m.off {
		m.overhead.Observe(d.Seconds())
	}
}

// Reloaded counts an attempt to load a changed configuration.
func (m *Metrics) Reloaded(ok bool) {
	outcome := "ok"
	if ok {
		m.reloaded.SetToCurrentTime()
	} else {
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
