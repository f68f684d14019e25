package httpapi

import (
	"encoding/json"
	"net/http"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/ledger/activity"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/session"
	"sluice/internal/ledger/usage"
)

// sessionReply is a session as the API shows it (docs/api.md#sessions). Times are Unix seconds.
type sessionReply struct {
	Object    string   `json:"object"`
	ID        string   `json:"id"`
	StartedAt int64    `json:"started_at"`
	LastAt    int64    `json:"last_at"`
	Seconds   int64    `json:"duration_seconds"`
	Calls     int64    `json:"calls"`
	Failed    int64    `json:"failed"`
	Models    []string `json:"models"`
	Usage     struct {
		Prompt     int64 `json:"prompt_tokens"`
		Cached     int64 `json:"cached_tokens"`
		Completion int64 `json:"completion_tokens"`
		Total      int64 `json:"total_tokens"`
	} `json:"usage"`
	CacheHitRate *float64            `json:"cache_hit_rate"` // null: no cache could have held anything
	Cost         *string             `json:"cost"`           // dollars; null: no price is known
	Unpriced     int64               `json:"unpriced_calls"`
	Budget       *sessionBudgetReply `json:"budget"`
	CacheWritten int64               `json:"cache_write_tokens"`
	Cacheable    int64               `json:"cacheable_tokens"`
	CacheSaved   string              `json:"cache_saved"` // dollars
}

// sessionBudgetReply is how the budget of a session stands. Amounts are dollars.
type sessionBudgetReply struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Hard     bool   `json:"hard"`
	Amount   string `json:"amount"`
	Spent    string `json:"spent"`
	Reserved string `json:"reserved"`
	Left     string `json:"left"`
	ResetsAt *int64 `json:"resets_at"`
}

// sessionList is the reply of GET /v1/sessions.
type sessionList struct {
	Object  string         `json:"object"`
	Data    []sessionReply `json:"data"`
	HasMore bool           `json:"has_more"`
}

// dollars returns an amount as the text of a decimal number.
func dollars(n price.Nano) string { return string(n.AppendJSON(nil)) }

// sessionReplyOf converts a session.
func sessionReplyOf(s *session.Session) sessionReply {
	out := sessionReply{
		Object: "session", ID: s.ID, StartedAt: s.First.Unix(), LastAt: s.Last.Unix(), Seconds: int64(s.Last.Sub(s.First).Round(time.Second) / time.Second),
		Calls: s.Calls, Failed: s.Failed, Models: s.Models, Unpriced: s.Unpriced, Budget: sessionBudgetOf(s.Budget),
	}
	out.Usage.Prompt, out.Usage.Cached, out.Usage.Completion, out.Usage.Total = s.Prompt, s.Cached, s.Completion, s.Prompt+s.Completion
	out.CacheHitRate, out.CacheWritten, out.Cacheable, out.CacheSaved = hitRate(s.Hits()), s.Written, s.Cacheable, dollars(s.SavedCharge())
	if charge := s.Charge(); charge != nil {
		text := dollars(*charge)
		out.Cost = &text
	}
	return out
}

// sessionBudgetOf converts how a budget stands, which may be nil.
func sessionBudgetOf(b *budget.Status) *sessionBudgetReply {
	if b == nil {
		return nil
	}
	return &sessionBudgetReply{
		ID: b.ID, Name: b.Name, Hard: b.Hard, Amount: dollars(b.Amount), Spent: dollars(b.Spent), Reserved: dollars(b.Reserved), Left: dollars(b.Left),
		ResetsAt: unixOrNull(b.ResetsAt),
	}
}

// listSessions serves GET /v1/sessions.
func (a *API) listSessions(x *exchange, r *http.Request) error {
	query := r.URL.Query()
	limit, err := limitOf(query, defaultPage, session.MaxListed)
	if err != nil {
		return err
	}
	list, more, err := a.opts.Sessions.List(r.Context(), x.caller.Account, x.caller.KeyID, query.Get("after"), limit)
	if err != nil {
		return err
	}
	out := sessionList{Object: "list", Data: make([]sessionReply, len(list)), HasMore: more}
	for i := range list {
		out.Data[i] = sessionReplyOf(&list[i])
	}
	return x.encode(out)
}

// showSession serves GET /v1/sessions/{id}.
func (a *API) showSession(x *exchange, r *http.Request) error {
	s, err := a.opts.Sessions.One(r.Context(), x.caller.Account, x.caller.KeyID, r.PathValue("id"))
	if err != nil {
		return err
	}
	return x.encode(sessionReplyOf(s))
}

// tagUsageReply is the reply of GET /v1/usage by tag. Calls are counted for their tags by day of UTC.
type tagUsageReply struct {
	Object      string           `json:"object"`
	Range       string           `json:"range"`
	From        int64            `json:"from"`
	StepSeconds int64            `json:"step_seconds"`
	GroupBy     string           `json:"group_by"`
	Data        []tagBucketReply `json:"data"`
}

// tagBucketReply is one day.
type tagBucketReply struct {
	Start  int64           `json:"start"`
	Groups []tagGroupReply `json:"groups"`
}

// tagGroupReply is the calls with one tag on a day.
type tagGroupReply struct {
	Group      string      `json:"group"`
	Requests   int64       `json:"requests"`
	Prompt     int64       `json:"prompt_tokens"`
	Completion int64       `json:"completion_tokens"`
	ListPrice  json.Number `json:"list_price_usd"`
	Unpriced   int64       `json:"unpriced_requests"`
}

// byTag is what usage is grouped by if tags are asked for; see activity.By.
const byTag activity.By = "tag"

// showTagUsage serves GET /v1/usage by tag.
func (a *API) showTagUsage(x *exchange, r *http.Request, q *activity.Query) error {
	for _, filter := range []string{"model", "key", "outcome"} {
		if r.URL.Query().Has(filter) {
			return fault.New(fault.Invalid, "%s cannot be combined with group_by=tag: tags are counted over all calls of a day.", filter).At(filter)
		}
	}
	from := usage.DayOf(q.Range.From(q.Now))
	days, err := a.opts.Sessions.Tags(r.Context(), q.AccountID, from)
	if err != nil {
		return err
	}
	const day = 24 * time.Hour
	out := tagUsageReply{Object: "usage", Range: q.Range.Name, From: from.Unix(), StepSeconds: int64(day / time.Second), GroupBy: string(byTag)}
	for at := from; !at.After(q.Now); at = at.Add(day) {
		b := tagBucketReply{Start: at.Unix(), Groups: []tagGroupReply{}}
		for ; len(days) > 0 && !days[0].Day.After(at); days = days[1:] {
			d := &days[0]
			b.Groups = append(b.Groups, tagGroupReply{d.Tag, d.Calls, d.Prompt, d.Completion, json.Number((d.Cost + d.Margin).AppendJSON(nil)), d.Unpriced})
		}
		out.Data = append(out.Data, b)
	}
	return x.encode(out)
}
