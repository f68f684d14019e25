package activity

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/ledger/refusal"
	"sluice/internal/ledger/usage"
)

// memory is a store of settled and refused calls in memory.
type memory struct {
	calls   []usage.Settlement // oldest first
	refused []refusal.Call     // oldest first
}

func (m *memory) Calls(_ context.Context, q usage.CallQuery) (page usage.CallPage, err error) {
	looked := 0
	for i := len(m.calls) - 1; i >= 0; i-- {
		c := m.calls[i]
		if c.AccountID != q.AccountID || c.At.Before(q.From) || !(cursor{q.Before.At, q.Before.ID}).before(c.At, c.ID) {
			continue
		}
		looked++
		if kind := usage.KindOf(&c); q.Wants(&kind) {
			page.Calls = append(page.Calls, c)
		}
		if len(page.Calls) == q.Limit || looked == q.Look {
			page.Next = &usage.Point{At: c.At, ID: c.ID}
			break
		}
	}
	return page, nil
}

func (m *memory) Cells(_ context.Context, q usage.CellQuery) (out []usage.Cell, err error) {
	type place struct {
		start time.Time
		usage.Kind
	}
	at := map[place]int{}
	for i := range m.calls {
		c := &m.calls[i]
		if kind := usage.KindOf(c); c.AccountID == q.AccountID && !c.At.Before(q.From) && (q.To.IsZero() || c.At.Truncate(q.Step).Before(q.To)) && q.Wants(&kind) {
			key := place{c.At.Truncate(q.Step), kind}
			n, ok := at[key]
			if !ok {
				n = len(out)
				at[key], out = n, append(out, usage.Cell{Start: key.start, Kind: kind})
			}
			out[n].Add(c)
		}
	}
	return out, nil
}

func (m *memory) CellsSince(_ context.Context, _ string, step time.Duration) (time.Time, error) {
	if len(m.calls) == 0 {
		return time.Time{}, nil
	}
	return m.calls[0].At.Truncate(step), nil
}

func (m *memory) KeyNames(context.Context, string, int) ([]usage.KeyName, error) {
	return []usage.KeyName{{ID: "k1", Name: "laptop"}, {ID: "k2", Name: "ci", Deleted: true}, {ID: "k3", Master: true}, {ID: "k4", Master: true, Deleted: true}}, nil
}

func (m *memory) Requests(_ context.Context, id string, _ int) (out []usage.Settlement, err error) {
	for _, c := range m.calls {
		if c.ID == id {
			out = append(out, c)
		}
	}
	return out, nil
}

func (m *memory) RefusalsOf(_ context.Context, id string, _ int) (out []refusal.Call, err error) {
	for _, c := range m.refused {
		if c.ID == id {
			out = append(out, c)
		}
	}
	return out, nil
}

func (m *memory) Refusals(_ context.Context, accountID string, before refusal.Point, limit int) (out []refusal.Call, err error) {
	for i := len(m.refused) - 1; i >= 0 && len(out) < limit; i-- {
		if c := m.refused[i]; c.AccountID == accountID && (cursor{before.At, before.ID}).before(c.At, c.ID) {
			out = append(out, c)
		}
	}
	return out, nil
}

func (m *memory) RefusedMinutes(_ context.Context, accountID string, from time.Time, span time.Duration) (out []refusal.Minute, err error) {
	for _, c := range m.refused {
		if c.AccountID == accountID && !c.At.Before(from) {
			out = append(out, refusal.Minute{AccountID: accountID, Start: c.At.Truncate(span), Status: c.Status, Calls: 1})
		}
	}
	return out, nil
}

var now = time.Date(2026, 3, 4, 10, 30, 30, 0, time.UTC)

