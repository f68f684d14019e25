package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"sluice/internal/kit/telemetry"
)

// collector takes spans as a real one does.
type collector struct {
	*httptest.Server
	t      *testing.T
	answer func(w http.ResponseWriter) // nil: it takes everything

	mu     sync.Mutex
	header http.Header
	path   string
	spans  []*otlp.Span
	raw    []byte // all bodies
}

func newCollector(t *testing.T) *collector {
	c := &collector{t: t}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		c.t.Errorf("reading a batch: %v", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.header, c.path, c.raw = r.Header, r.URL.Path, append(c.raw, body...)
	if c.answer != nil {
		c.answer(w)
		return
	}
	var got otlp.TracesData
	if err := proto.Unmarshal(body, &got); err != nil {
		c.t.Errorf("a batch is not a TracesData: %v", err)
	}
	for _, r := range got.ResourceSpans {
		for _, s := range r.ScopeSpans {
			c.spans = append(c.spans, s.Spans...)
		}
	}
}

// named returns the span with the name.
func (c *collector) named(name string) *otlp.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.Name == name {
			return s
		}
	}
	c.t.Errorf("there is no span %q among %d", name, len(c.spans))
	return &otlp.Span{}
}

// attribute returns an attribute of a span, as text.
func attribute(s *otlp.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key != key {
			continue
		}
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_IntValue:
			return fmt.Sprint(v.IntValue)
		case *common.AnyValue_ArrayValue:
			return v.ArrayValue.Values[0].GetStringValue() + " in a list"
		case *common.AnyValue_StringValue:
			return v.StringValue
		}
	}
	return ""
}

// trace runs a tracer around work and waits until everything was sent.
func trace(opts telemetry.TraceOptions, work func(*telemetry.Tracer)) *telemetry.Tracer {
	t := telemetry.NewTracer(opts)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { t.Run(ctx) })
	work(t)
	cancel()
	running.Wait()
	return t
}

func TestTrace(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	tracer := trace(telemetry.TraceOptions{
		Endpoint: c.URL + "/", Headers: map[string]string{"Api-Key": "k"}, Version: "1.2.3", Instance: "n", Sampling: telemetry.Sampling{Share: 1},
	}, func(tr *telemetry.Tracer) {
		door := tr.Begin("POST", nil, nil, false, time.Now().Add(-time.Second))
		door.Child("admission").End()
		attempt := door.Attempt("a/model", "upstream-model", "p", 1)
		parent, state := attempt.Propagate()
		if !strings.HasPrefix(parent, "00-"+door.TraceID()+"-") || !strings.HasSuffix(parent, "-01") || state != "" {
			t.Errorf("Propagate() = %q, %q, want the trace %s, sampled", parent, state, door.TraceID())
		}
		attempt.Fail("unavailable")
		attempt.Int(telemetry.AttrInputTokens, 7)
		attempt.List(telemetry.AttrFinish, "stop")
		attempt.Text("bad", "a\xffb")
		attempt.End()
		attempt.End() // only the first counts
		tool := door.Tool("search", "call_1")
		tool.Float(telemetry.AttrCost, 0.5)
		tool.Flag(telemetry.AttrStream, true)
		tool.End()
		door.Answered(&telemetry.Event{RequestID: "r", Method: "POST", Route: "/v1/x", Status: 200, Final: 503, Fault: "unavailable", AccountID: "acct"})
	})
	if c.path != "/v1/traces" || c.header.Get("Api-Key") != "k" || c.header.Get("Content-Type") != "application/x-protobuf" {
		t.Errorf("the batch went to %s with %v, want /v1/traces with the key and the type", c.path, c.header)
	}
	if sent, dropped, waiting := tracer.Counts(); sent != 4 || dropped != 0 || waiting != 0 {
		t.Errorf("Counts() = %d, %d, %d, want 4 spans sent", sent, dropped, waiting)
	}
	door, attempt, tool := c.named("POST /v1/x"), c.named("chat a/model"), c.named("execute_tool search")
	for _, child := range []*otlp.Span{attempt, tool, c.named("admission")} {
		if string(child.ParentSpanId) != string(door.SpanId) || string(child.TraceId) != string(door.TraceId) || len(child.SpanId) != 8 {
			t.Errorf("%s is not a child of the door", child.Name)
		}
	}
	if door.Kind != otlp.Span_SPAN_KIND_SERVER || attempt.Kind != otlp.Span_SPAN_KIND_CLIENT || door.Status.GetCode() != otlp.Status_STATUS_CODE_ERROR || attempt.Status.GetCode() != otlp.Status_STATUS_CODE_ERROR {
		t.Errorf("door %v %v, attempt %v %v, want server and client, both failed", door.Kind, door.Status, attempt.Kind, attempt.Status)
	}
	if took := door.EndTimeUnixNano - door.StartTimeUnixNano; took < uint64(time.Second) {
		t.Errorf("the door took %d ns, want at least the second since its start", took)
	}
	for key, want := range map[string]string{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "p", "gen_ai.request.model": "upstream-model",
		"gen_ai.usage.input_tokens": "7", "error.type": "unavailable", "gen_ai.response.finish_reasons": "stop in a list",
		"bad": "a\uFFFDb",
	} {
		if got := attribute(attempt, key); got != want {
			t.Errorf("the attempt's %s = %s, want %s", key, got, want)
		}
	}
}

