package telemetry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/kit/telemetry"
)

func TestEventLog(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		event telemetry.Event
		want  map[string]any
	}{
		"bare": {
			telemetry.Event{RequestID: "r1", Method: "GET", Path: "/v1/models", Status: 200, Bytes: 12, Remote: "127.0.0.1"},
			map[string]any{
				"level": "INFO", "msg": "request", "request_id": "r1", "method": "GET", "path": "/v1/models",
				"status": 200.0, "took_ms": 1.5, "bytes": 12.0, "remote": "127.0.0.1",
			},
		},
		"everything": {
			telemetry.Event{
				RequestID: "r2", Method: "POST", Path: "/v1/chat/completions", Route: "/v1/chat/completions", Status: 503, Remote: "::1",
				AccountID: "acct_1", KeyID: "key_1", Model: "m", Fault: "service_unavailable", Err: errors.New("dial: refused"),
			},
			map[string]any{
				"level": "ERROR", "msg": "request", "request_id": "r2", "method": "POST", "path": "/v1/chat/completions",
				"status": 503.0, "took_ms": 1.5, "bytes": 0.0, "remote": "::1",
				"account": "acct_1", "key": "key_1", "model": "m", "fault": "service_unavailable", "error": "dial: refused",
			},
		},
		"a refusal is routine": {
			telemetry.Event{RequestID: "r3", Method: "GET", Path: "/" + strings.Repeat("x", 1000), Status: 404, Fault: "not_found_error"},
			map[string]any{
				"level": "INFO", "msg": "request", "request_id": "r3", "method": "GET", "path": "/" + strings.Repeat("x", 199) + "…",
				"status": 404.0, "took_ms": 1.5, "bytes": 0.0, "remote": "", "fault": "not_found_error",
			},
		},
	}
	for name, tt := range tests {
		var out bytes.Buffer
		log, flush := telemetry.NewLogger(&out, true, slog.LevelInfo)
		tt.event.Log(t.Context(), log, 1500*time.Microsecond)
		flush()
		var got map[string]any
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatalf("%s: the event %q is not one JSON value: %v", name, out.String(), err)
		}
		delete(got, "time")
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

func TestEventLogLevel(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, flush := telemetry.NewLogger(&out, true, slog.LevelWarn)
	(&telemetry.Event{Status: 200}).Log(t.Context(), log, 0)
	flush()
	if out.Len() != 0 {
		t.Errorf("at level warn a good request logs %q, want nothing", out.String())
	}
	(&telemetry.Event{Status: 500}).Log(t.Context(), log, 0)
	if out.Len() == 0 {
		t.Error("at level warn a failed request logs nothing")
	}
}

func TestNewLogger(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	level := &slog.LevelVar{}
	log, _ := telemetry.NewLogger(&out, false, level)
	log.Debug("no")
	log.Info("yes", "k", "a b")
	if got := out.String(); strings.Contains(got, "msg=no") || !strings.Contains(got, `level=INFO msg=yes k="a b"`) {
		t.Errorf("text log = %q, want one line for people", got)
	}
	level.Set(slog.LevelDebug)
	log.Debug("now")
	if !strings.Contains(out.String(), "msg=now") {
		t.Errorf("after the level changed: %q, want the debug line", out.String())
	}
}

// scrape reads the metrics as Prometheus would, without the comments.
func scrape(t *testing.T, m *telemetry.Metrics) []string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	body, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, line := range strings.Split(string(body), "\n") {
		if strings.HasPrefix(line, "sluice_") || strings.HasPrefix(line, "gen_ai_") {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics("1.2.3", "abc")
	telemetry.Gauge(m, "sluice_things", "Things.", func() int { return 7 })
	m.RequestStarted()
	m.RequestStarted() // and does not end
	m.RequestEnded(&telemetry.Event{Route: "/v1/models", Method: "GET", Status: 200}, 3*time.Millisecond)
	m.RequestStarted()
	m.RequestEnded(&telemetry.Event{Route: "/v1/chat/completions", Method: "POST", Status: 200, Final: 503}, time.Second) // a stream that broke off
	m.Counters("sluice_refusals_total", "Refusals.", "limit", map[string]func() int64{"a": func() int64 { return 1 }, "b": func() int64 { return 2 }})
	m.Reloaded(true)
	m.Reloaded(false)
	m.Reloaded(false)
	text := strings.Join(scrape(t, m), "\n")
	for _, want := range []string{
		`sluice_build_info{goversion="` + runtime.Version() + `",revision="abc",version="1.2.3"} 1`,
		`sluice_things 7`,
		`sluice_http_requests_in_flight 1`,
		`sluice_http_requests_total{method="GET",route="/v1/models",status="200"} 1`,
		`sluice_http_request_duration_seconds_bucket{route="/v1/models",le="0.001"} 0`,
		`sluice_http_request_duration_seconds_bucket{route="/v1/models",le="0.005"} 1`,
		`sluice_http_requests_total{method="POST",route="/v1/chat/completions",status="503"} 1`,
		`sluice_refusals_total{limit="a"} 1`,
		`sluice_refusals_total{limit="b"} 2`,
		`sluice_config_reloads_total{outcome="ok"} 1`,
		`sluice_config_reloads_total{outcome="refused"} 2`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics lack %s; they are\n%s", want, text)
		}
	}
}