// filled returns a store with n calls, the last of them now, each so long after the one before; every fifth is refused.
func filled(n int, each time.Duration) *memory {
	m := &memory{}
	for i := range n {
		at := now.Add(-time.Duration(n-1-i) * each)
		id := fmt.Sprintf("%05d", i)
		if i%5 == 4 {
			m.refused = append(m.refused, refusal.Call{ID: id, At: at, AccountID: "a", KeyID: fmt.Sprint("k", i%3), Status: []int{400, 429}[i%2], Model: "auto"})
			continue
		}
		s := usage.Settlement{
			ID: id, At: at, AccountID: "a", KeyID: fmt.Sprint("k", i%3), ModelAsked: "auto", ModelUsed: fmt.Sprint("m", i%2), Status: 200, End: usage.EndComplete,
			Latency: time.Duration(i+1) * time.Millisecond, FirstToken: time.Millisecond,
		}
		if i%10 == 3 {
			s.Status, s.End = 503, usage.EndFailed
		}
		m.calls = append(m.calls, s)
	}
	return m
}

func query(name string) Query {
	r, _ := RangeOf(name)
	return Query{AccountID: "a", Now: now, Range: r}
}

// Pages of any size have every call once, newest first, settled or refused, whatever is filtered.
func TestRequests(t *testing.T) {
	t.Parallel()
	m := filled(200, 20*time.Second)
	// What an upstream refused is in both lists.
	both := m.calls[100]
	m.refused = append(m.refused, refusal.Call{ID: both.ID, At: both.At, AccountID: "a", Status: 400, KeyID: both.KeyID, Model: "auto"})
	slices.SortFunc(m.refused, func(a, b refusal.Call) int { return a.At.Compare(b.At) })
	l := New(m, m, nil)
	for _, narrow := range []Query{{}, {KeyID: "k1"}, {Model: "auto"}, {Model: "m1"}, {Outcome: Errors}, {Outcome: Completed}, {Outcome: Refused}, {KeyID: "k2", Outcome: Errors}} {
		q := query("1h")
		q.KeyID, q.Model, q.Outcome = narrow.KeyID, narrow.Model, narrow.Outcome
		n := q.narrow()
		var want []string
		for i := range 200 {
			id := fmt.Sprintf("%05d", 199-i)
			for k := range m.calls {
				if c := &m.calls[k]; c.ID == id && q.Outcome != Refused && !c.At.Before(q.Range.From(now)) {
					if kind := usage.KindOf(c); n.Wants(&kind) {
						want = append(want, id)
					}
				}
			}
			for k := range m.refused {
				if c := &m.refused[k]; c.ID == id && !c.At.Before(q.Range.From(now)) && q.wants(c) && !slices.Contains(want, id) {
					want = append(want, id)
				}
			}
		}
		for _, size := range []int{1, 7, 200} {
			var got []string
			for next := ""; ; {
				page, err := l.Requests(t.Context(), q, next, size)
				if err != nil || len(page.Entries) > size {
					t.Fatalf("Requests(%+v, %q, %d) = %d entries, %v", q, next, size, len(page.Entries), err)
				}
				for i := range page.Entries {
					got = append(got, page.Entries[i].ID())
				}
				if next = page.Next; next == "" {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("Requests(%+v) by %d =\n%v, want\n%v", narrow, size, got, want)
			}
		}
	}
}

// A rare call is found although only some calls are looked at at once.
func TestRequestsFarBack(t *testing.T) {
	t.Parallel()
	m := filled(20_000, 10*time.Second)
	m.calls[20].KeyID = "rare"
	l := New(m, m, nil)
	q := query("7d")
	q.KeyID, q.Outcome = "rare", Completed
	page, err := l.Requests(t.Context(), q, "", 10)
	if err != nil || len(page.Entries) != 1 || page.Entries[0].ID() != m.calls[20].ID {
		t.Errorf("Requests = %+v, %v, want the rare call at once", page, err)
	}
	q.KeyID = "nobody's"
	for next, n := "", 0; ; n++ {
		page, err := l.Requests(t.Context(), q, next, 10)
		if err != nil || len(page.Entries) != 0 || n > 3 {
			t.Fatalf("page %d of no calls = %+v, %v", n, page, err)
		}
		if next = page.Next; next == "" {
			break
		}
	}
}

func TestCursor(t *testing.T) {
	t.Parallel()
	l := New(&memory{}, &memory{}, nil)
	for _, text := range []string{"x", "1", "1.", ".a", "-1.a", "99999999999999999999.a", "1" + string(make([]byte, 200))} {
		if _, err := l.Requests(t.Context(), query("1h"), text, 10); !fault.Is(err, fault.Invalid) {
			t.Errorf("Requests from %q = %v, want an invalid cursor", text, err)
		}
	}
}

// Steps, series and rows of a report all add up to its total, whatever they are grouped by.
func TestReport(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"1h", "6h", "24h", "7d", "30d"} {
		for _, by := range []By{ByModel, ByKey, ByStatus, ByEnd} {
			r, _ := RangeOf(name)
			m := filled(300, r.Step/7)
			l := New(m, m, nil)
			report, err := l.Report(t.Context(), query(name), by)
			if err != nil {
				t.Fatal(err)
			}
			want, refused := int64(0), int64(0)
			for i := range m.calls {
				if !m.calls[i].At.Before(report.From) {
					want++
				}
			}
			for i := range m.refused {
				if at := m.refused[i].At; !at.Before(report.From) && !at.Before(report.RefusedSince) {
					refused++
				}
			}
			steps, series, models, keys := int64(0), int64(0), int64(0), int64(0)
			for i := range report.Steps {
				steps += report.Steps[i].Calls
			}
			for _, s := range report.Series {
				if !s.Refused {
					series += s.Total.Calls
				}
			}
			for i := range report.Models {
				models += report.Models[i].Calls
			}
			for i := range report.Keys {
				keys += report.Keys[i].Calls
			}
			if len(report.Steps) != r.N || report.Total.Calls != want || steps != want || series != want || models != want || keys != want || report.Refused != refused {
				t.Errorf("%s by %s: %d steps, total %d, steps %d, series %d, models %d, keys %d, refused %d; want %d calls and %d refused", name, by, len(report.Steps), report.Total.Calls, steps, series, models, keys, report.Refused, want, refused)
			}
			if !slices.Equal(report.Asked, []string{"auto"}) {
				t.Errorf("Asked = %v", report.Asked)
			}
		}
	}
}

