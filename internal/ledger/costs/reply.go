package costs

import (
	"encoding/json"
	"strconv"
	"time"

	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
)

// Reply is an explanation as GET /v1/usage/explain and the command line have it. Its names are part of their formats. Times are
// Unix seconds. Amounts are exact numbers of dollars.
type Reply struct {
	Object string     `json:"object"`
	From   int64      `json:"from"`
	To     int64      `json:"to"` // the first second that is left out
	Total  SumsReply  `json:"total"`
	Days   []RowReply `json:"days"`   // add up to the total
	Models []RowReply `json:"models"` // add up to the total
	// Kept is set if calls before it are no longer kept, so that they are in the total but not in data.
	Kept *int64      `json:"kept_since"`
	Data []CallReply `json:"data"` // of all pages adds up to the total
	// Prices has the prices by the versions that the calls name.
	Prices map[string]json.RawMessage `json:"prices"`
	Next   *string                    `json:"next"`
}

// SumsReply is what calls add up to. For customers cost_usd is what they are told; for staff it is what the vendors charge, with
// what the markup adds beside it.
type SumsReply struct {
	Requests   int64        `json:"requests"`
	Prompt     int64        `json:"prompt_tokens"`
	Cached     int64        `json:"cached_tokens"`
	Written    int64        `json:"cache_write_tokens"`
	Completion int64        `json:"completion_tokens"`
	Reasoning  int64        `json:"reasoning_tokens"`
	Cost       json.Number  `json:"cost_usd"`
	Margin     *json.Number `json:"margin_usd,omitempty"` // staff alone
	Unpriced   int64        `json:"unpriced_requests"`    // not in cost_usd
}

// RowReply is the sums of a day or of a model.
type RowReply struct {
	Day   string `json:"day,omitempty"`
	Model string `json:"model,omitempty"`
	SumsReply
}

// CallReply is a call with the formula of its cost.
type CallReply struct {
	ID         string       `json:"id"`
	CreatedAt  int64        `json:"created_at"`
	At         string       `json:"at"` // the same with milliseconds
	KeyID      string       `json:"key_id"`
	ModelAsked string       `json:"model_asked"`
	Model      string       `json:"model"` // that answered
	Provider   string       `json:"provider"`
	Served     string       `json:"provider_model,omitempty"` // as the provider calls it, if it said so
	Outcome    string       `json:"outcome"`
	Tier       string       `json:"service_tier,omitempty"`
	Region     string       `json:"region,omitempty"`
	Cost       *json.Number `json:"cost_usd"` // null: unpriced, or nothing was used
	Margin     *json.Number `json:"margin_usd,omitempty"`
	Unpriced   bool         `json:"unpriced"` // something was used that has no price
	Version    string       `json:"price_version,omitempty"`
	// Formula adds up to cost_usd with rounding_usd. It is empty if the call has no cost, or if its prices are no longer known.
	Formula     []LineReply       `json:"formula"`
	Rounding    json.Number       `json:"rounding_usd"`
	NotCharged  json.Number       `json:"not_charged_usd,omitempty"` // is to be taken from them
	Corrections []CorrectionReply `json:"corrections"`               // are in cost_usd
	Session     string            `json:"session,omitempty"`
	Tags        []string          `json:"tags,omitempty"`
}

// LineReply is one product of a formula: count / per × rate_usd × factor = amount_usd.
type LineReply struct {
	Turn   int         `json:"turn,omitempty"` // from 1, if the call has several that are priced apart
	Name   string      `json:"name"`
	Count  json.Number `json:"count"` // tokens, calls or seconds
	Per    int64       `json:"per"`
	Rate   json.Number `json:"rate_usd"`
	Factor json.Number `json:"factor"`
	Amount json.Number `json:"amount_usd"`
	Source string      `json:"source"` // vendor, ours or estimate
}

// CorrectionReply is a correction of a cost. Who made it is for staff alone.
type CorrectionReply struct {
	At     int64        `json:"created_at"`
	Cost   json.Number  `json:"cost_usd"` // the difference
	Margin *json.Number `json:"margin_usd,omitempty"`
	Priced bool         `json:"was_unpriced"`
	Old    string       `json:"old_version,omitempty"`
	New    string       `json:"new_version"`
	Reason string       `json:"reason,omitempty"`
	By     string       `json:"by,omitempty"`
}

