package storetest

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/account"
	"sluice/internal/ledger/abuse"
	"sluice/internal/store/sqlstore/alltest"
)

// abuseCounts checks that units are counted by month, plan and tier, exactly once, and can be
// forgiven (docs/api.md#abuse-control). The settlements lie at both ends of a month in UTC.
func abuseCounts(t *testing.T, open func() *alltest.Store) {
	s := open()
	march := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	first := newSettlement(1, march.Add(time.Hour), "key_a", "m1")
	last := newSettlement(2, march.AddDate(0, 1, 0).Add(-time.Millisecond), "key_a", "m1")
	next := newSettlement(3, march.AddDate(0, 1, 0), "key_a", "m1")
	other := newSettlement(4, march.Add(time.Hour), "key_a", "m2")
	other.Plan, other.Tier = "premium", "basic"
	record(t, s, first, last, next, other)
	record(t, s, first) // a repeated settlement must not count twice

	counts := func(month time.Time) []abuse.Count {
		t.Helper()
		got, err := s.AbuseCounts(t.Context(), month)
		if err != nil {
			t.Fatal(err)
		}
		// The store promises no order.
		slices.SortFunc(got, func(a, b abuse.Count) int { return int(a.Plan) - int(b.Plan) })
		return got
	}
	want := []abuse.Count{
		{AccountID: "acct_1", Plan: account.Basic, Tier: account.Free, Units: 4000},
		{AccountID: "acct_1", Plan: account.Premium, Tier: account.Basic, Units: 2000},
	}
	if diff := cmp.Diff(want, counts(march)); diff != "" {
		t.Errorf("AbuseCounts: -want +got\n%s", diff)
	}
	// The second one has no units yet: forgiving must not depend on a row that exists.
	forgive := []abuse.Count{
		{AccountID: "acct_1", Plan: account.Basic, Tier: account.Free, Forgiven: 3000},
		{AccountID: "acct_1", Plan: account.Scale, Tier: account.Free, Forgiven: 7},
	}
	event := abuse.Event{At: base, AccountID: "acct_1", Kind: abuse.Restored, Plan: account.Basic, Tier: account.Free, Why: "w", Actor: "support"}
	if err := s.ForgiveUnits(t.Context(), march, forgive, []abuse.Event{event}); err != nil {
		t.Fatal(err)
	}
	want[0].Forgiven = 3000
	want = append(want, abuse.Count{AccountID: "acct_1", Plan: account.Scale, Tier: account.Free, Forgiven: 7})
	if diff := cmp.Diff(want, counts(march)); diff != "" {
		t.Errorf("AbuseCounts after forgiving: -want +got\n%s", diff)
	}
	if got := counts(march.AddDate(0, 1, 0)); len(got) != 1 || got[0].Units != 2000 || got[0].Forgiven != 0 {
		t.Errorf("AbuseCounts of the next month = %+v, want 2 units", got)
	}
	var hours []time.Time
	var units int64
	// A node that starts reads the units of the last day by the hour, to see how fast a score rises.
	err := s.UnitsSince(t.Context(), march.Add(30*time.Minute), func(c abuse.Count, hour time.Time) {
		hours = append(hours, hour)
		units += c.Units
	})
	if err != nil || units != 8000 || !slices.Contains(hours, march.Add(time.Hour)) {
		t.Errorf("UnitsSince = %v with %d units, %v, want 8000 by whole hours", hours, units, err)
	}

	// A node that shares the database asks about the accounts that it serves.
	foreign := newSettlement(5, march.Add(2*time.Hour), "key_b", "m1")
	foreign.AccountID = "acct_2"
	record(t, s, foreign)
	for ids, n := range map[[2]string]int{{"acct_1", "acct_none"}: 3, {"acct_2", "acct_2"}: 1, {"acct_1", "acct_2"}: 4, {"", ""}: 0} {
		got, err := s.AbuseCounts(t.Context(), march, ids[:]...)
		units := int64(0)
		errSince := s.UnitsSince(t.Context(), march, func(c abuse.Count, _ time.Time) { units += c.Units }, ids[:]...)
		if want := map[int]int64{3: 8000, 1: 2000, 4: 10_000}[n]; err != nil || errSince != nil || len(got) != n || units != want {
			t.Errorf("AbuseCounts(%q) = %+v, %v and UnitsSince = %d units, %v, want %d counts and %d units", ids, got, err, units, errSince, n, want)
		}
	}
}

