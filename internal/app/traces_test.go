package app_test

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	"sluice/internal/upstream/routing"
)

// spanCollector takes spans over OTLP.
type spanCollector struct {
	*httptest.Server
	t *testing.T

	mu    sync.Mutex
	spans []*otlp.Span
	raw   strings.Builder // all that was sent
}

func newSpanCollector(t *testing.T) *spanCollector {
	c := &spanCollector{t: t}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *spanCollector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var got otlp.TracesData
	if err := proto.Unmarshal(body, &got); err != nil || r.URL.Path != "/v1/traces" {
		c.t.Errorf("%s got what is no traces: %v", r.URL.Path, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw.Write(body)
	for _, r := range got.ResourceSpans {
		for _, s := range r.ScopeSpans {
			c.spans = append(c.spans, s.Spans...)
		}
	}
}

// tree returns the spans as "parent > name" in order, each with its attributes of the GenAI conventions.
func (c *spanCollector) tree() (edges []string, byName map[string]*otlp.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := map[string]string{}
	byName = map[string]*otlp.Span{}
	for _, s := range c.spans {
		names[string(s.SpanId)] = s.Name
		byName[s.Name] = s
	}
	for _, s := range c.spans {
		edges = append(edges, names[string(s.ParentSpanId)]+" > "+s.Name)
	}
	slices.Sort(edges)
	return edges, byName
}

func intOf(s *otlp.Span, key string) int64 {
	for _, a := range s.GetAttributes() {
		if a.Key == key {
			return a.Value.GetIntValue()
		}
	}
	return -1
}

// A request leaves a trace with a span for each step, belongs to its caller's trace, and is passed on to the
// provider. Nothing that anybody said is in it.
func TestTraces(t *testing.T) {
	t.Parallel()
	collector := newSpanCollector(t)
	var passed string
	broken := newMoody(t)
	broken.mood.Store(int32(dead))
	upstream := newMoody(t)
	watched := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		passed = r.Header.Get("Traceparent") + " " + r.Header.Get("Tracestate")
		upstream.ServeHTTP(w, r)
	}))
	t.Cleanup(watched.Close)
	n := newSite(t, fmt.Sprintf(`traces: {endpoint: %q, sample: 1}
metrics_listen: 127.0.0.1:0
providers:
  - {name: p0, kind: openai, base_url: %q}
  - {name: p1, kind: openai, base_url: %q}
models:
  - {id: m, provider: p0, plan: free, context_length: 1000, max_output: 100, fallbacks: [n]}
  - {id: n, provider: p1, plan: free, context_length: 1000, max_output: 100}
`, collector.URL, broken.URL, watched.URL)).start(t)
	const traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	req, err := http.NewRequest("POST", n.scheme+n.Addr()+"/v1/chat/completions", strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"xyzzy"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+n.OwnerKey())
	req.Header.Set("Traceparent", "00-"+traceID+"-00f067aa0ba902b7-00")
	req.Header.Set("Tracestate", "vendor=1")
	resp, err := n.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if !strings.Contains(string(body), "[DONE]") {
		t.Fatalf("the stream is %s", body)
	}
	n.stop() // sends what is left
	edges, spans := collector.tree()
	const door = "POST /v1/chat/completions"
	want := []string{
		" > " + door, door + " > admission", "admission > route", door + " > chat m", "chat m > first token", door + " > chat n", "chat n > first token", door + " > settle",
	}
	slices.Sort(want)
	if !slices.Equal(edges, want) {
		t.Fatalf("the spans are %q, want %q", edges, want)
	}
	for name, s := range spans {
		if hex.EncodeToString(s.TraceId) != traceID {
			t.Errorf("%s belongs to the trace %x, want the caller's", name, s.TraceId)
		}
	}
	if s := spans["chat m"]; s.Status.GetCode() != otlp.Status_STATUS_CODE_ERROR {
		t.Errorf("the attempt that failed has the status %v", s.Status)
	}
	answered := spans["chat n"]
	if got, want := passed, fmt.Sprintf("00-%s-%x-01 vendor=1", traceID, answered.SpanId); got != want {
		t.Errorf("the provider got %q, want %q", got, want)
	}
	for _, s := range []*otlp.Span{answered, spans[door]} {
		if intOf(s, "gen_ai.usage.input_tokens") != 1 || intOf(s, "gen_ai.usage.output_tokens") != 1 {
			t.Errorf("%s has no usage: %v", s.Name, s.Attributes)
		}
	}
	if intOf(spans[door], "http.response.status_code") != 200 {
		t.Errorf("the door has no status: %v", spans[door].Attributes)
	}
	for _, secret := range []string{"xyzzy", "Hello", n.OwnerKey()} {
		if strings.Contains(collector.raw.String(), secret) {
			t.Errorf("%q is in the spans", secret)
		}
	}
	if !strings.Contains(n.log.String(), `"trace_id":"`+traceID+`"`) {
		t.Errorf("the log lacks the trace id:\n%s", n.log)
	}
}

