package httpapi

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/activity"
	"sluice/internal/ledger/misses"
	"sluice/internal/ledger/usage"
)

// defaultRequests is how many requests GET /v1/requests lists unless told.
const defaultRequests = 50

// maxFilter is the length of a filter by model or key at most, in bytes.
const maxFilter = 256

// usageReply is the reply of GET /v1/usage. Times are Unix seconds.
type usageReply struct {
	Object      string `json:"object"`
	Range       string `json:"range"`
	From        int64  `json:"from"`
	StepSeconds int64  `json:"step_seconds"`
	GroupBy     string `json:"group_by"`
	// Since is set if there are too many calls for steps this short: those before are not counted.
	Since *int64 `json:"counted_since"`
	// RefusedSince is the same for refused calls.
	RefusedSince *int64        `json:"refused_since"`
	Data         []bucketReply `json:"data"`
}

// bucketReply is one step of time.
type bucketReply struct {
	Start int64 `json:"start"`
	tallyReply
	Refused    int64        `json:"refused"`
	Latency    spreadReply  `json:"latency_ms"`
	FirstToken spreadReply  `json:"first_token_ms"`
	Groups     []groupReply `json:"groups"`
}

// tallyReply is what calls add up to.
type tallyReply struct {
	Requests   int64       `json:"requests"`
	Prompt     int64       `json:"prompt_tokens"`
	Cached     int64       `json:"cached_tokens"`
	Completion int64       `json:"completion_tokens"`
	Reasoning  int64       `json:"reasoning_tokens"`
	Units      json.Number `json:"units"`
	ListPrice  json.Number `json:"list_price_usd"`
	Unpriced   int64       `json:"unpriced_requests"`
	Written    int64       `json:"cache_write_tokens"`
	Cacheable  int64       `json:"cacheable_tokens"`
	HitRate    *float64    `json:"cache_hit_rate"` // null: no cache could have held anything
	Saved      json.Number `json:"cache_saved_usd"`
}

// groupReply is the calls of one group in a step.
type groupReply struct {
	Group   string `json:"group"`
	Refused bool   `json:"refused"`
	tallyReply
}

// spreadReply has percentiles; null if there was nothing to measure.
type spreadReply struct {
	P50 *int64 `json:"p50"`
	P95 *int64 `json:"p95"`
}

// requestList is the reply of GET /v1/requests.
type requestList struct {
	Object string            `json:"object"`
	Data   []activity.Record `json:"data"`
	Next   *string           `json:"next"`
}

// activityQuery reads the parameters that both paths have.
func activityQuery(x *exchange, query url.Values) (activity.Query, error) {
	q := activity.Query{AccountID: x.caller.Account.ID, Now: time.Now(), Model: query.Get("model"), KeyID: query.Get("key"), Outcome: activity.Outcome(query.Get("outcome"))}
	name, ok := "24h", false
	if query.Has("range") {
		name = query.Get("range")
	}
	if q.Range, ok = activity.RangeOf(name); !ok {
		return q, notOneOf("range", name, "1h", "6h", "24h", "7d", "30d")
	}
	if query.Has("outcome") && (q.Outcome == activity.Any || !q.Outcome.Valid()) {
		return q, notOneOf("outcome", string(q.Outcome), "completed", "errors", "disconnected", "refused")
	}
	for _, filter := range []string{"model", "key"} {
		if v := query.Get(filter); len(v) > maxFilter || query.Has(filter) && v == "" {
			return q, fault.New(fault.Invalid, "%s must have 1 to %d bytes; got %d.", filter, maxFilter, len(v)).At(filter)
		}
	}
	return q, nil
}

// limitOf returns the parameter limit, a whole number from 1 to most, or the usual number if it is absent.
func limitOf(query url.Values, usual, most int) (int, error) {
	if !query.Has("limit") {
		return usual, nil
	}
	n, err := strconv.Atoi(query.Get("limit"))
	if err != nil || n < 1 || n > most {
		return 0, fault.New(fault.Invalid, "limit must be a whole number from 1 to %d; got %q.", most, excerpt.Of(query.Get("limit"), maxEcho)).At("limit")
	}
	return n, nil
}

// notOneOf is the fault of a parameter that has none of the values it may have.
func notOneOf(param, got string, values ...string) error {
	last := len(values) - 1
	return fault.New(fault.Invalid, "%s must be %s or %s; got %q.", param, strings.Join(values[:last], ", "), values[last], excerpt.Of(got, maxEcho)).At(param)
}

