package calls

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/store/sqlstore"
)

var (
	// intoCounted notes when a count was last used, which is when that is stored: whoever looks for what has changed since then must
	// not miss calls that have waited in the journal. The time never moves back.
	intoCounted = sqlstore.Insertion{
		Into: `budget_counts (count, account_id, touched_at)`, Columns: 3,
		Conflict: `ON CONFLICT (count) DO UPDATE SET touched_at = CASE WHEN excluded.touched_at > budget_counts.touched_at THEN excluded.touched_at ELSE budget_counts.touched_at END`,
	}
	intoSpent = adding("budget_spent", "count, period", "spent")
	// intoGrants adds to what holders have spent. A row that is gone is made again with nothing granted, so it holds nothing. A video
	// has one settlement, and needs nothing more after it. When a holder was last heard of stays: what is settled may be its past.
	intoGrants = sqlstore.Insertion{
		Into: `budget_grants (count, period, holder, granted, spent, reserved, touched_at)`, Columns: 7,
		Conflict: `ON CONFLICT (count, period, holder) DO UPDATE SET spent = budget_grants.spent + excluded.spent,
			granted = CASE WHEN substr(budget_grants.holder, 1, 4) = 'job/' THEN 0 ELSE budget_grants.granted END,
			reserved = CASE WHEN substr(budget_grants.holder, 1, 4) = 'job/' THEN 0 ELSE budget_grants.reserved END`,
	}
)

// holding is the part of a count that somebody was granted.
type holding struct {
	budget.Key
	holder string
}

// spending is what was spent, by whose calls, and when the last one has ended, in Unix milliseconds.
type spending struct {
	account string
	spent   price.Nano
	at      int64
}

// addSpent adds what calls have cost to what is spent of their budgets, and to what those have spent who reserved it.
func addSpent(ctx context.Context, to sqlstore.Bulk, batch []usage.Settlement) error {
	if !slices.ContainsFunc(batch, func(r usage.Settlement) bool { return len(r.Terms.Budgets) > 0 }) {
		return nil
	}
	counts, periods, holders := map[string]*spending{}, map[budget.Key]*spending{}, map[holding]*spending{}
	for i := range batch {
		r := &batch[i]
		for j := range r.Terms.Budgets {
			c := &r.Terms.Budgets[j]
			entry(counts, c.Count).add(r, c)
			entry(periods, budget.Key{Count: c.Count, Period: budget.SpentIn(c.Period, r.At.Add(r.Latency))}).add(r, c)
			if c.Holder != "" {
				entry(holders, holding{budget.Key{Count: c.Count, Period: c.Period}, c.Holder}).add(r, c)
			}
		}
	}
	// First the counts, as whoever grants does: it then sees all of a batch, or nothing.
	names, now := slices.Sorted(maps.Keys(counts)), sqlstore.Millis(time.Now())
	_, err := to.Insert(ctx, &intoCounted, len(names), func(values []any, i int) []any {
		return append(values, names[i], counts[names[i]].account, max(now, counts[names[i]].at))
	})
	if err != nil {
		return err
	}
	keys := slices.SortedFunc(maps.Keys(periods), compareCounts)
	_, err = to.Insert(ctx, intoSpent, len(keys), func(values []any, i int) []any {
		return append(values, keys[i].Count, keys[i].Period, int64(periods[keys[i]].spent))
	})
	if err != nil {
		return err
	}
	held := slices.SortedFunc(maps.Keys(holders), func(a, b holding) int {
		return cmp.Or(compareCounts(a.Key, b.Key), strings.Compare(a.holder, b.holder))
	})
	_, err = to.Insert(ctx, &intoGrants, len(held), func(values []any, i int) []any {
		h, v := &held[i], holders[held[i]]
		return append(values, h.Count, h.Period, h.holder, int64(0), int64(v.spent), int64(0), v.at)
	})
	return err
}

// add adds what a call takes from a budget.
func (s *spending) add(r *usage.Settlement, c *usage.Charge) {
	s.account, s.spent, s.at = r.AccountID, s.spent+r.Spent(c), max(s.at, sqlstore.Millis(r.At.Add(r.Latency)))
}

// compareCounts orders keys as the tables of budgets do, which is the order of their locks on all nodes.
func compareCounts(a, b budget.Key) int {
	return cmp.Or(strings.Compare(a.Count, b.Count), cmp.Compare(a.Period, b.Period))
}
