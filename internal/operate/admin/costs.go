package admin

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/ledger/costs"
	"sluice/internal/ledger/usage"
)

// ExplainQuery is the argument of usage.explain. From and To are days or moments; To is the first that is left out. Instead of
// both, Day or Month may be given; without any of them it is the last 30 days.
type ExplainQuery struct {
	Ref     string `json:"ref"`
	From    string `json:"from,omitempty"`
	To      string `json:"to,omitempty"`
	Day     string `json:"day,omitempty"`
	Month   string `json:"month,omitempty"`
	Key     string `json:"key,omitempty"`
	Model   string `json:"model,omitempty"`  // asked for, or answering
	Served  string `json:"served,omitempty"` // answering
	Outcome string `json:"outcome,omitempty"`
	Cursor
}

// values returns the parameters as GET /v1/usage/explain has them.
func (q *ExplainQuery) values() url.Values {
	v := url.Values{}
	for name, value := range map[string]string{
		"from": q.From, "to": q.To, "day": q.Day, "month": q.Month, "key": q.Key, "model": q.Model, "served": q.Served, "outcome": q.Outcome,
	} {
		if value != "" {
			v.Set(name, value)
		}
	}
	return v
}

// usageExplain returns what an account's costs consist of, with at most 200 calls.
func (b *Backend) usageExplain(ctx context.Context, in ExplainQuery) (costs.Reply, error) {
	e, err := b.explain(ctx, in, min(in.limit(), costs.MaxCalls))
	if err != nil {
		return costs.Reply{}, err
	}
	return *e.Reply(true), nil
}

// usageCosts returns the same for the console, which shows calls only if a limit is given.
func (b *Backend) usageCosts(ctx context.Context, in ExplainQuery) (*costs.Explanation, error) {
	return b.explain(ctx, in, in.Limit)
}

func (b *Backend) explain(ctx context.Context, in ExplainQuery, limit int) (*costs.Explanation, error) {
	a, err := b.Accounts.Find(ctx, in.Ref)
	if err != nil {
		return nil, err
	}
	sel, err := costs.Select(a.ID, in.values(), time.Now())
	if err != nil {
		return nil, err
	}
	return b.Costs.Explain(ctx, sel, in.After, limit, true)
}

// RepriceOrder is the argument of prices.reprice. From and To are days or moments; To is the first that is left out.
type RepriceOrder struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Ref    string `json:"account,omitempty"` // empty: all accounts
	Model  string `json:"model,omitempty"`   // that answered; empty: all models
	DryRun bool   `json:"dry_run,omitempty"`
	Reason string `json:"reason,omitempty"`
	Actor  string `json:"actor,omitempty"`
	// After is Next of the result before; empty for the first part.
	After string `json:"after,omitempty"`
}

// Repriced is what a part of an order has changed, or would change.
type Repriced struct {
	Looked int             `json:"looked_at"`
	Models []RepricedModel `json:"models"`
	Next   string          `json:"next,omitempty"` // empty: the order is done
}

// RepricedModel is what became of the calls of a model.
type RepricedModel struct {
	Model    string      `json:"model"`
	Changed  int         `json:"changed"`       // calls
	Priced   int         `json:"newly_priced"`  // of them, those that had no cost
	Unpriced int         `json:"without_price"` // calls that have no cost, and for which today's book has no prices
	CostUSD  json.Number `json:"cost_usd"`      // the difference
	Margin   json.Number `json:"margin_usd"`    // the difference
}

// pricesReprice computes the costs of some thousand calls by today's prices, and stores the differences as corrections.
func (b *Backend) pricesReprice(ctx context.Context, in RepriceOrder) (Repriced, error) {
	o := costs.Order{Model: in.Model, DryRun: in.DryRun, Reason: in.Reason, By: in.Actor}
	var err error
	if o.From, err = costs.Moment("from", in.From); err == nil {
		o.To, err = costs.Moment("to", in.To)
	}
	if err != nil {
		return Repriced{}, err
	}
	if in.Ref != "" {
		a, err := b.Accounts.Find(ctx, in.Ref)
		if err != nil {
			return Repriced{}, err
		}
		o.AccountID = a.ID
	}
	if in.After != "" {
		var ok bool
		if o.After, ok = usage.ParsePoint(in.After); !ok {
			return Repriced{}, fault.New(fault.Invalid, "after must be the value of next in the previous result").At("after")
		}
	}
	done, err := b.Costs.Reprice(ctx, o)
	if err != nil {
		return Repriced{}, err
	}
	out := Repriced{Looked: done.Looked, Models: []RepricedModel{}}
	for _, m := range done.Models {
		out.Models = append(out.Models, RepricedModel{m.Model, m.Changed, m.Priced, m.Unpriced, json.Number(m.Cost.AppendJSON(nil)), json.Number(m.Margin.AppendJSON(nil))})
	}
	if done.Next != nil {
		out.Next = done.Next.String()
	}
	return out, nil
}