// Reply returns the explanation as customers or as staff get it.
func (e *Explanation) Reply(staff bool) *Reply {
	out := &Reply{
		Object: "usage.explanation", From: e.From.Unix(), To: e.To.Unix(), Total: sumsReply(&e.Total, staff), Days: []RowReply{}, Models: []RowReply{},
		Data: make([]CallReply, len(e.Calls)), Prices: map[string]json.RawMessage{},
	}
	for i := range e.Days {
		out.Days = append(out.Days, RowReply{Day: e.Days[i].Start.Format(time.DateOnly), SumsReply: sumsReply(&e.Days[i].Sums, staff)})
	}
	for i := range e.Models {
		out.Models = append(out.Models, RowReply{Model: e.Models[i].Model, SumsReply: sumsReply(&e.Models[i].Sums, staff)})
	}
	for i := range e.Calls {
		c := &e.Calls[i]
		out.Data[i] = c.reply(staff)
		// The vendors' prices are not those of a customer with a markup.
		for _, entry := range c.Entries {
			if staff || !c.markedUp() {
				raw, _ := json.Marshal(entry) // it was read from the same form
				out.Prices[entry.Version()] = raw
			}
		}
	}
	if !e.Since.IsZero() {
		since := e.Since.Unix()
		out.Kept = &since
	}
	if e.Next != "" {
		out.Next = &e.Next
	}
	return out
}

// markedUp says whether the customer is told another cost than the vendor's.
func (c *Call) markedUp() bool {
	return c.Margin != 0 || c.Terms.Markup != 0 && c.Terms.Markup != unmarked
}

// told returns an amount as customers are told it, or as staff sees it, with the margin.
func told(cost, margin price.Nano, staff bool) (json.Number, *json.Number) {
	if !staff {
		return number(cost + margin), nil
	}
	m := number(margin)
	return number(cost), &m
}

func number(n price.Nano) json.Number { return json.Number(n.AppendJSON(nil)) }

func sumsReply(s *usage.Sums, staff bool) SumsReply {
	r := SumsReply{
		Requests: s.Requests, Prompt: s.Prompt, Cached: s.Cached, Written: s.Written, Completion: s.Completion, Reasoning: s.Reasoning, Unpriced: s.Unpriced,
	}
	r.Cost, r.Margin = told(s.Cost, s.Margin, staff)
	return r
}

func (c *Call) reply(staff bool) CallReply {
	at := c.At.UTC()
	r := CallReply{
		ID: c.ID, CreatedAt: at.Unix(), At: at.Format("2006-01-02T15:04:05.000Z"), KeyID: c.KeyID, ModelAsked: c.ModelAsked, Model: c.ModelUsed, Provider: c.Provider, Served: c.Terms.Model,
		Outcome: string(c.End), Tier: c.Terms.Tier, Region: c.Terms.Region, Unpriced: c.Unpriced(), Version: c.Terms.Version, Formula: []LineReply{}, Rounding: c.Rounding.Number(), Corrections: []CorrectionReply{},
		Session: c.Session(), Tags: c.Terms.Tags,
	}
	if c.Cost != nil {
		cost, margin := told(*c.Cost, c.Margin, staff)
		r.Cost, r.Margin = &cost, margin
	}
	if c.NotCharged > 0 {
		r.NotCharged = number(c.NotCharged)
	}
	for i := range c.Lines {
		r.Formula = append(r.Formula, c.Lines[i].reply())
	}
	for i := range c.Corrections {
		f := &c.Corrections[i]
		x := CorrectionReply{At: f.MadeAt.Unix(), Priced: f.Priced, Old: f.Old, New: f.New, Reason: f.Reason}
		if x.Cost, x.Margin = told(f.Cost, f.Margin, staff); staff {
			x.By = f.By
		}
		r.Corrections = append(r.Corrections, x)
	}
	return r
}

// reply returns the line. Thousandths become whole calls or seconds.
func (l *Line) reply() LineReply {
	r := LineReply{Turn: l.Turn, Name: l.Name, Count: number(price.Nano(l.Count) * 1_000_000), Per: 1, Rate: number(l.Rate), Factor: json.Number(l.Factor.String()), Amount: l.Amount.Number(), Source: l.Source}
	if l.Tokens {
		r.Count, r.Per = json.Number(strconv.FormatInt(l.Count, 10)), 1_000_000
	}
	return r
}
