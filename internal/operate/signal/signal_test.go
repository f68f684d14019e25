package signal

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/usage"
)

var now = time.Date(2026, 3, 20, 12, 30, 0, 0, time.UTC)

// hours returns sums by hour up to now, of as many hours back as there are figures, the newest first.
func hours(requests ...int64) (rows []usage.Row) {
	for i, n := range slices.Backward(requests) {
		if n > 0 {
			rows = append(rows, usage.Row{Slot: usage.Slot{Start: usage.HourOf(now).Add(-time.Duration(i) * time.Hour)}, Sums: usage.Sums{Requests: n, RequestMilli: 1000 * n, Prompt: 10 * n}})
		}
	}
	return rows
}

// each returns n hours with as many requests.
func each(n int, requests int64) []int64 { return slices.Repeat([]int64{requests}, n) }

// calls returns calls with a key at intervals that differ by up to a part of the interval, from a number of networks.
func calls(n int, every time.Duration, jitter float64, networks int) (list []Call) {
	draw := rand.New(rand.NewPCG(1, 2))
	at := now
	for i := range n {
		at = at.Add(-time.Duration(float64(every) * (1 + jitter*(2*draw.Float64()-1))))
		list = append(list, Call{At: at, KeyID: "key_1", Address: fmt.Sprintf("192.0.%d.%d", i%networks, 1+i%200)})
	}
	return list
}

func TestRead(t *testing.T) {
	t.Parallel()
	limits := account.Limits{RequestsPerMinute: 10, TokensPerMinute: 10_000}
	for _, tt := range []struct {
		name  string
		hours []usage.Row
		calls []Call
		want  string // kinds, or part of the text
	}{
		{"nothing", nil, nil, ""},
		{"the same every day", hours(each(192, 100)...), calls(500, 5*time.Second, 0.9, 3), ""},
		{"more than before", hours(append(each(24, 200), each(168, 50)...)...), nil, ""},
		{"much more than before", hours(append(each(24, 300), each(168, 50)...)...), nil, "7200 requests in the last 24 hours, 6 times the daily average before that (1204)."},
		{"much more, but little", hours(append(each(24, 20), each(168, 1)...)...), nil, ""},
		{"from nothing", hours(each(24, 100)...), nil, "2400 requests in the last 24 hours, after a week without any."},
		{"a young account", hours(append(each(24, 100), each(24, 90)...)...), nil, ""},
		{"the limit for three hours", hours(append(append(each(3, 600), 10), each(180, 400)...)...), nil, ""},
		{"the limit for five hours", hours(append(append(append([]int64{5}, each(5, 500)...), 10), each(180, 400)...)...), nil, "5 hours in a row with at least 80% of the 10 requests per minute"},
		{"few networks", nil, calls(200, time.Minute, 0.9, 9), ""},
		{"many networks", nil, calls(200, time.Minute, 0.9, 12), "One key was used from 12 networks within 24 hours."},
		{"even", nil, calls(200, time.Minute, 0.04, 1), "200 calls with one key, one every 1m0s"},
		{"even, but few", nil, calls(99, time.Minute, 0, 1), ""},
		{"even, but busy", nil, calls(500, 200*time.Millisecond, 0.01, 1), ""},
		{"nearly even", nil, calls(200, time.Minute, 0.5, 1), ""},
	} {
		r := Read(tt.hours, tt.calls, limits, now)
		var texts []string
		for _, reason := range r.Reasons {
			texts = append(texts, reason.Text)
		}
		if got := strings.Join(texts, " "); !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
			t.Errorf("%s: the reasons are %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	list := []Call{
		{At: now, KeyID: "key_1", Address: "192.0.2.1"},
		{At: now.Add(-2 * time.Second), KeyID: "key_1", Address: "192.0.2.77"},
		{At: now.Add(-time.Second), KeyID: "key_2", Address: "192.0.2.1"},
		{At: now.Add(-time.Hour), KeyID: "key_2", Address: "2001:db8:1:2::1"},
		{At: now.Add(-2 * time.Hour), KeyID: "key_2"},
	}
	r := Read(nil, list, account.Limits{RequestsPerMinute: account.Unlimited}, now)
	if got := fmt.Sprint(r.Calls, r.Reasons, r.Networks); got != "5 [] [{192.0.2.0/24 3 2} {2001:db8:1::/48 1 1}]" {
		t.Errorf("Read = %s", got)
	}
	total := 0
	for _, g := range r.Gaps {
		total += g.Calls
		if want := map[time.Duration]int{3 * time.Second: 1, window: 2}[g.UpTo]; g.Calls != want {
			t.Errorf("%d intervals up to %s, want %d", g.Calls, g.UpTo, want)
		}
	}
	if total != 3 {
		t.Errorf("%d intervals in all, want 3", total)
	}
}
