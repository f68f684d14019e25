package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/operate/overview"
	"sluice/internal/store/sqlstore/alltest"
)

// healthDays checks that what is added to a day is added to what was there, that the time is remembered, and that old
// days go.
func healthDays(t *testing.T, open func() *alltest.Store) {
	s, ctx := open(), t.Context()
	model, upstream := overview.Subject{Kind: overview.ModelKind, Name: "a/b"}, overview.Subject{Kind: overview.UpstreamKind, Name: "a/b"}
	var seen []time.Time
	add := func(before int64, to time.Time, days ...overview.HealthDay) {
		must(t, s.AddDays(ctx, before, func(from time.Time) ([]overview.HealthDay, time.Time) {
			seen = append(seen, from)
			return days, to
		}))
	}
	day := func(subject overview.Subject, day, calls int64) overview.HealthDay {
		return overview.HealthDay{Subject: subject, Day: day, Span: overview.Span{Calls: calls, Took: overview.Times{0, calls}, Looks: 1}}
	}
	add(0, base, day(model, 7, 1), day(model, 8, 2), day(upstream, 8, 5))
	add(0, base.Add(time.Minute), day(model, 8, 3))
	read := func(from int64) map[overview.Subject]map[int64]overview.Span {
		got := map[overview.Subject]map[int64]overview.Span{}
		added, err := s.Days(ctx, from, func(d overview.HealthDay) {
			if got[d.Subject] == nil {
				got[d.Subject] = map[int64]overview.Span{}
			}
			got[d.Subject][d.Day] = d.Span
		})
		must(t, err)
		if !added.Equal(base.Truncate(time.Second).Add(time.Minute)) {
			t.Errorf("Days = %v, want a minute after %v", added, base)
		}
		return got
	}
	both := overview.Span{Calls: 5, Took: overview.Times{0, 5}, Looks: 2}
	want := map[overview.Subject]map[int64]overview.Span{
		model:    {7: day(model, 7, 1).Span, 8: both},
		upstream: {8: day(upstream, 8, 5).Span},
	}
	if diff := cmp.Diff(want, read(7)); diff != "" {
		t.Errorf("Days from 7: -want +got\n%s", diff)
	}
	if len(seen) != 2 || seen[0].Unix() != 0 || seen[1].Unix() != base.Unix() {
		t.Errorf("AddDays began at %v, want at the beginning and at %v", seen, base)
	}
	add(8, base.Add(time.Minute))
	delete(want[model], 7)
	if diff := cmp.Diff(want, read(0)); diff != "" {
		t.Errorf("Days after the first was deleted: -want +got\n%s", diff)
	}
}