// However many paths and methods callers make up, the number of series stays the same.
func TestLabelsAreBounded(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics("", "")
	end := func(i int) {
		m.RequestStarted()
		m.RequestEnded(&telemetry.Event{Path: fmt.Sprint("/made-up/", i), Method: fmt.Sprint("VERB", i), Status: 404}, 0)
	}
	end(0)
	before := len(scrape(t, m))
	for i := range 500 {
		end(i)
	}
	lines := scrape(t, m)
	if len(lines) != before {
		t.Errorf("500 made-up requests gave %d series, want %d as for the first", len(lines), before)
	}
	if text := strings.Join(lines, "\n"); strings.Contains(text, "made-up") || strings.Contains(text, "VERB") ||
		!strings.Contains(text, `sluice_http_requests_total{method="other",route="none",status="404"} 501`) {
		t.Errorf("metrics = \n%s\nwant all of them under route none, method other", text)
	}
}

// Metrics that nobody reads count nothing.
func TestMetricsOff(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics("", "")
	m.Off()
	before := len(scrape(t, m))
	m.RequestStarted()
	m.RequestEnded(&telemetry.Event{Status: 200}, time.Second)
	m.Called(telemetry.Call{Model: "m"})
	m.Overhead(time.Second)
	if lines := scrape(t, m); len(lines) != before || !slices.Contains(lines, "sluice_http_requests_in_flight 0") || !slices.Contains(lines, "sluice_overhead_seconds_count 0") {
		t.Errorf("metrics that are off count:\n%s", strings.Join(lines, "\n"))
	}
}

func TestCalled(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics("", "")
	m.Called(telemetry.Call{Model: "m", Provider: "p", Operation: telemetry.OperationChat, Door: "chat", Outcome: "complete", Took: 3 * time.Second, FirstToken: 30 * time.Millisecond, Input: 100, Output: 20, CostNano: 1500_000})
	m.Called(telemetry.Call{Model: "m", Provider: "p", Operation: telemetry.OperationChat, Outcome: "cut", Took: time.Second, FirstToken: time.Second, Input: 5})
	m.Called(telemetry.Call{Model: "v", Provider: "p", Operation: telemetry.OperationVideo, Door: "videos", Outcome: "stopped", Took: time.Minute, Unpriced: true}) // an outcome that nobody has listed
	text := strings.Join(scrape(t, m), "\n")
	const labels = `gen_ai_operation_name="chat",gen_ai_provider_name="p",gen_ai_request_model="m"`
	for _, want := range []string{
		`sluice_calls_total{model="m",outcome="complete",provider="p"} 1`,
		`sluice_calls_total{model="m",outcome="cut",provider="p"} 1`,
		`sluice_calls_total{model="m",outcome="failed",provider="p"} 0`,
		`sluice_calls_total{model="v",outcome="stopped",provider="p"} 1`,
		`sluice_door_calls_total{door="chat"} 1`,
		`sluice_door_calls_total{door="videos"} 1`,
		`sluice_cost_usd_total{model="m",provider="p"} 0.0015`,
		`sluice_unpriced_calls_total{model="m",provider="p"} 0`,
		`sluice_unpriced_calls_total{model="v",provider="p"} 1`,
		`gen_ai_client_operation_duration_seconds_sum{error_type="",` + labels + `} 3`,
		`gen_ai_client_operation_duration_seconds_count{error_type="cut",` + labels + `} 1`,
		`gen_ai_server_time_to_first_token_seconds_count{` + labels + `} 2`,
		`gen_ai_client_token_usage_sum{` + labels + `,gen_ai_token_type="input"} 105`,
		`gen_ai_client_token_usage_sum{` + labels + `,gen_ai_token_type="output"} 20`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics lack %s; they are\n%s", want, text)
		}
	}
}

// Tags are counted if they are listed, with a bound on those that callers make up.
func TestTags(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics("", "")
	call := func(nano int64, tags ...string) {
		m.Called(telemetry.Call{Model: "m", Provider: "p", Operation: telemetry.OperationChat, Outcome: "complete", CostNano: nano, Tags: tags})
	}
	call(1e9, "team=early") // nothing is listed yet
	m.Tags([]string{"team", "env=prod"})
	call(15e8, "team=search", "env=prod", "job=1")
	call(5e8, "team=search", "env=test")
	for i := range 500 {
		call(1e9, fmt.Sprint("team=", i))
	}
	call(0, "env=prod")
	lines := scrape(t, m)
	for _, want := range []string{
		`sluice_tag_calls_total{tag="team=search"} 2`, `sluice_tag_cost_usd_total{tag="team=search"} 2`,
		`sluice_tag_calls_total{tag="env=prod"} 2`, `sluice_tag_cost_usd_total{tag="env=prod"} 1.5`,
		`sluice_tag_calls_total{tag="other"} 302`, `sluice_tag_cost_usd_total{tag="other"} 302`,
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("metrics lack %s; they are\n%s", want, strings.Join(lines, "\n"))
		}
	}
	series := 0
	for _, line := range lines {
		if strings.HasPrefix(line, "sluice_tag_calls_total{") {
			series++
		}
		if strings.Contains(line, "job=1") || strings.Contains(line, "env=test") || strings.Contains(line, "early") {
			t.Errorf("metrics have %s, which is not listed", line)
		}
	}
	if series != 201 {
		t.Errorf("%d series of tags, want 200 and the rest", series)
	}
}

// Whatever a catalog lists, the number of series has a bound.
func TestModelsAreBounded(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics("", "")
	call := func(i int) {
		m.Called(telemetry.Call{Model: fmt.Sprint("m", i), Provider: "p", Operation: telemetry.OperationChat, Outcome: "complete"})
	}
	m.SetMostModels(20)
	for i := range 20 {
		call(i)
	}
	call(1000)
	before := len(scrape(t, m))
	for i := range 500 {
		call(2000 + i)
	}
	lines := scrape(t, m)
	if text := strings.Join(lines, "\n"); len(lines) != before || !strings.Contains(text, `sluice_calls_total{model="other",outcome="complete",provider="other"} 501`) {
		t.Errorf("500 more models gave %d series, want %d as before, and all of them under other", len(lines), before)
	}
}
