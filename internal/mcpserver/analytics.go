package mcpserver

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sluice/internal/catalog"
	"sluice/internal/fault"
	"sluice/internal/routing"
	"sluice/internal/usage"
)

// windows are how far model_analytics looks back.
var windows = map[string]time.Duration{
	"1h": time.Hour, "6h": 6 * time.Hour, "24h": 24 * time.Hour, "7d": 7 * 24 * time.Hour, "30d": 30 * 24 * time.Hour,
}

// maxSample bounds how many calls rates and latencies are taken from, the last ones: enough for a 95th
// percentile, and a few milliseconds of the database's time.
const maxSample = 5000

// analytics is the result of model_analytics. Its figures are of the caller's account alone; of the
// service it says only what everybody's calls would show.
type analytics struct {
	Window  string       `json:"window"`
	From    time.Time    `json:"from"`
	To      time.Time    `json:"to"`
	Models  []modelUsage `json:"models"`
	Service service      `json:"service"`
}

type modelUsage struct {
	Model        string   `json:"model"`
	Requests     int64    `json:"requests"`
	Prompt       int64    `json:"prompt_tokens"`
	Completion   int64    `json:"completion_tokens"`
	Total        int64    `json:"total_tokens"`
	Sampled      int      `json:"sampled_requests"`
	ErrorRate    *float64 `json:"error_rate"`
	Availability *float64 `json:"availability"`
	Latency      spread   `json:"latency_ms"`
	FirstToken   spread   `json:"first_token_ms"`
}

// spread is how long half, and nearly all, of the complete calls took at most; null where there were none.
type spread struct {
	P50 *int64 `json:"p50"`
	P95 *int64 `json:"p95"`
}

type service struct {
	Status string        `json:"status"`
	Models []modelHealth `json:"models"`
}

type modelHealth struct {
	Model  string `json:"model"`
	Status string `json:"status"`
}

// analyze is the tool model_analytics.
func (v *visit) analyze(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	args := struct {
		Window string `json:"window"`
		Model  string `json:"model"`
	}{Window: "24h"}
	if err := decode(req.Params.Arguments, &args); err != nil {
		return refused(err), nil
	}
	span, ok := windows[args.Window]
	if !ok {
		return refused(fault.New(fault.Invalid, `window must be "1h", "6h", "24h", "7d" or "30d".`).At("window")), nil
	}
	now := v.server.now().UTC()
	out := analytics{Window: args.Window, From: usage.HourOf(now.Add(-span)), To: now.Truncate(time.Second), Models: []modelUsage{}}
	rows, err := v.server.Usage.UsageBy(ctx, usage.Query{AccountID: v.caller.Account.ID, From: out.From, By: usage.ByModel, Model: args.Model, Hours: true})
	if err != nil {
		return v.broken(err), nil
	}
	recent, err := v.server.Usage.RecentSettlements(ctx, v.caller.Account.ID, usage.Point{At: now.Add(time.Minute)}, maxSample)
	if err != nil {
		return v.broken(err), nil
	}
	samples := map[string]*sample{}
	for i := range recent {
		r := &recent[i]
		if r.At.Before(out.From) {
			break // they are in order
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

// broken tells the caller of an error, and the log of its cause.
func (v *visit) broken(err error) *mcp.CallToolResult {
	v.server.log.Warn("analytics cannot be read", "account", v.caller.Account.ID, "error", err.Error())
	return refused(err)
}

// sample is calls of one model.
type sample struct {
	calls, errors, ours int     // ours: errors that the service is to blame for
	latency, first      []int64 // in milliseconds, of the complete ones: both of the same calls
}

func (s *sample) add(r *usage.Settlement) {
	s.calls++
	switch r.End {
	case usage.EndComplete:
		// A reply without content has no first token before its end. Both figures are taken of the same
		// calls, so that no percentile of the first token is later than that of the whole reply.
		first := r.Latency
		if r.FirstToken > 0 {
			first = min(first, r.FirstToken)
		}
		s.latency = append(s.latency, r.Latency.Milliseconds())
		s.first = append(s.first, first.Milliseconds())
	case usage.EndCut:
		s.errors++
		s.ours++
	case usage.EndFailed:
		s.errors++
		if r.Status >= http.StatusInternalServerError {
			s.ours++
		}
	}
}

func (s *sample) describe(to *modelUsage) {
	share := func(n int) *float64 {
		v := float64(n) / float64(s.calls)
		return &v
	}
	to.Sampled, to.ErrorRate, to.Availability = s.calls, share(s.errors), share(s.calls-s.ours)
	to.Latency, to.FirstToken = spreadOf(s.latency), spreadOf(s.first)
}

// spreadOf takes the nearest rank: a value that a call really took.
func spreadOf(values []int64) spread {
	if len(values) == 0 {
		return spread{}
	}
	slices.Sort(values)
	rank := func(percent int) *int64 { return &values[(len(values)*percent+99)/100-1] }
	return spread{P50: rank(50), P95: rank(95)}
}

const (
	operational = "operational"
	degraded    = "degraded"
	unavailable = "unavailable"
)

// health is how well the models are, in words: how often who was refused is not told.
func health(c *catalog.Catalog, routes *routing.Routes) service {
	out := service{Status: operational, Models: []modelHealth{}}
	down := 0
	for _, m := range c.Models() {
		if m.Router {
			continue // it is as well as those it chooses from
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

// statusOf is that of a model with these targets; none at all is as bad as none that is well.
func statusOf(targets []routing.Standing) string {
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