// A nil tracer and a nil span accept everything.
func TestNoTrace(t *testing.T) { // alone: it counts allocations
	var tracer *telemetry.Tracer
	span := tracer.Begin("POST", nil, nil, false, time.Time{})
	span.Child("x").Child("y").End()
	span.Attempt("m", "u", "p", 1).Fail("x")
	span.Tool("t", "").Text("k", "v")
	span.Answered(&telemetry.Event{})
	if parent, state := span.Propagate(); span != nil || span.TraceID() != "" || parent != "" || state != "" || span.Content() {
		t.Errorf("without a tracer: span %v, %q, %q", span, parent, state)
	}
	if n := testing.AllocsPerRun(100, func() {
		s := tracer.Begin("POST", nil, nil, false, time.Time{})
		c := s.Child("admission")
		c.Text("k", "v")
		c.Int("n", 1)
		c.End()
		s.Attempt("m", "u", "p", 1).End()
	}); n != 0 {
		t.Errorf("a request without traces makes %.0f allocations, want none", n)
	}
	off := telemetry.NewTracer(telemetry.TraceOptions{Endpoint: "http://127.0.0.1:1"}) // nothing is sampled
	if n := testing.AllocsPerRun(100, func() { off.Begin("POST", nil, nil, false, time.Time{}).Child("x").End() }); n != 0 {
		t.Errorf("a request that is not sampled makes %.0f allocations, want none", n)
	}
}