// Tool calls are spans. What they say is in them, and the conversation too, only if the operator wants that.
func TestTracesOfTools(t *testing.T) {
	t.Parallel()
	for _, capture := range []string{"none", "content"} {
		t.Run(capture, func(t *testing.T) {
			t.Parallel()
			collector := newSpanCollector(t)
			address, _ := toolServer(t)
			n := newSite(t, fmt.Sprintf("traces: {endpoint: %q, sample: 1, capture: %s}\nmcp: {allow_hosts: [127.0.0.1]}\n", collector.URL, capture)).start(t)
			r := n.request("POST", "/v1/chat/completions", n.OwnerKey(), fmt.Sprintf(strings.ReplaceAll(echoRequest, "hello", "xyzzy"), address))
			if r.status != 200 {
				t.Fatalf("POST = %d %s", r.status, r.body)
			}
			n.stop()
			edges, spans := collector.tree()
			const door = "POST /v1/chat/completions"
			for _, want := range []string{door + " > execute_tool echo", door + " > chat sandbox/small", door + " > settle"} {
				if !slices.Contains(edges, want) {
					t.Errorf("the spans are %q, want %s among them", edges, want)
				}
			}
			if got := strings.Contains(collector.raw.String(), "xyzzy"); got != (capture == "content") {
				t.Errorf("what was said is in the spans: %t", got)
			}
			if capture == "none" {
				return
			}
			for span, keys := range map[string][]string{door: {"gen_ai.input.messages", "gen_ai.output.messages"}, "execute_tool echo": {"gen_ai.tool.call.arguments", "gen_ai.tool.call.result"}} {
				for _, key := range keys {
					found := ""
					for _, a := range spans[span].GetAttributes() {
						if a.Key == key {
							found = a.Value.GetStringValue()
						}
					}
					if !strings.Contains(found, "xyzzy") {
						t.Errorf("%s of %s = %q, want what was said", key, span, found)
					}
				}
			}
		})
	}
}

// A collector that never answers costs nobody anything, and the server stops in time.
func TestDeadCollector(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hold }))
	t.Cleanup(silent.Close)
	t.Cleanup(func() { close(hold) })
	n := newSite(t, fmt.Sprintf("traces: {endpoint: %q, sample: 1}\nmetrics_listen: 127.0.0.1:0\n", silent.URL)).start(t)
	for range 20 {
		if r := n.get("/v1/models", n.OwnerKey()); r.status != 200 {
			t.Fatalf("GET /v1/models = %d", r.status)
		}
	}
	text := n.scrape()
	for _, want := range []string{`sluice_trace_spans_total{outcome="sent"} 0`, `sluice_trace_spans_total{outcome="dropped"} 0`, "sluice_trace_spans_waiting "} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}