// Of few calls the percentiles are those of the calls, and of none there are none.
func TestReportTimes(t *testing.T) {
	t.Parallel()
	m := &memory{}
	for i := range 20 {
		m.calls = append(m.calls, usage.Settlement{ID: fmt.Sprint(i), At: now.Add(-2 * time.Hour), AccountID: "a", End: usage.EndComplete, Latency: time.Duration(i+1) * 111 * time.Millisecond})
	}
	l := New(m, m, nil)
	report, err := l.Report(t.Context(), query("24h"), ByModel)
	if want := (Times{Known: true, P50: 1110, P95: 2109}); err != nil || report.Times != want {
		t.Errorf("Times = %+v, %v, want %+v", report.Times, err, want)
	}
	for i := range report.Steps {
		if s := &report.Steps[i]; s.Times.Known != (s.Calls > 0) {
			t.Errorf("step %d with %d calls has times %+v", i, s.Calls, s.Times)
		}
	}
}

// Too many calls for steps of minutes are shown by hour, or only the last of them.
func TestReportOfMany(t *testing.T) {
	t.Parallel()
	m := filled(9000, 2*time.Second)
	l := New(m, m, nil)
	report, err := l.Report(t.Context(), query("6h"), ByModel)
	if err != nil || report.Step != time.Hour || len(report.Steps) != 6 || report.Total.Calls != 7200 {
		t.Errorf("six hours: steps of %s, %d of them, %d calls, %v; want 6 hours and 7200", report.Step, len(report.Steps), report.Total.Calls, err)
	}
	m = filled(9000, time.Second/2)
	l = New(m, m, nil)
	report, err = l.Report(t.Context(), query("1h"), ByModel)
	if err != nil || report.Since.IsZero() || report.Total.Calls != maxRead {
		t.Errorf("an hour: %d calls since %s, %v; want %d", report.Total.Calls, report.Since, err, maxRead)
	}
}

