package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"sluice/internal/account"
	runs "sluice/internal/ledger/session"
	"sluice/internal/ledger/usage"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/store/sqlstore/calls"
)

// inSession returns a settlement of a session.
func inSession(n int, at time.Time, key, model, name string) usage.Settlement {
	s := newSettlement(n, at, key, model)
	s.Trace = &usage.Trace{Session: name}
	return s
}

// sessionSums checks that calls are added to their session once, whatever the order of batches, and that sessions are listed newest
// first and dropped 90 days after their last call.
func sessionSums(t *testing.T, open func() *alltest.Store) {
	s, ctx := open(), t.Context()
	first := inSession(0, base, "key_a", "m1", "one")
	second := inSession(1, base.Add(time.Minute), "key_b", "m2", "one")
	second.End, second.Status = usage.EndFailed, 503
	third := inSession(2, base.Add(2*time.Minute), "key_a", "m1", "one")
	other := inSession(3, base.Add(time.Hour), "key_a", "m1", "two")
	record(t, s, third, newSettlement(9, base, "key_a", "m1"))
	record(t, s, first, second, other)
	record(t, s, first, second, third, other) // a journal that is replayed
	one, err := s.SessionSum(ctx, "acct_1", "one")
	must(t, err)
	want := runs.Sums{}
	for _, r := range []*usage.Settlement{&first, &second, &third} {
		want.Add(r)
	}
	if one == nil || one.Sums != want || !one.First.Equal(base) || !one.Last.Equal(base.Add(2*time.Minute+100*time.Millisecond)) || one.KeyID != "key_a" || !slices.Equal(one.Models, []string{"m1", "m2"}) {
		t.Errorf("SessionSum = %+v, want %+v of models m1 and m2, by key_a", one, want)
	}
	if want.Calls != 3 || want.Failed != 1 || want.Cost != 2*42_007 || want.Margin != 6 || want.Cached != 15 {
		t.Errorf("the calls add up to %+v", want)
	}
	// A call that ended last decides whose the session is.
	record(t, s, inSession(4, base.Add(3*time.Minute), "key_b", "m1", "one"))
	if one, err = s.SessionSum(ctx, "acct_1", "one"); err != nil || one.KeyID != "key_b" {
		t.Errorf("SessionSum = %+v, %v, want key_b", one, err)
	}
	if none, err := s.SessionSum(ctx, "acct_2", "one"); none != nil || err != nil {
		t.Errorf("SessionSum of another account = %+v, %v", none, err)
	}
	// Models are listed as long as there is room.
	for i := range 40 {
		record(t, s, inSession(100+i, base, "key_c", fmt.Sprintf("vendor/a-model-with-a-long-name-%02d", i), "three"), inSession(200+i, base, "key_c", "m", "three"))
	}
	three, err := s.SessionSum(ctx, "acct_1", "three")
	must(t, err)
	if len(three.Models) < 10 || len(three.Models) > 15 || three.Calls != 80 || !slices.Contains(three.Models, "m") {
		t.Errorf("a session of 41 models lists %d after %d calls", len(three.Models), three.Calls)
	}
	listed := func(q runs.Query) (ids []string) {
		list, err := s.SessionSums(ctx, q)
		must(t, err)
		for _, s := range list {
			ids = append(ids, s.ID)
		}
		return ids
	}
	for _, tt := range []struct {
		q    runs.Query
		want []string
	}{
		{runs.Query{AccountID: "acct_1", Limit: 10}, []string{"two", "one", "three"}},
		{runs.Query{AccountID: "acct_1", Limit: 1}, []string{"two"}},
		{runs.Query{AccountID: "acct_1", Limit: 10, Before: other.At.Add(other.Latency), BeforeID: "two"}, []string{"one", "three"}},
		{runs.Query{AccountID: "acct_1", Limit: 10, KeyID: "key_b"}, []string{"one"}},
		{runs.Query{AccountID: "acct_1", Limit: 10, KeyID: "key_c", Before: base.Add(time.Hour), BeforeID: "x"}, []string{"three"}},
		{runs.Query{AccountID: "acct_2", Limit: 10}, nil},
	} {
		if got := listed(tt.q); !slices.Equal(got, tt.want) {
			t.Errorf("SessionSums(%+v) = %q, want %q", tt.q, got, tt.want)
		}
	}
	for _, e := range calls.New(s.Kernel()).Expiring() {
		if e.What == "sessions of callers" {
			n, err := e.Drop(ctx, base.Add(runs.Keep+30*time.Minute), 10)
			if left := listed(runs.Query{AccountID: "acct_1", Limit: 10}); err != nil || n != 2 || !slices.Equal(left, []string{"two"}) {
				t.Errorf("Drop = %d, %v, and %q is left, want two", n, err, left)
			}
		}
	}
}