// The metrics tell how calls ended, which is not always what their status was.
func TestCallMetrics(t *testing.T) {
	t.Parallel()
	n := newSite(t, "metrics_listen: 127.0.0.1:0\nplans: {scale: {requests_per_minute: 5}}\n").start(t)
	chat := func(stream bool, text string) reply {
		return n.request("POST", "/v1/chat/completions", n.OwnerKey(), fmt.Sprintf(`{"model":"sandbox/small","stream":%t,"messages":[{"role":"user","content":%q}]}`, stream, text))
	}
	for range 2 {
		if r := chat(false, "hi"); r.status != 200 {
			t.Fatalf("POST = %d %s", r.status, r.body)
		}
	}
	if r := chat(true, "[[sandbox:tokens=200]] [[sandbox:cut=5]]"); r.status != 200 || !strings.Contains(r.body, `"error"`) {
		t.Fatalf("POST = %d %s, want a stream that breaks off", r.status, r.body)
	}
	slow := chat(false, "[[sandbox:delay=300ms]]")
	own, err := strconv.ParseFloat(slow.header.Get("X-Sluice-Overhead-Ms"), 64)
	if err != nil || own <= 0 {
		t.Errorf("x-sluice-overhead-ms = %q, want a number", slow.header.Get("X-Sluice-Overhead-Ms"))
	}
	limited := 0
	for range 4 {
		if r := chat(false, "hi"); r.status == 429 {
			limited++
			if r.header.Get("X-Sluice-Overhead-Ms") == "" {
				t.Error("a refusal does not say what it took")
			}
		}
	}
	text := n.scrape()
	for _, want := range []string{
		`sluice_http_requests_total{method="POST",route="/v1/chat/completions",status="503"} 1`,
		`sluice_calls_total{model="sandbox/small",outcome="cut",provider="sandbox"} 1`,
		`sluice_calls_total{model="sandbox/small",outcome="complete",provider="sandbox"} ` + strconv.Itoa(7-limited),
		fmt.Sprintf(`sluice_rate_limited_total{limit="requests"} %d`, limited),
		`sluice_rate_limited_total{limit="tokens"} 0`,
		`sluice_streams_open 0`,
		`sluice_videos_waiting 0`,
		`sluice_videos_oldest_seconds 0`,
		`sluice_config_hash `,
		`sluice_config_loaded_timestamp_seconds `,
		`sluice_overhead_seconds_count ` + strconv.Itoa(8-limited),
		`gen_ai_client_operation_duration_seconds_count{error_type="cut",gen_ai_operation_name="chat",gen_ai_provider_name="sandbox",gen_ai_request_model="sandbox/small"} 1`,
		`gen_ai_client_token_usage_sum{gen_ai_operation_name="chat",gen_ai_provider_name="sandbox",gen_ai_request_model="sandbox/small",gen_ai_token_type="output"} `,
		`gen_ai_server_time_to_first_token_seconds_count{gen_ai_operation_name="chat",gen_ai_provider_name="sandbox",gen_ai_request_model="sandbox/small"} ` + strconv.Itoa(8-limited),
		`go_sql_open_connections{db_name="read"} `,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics lack %s; they are\n%s", want, text)
		}
	}
	if limited == 0 {
		t.Error("no request met the limit")
	}

	// Names that callers make up are nobody's series.
	before := strings.Count(text, "\n")
	for i := range 50 {
		n.request("POST", "/v1/chat/completions", n.OwnerKey(), fmt.Sprintf(`{"model":"made-up/%d","messages":[{"role":"user","content":"hi"}]}`, i))
	}
	if text := n.scrape(); strings.Contains(text, "made-up") || strings.Count(text, "\n") > before+1 { // one more for the 400s
		t.Errorf("%d series after made-up models, want %d", strings.Count(text, "\n"), before)
	}
}

// docs/care/observability.md#metrics lists every metric of our own, and no other.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/care/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	own := regexp.MustCompile(`\b(sluice|gen_ai)_[a-z_]*(total|seconds|usage|running|open|targets|rate|flight|connections|bytes|waiting|records|accounts|exact|nodes|calls|queued|dropped|info|hash|ready|writable|damage|stopped|reports|ratio)\b`)
	documented := map[string]bool{}
	for _, line := range strings.Split(string(page), "\n") {
		if cell, ok := strings.CutPrefix(line, "| `"); ok {
			for _, name := range own.FindAllString(strings.SplitN(cell, " | ", 2)[0], -1) {
				documented[name] = true
			}
		}
	}
	farm := newMachine(t, "vllm")
	n := newSite(t, fmt.Sprintf(`metrics_listen: 127.0.0.1:0
metrics_tags: [team=search]
traces: {endpoint: http://127.0.0.1:1, sample: 0}
providers: [{name: own, kind: vllm, replicas: [%q]}]
models: [{id: m, provider: own, plan: free, context_length: 1000, max_output: 100}]
`, farm.at())).start(t)
	n.reports(farm.name, func(*routing.Figures) bool { return true })
	n.request("POST", "/v1/chat/completions", n.OwnerKey(), `{"model":"sandbox/small","messages":[{"role":"user","content":"hi"}]}`)
	seen := map[string]bool{}
	suffixes := regexp.MustCompile(`_(bucket|sum|count)$`)
	for line := range strings.Lines(n.scrape()) {
		name := suffixes.ReplaceAllString(line[:strings.IndexAny(line, "{ ")], "")
		if strings.HasPrefix(name, "go_sql_") {
			continue
		}
		if !documented[name] {
			t.Errorf("%s is not in docs/care/observability.md", name)
		}
		seen[name] = true
	}
	for name := range documented {
		// These need Redis or PostgreSQL.
		if !seen[name] && !strings.HasPrefix(name, "sluice_ledger_") && name != "sluice_accounts_age_seconds" {
			t.Errorf("docs/care/observability.md has %s, which the server does not", name)
		}
	}
}