func TestBetween(t *testing.T) {
	t.Parallel()
	at := func(back time.Duration) time.Time { return now.Add(-back) }
	for _, tt := range []struct {
		from, until time.Time
		step        time.Duration
		n           int
		first, end  time.Time
	}{
		{at(time.Minute), now, time.Minute, 2, now.Truncate(time.Minute).Add(-time.Minute), now.Truncate(time.Minute).Add(time.Minute)},
		{at(3 * time.Hour), now, 10 * time.Minute, 19, at(3 * time.Hour).Truncate(10 * time.Minute), now.Truncate(10 * time.Minute).Add(10 * time.Minute)},
		{at(48 * time.Hour), at(24 * time.Hour), time.Hour, 25, at(48 * time.Hour).Truncate(time.Hour), at(24 * time.Hour).Truncate(time.Hour).Add(time.Hour)},
		{at(10 * day), now, 6 * time.Hour, 41, at(10 * day).Truncate(6 * time.Hour), now.Truncate(6 * time.Hour).Add(6 * time.Hour)},
		{at(61 * day), now.Add(time.Hour), day, 62, at(61 * day).Truncate(day), now.Truncate(day).Add(day)},
	} {
		r, ok := Between(tt.from, tt.until, now)
		if !ok || r.Step != tt.step || r.N != tt.n || !r.From(now).Equal(tt.first) || !r.Until.Equal(tt.end) {
			t.Errorf("Between(%s, %s) = %d steps of %s from %s until %s, %t; want %d of %s from %s until %s", tt.from, tt.until, r.N, r.Step, r.From(now), r.Until, ok, tt.n, tt.step, tt.first, tt.end)
		}
	}
	for _, tt := range [][2]time.Time{{now, now}, {now, at(time.Hour)}, {now.Add(time.Hour), now.Add(2 * time.Hour)}, {at(63 * day), now}} {
		if r, ok := Between(tt[0], tt[1], now); ok {
			t.Errorf("Between(%s, %s) = %+v, want none", tt[0], tt[1], r)
		}
	}
}

// A range that was chosen by its ends has its calls and no others, whichever way they are counted.
func TestReportBetween(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		n           int
		each        time.Duration
		from, until time.Duration // before now
		step        time.Duration
	}{
		{2000, time.Minute, 90 * time.Minute, 60 * time.Minute, time.Minute},
		{2000, time.Minute, 8 * time.Hour, 5 * time.Hour, 10 * time.Minute},
		{9000, 5 * time.Second, 8 * time.Hour, 5 * time.Hour, time.Hour}, // too many for steps of minutes
		{2000, 10 * time.Minute, 5 * day, 4 * day, time.Hour},
		{9000, 10 * time.Minute, 50 * day, 45 * day, 6 * time.Hour}, // hours are no longer kept, but there are few calls
		{90_000, time.Minute, 50 * day, 45 * day, day},
	} {
		m := filled(tt.n, tt.each)
		r, ok := Between(now.Add(-tt.from), now.Add(-tt.until), now)
		if !ok {
			t.Fatalf("Between = %t", ok)
		}
		q := Query{AccountID: "a", Now: now, Range: r}
		report, err := New(m, m, nil).Report(t.Context(), q, ByModel)
		if err != nil {
			t.Fatal(err)
		}
		end := report.Steps[len(report.Steps)-1].Start.Add(report.Step)
		want, got := int64(0), int64(0)
		for i := range m.calls {
			if at := m.calls[i].At; !at.Before(report.From) && at.Before(end) {
				want++
			}
		}
		for i := range report.Steps {
			got += report.Steps[i].Calls
		}
		if report.Step != tt.step || report.Total.Calls != want || got != want || report.From.After(now.Add(-tt.from)) || end.Before(now.Add(-tt.until)) {
			t.Errorf("from %s to %s before now: %d steps of %s from %s to %s, %d calls, %d in steps; want steps of %s and %d calls", tt.from, tt.until, len(report.Steps), report.Step, report.From, end, report.Total.Calls, got, tt.step, want)
		}
	}
}

