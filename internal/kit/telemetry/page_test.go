package telemetry_test

import (
	"compress/gzip"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sluice/internal/kit/telemetry"
)

// fetch returns the page of the metrics in the format that accept asks for, and the type of the reply.
func fetch(t *testing.T, m *telemetry.Metrics, accept, coding string) (text, contentType string) {
	t.Helper()
	r := httptest.NewRequest("GET", "/metrics", nil)
	r.Header.Set("Accept", accept)
	r.Header.Set("Accept-Encoding", coding)
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, r)
	body := io.Reader(w.Body)
	if got := w.Header().Get("Content-Encoding"); got != strings.TrimPrefix(coding, "identity") {
		t.Errorf("Accept-Encoding %q: Content-Encoding = %q", coding, got)
	} else if got == "gzip" {
		var err error
		if body, err = gzip.NewReader(w.Body); err != nil {
			t.Fatal(err)
		}
	}
	all, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(all), w.Header().Get("Content-Type")
}

const openMetrics = "application/openmetrics-text;version=1.0.0"

// The page is text as every Prometheus reads it, or OpenMetrics if the scraper prefers that. Both have the names of
// the Go runtime and the process that dashboards know.
func TestFormats(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics("", "")
	for _, tt := range []struct{ accept, coding, contentType, end string }{
		{"", "identity", "text/plain; version=0.0.4; charset=utf-8; escaping=underscores", "\n"},
		{"*/*", "gzip", "text/plain; version=0.0.4; charset=utf-8; escaping=underscores", "\n"},
		{openMetrics + ",text/plain;version=0.0.4;q=0.5", "gzip", "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores", "# EOF\n"},
	} {
		text, contentType := fetch(t, m, tt.accept, tt.coding)
		if contentType != tt.contentType || !strings.HasSuffix(text, tt.end) {
			t.Errorf("Accept %q: Content-Type = %q, want %q, and the end %q", tt.accept, contentType, tt.contentType, tt.end)
		}
		for _, name := range []string{
			"go_info", "go_goroutines", "go_threads", "go_sched_gomaxprocs_threads", "go_gc_gogc_percent", "go_gc_gomemlimit_bytes", "go_gc_duration_seconds",
			"go_memstats_alloc_bytes", "go_memstats_heap_inuse_bytes", "go_memstats_sys_bytes", "process_start_time_seconds", "process_cpu_seconds_total",
		} {
			if !strings.Contains(text, "\n"+name+" ") && !strings.Contains(text, "\n"+name+"{") {
				t.Errorf("Accept %q: the page lacks %s", tt.accept, name)
			}
		}
	}
}

// A request that is traced leads from its bucket to its trace. The text format has no room for that.
func TestExemplar(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics("", "")
	tracer := telemetry.NewTracer(telemetry.TraceOptions{Endpoint: "http://127.0.0.1:1", Sampling: telemetry.Sampling{Share: 1}})
	const caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	traced := tracer.Begin("POST", nil, nil, false, time.Now())
	tracer.Set(telemetry.Sampling{})
	passedOn := tracer.Begin("POST", []string{caller}, nil, false, time.Now())
	for route, span := range map[string]*telemetry.Span{"/traced": traced, "/passed-on": passedOn, "/untraced": nil} {
		m.RequestStarted()
		m.RequestEnded(&telemetry.Event{Route: route, Method: "POST", Status: 200, Span: span}, 200*time.Millisecond)
	}
	text, _ := fetch(t, m, openMetrics, "identity")
	if n := strings.Count(text, "# {"); n != 1 || !strings.Contains(text, `_bucket{route="/traced",le="0.25"} 1 # {trace_id="`+traced.TraceID()+`"} 0.2 `) {
		t.Errorf("%d exemplars, want one with the trace %s; the page is\n%s", n, traced.TraceID(), text)
	}
	if text, _ = fetch(t, m, "", "identity"); strings.Contains(text, "trace_id") || !strings.Contains(text, `_bucket{route="/traced",le="0.25"} 1`+"\n") {
		t.Errorf("the text format has exemplars, or lacks the bucket:\n%s", text)
	}
}

// Counting allocates nothing once the series are there.
func TestCountingAllocatesNothing(t *testing.T) { // alone: it counts allocations
	m := telemetry.NewMetrics("", "")
	e := telemetry.Event{Route: "/v1/chat/completions", Method: "POST", Status: 200}
	if n := testing.AllocsPerRun(100, func() {
		m.RequestStarted()
		m.RequestEnded(&e, time.Second)
		m.Overhead(time.Millisecond)
		m.Called(telemetry.Call{Model: "m", Provider: "p", Operation: telemetry.OperationChat, Door: "chat", Outcome: "complete", Took: time.Second, FirstToken: time.Second, Input: 1, Output: 1, CostNano: 7_000})
	}); n != 0 {
		t.Errorf("a call makes %.0f allocations, want none", n)
	}
}

// A name that is not UTF-8 becomes a label all the same.
func TestBadNames(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics("", "")
	m.Called(telemetry.Call{Model: "a\xffb", Provider: "\xff", Operation: telemetry.OperationChat, Outcome: "complete"})
	if text := strings.Join(scrape(t, m), "\n"); !strings.Contains(text, `sluice_calls_total{model="a`+"\uFFFD"+`b",outcome="complete",provider="`+"\uFFFD"+`"} 1`) {
		t.Errorf("metrics = \n%s", text)
	}
}
