package mcpserver

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sluice/internal/kit/fault"
	"sluice/internal/ledger/activity"
	"sluice/internal/ledger/usage"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/routing"
)

// maxSample is the number of calls, the latest ones, that rates and latencies are computed from. It
// is enough for a 95th percentile and costs the database a few milliseconds.
const maxSample = 5000

// analytics is the result of model_analytics. The figures cover the caller's account only. About
// the service it says only what every caller could observe.
type analytics struct {
	Window  string       `json:"window"`
	From    time.Time    `json:"from"`
	To      time.Time    `json:"to"`
	Models  []modelUsage `json:"models"`
	Service service      `json:"service"`
}

// modelUsage holds the figures for one model. Rates are nil, and so null in JSON, if no call was
// sampled.
type modelUsage struct {
	Model      string `json:"model"`
	Requests   int64  `json:"requests"`
	Prompt     int64  `json:"prompt_tokens"`
	Completion int64  `json:"completion_tokens"`
	Total      int64  `json:"total_tokens"`
	// Sampled is how many of the latest calls ErrorRate, Availability and the latencies are based
	// on. ErrorRate counts all failed calls, Availability only failures that the service is to
	// blame for.
	Sampled      int      `json:"sampled_requests"`
	ErrorRate    *float64 `json:"error_rate"`
	Availability *float64 `json:"availability"`
	Latency      spread   `json:"latency_ms"`
	FirstToken   spread   `json:"first_token_ms"`
}

// spread holds the 50th and 95th percentile of complete calls, in milliseconds. The fields are nil
// if there were none.
type spread struct {
	P50 *int64 `json:"p50"`
	P95 *int64 `json:"p95"`
}

// service is the current state of the service as a whole and of each model.
type service struct {
	Status string        `json:"status"`
	Models []modelHealth `json:"models"`
}

type modelHealth struct {
	Model  string `json:"model"`
	Status string `json:"status"`
}

// analyze implements the tool model_analytics.
func (v *visit) analyze(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	args := struct {
		Window string `json:"window"`
		Model  string `json:"model"`
	}{Window: "24h"}
	if err := decode(v.arguments, &args); err != nil {
		return refused(err), nil
	}
	window, ok := activity.RangeOf(args.Window)
	if !ok {
		return refused(fault.New(fault.Invalid, `window must be "1h", "6h", "24h", "7d" or "30d".`).At("window")), nil
	}
	now := v.server.now().UTC()
	// The sums are kept by the hour, so the window starts at a full hour.
	out := analytics{Window: args.Window, From: usage.HourOf(now.Add(-window.Step * time.Duration(window.N))), To: now.Truncate(time.Second), Models: []modelUsage{}}
	rows, err := v.server.Usage.UsageBy(ctx, usage.Query{AccountID: v.caller.Account.ID, From: out.From, By: usage.ByModel, Model: args.Model, Hours: true})
	if err != nil {
		return v.broken(err), nil
	}
	// A minute ahead, so that calls settled by a node whose clock runs slightly ahead are included.
	recent, err := v.server.Usage.RecentSettlements(ctx, v.caller.Account.ID, usage.Point{At: now.Add(time.Minute)}, maxSample)
	if err != nil {
		return v.broken(err), nil
	}
	// Group the sampled calls by the model that answered, and stop at the start of the window.
	samples := map[string]*sample{}
	for i := range recent {
		r := &recent[i]
		if r.At.Before(out.From) {
			break // they are ordered, newest first
		}
		if samples[r.ModelUsed] == nil {
			samples[r.ModelUsed] = &sample{}
		}
		samples[r.ModelUsed].add(r)
	}
	for i := range rows {
		r := &rows[i]
		m := modelUsage{Model: r.Model, Requests: r.Requests, Prompt: r.Prompt, Completion: r.Completion, Total: r.Prompt + r.Completion}
		if s := samples[r.Model]; s != nil {
			s.describe(&m)
		}
		out.Models = append(out.Models, m)
	}
	out.Service = health(v.server.Models())
	body, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	return structured(body), nil
}

// broken returns a result for the caller and logs the cause.
func (v *visit) broken(err error) *mcp.CallToolResult {
	v.server.log.Warn("analytics cannot be read", "account", v.caller.Account.ID, "error", err.Error())
	return refused(err)
}

// sample accumulates the calls of one model.
type sample struct {
	calls, errors, ours int     // ours counts errors that the service is to blame for
	latency, first      []int64 // in milliseconds, of complete calls; both have the same length
}

// add adds one call to the sample.
func (s *sample) add(r *usage.Settlement) {
	s.calls++
	switch r.End {
	case usage.EndComplete:
		// A reply without content has no first token before its end. Both figures cover the same
		// calls, so that no percentile of the first token is later than that of the whole reply.
		first := r.Latency
		if r.FirstToken > 0 {
			first = min(first, r.FirstToken)
		}
		s.latency = append(s.latency, r.Latency.Milliseconds())
		s.first = append(s.first, first.Milliseconds())
	// A reply that broke off is always our failure.
	case usage.EndCut:
		s.errors++
		s.ours++
	// A 4xx is the caller's own error.
	case usage.EndFailed:
		s.errors++
		if r.Status >= http.StatusInternalServerError {
			s.ours++
		}
	}
}

// describe fills in the figures of a model. The sample must not be empty.
func (s *sample) describe(to *modelUsage) {
	share := func(n int) *float64 {
		v := float64(n) / float64(s.calls)
		return &v
	}
	to.Sampled, to.ErrorRate, to.Availability = s.calls, share(s.errors), share(s.calls-s.ours)
	to.Latency, to.FirstToken = spreadOf(s.latency), spreadOf(s.first)
}

// spreadOf returns the percentiles by nearest rank: each is a value that some call really took. It
// sorts values.
func spreadOf(values []int64) spread {
	if len(values) == 0 {
		return spread{}
	}
	slices.Sort(values)
	rank := func(percent int) *int64 { return &values[(len(values)*percent+99)/100-1] }
	return spread{P50: rank(50), P95: rank(95)}
}

// The states of a model and of the service, as the API spells them.
const (
	operational = "operational"
	degraded    = "degraded"
	unavailable = "unavailable"
)

// health returns the state of each model in one word. It gives no numbers, which would tell callers
// about the traffic of others.
func health(c *catalog.Catalog, routes *routing.Routes) service {
	out := service{Status: operational, Models: []modelHealth{}}
	// The service is unavailable only if all of its models are, and degraded if any is not well.
	down := 0
	for _, m := range c.Models() {
		if m.Router {
			continue // its state is that of the models it chooses from
		}
		status := unavailable
		if !m.Vanished {
			status = statusOf(routes.Of(m, time.Now()))
		}
		if status != operational {
			out.Status = degraded
		}
		if status == unavailable {
			down++
		}
		out.Models = append(out.Models, modelHealth{m.ID, status})
	}
	if down == len(out.Models) {
		out.Status = unavailable
	}
	return out
}

// statusOf returns the state of a model with these targets. A model without targets is unavailable.
// Closed and open are the states of a circuit breaker: closed means that calls get through.
func statusOf(targets []routing.TargetHealth) string {
	// A half-open breaker counts as neither.
	well, open := 0, 0
	for i := range targets {
		switch targets[i].State {
		case routing.Closed:
			well++
		case routing.Open:
			open++
		}
	}
	switch {
	case open == len(targets):
		return unavailable
	case well == len(targets):
		return operational
	}
	return degraded
}
