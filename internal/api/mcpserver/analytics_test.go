package mcpserver

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sluice/internal/ledger/usage"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/routing"
)

// The figures are those of the window, each in its own way.
func TestAnalytics(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 15, 12, 34, 56, 0, time.UTC)
	b := &books{rows: []usage.Row{
		{Slot: usage.Slot{Model: "m/one"}, Sums: usage.Sums{Requests: 40, Prompt: 100, Completion: 20}},
		{Slot: usage.Slot{Model: "m/rare"}, Sums: usage.Sums{Requests: 1, Prompt: 5}},
	}, recent: []usage.Settlement{}}
	add := func(end usage.End, status int, latency, first time.Duration) {
		b.recent = append(b.recent, usage.Settlement{ModelUsed: "m/one", At: now, Tokens: chat.Usage{Prompt: 1}, End: end, Status: status, Latency: latency * time.Millisecond, FirstToken: first * time.Millisecond})
	}
	for i := range time.Duration(20) {
		add(usage.EndComplete, 200, 20-i, (20-i)/2)
	}
	add(usage.EndCut, 200, 9000, 7000)
	add(usage.EndFailed, 503, 9000, 0)
	add(usage.EndFailed, 400, 9000, 0)
	add(usage.EndHangUp, 200, 9000, 8000)
	add(usage.EndFailed, 503, 9000, 0)
	b.recent[len(b.recent)-1].At = now.Add(-2 * time.Hour) // before the hour in which the window begins
	for _, tt := range []struct{ arguments, window, from, model string }{
		{`{}`, "24h", "2026-11-14T12:00:00Z", ""},
		{`{"window":"1h","model":"m/one"}`, "1h", "2026-11-15T11:00:00Z", "m/one"},
		{`{"window":"30d"}`, "30d", "2026-10-16T12:00:00Z", ""},
	} {
		s := connect(t, listen(t, newServer(t, nil, b, &Options{Now: func() time.Time { return now }})), "2025-06-18", nil)
		got, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "model_analytics", Arguments: json.RawMessage(tt.arguments)})
		if err != nil || got.IsError {
			t.Fatalf("CallTool(%s) = %s, %v", tt.arguments, encode(t, got), err)
		}
		sample := `"sampled_requests":24,"error_rate":0.125,"availability":0.9166666666666666`
		if tt.window != "1h" { // the last one is in it
			sample = `"sampled_requests":25,"error_rate":0.16,"availability":0.88`
		}
		want := `{"window":"` + tt.window + `","from":"` + tt.from + `","to":"2026-11-15T12:34:56Z","models":[` +
			`{"model":"m/one","requests":40,"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,` + sample + `,"latency_ms":{"p50":10,"p95":19},"first_token_ms":{"p50":5,"p95":9}},` +
			`{"model":"m/rare","requests":1,"prompt_tokens":5,"completion_tokens":0,"total_tokens":5,"sampled_requests":0,"error_rate":null,"availability":null,"latency_ms":{"p50":null,"p95":null},"first_token_ms":{"p50":null,"p95":null}}],` +
			`"service":{"status":"unavailable","models":[{"model":"m/one","status":"unavailable"}]}}`
		if diff := cmp.Diff(want, said(got)); diff != "" {
			t.Errorf("CallTool(%s): -want +got\n%s", tt.arguments, diff)
		}
		from, _ := time.Parse(time.RFC3339, tt.from)
		if q, want := b.queries[len(b.queries)-1], (usage.Query{AccountID: "acct_1", From: from, By: usage.ByModel, Model: tt.model, Hours: true}); q != want {
			t.Errorf("CallTool(%s) asked for %+v, want %+v", tt.arguments, q, want)
		}
	}
}

// Whatever calls there were, the first token never comes after the whole reply.
func TestFirstTokenIsFirst(t *testing.T) {
	t.Parallel()
	for name, calls := range map[string][]usage.Settlement{
		"cut late":       {{End: usage.EndComplete, Latency: 10, FirstToken: 5}, {End: usage.EndCut, Latency: 900, FirstToken: 800}},
		"hung up late":   {{End: usage.EndComplete, Latency: 10, FirstToken: 5}, {End: usage.EndHangUp, Latency: 900, FirstToken: 800}},
		"empty replies":  {{End: usage.EndComplete, Latency: 1}, {End: usage.EndComplete, Latency: 1}, {End: usage.EndComplete, Latency: 60, FirstToken: 50}},
		"only cut":       {{End: usage.EndCut, Latency: 900, FirstToken: 800}},
		"two clocks":     {{End: usage.EndComplete, Latency: 10, FirstToken: 11}},
		"none":           nil,
		"failed at once": {{End: usage.EndFailed, Status: 503, Latency: 1}, {End: usage.EndComplete, Latency: 60, FirstToken: 50}},
	} {
		s, got := &sample{}, modelUsage{}
		for i := range calls {
			calls[i].Latency *= time.Millisecond
			calls[i].FirstToken *= time.Millisecond
			s.add(&calls[i])
		}
		if len(calls) > 0 {
			s.describe(&got)
		}
		for _, of := range []func(spread) *int64{func(x spread) *int64 { return x.P50 }, func(x spread) *int64 { return x.P95 }} {
			first, whole := of(got.FirstToken), of(got.Latency)
			if (first == nil) != (whole == nil) || first != nil && *first > *whole {
				t.Errorf("%s: latency %s, first token %s, want the first token first", name, encode(t, got.Latency), encode(t, got.FirstToken))
			}
		}
	}
}

func TestStatusOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		states []routing.State
		want   string
	}{
		{nil, unavailable},
		{[]routing.State{routing.Closed}, operational},
		{[]routing.State{routing.Closed, routing.Closed}, operational},
		{[]routing.State{routing.Closed, routing.Open}, degraded},
		{[]routing.State{routing.HalfOpen}, degraded},
		{[]routing.State{routing.Open, routing.HalfOpen}, degraded},
		{[]routing.State{routing.Open, routing.Open}, unavailable},
	} {
		targets := make([]routing.TargetHealth, len(tt.states))
		for i, s := range tt.states {
			targets[i].State = s
		}
		if got := statusOf(targets); got != tt.want {
			t.Errorf("statusOf(%v) = %q, want %q", tt.states, got, tt.want)
		}
	}
}

func TestSpreadOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		values []int64
		want   string
	}{
		{nil, `{"p50":null,"p95":null}`},
		{[]int64{5}, `{"p50":5,"p95":5}`},
		{[]int64{2, 1}, `{"p50":1,"p95":2}`},
		{[]int64{3, 1, 2}, `{"p50":2,"p95":3}`},
	} {
		if got := encode(t, spreadOf(tt.values)); got != tt.want {
			t.Errorf("spreadOf(%v) = %s, want %s", tt.values, got, tt.want)
		}
	}
}