// showUsage serves GET /v1/usage.
func (a *API) showUsage(x *exchange, r *http.Request) error {
	query := r.URL.Query()
	q, err := activityQuery(x, query)
	if err != nil {
		return err
	}
	by := activity.ByModel
	if query.Has("group_by") {
		switch by = activity.By(query.Get("group_by")); by {
		case activity.ByModel, activity.ByKey, activity.ByStatus, activity.ByEnd:
		case byTag:
			return a.showTagUsage(x, r, &q)
		default:
			return notOneOf("group_by", string(by), "model", "key", "status", "end", "tag")
		}
	}
	report, err := a.opts.Activity.Report(r.Context(), q, by)
	if err != nil {
		return err
	}
	out := usageReply{
		Object: "usage", Range: q.Range.Name, From: report.From.Unix(), StepSeconds: int64(report.Step.Seconds()), GroupBy: string(by),
		Since: unixOrNull(report.Since), RefusedSince: unixOrNull(report.RefusedSince), Data: make([]bucketReply, len(report.Steps)),
	}
	for i := range report.Steps {
		s := &report.Steps[i]
		b := bucketReply{Start: s.Start.Unix(), tallyReply: tallyOf(&s.Tally), Refused: s.Refused, Groups: []groupReply{}}
		if s.Times.Known {
			b.Latency = spreadReply{&s.Times.P50, &s.Times.P95}
		}
		if s.Times.FirstKnown {
			b.FirstToken = spreadReply{&s.Times.FirstP50, &s.Times.FirstP95}
		}
		for k := range report.Series {
			if g := &report.Series[k]; g.Steps[i].Calls > 0 {
				b.Groups = append(b.Groups, groupReply{g.Group, g.Refused, tallyOf(&g.Steps[i])})
			}
		}
		out.Data[i] = b
	}
	return x.encode(out)
}

// listRequests serves GET /v1/requests.
func (a *API) listRequests(x *exchange, r *http.Request) error {
	query := r.URL.Query()
	q, err := activityQuery(x, query)
	if err != nil {
		return err
	}
	limit, err := limitOf(query, defaultRequests, activity.MaxEntries)
	if err != nil {
		return err
	}
	page, err := a.opts.Activity.Requests(r.Context(), q, query.Get("cursor"), limit)
	if err != nil {
		return err
	}
	names, err := a.opts.Activity.Names(r.Context(), q.AccountID)
	if err != nil {
		return err
	}
	out := requestList{Object: "list", Data: make([]activity.Record, len(page.Entries))}
	for i := range page.Entries {
		out.Data[i] = page.Entries[i].Record(names)
	}
	if page.Next != "" {
		out.Next = &page.Next
	}
	return x.encode(out)
}

// showRequest serves GET /v1/requests/{id}.
func (a *API) showRequest(x *exchange, r *http.Request) error {
	e, err := a.opts.Activity.Request(r.Context(), x.caller.Account.ID, r.PathValue("id"))
	if err != nil {
		return err
	}
	names, err := a.opts.Activity.Names(r.Context(), x.caller.Account.ID)
	if err != nil {
		return err
	}
	out := requestReply{Record: e.Record(names)}
	if e.Call != nil {
		why, err := a.opts.Misses.Why(r.Context(), e.Call)
		if err != nil {
			return err
		}
		out.Cache = why.Reply(false)
	}
	return x.encode(out)
}

// requestReply is the reply of GET /v1/requests/{id}.
type requestReply struct {
	activity.Record
	Cache *misses.Reply `json:"cache"` // null: it was refused, or consumed no prompt
}

// tallyOf converts a tally.
func tallyOf(t *usage.Tally) tallyReply {
	return tallyReply{
		t.Calls, t.Prompt, t.Cached, t.Completion, t.Reasoning, thousandths(t.UnitMilli), json.Number(t.Charge().AppendJSON(nil)), t.Unpriced,
		t.Written, t.Cacheable, hitRate(t.Hits()), json.Number(t.SavedCharge().AppendJSON(nil)),
	}
}

// hitRate returns a hit rate to three digits; nil if there is none.
func hitRate(h usage.Hits) *float64 {
	share, known := h.Rate()
	if !known {
		return nil
	}
	share = float64(int64(share*1000)) / 1000
	return &share
}

// unixOrNull returns a time in Unix seconds, or nil if it is zero.
func unixOrNull(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	s := t.Unix()
	return &s
}
