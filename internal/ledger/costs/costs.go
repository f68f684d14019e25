// Package costs explains what calls cost: a total by its days, models and calls, and each call by the formula of its cost. It also
// corrects costs after prices have changed; see Reprice.
//
// What a call costs is settled with it, see usage.Settlement, and package price computes it. Nothing here is needed to serve a
// call.
package costs

import (
	"context"
	"slices"
	"strings"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
)

// Store has the settlements, their corrections and their sums.
type Store interface {
	// CostRows adds up calls by day and by the model that answered, with their corrections.
	CostRows(ctx context.Context, sel usage.Selection) ([]usage.Row, error)
	// Calls returns calls with their corrections, newest first.
	Calls(ctx context.Context, q usage.CallQuery) (usage.CallPage, error)
	// Corrections returns the corrections of settlements by their ids.
	Corrections(ctx context.Context, list []usage.Settlement) (map[string][]usage.Correction, error)
	// SettledAfter returns settlements of one account or of all after a point and before a time, oldest first.
	SettledAfter(ctx context.Context, accountID string, after usage.Point, to time.Time, limit int) ([]usage.Settlement, error)
	// Correct stores corrections. It returns usage.ErrCorrected if a settlement has been corrected since it was read.
	Correct(ctx context.Context, fixes []usage.Fix) error
	// SettlementsDropped returns the time before which settlements may have been deleted.
	SettlementsDropped(ctx context.Context) (time.Time, error)
}

// Versions finds prices by their version. It returns nil if nobody knows them any more.
type Versions interface {
	Entry(ctx context.Context, version string) (*price.Entry, error)
}

// Costs explains and corrects costs. It is safe for concurrent use.
type Costs struct {
	store    Store
	versions Versions
	today    Today
	flush    func(context.Context)
}

// Today returns the prices that today's book has for a turn of a call at the time of the call; nil: none. Most calls have one
// turn, number 0.
type Today func(s *usage.Settlement, turn int) *price.Entry

// New returns the costs of what a store has. flush moves calls that have just ended to the store; it may be nil.
func New(store Store, versions Versions, today Today, flush func(context.Context)) *Costs {
	if flush == nil {
		flush = func(context.Context) {}
	}
	return &Costs{store, versions, today, flush}
}

// Explanation is what a total consists of. The rows add up to it, and so do all calls, from the first page to the last.
type Explanation struct {
	usage.Selection
	Total  usage.Sums
	Days   []usage.Row // by day alone
	Models []usage.Row // by the model that answered alone
	Calls  []Call      // newest first
	Next   string      // the cursor of the next page of calls; empty: this is the last
	// Since is set if calls before it are no longer kept, though the total has them.
	Since time.Time
}

// Call is a call with the formula of its cost.
type Call struct {
	usage.Settlement
	Entries     []*price.Entry // of its turns; empty: the call has no cost, or its prices are no longer known
	Lines       []Line         // the formula; empty if Entries is
	Rounding    Exact          // the cost beyond the sum of the lines, with what is not charged
	NotCharged  price.Nano     // for customers: what the call has cost beyond what it was allowed to; see usage.Settlement.Bound
	Corrections []usage.Correction
}

const (
	// MaxCalls is how many calls a page has at most.
	MaxCalls = 200
	// lookOnce is how many calls are looked at at once if only some are wanted, and lookMost how many for one page.
	lookOnce, lookMost = 500, 3000
)

// Explain explains the costs of calls. It lists at most limit of them, from the cursor on; limit may be 0. For staff, formulas have
// the vendors' prices; for customers those times the markup of their calls.
func (c *Costs) Explain(ctx context.Context, sel usage.Selection, cursor string, limit int, staff bool) (*Explanation, error) {
	before := usage.Point{At: sel.To}
	if cursor != "" {
		var ok bool
		if before, ok = usage.ParsePoint(cursor); !ok || before.At.After(sel.To) {
			return nil, fault.New(fault.Invalid, "cursor must be the value of next in the previous reply.").At("cursor")
		}
	} else {
		c.flush(ctx)
	}
	out := &Explanation{Selection: sel}
	rows, err := c.store.CostRows(ctx, sel)
	if err != nil {
		return nil, err
	}
	out.add(rows)
	if out.Since, err = c.store.SettlementsDropped(ctx); err != nil {
		return nil, err
	}
	if !out.Since.After(sel.From) {
		out.Since = time.Time{}
	}
	if limit == 0 {
		return out, nil
	}
	calls, next, err := c.calls(ctx, &sel, before, min(limit, MaxCalls))
	if err != nil {
		return nil, err
	}
	if next != nil {
		out.Next = next.String()
	}
	out.Calls, err = c.formulas(ctx, calls, staff)
	return out, err
}

// add adds the rows to the total, by day and by model.
func (e *Explanation) add(rows []usage.Row) {
	days, models := map[time.Time]*usage.Row{}, map[string]*usage.Row{}
	for i := range rows {
		r := &rows[i]
		e.Total.Merge(r.Sums)
		if days[r.Start] == nil {
			days[r.Start] = &usage.Row{Slot: usage.Slot{AccountID: r.AccountID, Start: r.Start}}
		}
		days[r.Start].Merge(r.Sums)
		if models[r.Model] == nil {
			models[r.Model] = &usage.Row{Slot: usage.Slot{AccountID: r.AccountID, Model: r.Model}}
		}
		models[r.Model].Merge(r.Sums)
	}
	for _, r := range days {
		e.Days = append(e.Days, *r)
	}
	for _, r := range models {
		e.Models = append(e.Models, *r)
	}
	slices.SortFunc(e.Days, func(a, b usage.Row) int { return b.Start.Compare(a.Start) })
	slices.SortFunc(e.Models, func(a, b usage.Row) int { return strings.Compare(a.Model, b.Model) })
}

// calls returns at most limit calls before a point, and where they continue; nil if there are no more.
func (c *Costs) calls(ctx context.Context, sel *usage.Selection, before usage.Point, limit int) (out []usage.Settlement, next *usage.Point, err error) {
	for looked := 0; ; looked += lookOnce {
		page, err := c.store.Calls(ctx, usage.CallQuery{
			AccountID: sel.AccountID, Before: before, From: sel.From, Narrow: sel.Narrow, Limit: limit - len(out), Look: lookOnce,
		})
		if err != nil {
			return nil, nil, err
		}
		out = append(out, page.Calls...)
		if page.Next == nil || len(out) == limit || looked >= lookMost {
			return out, page.Next, nil
		}
		before = *page.Next
	}
}

// formulas returns the calls with their formulas and corrections.
func (c *Costs) formulas(ctx context.Context, calls []usage.Settlement, staff bool) ([]Call, error) {
	fixes, err := c.store.Corrections(ctx, calls)
	if err != nil {
		return nil, err
	}
	known := map[string]*price.Entry{}
	out := make([]Call, len(calls))
	for i := range calls {
		s := &calls[i]
		var entries []*price.Entry
		for _, t := range s.Turns() {
			e, ok := known[t.Version]
			if !ok && t.Version != "" {
				if e, err = c.versions.Entry(ctx, t.Version); err != nil {
					return nil, err
				}
				known[t.Version] = e
			}
			entries = append(entries, e)
		}
		out[i] = explained(s, entries, staff)
		out[i].Corrections = fixes[s.ID]
	}
	return out, nil
}
