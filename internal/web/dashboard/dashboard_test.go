package dashboard

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/activity"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/notice"
	"sluice/internal/upstream/catalog"
	"sluice/internal/web/front"
	"sluice/internal/web/webui"
)

func TestEveryDay(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 23, 59, 0, 0, time.UTC)
	from := firstDay(now)
	if want := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC); from != want {
		t.Errorf("firstDay(%v) = %v, want %v", now, from, want)
	}
	row := func(day time.Time, n int64) usage.Row {
		return usage.Row{Slot: usage.Slot{Start: day}, Sums: usage.Sums{Requests: n}}
	}
	today := usage.DayOf(now)
	days := everyDay([]usage.Row{row(from, 3), row(today, 5), row(today.AddDate(0, 0, 1), 9), row(from.AddDate(0, 0, -1), 9)}, from)
	total := int64(0)
	for i, d := range days {
		if d.Start != from.AddDate(0, 0, i) {
			t.Errorf("day %d = %v", i, d.Start)
		}
		total += d.Requests
	}
	if len(days) != 30 || days[0].Requests != 3 || days[29].Requests != 5 || total != 8 {
		t.Errorf("everyDay has %d days from %d to %d and %d in all, want 30, 3, 5, 8", len(days), days[0].Requests, days[29].Requests, total)
	}
}

// A notice about the budget of a session leads to that budget, and to the list if there is none of the name any more.
func TestNoticeAbout(t *testing.T) {
	t.Parallel()
	each := account.Budget{ID: "bud_2", Name: "each", Scope: account.BudgetScope{Session: "any"}}
	v := &visitor{Account: &account.Account{Budgets: []account.Budget{{ID: "bud_1", Name: "each"}, each}}}
	title := func(b *account.Budget, session string) string {
		return (&budget.Passed{Due: budget.Due{Budget: b, Session: session}, Percent: 80}).Title()
	}
	for _, tt := range []struct {
		kind  notice.Kind
		title string
		want  noticeAbout
	}{
		{notice.Budget, title(&each, "run 1"), noticeAbout{"Raise budget", "/dashboard/budgets/raise?count=bud_2%2Frun+1", "run 1"}},
		{notice.Budget, title(&account.Budget{Name: "gone"}, "run 1"), noticeAbout{"Budgets", "/dashboard/budgets", "run 1"}},
		{notice.Budget, title(&each, ""), noticeAbout{"Budgets", "/dashboard/budgets", ""}},
		{notice.Support, title(&each, "run 1"), noticeAbout{}},
	} {
		if got := v.about(&notice.Notice{Kind: tt.kind, Title: tt.title}); got != tt.want {
			t.Errorf("about(%s, %q) = %+v, want %+v", tt.kind, tt.title, got, tt.want)
		}
	}
}

func TestCostPeriods(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 31, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct{ query, chosen, last string }{
		{"", "Last 30 days", "/dashboard/costs?month=2026-02"},
		{"month=2026-03", "This month", "/dashboard/costs?month=2026-02"},
		{"month=2026-02&key=key_1", "Last month", "/dashboard/costs?key=key_1&month=2026-02"},
		{"day=2026-03-30", "", "/dashboard/costs?month=2026-02"},
		{"from=2026-03-30", "", "/dashboard/costs?month=2026-02"},
	} {
		query, _ := url.ParseQuery(tt.query)
		chosen, list := "", costPeriods(&webui.Costs{Path: costsPath, Query: query}, now)
		for _, p := range list {
			if p.Chosen {
				chosen += p.Text
			}
		}
		if chosen != tt.chosen || list[2].Path != tt.last {
			t.Errorf("%q: %q is chosen and the last month is at %q, want %q and %q", tt.query, chosen, list[2].Path, tt.chosen, tt.last)
		}
	}
}

func TestIncludedModels(t *testing.T) {
	t.Parallel()
	m := &catalog.Model{ID: "vendor/Swift-2", Description: "Quick answers", OwnedBy: "Vendor Inc", Plan: account.Basic, ToolCalling: false, ContextLength: 128_000}
	for _, tt := range []struct {
		plan             account.Plan
		staffOnly, staff bool
		want             bool
	}{{account.None, false, false, false}, {account.Basic, false, false, true}, {account.Scale, true, false, false}, {account.Scale, true, true, true}} {
		v := &visitor{Account: &account.Account{Plan: tt.plan, Staff: tt.staff}}
		model := *m
		model.StaffOnly = tt.staffOnly
		if got := v.includes(&model); got != tt.want {
			t.Errorf("a visitor %+v is offered the model: %t, want %t", tt, got, tt.want)
		}
	}
}

