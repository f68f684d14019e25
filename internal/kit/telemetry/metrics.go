package telemetry

import (
	"database/sql"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"sluice/internal/kit/metrics"
)

// Metrics holds everything that /metrics shows. It is safe for concurrent use.
type Metrics struct {
	registry *metrics.Registry
	off      bool // nobody can read them, so requests are not counted

	requests metrics.Counters
	duration metrics.Histograms
	inFlight *metrics.Level
	overhead *metrics.Distribution
	reloads  metrics.Counters
	reloaded *metrics.Level
	calls    *calls

	requestsOf cache[requestKey, requestSeries]
}

// requestSeries holds the resolved series of a request.
type requestSeries struct {
	total    *metrics.Count
	duration *metrics.Distribution
}

// requestKey holds the labels of a request.
type requestKey struct {
	route, method string
	status        int
}

// NewMetrics returns the metrics of one process. Each has its own registry, so that tests do
// not share counters. The revision may be empty.
func NewMetrics(version, revision string) *Metrics {
	r := metrics.NewRegistry()
	m := &Metrics{
		registry: r,
		requests: r.Counters("sluice_http_requests_total",
			"Requests answered, by route, method and status. A stream that broke off counts with the status of its error, one whose caller hung up with 499.",
			"route", "method", "status"),
		duration: r.Histograms("sluice_http_request_duration_seconds", "Time from the first byte of a request to the last of its reply.",
			// From a refused request (1 ms) to a long stream (5 minutes).
			[]float64{.001, .005, .025, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300}, "route"),
		inFlight: r.Gauge("sluice_http_requests_in_flight", "Requests being answered now."),
		overhead: r.Histograms("sluice_overhead_seconds",
			"What the gateway itself added to a chat completion before its reply began: all but the waits for the caller's body, for upstreams and for tools.",
			[]float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5}).With(),
		reloads:  r.Counters("sluice_config_reloads_total", "Configuration reloads, by outcome.", "outcome"),
		reloaded: r.Gauge("sluice_config_loaded_timestamp_seconds", "When the configuration in force was loaded, in Unix seconds."),
		calls:    newCalls(r),
	}
	m.reloaded.Set(now())
	for _, outcome := range []string{"ok", "refused"} {
		m.reloads.With(outcome) // a rate needs a zero to begin with
	}
	m.requestsOf.most, m.requestsOf.rest = mostRequestSeries, requestKey{route: "other", method: "other"}
	r.Func(metrics.Gauge, "sluice_build_info", "Always 1; the labels say which version runs.", []string{"version", "revision", "goversion"}, func(emit func(float64, ...string)) {
		emit(1, version, revision, runtime.Version())
	})
	r.Runtime()
	r.Process()
	return m
}

// now returns the time in Unix seconds.
func now() float64 { return float64(time.Now().UnixNano()) / 1e9 }

// Off says that nobody can read the metrics, which saves counting. It is called before the first request,
// if at all.
func (m *Metrics) Off() { m.off = true }

// Handler serves the metrics in the Prometheus text format.
func (m *Metrics) Handler() http.Handler { return m.registry }

// Gauge registers a gauge whose value is read at each scrape. It panics if the name exists.
func (m *Metrics) Gauge(name, help string, read func() float64) {
	m.registry.Func(metrics.Gauge, name, help, nil, func(emit func(float64, ...string)) { emit(read()) })
}

// Counter registers a counter whose value is read at each scrape. It panics if the name exists.
func (m *Metrics) Counter(name, help string, read func() float64) {
	m.registry.Func(metrics.Counter, name, help, nil, func(emit func(float64, ...string)) { emit(read()) })
}

// Counters registers counters with one label whose values are read at each scrape. It panics if the name
// exists. The values of the label must be a closed set.
func (m *Metrics) Counters(name, help, label string, read map[string]func() int64) {
	m.registry.Func(metrics.Counter, name, help, []string{label}, func(emit func(float64, ...string)) {
		for value, read := range read {
			emit(float64(read()), value)
		}
	})
}

// Databases registers the metrics of pools of database connections, under the usual names (go_sql_...)
// with the name of the pool as the label db_name.
func (m *Metrics) Databases(pools map[string]*sql.DB) {
	for _, f := range poolMetrics {
		m.registry.Func(f.kind, "go_sql_"+f.name, f.help, []string{"db_name"}, func(emit func(float64, ...string)) {
			for name, db := range pools {
				emit(f.of(db.Stats()), name)
			}
		})
	}
}

// poolMetrics are the figures of a pool of database connections.
var poolMetrics = []struct {
	kind       metrics.Kind
	name, help string
	of         func(sql.DBStats) float64
}{
	{metrics.Gauge, "max_open_connections", "Connections that the pool may have.", func(s sql.DBStats) float64 { return float64(s.MaxOpenConnections) }},
	{metrics.Gauge, "open_connections", "Connections that the pool has, in use or not.", func(s sql.DBStats) float64 { return float64(s.OpenConnections) }},
	{metrics.Gauge, "in_use_connections", "Connections that are in use.", func(s sql.DBStats) float64 { return float64(s.InUse) }},
	{metrics.Gauge, "idle_connections", "Connections that are not in use.", func(s sql.DBStats) float64 { return float64(s.Idle) }},
	{metrics.Counter, "wait_count_total", "How often somebody waited for a connection.", func(s sql.DBStats) float64 { return float64(s.WaitCount) }},
	{metrics.Counter, "wait_duration_seconds_total", "How long somebody waited for a connection, in all.", func(s sql.DBStats) float64 { return s.WaitDuration.Seconds() }},
	{metrics.Counter, "max_idle_closed_total", "Connections that were closed because too many were idle.", func(s sql.DBStats) float64 { return float64(s.MaxIdleClosed) }},
	{metrics.Counter, "max_idle_time_closed_total", "Connections that were closed because they were idle for too long.", func(s sql.DBStats) float64 { return float64(s.MaxIdleTimeClosed) }},
	{metrics.Counter, "max_lifetime_closed_total", "Connections that were closed because they were too old.", func(s sql.DBStats) float64 { return float64(s.MaxLifetimeClosed) }},
}

// RequestStarted counts a request as in progress. RequestEnded must follow.
func (m *Metrics) RequestStarted() {
	if !m.off {
		m.inFlight.Add(1)
	}
}

// mostRequestSeries bounds the series of requests. Routes, methods and statuses are closed sets; the
// bound is for a handler that makes up statuses.
const mostRequestSeries = 2000

// RequestEnded counts a finished request by route, method and status.
func (m *Metrics) RequestEnded(e *Event, took time.Duration) {
	if m.off {
		return
	}
	m.inFlight.Add(-1)
	k := requestKey{e.Route, knownMethod(e.Method), e.Outcome()}
	if k.route == "" {
		k.route = "none" // all unknown paths share one label
	}
	s, ok := m.requestsOf.find(k)
	if !ok {
		s = m.requestsOf.add(k, func(k requestKey) requestSeries {
			return requestSeries{m.requests.With(k.route, k.method, strconv.Itoa(k.status)), m.duration.With(k.route)}
		})
	}
	s.total.Inc()
	s.duration.Observe(took.Seconds())
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
		m.reloaded.Set(now())
	} else {
		outcome = "refused"
	}
	m.reloads.With(outcome).Inc()
}

// knownMethod replaces unknown methods by "other", so that callers cannot create labels.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}
