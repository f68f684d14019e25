package dashboard

import (
	"net/http"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/abuse"
	"sluice/internal/ledger/activity"
	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/usage"
	"sluice/internal/upstream/catalog"
	"sluice/internal/web/front"
	"sluice/internal/web/webui"
)

// window is the number of days of usage that the pages show, today included (docs/api.md#other-constants).
const window = 30

// overviewView is the data of the overview.
type overviewView struct {
	Plan    account.Plan
	Granted bool
	Minute  minuteView
	Score   int
	Tiers   []abuse.TierScore
	Total   usage.Sums
	// Days has one row for each day of the window.
	Days     []usage.Row
	Snippets []front.Snippet
	Start    startView
	// Errors are the latest requests that failed or were refused.
	Errors listView
}

// startView is the checklist of a new account.
type startView struct {
	// Done says that there has been a call.
	Done bool
	// First is that call, if it has just come.
	First *usage.Settlement
	// Key says that a key was made beside the master key, or that one was used.
	Key  bool
	Plan account.Plan
}

// minuteView is what remains of the rate limits in the current minute.
type minuteView struct {
	Limits   account.Limits
	Requests admission.Meter
	Tokens   admission.Meter
}

// minuteView reads the ledger without admitting anything: looking at the page costs no
// request.
func (d *Dashboard) minuteView(v *visitor) minuteView {
	limits := d.Plans()[v.Plan].Over(v.Overrides)
	s := d.Ledger.Peek(v.ID, limits)
	return minuteView{Limits: limits, Requests: s.Requests, Tokens: s.Tokens}
}

// overviewPage shows the first page. The sums of the month are those of its days, so one query is
// enough.
func (d *Dashboard) overviewPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	from := firstDay(time.Now())
	rows, err := d.Usage.UsageBy(r.Context(), usage.Query{AccountID: v.ID, From: from, By: usage.ByDay})
	if err != nil {
		return err
	}
	view := overviewView{Plan: d.shownPlan(v.Plan), Granted: v.Granted, Minute: d.minuteView(v), Days: everyDay(rows, from)}
	view.Tiers, view.Score = d.Abuse.Scores(v.ID, v.Plan)
	for i := range rows {
		view.Total.Merge(rows[i].Sums)
	}
	if view.Start, err = d.startView(r, v, view.Total.Requests > 0); err != nil {
		return err
	}
	if view.Start.Done {
		if view.Errors, err = d.latestErrors(r, v); err != nil {
			return err
		}
	}
	view.Snippets = front.Snippets(d.ui.Settings().Origin, exampleModel(d.Catalog(), v))
	p := d.frame(w, r, v, "Overview")
	p.Styles, p.Scripts = []string{"activity.css"}, []string{"activity.js"}
	return d.ui.Render(w, r, http.StatusOK, overviewPage(p, view))
}

// shownErrors is how many of the latest errors the overview shows.
const shownErrors = 5

// latestErrors returns the latest requests of the last days that failed or were refused.
func (d *Dashboard) latestErrors(r *http.Request, v *visitor) (list listView, err error) {
	list.Range, _ = activity.RangeOf("7d")
	list.Outcome = activity.Errors
	if list.Names, err = d.Activity.Names(r.Context(), v.ID); err != nil {
		return list, err
	}
	list.Page, err = d.Activity.Requests(r.Context(), d.query(v, list.choice), "", shownErrors)
	list.Next = "" // the activity page has the rest
	return list, err
}

// startView returns how far a new account has come.
func (d *Dashboard) startView(r *http.Request, v *visitor, done bool) (startView, error) {
	s := startView{Done: done, Plan: v.Plan, Key: len(v.Keys) > 1}
	for i := range v.Keys {
		s.Key = s.Key || !v.Keys[i].LastUsedAt.IsZero() || !d.LastUsed(&v.Keys[i]).IsZero()
	}
	if done {
		return s, nil
	}
	calls, err := d.Usage.RecentSettlements(r.Context(), v.ID, usage.Point{At: time.Now().Add(time.Minute)}, 1)
	if err == nil && len(calls) > 0 {
		s.Done, s.First = true, &calls[0]
	}
	return s, err
}