// What can be done about a plan: the way down is through support, and to Free it is to cancel (docs/api.md#plan-changes).
func TestPlanAction(t *testing.T) {
	t.Parallel()
	subscribed := billing.Subscription{Plan: account.Basic}
	late := billing.Subscription{Plan: account.Basic, Failed: 1}
	for _, tt := range []struct {
		present account.Plan
		sub     billing.Subscription
		want    string // for Free, Basic, Premium, Scale
	}{
		{account.None, billing.Subscription{}, "free subscribe subscribe subscribe"},
		{account.Free, billing.Subscription{}, "present subscribe subscribe subscribe"},
		{account.Basic, subscribed, "cancel present upgrade upgrade"},
		{account.Basic, late, "cancel present - -"},
		{account.Scale, billing.Subscription{}, "- - - present"},
	} {
		v := planView{View: billing.View{Account: &account.Account{Plan: tt.present}, Subscription: tt.sub}, Present: tt.present, Sells: true}
		var got []string
		for _, p := range front.Sold() {
			action := planAction(v, p)
			if action == "" {
				action = "-"
			}
			got = append(got, action)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("on %s with %+v: %v, want %s", tt.present, tt.sub, got, tt.want)
		}
		v.Sells = false
		if a := planAction(v, account.Premium); a != "" && a != "present" {
			t.Errorf("on %s where nothing is sold: %q", tt.present, a)
		}
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ got, want string }{
		{inert("=1+1"), "'=1+1"},
		{inert("-2"), "'-2"},
		{inert("laptop"), "laptop"},
		{webui.Sentence("the amount has changed"), "The amount has changed."},
		{webui.Sentence("Really?"), "Really?"},
		{webui.Sentence(""), ""},
		{spaced("4242424242424242"), "4242 4242 4242 4242"},
		{webui.Browser("Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/120 Safari/537.36 Edg/120"), "Edge on Windows"},
		{webui.Browser("Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) Safari/604.1"), "Safari on iPhone"},
		{webui.Browser("x"), "Unknown browser"},
		{planName(account.None), "No plan"},
		{planName(account.Scale), "Scale"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	p, status, err := webui.Refused(fault.New(fault.Invalid, "too short").At("name"), "name", "email")
	if err != nil || status != 400 || p["name"] != "Too short." {
		t.Errorf("refused = %v, %d, %v, want the field's problem", p, status, err)
	}
	if p, _, _ := webui.Refused(fault.New(fault.Conflict, "Taken.").At("other"), "name"); p[""] != "Taken." {
		t.Errorf("refused of a field that the form does not have = %v, want the form's problem", p)
	}
	for _, err := range []error{errors.New("a bug"), fault.New(fault.Unavailable, "away")} {
		if _, _, rest := webui.Refused(err); rest == nil {
			t.Errorf("refused(%v) = nil, want it passed on", err)
		}
	}
}

// A range without an end goes as far as now, also in the first minute of an hour.
func TestRangeUntilNow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(25*time.Hour + 36*time.Second) // a test begins at midnight
		var c choice
		if now := time.Now(); !c.between(now.AddDate(0, 0, -1).Format(time.RFC3339), "") || !c.Range.Until.After(now) {
			t.Errorf("the range until %s ends at %s", now, c.Range.Until)
		}
	})
}

// Whole days are days, and a setting of some hours is not rounded to them.
func TestKeptText(t *testing.T) {
	t.Parallel()
	for kept, want := range map[time.Duration]string{24 * time.Hour: "1 day", 720 * time.Hour: "30 days", 36 * time.Hour: "36 hours", time.Hour: "60 min", 30 * time.Minute: "30 min"} {
		if got := keptText(kept); got != want {
			t.Errorf("keptText(%s) = %q, want %q", kept, got, want)
		}
	}
}

// The page of caches names the key with most input that was not read from one, if that is more than half of its input.
func TestWorstKey(t *testing.T) {
	t.Parallel()
	row := func(key string, read, cacheable int64) webui.CacheRow {
		return webui.CacheRow{Name: key, Hits: usage.Hits{Read: read, Cacheable: cacheable}}
	}
	names := activity.Names{"key_1": "nightly"}
	if got := worstKey([]webui.CacheRow{row("key_0", 600, 1000), row("key_2", 0, 10), row("key_1", 9, 100)}, names); got == nil || got.Name != "nightly" || got.Link != "/dashboard/activity?key=key_1&range=30d" {
		t.Errorf("worstKey = %+v, want nightly", got)
	}
	if got := worstKey([]webui.CacheRow{row("key_0", 600, 1000)}, names); got != nil {
		t.Errorf("worstKey of good keys = %+v, want none", got)
	}
}

// A budget of another zone says when it begins again there.
func TestBudgetResets(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 23, 0, 0, 0, time.UTC)
	for zone, want := range map[string]string{"": "", "UTC": "", "Europe/Oslo": "1 Dec 2026 00:00 in Europe/Oslo"} {
		b := &shownBudget{}
		b.Budget = &account.Budget{Timezone: zone}
		b.ResetsAt = at
		if got := b.resets(); got != want {
			t.Errorf("resets in %q = %q, want %q", zone, got, want)
		}
	}
}
