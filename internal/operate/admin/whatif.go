package admin

import (
	"context"
	"encoding/json"
	"time"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/ledger/whatif"
)

// WhatIfQuery is the argument of whatif. At least one of Prices, Models, CacheTTL and BatchShare is set.
type WhatIfQuery struct {
	// From and To are days such as 2026-11-01, or moments in RFC 3339. To is the first that does not count. Without them the
	// last 30 days count.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Account is the id or address of the only account whose calls count.
	Account string `json:"account,omitempty"`
	// Prices is the text of a list of prices: ours, LiteLLM's or that of models.dev.
	Prices string `json:"prices,omitempty"`
	// Models are pairs of the form a=b: what a answered is priced as b.
	Models []string `json:"models,omitempty"`
	// CacheTTL is 5m, 1h or none.
	CacheTTL string `json:"cache_ttl,omitempty"`
	// BatchShare is a decimal number from 0 to 1.
	BatchShare string `json:"batch_share,omitempty"`
}

// WhatIf is the result of whatif.
type WhatIf struct {
	From  time.Time  `json:"from"`
	To    time.Time  `json:"to"`
	Total WhatIfSums `json:"total"`
	// The tables add up the same calls: by account, by key, by the model that answered, by day of UTC, and by all of them together.
	Accounts []WhatIfRow   `json:"accounts"`
	Keys     []WhatIfRow   `json:"keys"`
	Models   []WhatIfRow   `json:"models"`
	Days     []WhatIfRow   `json:"days"`
	Rows     []WhatIfRow   `json:"rows"`
	Counts   whatif.Counts `json:"counts"`
	// Notes say what the replay cannot know.
	Notes []string `json:"notes"`
}

// WhatIfRow is one line of a table. Fields that the table is not about are empty.
type WhatIfRow struct {
	Account string `json:"account,omitempty"`
	Key     string `json:"key,omitempty"`
	Model   string `json:"model,omitempty"`
	Day     string `json:"day,omitempty"`
	WhatIfSums
}

// WhatIfSums is what some calls cost and what they would have cost. Amounts are exact decimal numbers of dollars.
type WhatIfSums struct {
	Calls      int64       `json:"calls"`
	Cost       json.Number `json:"cost_usd"`
	Would      json.Number `json:"would_cost_usd"`
	Difference json.Number `json:"difference_usd"` // of the calls that have a cost on both sides
	// Unpriced and WouldUnpriced are the calls without a cost, really and in the scenario.
	Unpriced      int64 `json:"unpriced_calls"`
	WouldUnpriced int64 `json:"would_be_unpriced_calls"`
}

// WhatIfOrder asks for a replay of the calls of all accounts, or of one.
type WhatIfOrder struct {
	whatif.Question
	Account string // id or address; empty: all
}

// whatIfReport replays calls, for the console.
func (b *Backend) whatIfReport(ctx context.Context, in WhatIfOrder) (*whatif.Report, error) {
	if in.Account != "" {
		a, err := b.Accounts.Find(ctx, in.Account)
		if err != nil {
			return nil, err
		}
		in.AccountID = a.ID
	}
	return b.WhatIf.Run(ctx, in.Question)
}

// whatIfModels returns the models that have a price, for the console.
func (b *Backend) whatIfModels(context.Context, Empty) (list []string, err error) {
	now := time.Now()
	for _, m := range b.Catalog().Models() {
		if m.Priced(now) != nil {
			list = append(list, m.ID)
		}
	}
	return list, nil
}

// whatIf replays calls.
func (b *Backend) whatIf(ctx context.Context, in WhatIfQuery) (WhatIf, error) {
	q := whatif.Question{List: in.Prices, Models: in.Models, TTL: in.CacheTTL, Batched: in.BatchShare}
	var err error
	if q.Span, err = spanOf(in.From, in.To, time.Now()); err != nil {
		return WhatIf{}, err
	}
	r, err := b.whatIfReport(ctx, WhatIfOrder{Question: q, Account: in.Account})
	if err != nil {
		return WhatIf{}, err
	}
	return WhatIf{
		From: q.From, To: q.To, Total: whatIfSums(&r.Total), Accounts: whatIfRows(r.Accounts), Keys: whatIfRows(r.Keys), Models: whatIfRows(r.Models),
		Days: whatIfRows(r.Days), Rows: whatIfRows(r.Rows), Counts: r.Counts, Notes: some(r.Notes),
	}, nil
}

// whatIfDays is how many days count unless somebody says more.
const whatIfDays = 30

// spanOf reads a stretch of time. Without an end it ends now, and without a beginning it has 30 days.
func spanOf(from, to string, now time.Time) (span usage.Span, err error) {
	if span.To, err = momentOf(to, now, "to"); err != nil {
		return span, err
	}
	span.From, err = momentOf(from, usage.DayOf(span.To).AddDate(0, 0, 1-whatIfDays), "from")
	return span, err
}

// momentOf reads a day of UTC or a moment. If the text is empty it is the given one.
func momentOf(text string, otherwise time.Time, param string) (time.Time, error) {
	if text == "" {
		return otherwise.UTC(), nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fault.New(fault.Invalid, "%q is neither a day such as 2026-11-01 nor a moment such as 2026-11-01T12:00:00Z", excerpt.Of(text, 40)).At(param)
}

func whatIfRows(list []whatif.Row) []WhatIfRow {
	out := make([]WhatIfRow, len(list))
	for i := range list {
		r := &list[i]
		out[i] = WhatIfRow{Account: r.Account, Key: r.Key, Model: r.Model, WhatIfSums: whatIfSums(&r.Sums)}
		if !r.Day.IsZero() {
			out[i].Day = r.Day.Format(time.DateOnly)
		}
	}
	return out
}

func whatIfSums(s *whatif.Sums) WhatIfSums {
	dollars := func(n price.Nano) json.Number { return json.Number(n.AppendJSON(nil)) }
	return WhatIfSums{
		Calls: s.Calls, Cost: dollars(s.Cost), Would: dollars(s.Would), Difference: dollars(s.Difference()),
		Unpriced: s.Unpriced, WouldUnpriced: s.WouldUnpriced,
	}
}