// The period before is as long, and ends where this one begins. It is not shown if some of it is no longer kept.
func TestEarlier(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"1h", "6h", "24h", "7d"} {
		q := query(name)
		m := filled(1000, q.Range.Step/7) // about 143 steps
		l := New(m, m, nil)
		got, err := l.Earlier(t.Context(), q, ByModel)
		if err != nil || got == nil {
			t.Fatalf("Earlier(%s) = %v, %v", name, got, err)
		}
		span, end := time.Duration(q.Range.N)*q.Range.Step, q.Range.From(now)
		want := int64(0)
		for i := range m.calls {
			if at := m.calls[i].At; !at.Before(end.Add(-span)) && at.Before(end) {
				want++
			}
		}
		if got.Total.Calls != want || want == 0 || !got.From.Equal(end.Add(-span)) {
			t.Errorf("Earlier(%s) = %d calls from %s, want %d from %s", name, got.Total.Calls, got.From, want, end.Add(-span))
		}
		m = filled(q.Range.N+q.Range.N/2, q.Range.Step) // reaches back into the middle of the period
		if got, err := New(m, m, nil).Earlier(t.Context(), q, ByModel); name != "1h" && (got != nil || err != nil) {
			t.Errorf("Earlier(%s) of a period that is not kept = %+v, %v, want none", name, got, err)
		}
	}
}

// Calls of a session, or with a tag, are found among many others, in the list and in the report.
func TestSessionsAndTags(t *testing.T) {
	t.Parallel()
	m := filled(1500, 2*time.Second)
	want := 0
	for i := range m.calls {
		if i%100 == 0 {
			m.calls[i].Trace, m.calls[i].Terms.Tags = &usage.Trace{Session: "s"}, []string{"team=a", "env=b"}
			want++
		}
	}
	l := New(m, m, nil)
	for _, narrow := range []Query{{Session: "s"}, {Tag: "env=b"}, {Session: "s", Tag: "team=a"}} {
		q := query("24h")
		q.Session, q.Tag = narrow.Session, narrow.Tag
		got := 0
		for next, pages := "", 0; ; pages++ {
			page, err := l.Requests(t.Context(), q, next, 5)
			if err != nil || pages > 20 {
				t.Fatalf("page %d: %v", pages, err)
			}
			for i := range page.Entries {
				if c := page.Entries[i].Call; c == nil || c.Session() != "s" {
					t.Errorf("the list has %+v", page.Entries[i])
				}
				got++
			}
			if next = page.Next; next == "" {
				break
			}
		}
		report, err := l.Report(t.Context(), q, ByModel)
		if err != nil || got != want || report.Total.Calls != int64(want) || report.Refused != 0 {
			t.Errorf("%+v: %d calls in the list, %d in the report, %d refused, %v; want %d", narrow, got, report.Total.Calls, report.Refused, err, want)
		}
	}
	q := query("24h")
	q.Session = "another"
	if page, err := l.Requests(t.Context(), q, "", 5); err != nil || len(page.Entries) != 0 {
		t.Errorf("calls of no session = %+v, %v", page, err)
	}
}