// Whose traceparent decides whether a request is traced, and what is passed on.
func TestWhoDecides(t *testing.T) {
	t.Parallel()
	const id, yes, no = "4bf92f3577b34da6a3ce929d0e0e4736", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
	for _, tt := range []struct {
		name            string
		sampling        telemetry.Sampling
		parent          []string
		trusted, traced bool
		passed          string // what an unsampled request passes on
	}{
		{"no parent, all", telemetry.Sampling{Share: 1}, nil, false, true, ""},
		{"no parent, none", telemetry.Sampling{}, nil, false, false, ""},
		{"stranger says yes", telemetry.Sampling{}, []string{yes}, false, false, yes},
		{"stranger says no", telemetry.Sampling{Share: 1}, []string{no}, false, true, ""},
		{"proxy says yes", telemetry.Sampling{}, []string{yes}, true, true, ""},
		{"proxy says no", telemetry.Sampling{Share: 1}, []string{no}, true, false, no},
		{"followed stranger says yes", telemetry.Sampling{Follow: true}, []string{yes}, false, true, ""},
		{"followed stranger says no", telemetry.Sampling{Share: 1, Follow: true}, []string{no}, false, false, no},
		{"nonsense", telemetry.Sampling{}, []string{"zz"}, true, false, ""},
		{"nonsense, all", telemetry.Sampling{Share: 1}, []string{"00-x-y-01"}, true, true, ""},
		{"two parents", telemetry.Sampling{}, []string{yes, yes}, true, false, ""},
		{"zero id", telemetry.Sampling{Share: 1}, []string{"00-00000000000000000000000000000000-00f067aa0ba902b7-00"}, true, true, ""},
	} {
		tracer := telemetry.NewTracer(telemetry.TraceOptions{Endpoint: "http://127.0.0.1:1", Sampling: tt.sampling})
		span := tracer.Begin("POST", tt.parent, []string{"a=b"}, tt.trusted, time.Now())
		traced := span.Child("x") != nil
		parent, state := span.Attempt("m", "u", "p", 1).Propagate()
		if traced != tt.traced {
			t.Errorf("%s: traced = %t, want %t", tt.name, traced, tt.traced)
		}
		if !tt.traced && parent != tt.passed {
			t.Errorf("%s: passed on %q, want %q", tt.name, parent, tt.passed)
		}
		if tt.traced && !strings.HasSuffix(parent, "-01") {
			t.Errorf("%s: passed on %q, want it sampled", tt.name, parent)
		}
		if valid := len(tt.parent) == 1 && strings.Contains(tt.parent[0], id); valid && (span.TraceID() != id || !strings.Contains(parent, id) || state != "a=b") {
			t.Errorf("%s: trace %s, passed on %q and %q, want those of the caller", tt.name, span.TraceID(), parent, state)
		}
	}
}

// The share of requests is kept to, and Set changes it.
func TestShare(t *testing.T) {
	t.Parallel()
	tracer := telemetry.NewTracer(telemetry.TraceOptions{Endpoint: "http://127.0.0.1:1", Sampling: telemetry.Sampling{Share: 0.25}})
	count := func() (n int) {
		for range 20_000 {
			if tracer.Begin("GET", nil, nil, false, time.Time{}) != nil {
				n++
			}
		}
		return n
	}
	// Ten standard deviations to each side.
	if n := count(); n < 4400 || n > 5600 {
		t.Errorf("%d of 20000 requests were traced, want about a quarter", n)
	}
	tracer.Set(telemetry.Sampling{})
	if n := count(); n != 0 {
		t.Errorf("%d requests were traced at a share of 0", n)
	}
}

// The share is kept to, whichever trace id a caller has: the SDK's sampler takes every id that ends in zeros.
func TestStrangersChooseNothing(t *testing.T) {
	t.Parallel()
	tracer := telemetry.NewTracer(telemetry.TraceOptions{Endpoint: "http://127.0.0.1:1", Sampling: telemetry.Sampling{Share: 0.25}})
	n := 0
	for range 20_000 {
		if tracer.Begin("GET", []string{"00-4bf92f3577b34da60000000000000000-00f067aa0ba902b7-01"}, nil, false, time.Time{}).Child("x") != nil {
			n++
		}
	}
	if n < 4400 || n > 5600 { // ten standard deviations to each side
		t.Errorf("%d of 20000 requests with one trace id were traced, want about a quarter", n)
	}
}

// Spans that end after Run are counted, and nothing waits for ever.
func TestSpansAfterRun(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	var late *telemetry.Span
	tracer := trace(telemetry.TraceOptions{Endpoint: c.URL, Sampling: telemetry.Sampling{Share: 1}}, func(tr *telemetry.Tracer) {
		late = tr.Begin("GET", nil, nil, false, time.Now())
		late.Child("in time").End()
	})
	late.End()
	if sent, dropped, waiting := tracer.Counts(); sent != 1 || dropped != 1 || waiting != 0 {
		t.Errorf("Counts() = %d, %d, %d, want one span sent and one dropped", sent, dropped, waiting)
	}
}