// abuseEventsOnce checks that what two nodes note is stored once, and again after the count has started
// from zero.
func abuseEventsOnce(t *testing.T, open func() *alltest.Store) {
	s := open()
	note := func(kind abuse.Kind, score int, after time.Duration) abuse.Event {
		return abuse.Event{At: base.Add(after), AccountID: "acct_1", Kind: kind, Plan: account.Basic, Tier: account.Free, Score: score, Why: "w", Actor: "a"}
	}
	other := note(abuse.Warning, 50, 0)
	other.Tier = account.Basic
	rest := time.Duration(0)
	for i, step := range []struct {
		events []abuse.Event
		want   int
	}{
		{[]abuse.Event{note(abuse.Warning, 50, 0), note(abuse.Warning, 51, 0)}, 1},
		{[]abuse.Event{note(abuse.Warning, 52, time.Second), note(abuse.Warning, 75, time.Second), other}, 2},
		{[]abuse.Event{note(abuse.Warning, 80, time.Minute), note(abuse.Inquiry, 91, time.Minute), note(abuse.Review, 30, time.Minute)}, 2},
		{[]abuse.Event{note(abuse.Review, 40, 23*time.Hour), note(abuse.Inquiry, 90, rest), note(abuse.Deactivated, 100, rest)}, 1},
		{[]abuse.Event{note(abuse.Deactivated, 100, time.Hour), note(abuse.Review, 40, 25*time.Hour)}, 1},
		{[]abuse.Event{note(abuse.Restored, 0, time.Hour), note(abuse.Warning, 50, 2*time.Hour), note(abuse.Deactivated, 100, 2*time.Hour)}, 3},
		{[]abuse.Event{note(abuse.Warning, 50, 2*time.Hour), note(abuse.Deactivated, 100, 2*time.Hour)}, 0},
		{[]abuse.Event{note(abuse.Warning, 50, 32*24*time.Hour)}, 1}, // another month
	} {
		if got, err := s.RecordAbuseEventsOnce(t.Context(), step.events); err != nil || len(got) != step.want {
			t.Errorf("step %d: RecordAbuseEventsOnce = %+v, %v, want %d of them", i, got, err, step.want)
		}
	}

	// Two nodes at the same moment.
	var nodes sync.WaitGroup
	var added atomic.Int64
	for range 8 {
		nodes.Go(func() {
			e := note(abuse.Warning, 50, 0)
			e.AccountID = "acct_2"
			got, err := s.RecordAbuseEventsOnce(t.Context(), []abuse.Event{e})
			if err != nil {
				t.Error(err)
			}
			added.Add(int64(len(got)))
		})
	}
	nodes.Wait()
	if added.Load() != 1 {
		t.Errorf("one event that eight nodes note is added %d times, want once", added.Load())
	}
}

// abuseEvents checks the order and the content of abuse events: newest first, of one account only.
func abuseEvents(t *testing.T, open func() *alltest.Store) {
	s := open()
	events := []abuse.Event{
		{At: base, AccountID: "acct_1", Kind: abuse.Warning, Plan: account.Basic, Tier: account.Free, Score: 50, Why: "half", Actor: "abuse control"},
		{At: base.Add(time.Minute), AccountID: "acct_1", Kind: abuse.Deactivated, Plan: account.Basic, Tier: account.Premium, Score: 100, Why: "all", Actor: "abuse control"},
		{At: base, AccountID: "acct_2", Kind: abuse.Review, Plan: account.None, Tier: account.Free, Score: 30, Why: "fast", Actor: "abuse control"},
	}
	if err := s.RecordAbuseEvents(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	got, err := s.AbuseEvents(t.Context(), "acct_1", 10)
	if err != nil {
		t.Fatal(err)
	}
	want := []abuse.Event{events[1], events[0]}
	want[0].Seq, want[1].Seq = 2, 1
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("AbuseEvents: -want +got\n%s", diff)
	}
	if got, err := s.AbuseEvents(t.Context(), "acct_1", 1); err != nil || len(got) != 1 || got[0].Kind != abuse.Deactivated {
		t.Errorf("AbuseEvents with limit 1 = %+v, %v, want the newest", got, err)
	}
}
