package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/prompt/chat"
	"sluice/internal/store/sqlstore/alltest"
)

// activity compares the cells and pages of the store with a plain loop over the same settlements.
func activity(t *testing.T, open func() *alltest.Store) {
	s, ctx := open(), t.Context()
	var all []usage.Settlement
	for i := range 80 {
		r := usage.Settlement{
			ID: fmt.Sprintf("%03d", i), At: usage.DayOf(base).Add(time.Duration(i) * 50 * time.Minute), AccountID: "acct_1", KeyID: fmt.Sprint("key_", i%3),
			Plan: "basic", Tier: "free", ModelAsked: "service/auto", ModelUsed: fmt.Sprint("model", i%2), Provider: "p", Tokens: chat.Usage{Prompt: i, Cached: 1, Completion: 2 * i, Reasoning: 3},
			RequestMilli: 1000, UnitMilli: 1500, Status: 200, End: usage.EndComplete, Latency: time.Duration(i*i) * 10 * time.Millisecond, FirstToken: time.Duration(i) * time.Millisecond,
		}
		switch {
		case i%5 == 0:
			r.ModelAsked = r.ModelUsed
		case i%7 == 0:
			cost := price.Nano(i)
			r.Cost, r.End, r.Status = &cost, usage.EndCut, 200
		case i%11 == 0:
			r.AccountID = "acct_2"
		case i%13 == 0:
			r.End, r.Status = usage.EndFailed, 503
		}
		all = append(all, r)
	}
	must(t, s.RecordSettlements(ctx, all[:50]))
	must(t, s.RecordSettlements(ctx, all[40:])) // ten of them again, which count once

	type key struct {
		start time.Time
		usage.Kind
	}
	from := usage.DayOf(base).Add(24 * time.Hour)
	for _, step := range []time.Duration{time.Hour, 6 * time.Hour, 24 * time.Hour} {
		for _, n := range narrows {
			want := map[key]usage.Tally{}
			for i := range all {
				r := &all[i]
				kind := usage.KindOf(r)
				if r.AccountID != "acct_1" || r.At.Before(from) || !n.Wants(&kind) {
					continue
				}
				k := key{r.At.Truncate(step), kind}
				tally := want[k]
				tally.Add(r)
				want[k] = tally
			}
			cells, err := s.Cells(ctx, usage.CellQuery{AccountID: "acct_1", From: from, Step: step, Narrow: n})
			got := map[key]usage.Tally{}
			for _, c := range cells {
				got[key{c.Start, c.Kind}] = c.Tally
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(key{})); err != nil || diff != "" || len(cells) != len(got) {
				t.Errorf("Cells by %s, %+v: %v, -want +got\n%s", step, n, err, diff)
			}
		}
	}

	// Cells end where they are told to, and the oldest one is known.
	cells, err := s.Cells(ctx, usage.CellQuery{AccountID: "acct_1", From: from, To: from.Add(6 * time.Hour), Step: time.Hour})
	must(t, err)
	if len(cells) == 0 {
		t.Error("Cells of six hours: none")
	}
	for _, c := range cells {
		if c.Start.Before(from) || !c.Start.Before(from.Add(6*time.Hour)) {
			t.Errorf("Cells of six hours from %s: one at %s", from, c.Start)
		}
	}
	for account, want := range map[string]time.Time{"acct_1": usage.DayOf(base), "acct_3": {}} {
		for _, step := range []time.Duration{time.Hour, 24 * time.Hour} {
			if got, err := s.CellsSince(ctx, account, step); err != nil || !got.Equal(want) {
				t.Errorf("CellsSince(%s, %s) = %s, %v, want %s", account, step, got, err, want)
			}
		}
	}

	// Pages of any size contain every call once, newest first, however few calls are looked at for each.
	for _, n := range narrows {
		var want []string
		for i := len(all) - 1; i >= 0; i-- {
			if kind := usage.KindOf(&all[i]); all[i].AccountID == "acct_1" && !all[i].At.Before(from) && n.Wants(&kind) {
				want = append(want, all[i].ID)
			}
		}
		for _, size := range [][2]int{{1, 1}, {3, 7}, {100, 100}} {
			var got []string
			next := &usage.Point{At: base.AddDate(1, 0, 0)}
			for next != nil {
				page, err := s.Calls(ctx, usage.CallQuery{AccountID: "acct_1", Before: *next, From: from, Narrow: n, Limit: size[0], Look: size[1]})
				must(t, err)
				for i := range page.Calls {
					got = append(got, page.Calls[i].ID)
				}
				next = page.Next
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Calls by %v, %+v: -want +got\n%s", size, n, diff)
			}
		}
	}
}

var narrows = []usage.Narrow{
	{}, {KeyID: "key_1"}, {Model: "service/auto"}, {Model: "model1"}, {KeyID: "key_2", Model: "model0"}, {Ends: []usage.End{usage.EndCut}}, {KeyID: "key_1", Ends: []usage.End{usage.EndCut, usage.EndFailed}}, {KeyID: "nobody's"},
}
