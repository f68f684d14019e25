package storetest

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/prompt/chat"
	"sluice/internal/store/sqlstore/alltest"
)

// analytics compares the results of the store with a plain loop over the same settlements. The loop is
// slow and obviously right; the store's SQL is neither.
func analytics(t *testing.T, open func() *alltest.Store) {
	s, ctx := open(), t.Context()
	day := 24 * time.Hour
	var all []usage.Settlement
	for i := range 60 {
		r := usage.Settlement{
			ID: fmt.Sprintf("%03d", i), At: usage.DayOf(base).Add(time.Duration(i%4)*day + time.Duration(i/8)*time.Hour), AccountID: "acct_1", KeyID: fmt.Sprint("key_", i%3),
			Plan: "basic", Tier: "free", ModelAsked: "m", ModelUsed: fmt.Sprint("model", i%2), Provider: "p", Tokens: chat.Usage{Prompt: i, Completion: 2 * i},
			RequestMilli: 1000, UnitMilli: 1000, Status: 200, End: usage.EndComplete, Latency: time.Duration(i) * time.Millisecond, FirstToken: time.Millisecond,
		}
		// Some belong to another account, some failed, and few have a cost.
		if i%5 == 0 {
			r.AccountID = "acct_2"
		} else if i%7 == 0 {
			cost := price.Nano(i)
			r.Cost, r.End = &cost, usage.EndFailed
		}
		all = append(all, r)
	}
	must(t, s.RecordSettlements(ctx, all))

	from := usage.DayOf(base).Add(day)
	for _, q := range []usage.Query{
		{By: usage.ByDay},
		{By: usage.ByModel},
		{By: usage.ByKey},
		{By: usage.ByDay, KeyID: "key_1"},
		{By: usage.ByModel, Model: "model1"},
		{By: usage.ByKey, KeyID: "key_2", Model: "model0"},
		{By: usage.ByModel, Hours: true},
		{By: usage.ByDay, Hours: true, Model: "model1"},
	} {
		// The first day is left out, to see that From is respected.
		q.AccountID, q.From = "acct_1", from
		slotOf := usage.DayOf
		if q.Hours {
			q.From, slotOf = from.Add(3*time.Hour), usage.HourOf
		}
		want := map[usage.Slot]usage.Sums{}
		for i := range all {
			r := &all[i]
			if r.AccountID != q.AccountID || r.At.Before(q.From) || q.KeyID != "" && r.KeyID != q.KeyID || q.Model != "" && r.ModelUsed != q.Model {
				continue
			}
			slot := map[usage.By]usage.Slot{usage.ByDay: {Start: slotOf(r.At)}, usage.ByModel: {Model: r.ModelUsed}, usage.ByKey: {KeyID: r.KeyID}}[q.By]
			slot.AccountID = q.AccountID
			sums := want[slot]
			sums.Add(r)
			want[slot] = sums
		}
		rows, err := s.UsageBy(ctx, q)
		if err != nil || len(rows) != len(want) {
			t.Fatalf("UsageBy(%+v) = %d rows, %v, want %d", q, len(rows), err, len(want))
		}
		for _, row := range rows {
			if want[row.Slot] != row.Sums {
				t.Errorf("UsageBy(%+v) = %+v for %+v, want %+v", q, row.Sums, row.Slot, want[row.Slot])
			}
		}
	}
	// By becomes part of the SQL, so only known values may pass.
	if _, err := s.UsageBy(ctx, usage.Query{By: "start; --"}); err == nil {
		t.Error("UsageBy by something unknown = nil, want an error")
	}

	// The same by account, of all or of those that are named.
	for _, ids := range [][]string{nil, {"acct_2"}, {"acct_1", "acct_2", "acct_3"}} {
		want := map[string]usage.Sums{}
		for i := range all {
			if r := &all[i]; (ids == nil || slices.Contains(ids, r.AccountID)) && !r.At.Before(from) {
				sums := want[r.AccountID]
				sums.Add(r)
				want[r.AccountID] = sums
			}
		}
		if got, err := s.UsageOf(ctx, from, ids...); err != nil || !maps.Equal(got, want) {
			t.Errorf("UsageOf(%q) = %+v, %v, want %+v", ids, got, err, want)
		}
	}

	// What was asked for and answered by others, by the model that answered.
	routed := map[string]usage.Routed{}
	for i := range all {
		r := &all[i]
		if r.AccountID != "acct_1" || r.At.Before(from) {
			continue
		}
		sum := routed[r.ModelUsed]
		sum.Model = r.ModelUsed
		sum.Calls++
		if r.Cost != nil {
			sum.Priced++
			sum.Prompt += int64(r.Tokens.Prompt)
			sum.Completion += int64(r.Tokens.Completion)
			sum.Cost += *r.Cost
		} else if r.Tokens.Total() > 0 {
			sum.Unpriced++
		}
		routed[r.ModelUsed] = sum
	}
	rows, err := s.RoutedCalls(ctx, "acct_1", "m", from)
	if err != nil || len(rows) != len(routed) {
		t.Fatalf("RoutedCalls = %+v, %v, want %d models", rows, err, len(routed))
	}
	for _, row := range rows {
		if row != routed[row.Model] {
			t.Errorf("RoutedCalls = %+v, want %+v", row, routed[row.Model])
		}
	}
	if rows, err := s.RoutedCalls(ctx, "acct_1", "model0", from); err != nil || len(rows) != 0 {
		t.Errorf("RoutedCalls of a model that was asked for by nobody = %+v, %v, want none", rows, err)
	}

	// Pages of any size contain every call once, newest first, although many share a time.
	for _, size := range []int{1, 7, 100} {
		seen, at := map[string]bool{}, usage.Point{At: base.AddDate(1, 0, 0)}
		for {
			part, err := s.RecentSettlements(ctx, "acct_1", at, size)
			must(t, err)
			if len(part) == 0 {
				break
			}
			for _, r := range part {
				if r.At.After(at.At) || seen[r.ID] {
					t.Fatalf("RecentSettlements by %d: %s at %v after %+v", size, r.ID, r.At, at)
				}
				seen[r.ID], at = true, usage.Point{At: r.At, ID: r.ID}
			}
		}
		if len(seen) != 48 {
			t.Errorf("RecentSettlements by %d showed %d calls, want 48", size, len(seen))
		}
	}
	last, err := s.RecentSettlements(ctx, "acct_1", usage.Point{At: base.AddDate(1, 0, 0)}, 1)
	if err != nil || last[0].Tokens.Prompt == 0 || last[0].Latency == 0 || last[0].End == "" {
		t.Errorf("RecentSettlements = %+v, %v, want the whole record", last, err)
	}
}
