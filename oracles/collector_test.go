package oracles

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
)

// collector reads spans with the types of the OpenTelemetry collector, and answers with them.
type collector struct {
	mu    sync.Mutex
	key   string // the header of the last batch
	spans map[string]ptrace.Span
	names []string // of the resource's attributes
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	req := ptraceotlp.NewExportRequest()
	if err := req.UnmarshalProto(body); err != nil || r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "not a request of the trace service", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.key = r.Header.Get("Api-Key")
	for _, r := range req.Traces().ResourceSpans().All() {
		for name, value := range r.Resource().Attributes().All() {
			c.names = append(c.names, name+"="+value.AsString())
		}
		for _, s := range r.ScopeSpans().All() {
			for _, span := range s.Spans().All() {
				c.spans[span.Name()] = span
			}
		}
	}
	reply, _ := ptraceotlp.NewExportResponse().MarshalProto()
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(reply)
}

// The collector understands the spans of a call.
func TestCollector(t *testing.T) {
	t.Parallel()
	c := &collector{spans: map[string]ptrace.Span{}}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	g, stop := startGatewayIn(t, t.TempDir(), "traces: {endpoint: "+server.URL+", headers: api-key=canary, sample: 1}\n")
	req, err := http.NewRequest("POST", g.url+"/chat/completions", strings.NewReader(`{"model":"`+small+`","messages":[{"role":"user","content":"hello"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+g.owner)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	stop() // sends what is left
	c.mu.Lock()
	defer c.mu.Unlock()
	door, attempt := c.spans["POST /v1/chat/completions"], c.spans["chat "+small]
	if door == (ptrace.Span{}) || attempt == (ptrace.Span{}) || c.spans["settle"] == (ptrace.Span{}) || c.spans["first token"] == (ptrace.Span{}) {
		t.Fatalf("the collector has %d spans, want the door, the attempt, the first token and the settlement among them", len(c.spans))
	}
	if attempt.ParentSpanID() != door.SpanID() || attempt.TraceID() != door.TraceID() || door.Kind() != ptrace.SpanKindServer || attempt.Kind() != ptrace.SpanKindClient {
		t.Errorf("the attempt %s of %s is not a child of the door %s", attempt.SpanID(), attempt.ParentSpanID(), door.SpanID())
	}
	if !door.EndTimestamp().AsTime().After(door.StartTimestamp().AsTime()) {
		t.Errorf("the door ends at %s and begins at %s", door.EndTimestamp(), door.StartTimestamp())
	}
	for key, want := range map[string]string{"gen_ai.operation.name": "chat", "gen_ai.provider.name": "sandbox"} {
		if v, ok := attempt.Attributes().Get(key); !ok || v.Str() != want {
			t.Errorf("%s = %q, want %q", key, v.AsString(), want)
		}
	}
	if v, ok := attempt.Attributes().Get("gen_ai.usage.output_tokens"); !ok || v.Int() == 0 {
		t.Errorf("gen_ai.usage.output_tokens = %s, want some", v.AsString())
	}
	if c.key != "canary" || !strings.Contains(strings.Join(c.names, " "), "service.name=sluice") {
		t.Errorf("the batch came with the key %q from %q", c.key, c.names)
	}
}