// A call is found when it ends, not when it begins.
func TestEnded(t *testing.T) {
	t.Parallel()
	m := &memory{refused: []refusal.Call{
		{ID: "old", At: now.Add(-time.Minute), AccountID: "a", Status: 429}, {ID: "refused", At: now.Add(-4 * time.Second), AccountID: "a", Status: 429},
	}}
	for id, took := range map[string]time.Duration{"long": 5 * time.Minute, "longer": 20 * time.Minute, "short": time.Second} {
		m.calls = append(m.calls, usage.Settlement{ID: id, At: now.Add(-time.Second - took), Latency: took, AccountID: "a", End: usage.EndComplete})
	}
	m.calls = append(m.calls, usage.Settlement{ID: "ended", At: now.Add(-time.Minute), Latency: time.Second, AccountID: "a", End: usage.EndComplete})
	slices.SortFunc(m.calls, func(a, b usage.Settlement) int { return a.At.Compare(b.At) })
	list, more, err := New(m, m, nil).Ended(t.Context(), query("1h"), now.Add(-10*time.Second), 10)
	var got []string
	for i := range list {
		got = append(got, list[i].ID())
	}
	// The longest began too long ago to be looked at.
	if want := []string{"short", "refused", "long"}; err != nil || more || !slices.Equal(got, want) {
		t.Errorf("Ended = %v, %t, %v, want %v, and no more", got, more, err, want)
	}
	if list, more, err := New(m, m, nil).Ended(t.Context(), query("1h"), now.Add(-10*time.Second), 1); err != nil || !more || len(list) != 1 || list[0].ID() != "short" {
		t.Errorf("Ended with room for one = %+v, %t, %v, want the newest of several", list, more, err)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	m := &memory{}
	names, err := New(m, m, nil).Names(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{"k1": "laptop", "k2": "ci (deleted)", "k3": "Master key", "k4": "Master key (replaced)", PageKey: "Dashboard", "k9": "Deleted key"} {
		if got := names.Of(id); got != want {
			t.Errorf("the name of %s = %q, want %q", id, got, want)
		}
	}
}

// One account cannot look at the calls of another.
func TestRequest(t *testing.T) {
	t.Parallel()
	m := filled(10, time.Second)
	l := New(m, m, nil)
	for _, id := range []string{"00000", "00004"} {
		if e, err := l.Request(t.Context(), "a", id); err != nil || e.ID() != id {
			t.Errorf("Request(%s) = %+v, %v", id, e, err)
		}
		if _, err := l.Request(t.Context(), "b", id); !fault.Is(err, fault.NotFound) {
			t.Errorf("Request(%s) of another account = %v, want nothing found", id, err)
		}
	}
}

func TestFailure(t *testing.T) {
	t.Parallel()
	requestTrace := func(outcome string, status int) *usage.Trace {
		return &usage.Trace{Attempts: []usage.Attempt{{Outcome: outcome, Status: status}}}
	}
	for _, tt := range []struct {
		e          Entry
		kind, text string
	}{
		{Entry{Call: &usage.Settlement{End: usage.EndComplete, Status: 200}}, "", ""},
		{Entry{Call: &usage.Settlement{End: usage.EndFailed, Status: 503, Trace: requestTrace("late", 0)}}, "service_unavailable", "The model's provider did not begin to answer in time."},
		{Entry{Call: &usage.Settlement{End: usage.EndFailed, Status: 400, Trace: requestTrace("refused", 422)}}, "invalid_request_error", "The model's provider refused the request with status 422."},
		{Entry{Refused: &refusal.Call{Status: 429, Kind: "rate_limit_error", Message: "Wait."}}, "rate_limit_error", "Wait."},
	} {
		if kind, text := tt.e.Failure(); kind != tt.kind || text != tt.text {
			t.Errorf("Failure = %q, %q, want %q, %q", kind, text, tt.kind, tt.text)
		}
	}
}

// A week is drawn by six hours, and by days if there are many kinds of calls: reading their hours would take too long.
func TestReportByDays(t *testing.T) {
	t.Parallel()
	for kinds, want := range map[int]time.Duration{1: 6 * time.Hour, 40: 24 * time.Hour} {
		m := filled(2000, 5*time.Minute)
		for i := range m.calls {
			m.calls[i].KeyID = fmt.Sprint("key_", i%kinds)
			m.calls[i].ModelAsked, m.calls[i].ModelUsed, m.calls[i].Status, m.calls[i].End = "m", "m", 200, usage.EndComplete
		}
		report, err := New(m, m, nil).Report(t.Context(), query("7d"), ByKey)
		if err != nil {
			t.Fatal(err)
		}
		calls := int64(0)
		for i := range report.Steps {
			calls += report.Steps[i].Calls
		}
		inside := int64(0)
		for i := range m.calls {
			if !m.calls[i].At.Before(report.From) {
				inside++
			}
		}
		if report.Step != want || time.Duration(len(report.Steps))*want != 7*24*time.Hour || calls != inside || report.Total.Calls != inside {
			t.Errorf("a week of %d kinds has %d steps of %v with %d calls, want steps of %v with %d", kinds, len(report.Steps), report.Step, calls, want, inside)
		}
	}
}