// start renders the checklist, which asks every few seconds until the first call has come.
func (d *Dashboard) start(w http.ResponseWriter, r *http.Request, v *visitor) error {
	s, err := d.startView(r, v, false)
	if err != nil {
		return err
	}
	return d.ui.Render(w, r, http.StatusOK, startPart(s))
}

// minute renders the one card of the overview that refreshes itself every five seconds.
func (d *Dashboard) minute(w http.ResponseWriter, r *http.Request, v *visitor) error {
	return d.ui.Render(w, r, http.StatusOK, minutePart(d.minuteView(v)))
}

// firstDay returns the first day of the window, at midnight UTC.
func firstDay(now time.Time) time.Time { return usage.DayOf(now).AddDate(0, 0, 1-window) }

// everyDay returns one row for each day of the window. Days without usage have zero sums.
func everyDay(rows []usage.Row, from time.Time) []usage.Row {
	out := make([]usage.Row, window)
	for i := range out {
		out[i].Start = from.AddDate(0, 0, i)
	}
	for _, row := range rows {
		// A row outside the window can appear when the day changes between the query and this
		// call.
		if i := int(row.Start.Sub(from) / (24 * time.Hour)); i >= 0 && i < window {
			out[i] = row
		}
	}
	return out
}

// bars returns the chart of requests by day.
func bars(days []usage.Row) []webui.Bar {
	out := make([]webui.Bar, len(days))
	for i := range days {
		out[i] = webui.Bar{Value: days[i].Requests, Name: webui.DayMonth(days[i].Start), Text: requests(days[i].Requests)}
	}
	return out
}

// requests formats a number of requests with its noun.
func requests(n int64) string {
	if n == 1 {
		return "1 request"
	}
	return webui.Number(n) + " requests"
}

// exampleModel returns the model of the quick start: the router if the plan includes it,
// otherwise the first model that it includes, or "" if there is none.
func exampleModel(c *catalog.Catalog, v *visitor) string {
	first := ""
	for _, m := range c.Models() {
		if !v.includes(m) {
			continue
		}
		// The router is the best start: it works even if models change later.
		if m.Router {
			return m.ID
		}
		if first == "" {
			first = m.ID
		}
	}
	return first
}

// limitText formats a limit in full: 1,000.
func limitText(l account.Limit) string {
	if l == account.Unlimited {
		return "unlimited"
	}
	return webui.Number(int64(l))
}

// shownPlan returns the plan that pages name. A customer without a plan has the models and limits of Free and is told so,
// unless the operator has given the two different terms.
func (d *Dashboard) shownPlan(p account.Plan) account.Plan {
	if plans := d.Plans(); p == account.None && plans[account.None] == plans[account.Free] {
		return account.Free
	}
	return p
}

// planName returns a plan's name as pages show it; see shownPlan.
func planName(p account.Plan) string {
	if p == account.None {
		return "No plan"
	}
	return front.PlanName(p)
}

// scoreTone returns the colour of an abuse score. At 100 the account's keys are deactivated.
func scoreTone(score int) string {
	switch {
	case score >= 90:
		return "bad"
	case score >= 50:
		return "warn"
	}
	return "good"
}

// forecast says when the allowance of the first tier is used up at the current rate, if that is
// this month.
func forecast(tiers []abuse.TierScore) string {
	var soonest *abuse.TierScore
	for i := range tiers {
		if t := &tiers[i]; !t.Reaches.IsZero() && (soonest == nil || t.Reaches.Before(soonest.Reaches)) {
			soonest = t
		}
	}
	switch {
	case soonest == nil:
		return "At the rate of the last 24 hours, it lasts until the end of the month."
	case soonest.Score >= 100:
		return "The allowance for " + soonest.Tier.String() + " models is used up."
	}
	return "At the rate of the last 24 hours, the allowance for " + soonest.Tier.String() + " models is used up on " + webui.Date(soonest.Reaches) + "."
}

// allowances returns the tiers whose allowance tickets: those of the plan, and those that were used.
func allowances(plan account.Plan, tiers []abuse.TierScore) (list []abuse.TierScore) {
	for _, t := range tiers {
		if t.Tier <= max(plan, account.Free) || t.Units > 0 {
			list = append(list, t)
		}
	}
	return list
}

// tierName returns the name of a tier as pages show it.
func tierName(t account.Plan) string { return planName(t) + " models" }
