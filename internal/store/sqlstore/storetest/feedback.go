package storetest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/account"
	"sluice/internal/operate/feedback"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/upstream/catalog"
)

// rated checks that each vote counts once, that an account weighs no more than its bound, that what was said counts half
// a week later, and that it can be forgotten.
func rated(t *testing.T, open func() *alltest.Store) {
	s, ctx := open(), t.Context()
	const week = 100
	sums := func(week int64, want ...feedback.Sum) {
		t.Helper()
		got, err := s.FeedbackSums(ctx, week)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("FeedbackSums(%d): %v, -want +got\n%s", week, err, diff)
		}
	}
	vote := func(account, request string, good bool) {
		t.Helper()
		must(t, s.CastVote(ctx, feedback.Vote{AccountID: account, RequestID: request, At: base, Model: "m", Task: catalog.Math, Good: good}, week))
	}
	before, err := s.FeedbackVersion(ctx)
	must(t, err)
	sums(week)
	vote("a", "1", true)
	vote("a", "1", true) // counts once
	vote("b", "1", false)
	sums(week, feedback.Sum{Model: "m", Task: catalog.Math, Accounts: 2, Good: 1000, Bad: 1000})
	vote("b", "1", true) // another opinion
	sums(week, feedback.Sum{Model: "m", Task: catalog.Math, Accounts: 2, Good: 2000})
	if version, err := s.FeedbackVersion(ctx); err != nil || version <= before {
		t.Errorf("FeedbackVersion = %d, %v, want more than %d", version, err, before)
	}
	for i := range 40 { // one account, many votes, one in four of them good
		vote("c", fmt.Sprint(i), i%4 == 0)
	}
	sums(week, feedback.Sum{Model: "m", Task: catalog.Math, Accounts: 3, Good: 2000 + 1250, Bad: 3750})

	must(t, s.AddCounts(ctx, []feedback.Count{{AccountID: "a", Model: "m", Task: catalog.Math, Calls: 10, Troubled: 2}, {AccountID: "a", Model: "n", Task: catalog.Code, Calls: 80, Troubled: 40}}, week))
	sums(week, feedback.Sum{Model: "m", Task: catalog.Math, Accounts: 3, Good: 3250, Bad: 3750, Calls: 10_000, Troubled: 2000},
		feedback.Sum{Model: "n", Task: catalog.Code, Accounts: 1, Calls: 20_000, Troubled: 10_000})

	// Two weeks later a quarter is left; an account with many votes is still at its bound.
	later := feedback.Sum{Model: "m", Task: catalog.Math, Accounts: 3, Good: 500 + 1250, Bad: 3750, Calls: 2500, Troubled: 500}
	sums(week+2, later, feedback.Sum{Model: "n", Task: catalog.Code, Accounts: 1, Calls: 20_000, Troubled: 10_000})
	// What is added then is added to what is left. A node whose clock is behind changes nothing of that.
	must(t, s.AddCounts(ctx, []feedback.Count{{AccountID: "a", Model: "m", Task: catalog.Math, Calls: 1}}, week+2))
	must(t, s.AddCounts(ctx, []feedback.Count{{AccountID: "a", Model: "m", Task: catalog.Math, Calls: 1}}, week+1))
	later.Calls += 2000
	sums(week+2, later, feedback.Sum{Model: "n", Task: catalog.Code, Accounts: 1, Calls: 20_000, Troubled: 10_000})
	sums(week+200, feedback.Sum{Model: "m", Task: catalog.Math, Accounts: 3}, feedback.Sum{Model: "n", Task: catalog.Code, Accounts: 1})

	entry := account.Entry{At: base, Actor: "t", Action: "router.reset", Detail: "n"}
	must(t, s.ForgetFeedback(ctx, "n", entry))
	sums(week+2, later)
	must(t, s.ForgetFeedback(ctx, "", entry))
	sums(week)
	vote("a", "1", true) // the vote is forgotten, too
	sums(week, feedback.Sum{Model: "m", Task: catalog.Math, Accounts: 1, Good: 1000})
	if log, err := s.AuditLog(ctx, "", 0, 10); err != nil || len(log) != 2 || log[0].Action != "router.reset" {
		t.Errorf("AuditLog = %+v, %v, want both resets", log, err)
	}
	s.DropExpired(ctx, func(what string, err error) { t.Errorf("dropping %s: %v", what, err) })
	sums(week) // the row is from long ago
}

// ratedInParallel checks that votes and counts of several nodes lose nothing and do not block each other.
func ratedInParallel(t *testing.T, open func() *alltest.Store) {
	const rounds, week = 4, 100
	var all sync.WaitGroup
	for n, s := range []*alltest.Store{open(), open()} {
		all.Go(func() {
			for i := range rounds {
				v := feedback.Vote{AccountID: fmt.Sprint("a", n, i), RequestID: fmt.Sprint(n, i), At: base, Model: "m", Good: true}
				if err := s.CastVote(t.Context(), v, week); err != nil {
					t.Error(err)
				}
				if err := s.AddCounts(t.Context(), []feedback.Count{{AccountID: "a", Model: "m", Calls: 1}, {AccountID: "b", Model: "m", Calls: 1}}, week); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	got, err := open().FeedbackSums(t.Context(), week)
	want := []feedback.Sum{{Model: "m", Accounts: 2*rounds + 2, Good: 2 * rounds * 1000, Calls: 4 * rounds * 1000}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("FeedbackSums: %v, -want +got\n%s", err, diff)
	}
}