// A collector that is away or full makes no request wait: spans beyond the bound are dropped and counted.
func TestSpansAreBounded(t *testing.T) {
	t.Parallel()
	tracer := telemetry.NewTracer(telemetry.TraceOptions{Endpoint: "http://127.0.0.1:1", Sampling: telemetry.Sampling{Share: 1}}) // nobody sends
	for range 5000 {
		tracer.Begin("GET", nil, nil, false, time.Time{}).End()
	}
	if sent, dropped, waiting := tracer.Counts(); sent != 0 || waiting != 4096 || dropped != 5000-4096 {
		t.Errorf("Counts() = %d, %d, %d, want 4096 waiting and the rest dropped", sent, dropped, waiting)
	}
	large := telemetry.NewTracer(telemetry.TraceOptions{Endpoint: "http://127.0.0.1:1", Sampling: telemetry.Sampling{Share: 1}})
	text := strings.Repeat("x", telemetry.MaxContent)
	for range 1000 {
		s := large.Begin("GET", nil, nil, false, time.Time{})
		s.Text(telemetry.AttrInput, text)
		s.End()
	}
	if _, dropped, waiting := large.Counts(); waiting > 16<<20/telemetry.MaxContent || dropped+waiting != 1000 {
		t.Errorf("%d spans with %d bytes wait and %d were dropped, want at most 16 MiB waiting", waiting, len(text), dropped)
	}
}

// answering is a transport that answers without a network, for a test in a bubble.
type answering func(*http.Request) (*http.Response, error)

func (f answering) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// What can be sent again is, with pauses; the rest is dropped.
func TestSendAgain(t *testing.T) {
	t.Parallel()
	reply := func(status int, header http.Header, body []byte) *http.Response {
		return &http.Response{StatusCode: status, Status: fmt.Sprint(status), Header: header, Body: io.NopCloser(strings.NewReader(string(body)))}
	}
	// An ExportTraceServiceResponse with a partial_success of one rejected span.
	partial := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1))
	for _, tt := range []struct {
		name          string
		answers       []func() (*http.Response, error)
		sent, dropped int64
		tries         int32
		took          time.Duration
	}{
		{"at once", []func() (*http.Response, error){func() (*http.Response, error) { return reply(200, nil, nil), nil }}, 2, 0, 1, time.Second},
		{"rejected in part", []func() (*http.Response, error){func() (*http.Response, error) { return reply(200, nil, partial), nil }}, 1, 1, 1, time.Second},
		{"refused for good", []func() (*http.Response, error){func() (*http.Response, error) { return reply(400, nil, nil), nil }}, 0, 2, 1, time.Second},
		{"unreachable, then busy, then well", []func() (*http.Response, error){
			func() (*http.Response, error) { return nil, errors.New("refused") },
			func() (*http.Response, error) { return reply(503, http.Header{"Retry-After": {"7"}}, nil), nil },
			func() (*http.Response, error) { return reply(200, nil, nil), nil },
		}, 2, 0, 3, 1*time.Second + 1*time.Second + 7*time.Second},
		{"never", []func() (*http.Response, error){func() (*http.Response, error) {
			return reply(429, http.Header{"Retry-After": {"100000"}}, nil), nil
		}}, 0, 2, 4, time.Second + 3*15*time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var tries atomic.Int32
				tracer := telemetry.NewTracer(telemetry.TraceOptions{Endpoint: "http://collector.test", Sampling: telemetry.Sampling{Share: 1}})
				tracer.SetTransport(answering(func(*http.Request) (*http.Response, error) {
					n := int(tries.Add(1))
					return tt.answers[min(n, len(tt.answers))-1]()
				}))
				ctx, cancel := context.WithCancel(t.Context())
				start := time.Now()
				for range 2 {
					tracer.Begin("GET", nil, nil, false, start).End()
				}
				ended := make(chan struct{})
				go func() { tracer.Run(ctx); close(ended) }()
				for sent, dropped := int64(0), int64(0); sent+dropped < 2; sent, dropped, _ = tracer.Counts() {
					time.Sleep(time.Second)
				}
				if sent, dropped, _ := tracer.Counts(); sent != tt.sent || dropped != tt.dropped || tries.Load() != tt.tries {
					t.Errorf("%d sent, %d dropped in %d tries, want %d, %d in %d", sent, dropped, tries.Load(), tt.sent, tt.dropped, tt.tries)
				}
				if took := time.Since(start); took < tt.took || took > tt.took+2*time.Second {
					t.Errorf("it took %s, want %s", took, tt.took)
				}
				cancel()
				<-ended
			})
		})
	}
}