// tagSums checks that calls are added to each of their tags once, that there is a bound, and that corrections reach both sums.
func tagSums(t *testing.T, open func() *alltest.Store) {
	s, ctx := open(), t.Context()
	call := func(n int, at time.Time, tags ...string) usage.Settlement {
		r := inSession(n, at, "key", "m", "tagged")
		r.Terms.Tags = tags
		return r
	}
	both, one := call(0, base, "team=search", "env=prod"), call(2, base.Add(24*time.Hour), "team=search")
	record(t, s, both)
	record(t, s, both, one, newSettlement(5, base, "key", "m"))
	days, err := s.TagDays(ctx, "acct_1", usage.DayOf(base))
	must(t, err)
	var got []string
	for _, d := range days {
		got = append(got, fmt.Sprint(d.Day.Format("02"), " ", d.Tag, " ", d.Calls, " ", d.Prompt, " ", int64(d.Cost+d.Margin)))
	}
	prompt := both.Tokens.PromptTotal()
	want := []string{fmt.Sprint("01 env=prod 1 ", prompt, " 42010"), fmt.Sprint("01 team=search 1 ", prompt, " 42010"), fmt.Sprint("02 team=search 1 ", prompt, " 42010")}
	if !slices.Equal(got, want) {
		t.Errorf("TagDays = %q, want %q", got, want)
	}
	if late, err := s.TagDays(ctx, "acct_1", usage.DayOf(base).Add(24*time.Hour)); err != nil || len(late) != 1 {
		t.Errorf("TagDays since the second day = %+v, %v", late, err)
	}

	// A thousand tags are kept. Calls with others count for one more, once for each call.
	var batch []usage.Settlement
	for i := range runs.MaxTags + 20 {
		batch = append(batch, call(1000+i, base, fmt.Sprint("n=", i), fmt.Sprint("m=", i)))
	}
	record(t, s, batch[:600]...)
	record(t, s, batch[600:]...)
	days, err = s.TagDays(ctx, "acct_1", usage.DayOf(base))
	must(t, err)
	days = slices.DeleteFunc(days, func(d runs.TagDay) bool { return !d.Day.Equal(usage.DayOf(base)) })
	other := slices.IndexFunc(days, func(d runs.TagDay) bool { return d.Tag == runs.OtherTag })
	if len(days) != runs.MaxTags || other < 0 || days[other].Calls < 515 || days[other].Calls > 525 {
		t.Fatalf("%d tags of a day, the others at %d; want %d", len(days), other, runs.MaxTags)
	}
	// A tag that is counted by name goes on to be, also when there is no room for others.
	record(t, s, call(5000, base, "team=search", "late=1"))

	before, _ := s.SessionSum(ctx, "acct_1", "tagged")
	fix := usage.Fix{Call: &batch[len(batch)-1], Correction: usage.Correction{Number: 1, Cost: 5, Margin: 2, MadeAt: base}}
	named := usage.Fix{Call: &one, Correction: usage.Correction{Number: 1, Cost: 50, MadeAt: base}}
	must(t, s.Correct(ctx, []usage.Fix{fix, named}))
	after, err := s.TagDays(ctx, "acct_1", usage.DayOf(base))
	must(t, err)
	sums := map[string]runs.Sums{}
	for _, d := range after {
		sums[d.Day.Format("02 ")+d.Tag] = d.Sums
	}
	if got := sums["01 team=search"]; got.Calls != 2 {
		t.Errorf("team=search = %+v, want two calls", got)
	}
	if got, want := sums["01 "+runs.OtherTag], days[other].Sums; got.Calls != want.Calls+1 || got.Cost != want.Cost+42_007+5 || got.Margin != want.Margin+3+2 {
		t.Errorf("the other tags = %+v, want %+v, one call and the correction once", got, want)
	}
	if got := sums["02 team=search"]; got.Cost != 42_057 {
		t.Errorf("a corrected call = %+v", got)
	}
	tagged, err := s.SessionSum(ctx, "acct_1", "tagged")
	if err != nil || tagged.Cost != before.Cost+55 || tagged.Margin != before.Margin+2 {
		t.Errorf("the session after corrections = %+v, %v; before %+v", tagged, err, before)
	}
}

// keyTags checks that the tags of a key are stored, changed and removed.
func keyTags(t *testing.T, open func() *alltest.Store) {
	s, ctx := open(), t.Context()
	a := create(t, s, 1)
	as := account.New(s, nil)
	k, _, err := as.CreateKey(ctx, "tester", a.ID, "tagged", nil, "team=search", "env=prod")
	must(t, err)
	for _, tags := range [][]string{nil, {"team=ads"}, {}} {
		if tags != nil {
			_, err := as.SetKey(ctx, "tester", k.ID, nil, &tags)
			must(t, err)
		} else {
			tags = []string{"env=prod", "team=search"}
		}
		if got := find(t, open(), a.ID).Key(k.ID).Tags; !slices.Equal(got, tags) {
			t.Errorf("Tags = %q, want %q", got, tags)
		}
	}
}