// A collector that hangs does not hold up the end of the process for long.
func TestEndIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tracer := telemetry.NewTracer(telemetry.TraceOptions{Endpoint: "http://collector.test", Sampling: telemetry.Sampling{Share: 1}})
		tracer.SetTransport(answering(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}))
		for range 3000 {
			tracer.Begin("GET", nil, nil, false, time.Now()).End()
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		start := time.Now()
		tracer.Run(ctx)
		if took := time.Since(start); took > 4*time.Second {
			t.Errorf("Run took %s after its end, want 3s", took)
		}
	})
}

func TestWait(t *testing.T) {
	t.Parallel()
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	var w telemetry.Wait
	w.Arrived(start)
	check := func(now int, own time.Duration) {
		t.Helper()
		if got := w.Own(at(now)); got != own*time.Millisecond {
			t.Errorf("Own(%d ms) = %s, want %s", now, got, own*time.Millisecond)
		}
	}
	check(0, 0)
	w.Read(start.Add(100 * time.Microsecond)) // at once
	check(5, 5)
	w.Begin(at(5))
	w.Begin(at(7)) // inside the other: it does not count twice
	check(10, 5)
	w.End(at(15))
	w.End(at(16))
	check(18, 8)
	w.Begin(at(20))
	w.End(at(19)) // a clock that goes back
	check(21, 11)
	var slow telemetry.Wait
	slow.Arrived(start)
	slow.Read(at(30))
	if got := slow.Own(at(32)); got != 2*time.Millisecond {
		t.Errorf("Own() = %s after a body that took 30 ms, want 2ms", got)
	}
}

func BenchmarkTrace(b *testing.B) {
	for name, tracer := range map[string]*telemetry.Tracer{
		"off":     nil,
		"none":    telemetry.NewTracer(telemetry.TraceOptions{Endpoint: "http://127.0.0.1:1"}),
		"percent": telemetry.NewTracer(telemetry.TraceOptions{Endpoint: "http://127.0.0.1:1", Sampling: telemetry.Sampling{Share: 0.01}}),
		"all":     telemetry.NewTracer(telemetry.TraceOptions{Endpoint: "http://127.0.0.1:1", Sampling: telemetry.Sampling{Share: 1}}),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				door := tracer.Begin("POST", nil, nil, false, time.Time{})
				admission := door.Child("admission")
				admission.Child("route").End()
				admission.End()
				attempt := door.Attempt("m", "u", "p", 1)
				attempt.Child("first token").End()
				door.Child("settle").End()
				attempt.Int(telemetry.AttrInputTokens, 7)
				attempt.End()
				door.End()
			}
		})
	}
}

func BenchmarkCalled(b *testing.B) {
	m := telemetry.NewMetrics("", "")
	b.ReportAllocs()
	for b.Loop() {
		m.Called(telemetry.Call{Model: "a/model", Provider: "p", Operation: telemetry.OperationChat, Outcome: "complete", Took: time.Second, FirstToken: time.Second, Input: 100, Output: 100, CostNano: 7_000})
	}
}

func BenchmarkRequestEnded(b *testing.B) {
	m := telemetry.NewMetrics("", "")
	e := telemetry.Event{Route: "/v1/chat/completions", Method: "POST", Status: 200}
	b.ReportAllocs()
	for b.Loop() {
		m.RequestStarted()
		m.RequestEnded(&e, time.Second)
	}
}
