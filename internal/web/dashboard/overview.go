package dashboard

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/abuse"
	"sluice/internal/ledger/activity"
	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/runaway"
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
	Month   monthView
	Tiers   []abuse.TierScore
	// Attention is what the owner should look at.
	Attention []attention
	Total     usage.Sums
	// Days has one row for each day of the window.
	Days  []usage.Row
	First firstView
	Start startView
	// Errors are the latest requests that failed or were refused.
	Errors listView
}

// attention is one thing that the owner should look at.
type attention struct {
	Tone, Text, Link, Path string
}

// monthView is what the calls of this month add up to.
type monthView struct {
	usage.Sums
	// Forecast is what they will have cost at the end of the month if it goes on as in the last days; nil: there is no whole day yet.
	Forecast *price.Nano
	Last     time.Time // the last day of the month
}

// firstView is what a call needs: a key, a program, or only a click.
type firstView struct {
	Snippets []front.Snippet
	// New is a key that was just made for them, or nil.
	New *webui.Shown
	// Model is asked by the button that makes a call; empty: there is no model to ask.
	Model string
	// CanMake reports whether a key can be made.
	CanMake bool
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

// minuteView is what the current minute has used, and what has just gone wrong.
type minuteView struct {
	Limits   account.Limits
	Requests admission.Meter
	Tokens   admission.Meter
	// Failed and Refused are the errors of the last minutes. More reports that there may be more: not all calls were looked at.
	Failed, Refused int
	More            bool
}

const (
	// errorsBack is for how long an error is one of now, and mostErrors how many are counted.
	errorsBack = 5 * time.Minute
	mostErrors = 100
)

// minuteView reads the ledger without admitting anything: looking at the page costs no request.
func (d *Dashboard) minuteView(r *http.Request, v *visitor) (minuteView, error) {
	limits := d.Plans()[v.Plan].Over(v.Overrides)
	s := d.Ledger.Peek(v.ID, limits)
	m := minuteView{Limits: limits, Requests: s.Requests, Tokens: s.Tokens}
	c := choice{Outcome: activity.Errors}
	c.Range, _ = activity.RangeOf("1h")
	q := d.query(v, c)
	list, more, err := d.Activity.Ended(r.Context(), q, q.Now.Add(-errorsBack), mostErrors)
	for i := range list {
		if list[i].Refused != nil {
			m.Refused++
		} else {
			m.Failed++
		}
	}
	m.More = more
	return m, err
}

// overviewPage shows the first page. The sums of the month are those of its days, so one query is
// enough.
func (d *Dashboard) overviewPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	now := time.Now()
	from, month := firstDay(now), usage.MonthOf(now)
	first := from
	if month.Before(from) {
		first = month
	}
	rows, err := d.Usage.UsageBy(r.Context(), usage.Query{AccountID: v.ID, From: first, By: usage.ByDay})
	if err != nil {
		return err
	}
	view := overviewView{Plan: d.shownPlan(v.Plan), Granted: v.Granted, Days: everyDay(rows, from), Month: monthOf(rows, now)}
	view.Tiers, _ = d.Abuse.Scores(v.ID, v.Plan)
	for i := range view.Days {
		view.Total.Merge(view.Days[i].Sums)
	}
	if view.Minute, err = d.minuteView(r, v); err != nil {
		return err
	}
	if view.Start, err = d.startView(r, v, view.Total.Requests > 0); err != nil {
		return err
	}
	if view.Start.Done {
		if view.Errors, err = d.latestErrors(r, v); err != nil {
			return err
		}
	}
	if view.Attention, err = d.attention(r, v, view.Tiers); err != nil {
		return err
	}
	view.First = d.firstView(w, r, v)
	p := d.frame(w, r, v, "Overview")
	p.Styles, p.Scripts = []string{"activity.css"}, []string{"activity.js"}
	return d.ui.Render(w, r, http.StatusOK, overviewPage(p, view))
}

// monthOf adds up the days of this month, and says what they will have cost at its end: what they have cost so far, and for the
// rest of the month as much a day as in the last seven whole days.
func monthOf(rows []usage.Row, now time.Time) (m monthView) {
	month, today := usage.MonthOf(now), usage.DayOf(now)
	end := month.AddDate(0, 1, 0)
	m.Last = end.AddDate(0, 0, -1)
	days, recent := 0, price.Nano(0)
	for i := range rows {
		at := rows[i].Start
		if !at.Before(month) {
			m.Merge(rows[i].Sums)
		}
		if back := int(today.Sub(at) / (24 * time.Hour)); back >= 1 && back <= 7 {
			days, recent = max(days, back), recent+rows[i].Charge()
		}
	}
	if days > 0 {
		rest := price.Nano(float64(recent) / float64(days) * float64(end.Sub(now)) / float64(24*time.Hour))
		forecast := m.Charge() + rest
		m.Forecast = &forecast
	}
	return m
}

// nearEnd is from how much on, in percent, a budget or an allowance is close to its end.
const nearEnd = 80

// attention returns what the owner should look at: paused keys, and what is nearly used up.
func (d *Dashboard) attention(r *http.Request, v *visitor, tiers []abuse.TierScore) (list []attention, err error) {
	watch := runaway.RecordOf(v.Account)
	for i := range watch.Paused {
		list = append(list, attention{"bad", pausedName(&watch.Paused[i]) + " is paused: its program seems to run away.", "Look at it", budgetsPath})
	}
	dues := make([]budget.Due, len(v.Budgets))
	for i := range v.Budgets {
		dues[i].Budget = &v.Budgets[i]
	}
	budgets, err := d.shownBudgets(r.Context(), v.Account, dues)
	if err != nil {
		return nil, err
	}
	for i := range budgets {
		b := &budgets[i]
		if b.each() || b.used() < nearEnd {
			continue
		}
		text := "The budget " + b.Name + " is " + b.state() + ": " + webui.Total(b.Left) + " left of " + webui.Total(b.Amount) + "."
		if b.Hard && b.used() >= 100 {
			text += " Its requests are refused."
		}
		list = append(list, attention{b.tone(), text, "Budgets", budgetsPath})
	}
	for _, t := range tiers {
		if t.Score >= nearEnd {
			list = append(list, attention{scoreTone(t.Score), strconv.Itoa(t.Score) + "% of the month's allowance for " + t.Tier.String() + " models is used.", "Plan and billing", home + "/plan"})
		}
	}
	return list, nil
}

// firstView returns what a call needs.
func (d *Dashboard) firstView(w http.ResponseWriter, r *http.Request, v *visitor) firstView {
	f := firstView{Model: exampleModel(d.Catalog(), v), New: d.ui.TakeShown(w, r, v.session.ID, home)}
	f.CanMake = v.Suspended == nil && v.Deactivated == nil && v.SubKeys() < account.MaxSubKeys
	f.Snippets = front.Snippets(d.ui.Settings().Origin, f.Model)
	if f.New != nil {
		f.Snippets = withKey(f.Snippets, f.New.Secret)
	}
	return f
}

// withKey puts a key into examples, in place of the variable that holds it.
func withKey(list []front.Snippet, key string) []front.Snippet {
	fill := strings.NewReplacer(
		"$SLUICE_KEY", key, "import os\n", "", `os.environ["SLUICE_KEY"]`, `"`+key+`"`, "process.env.SLUICE_KEY", `"`+key+`"`, "\t\"os\"\n", "", `os.Getenv("SLUICE_KEY")`, `"`+key+`"`,
	)
	for i := range list {
		list[i].Text = fill.Replace(list[i].Text)
	}
	return list
}

// firstKey is the name of the key that the overview makes.
const firstKey = "first program"

// makeFirstKey makes a key for the example of the overview, which shows it.
func (d *Dashboard) makeFirstKey(w http.ResponseWriter, r *http.Request, v *visitor) error {
	k, raw, _, err := d.Accounts.CreateCappedKey(r.Context(), actor, v.ID, firstKey, nil, nil)
	if err != nil {
		return err
	}
	d.ui.Show(w, v.session.ID, home, webui.Shown{Title: k.Name, Secret: raw})
	return d.seeOther(w, r, home+"#first", "")
}

// runBody is the request that the page sends for its visitor: the one of the examples.
func runBody(model string) string {
	body, _ := json.Marshal(map[string]any{"model": model, "messages": []map[string]string{{"role": "user", "content": "Hello!"}}}) // text always encodes
	return string(body)
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
	m, err := d.minuteView(r, v)
	if err != nil {
		return err
	}
	return d.ui.Render(w, r, http.StatusOK, minutePart(m))
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

// dayChart returns the chart of requests by day.
func dayChart(days []usage.Row) *webui.Chart {
	done, failed := webui.ChartSeries{Name: "Completed", Class: "c0"}, webui.ChartSeries{Name: "Failed, cut off or disconnected", Class: "wrong"}
	c := &webui.Chart{Format: webui.Number, Axis: webui.Short, Whole: true, Label: "Requests by day. The Activity page has the figures."}
	var total, wrong int64
	for i := range days {
		c.Steps = append(c.Steps, webui.ChartStep{At: days[i].Start, Length: 24 * time.Hour})
		done.Values, failed.Values = append(done.Values, days[i].Requests-days[i].Failed), append(failed.Values, days[i].Failed)
		total, wrong = total+days[i].Requests, wrong+days[i].Failed
	}
	done.Total, failed.Total = webui.Count(total-wrong), webui.Count(wrong)
	c.Series = []webui.ChartSeries{done, failed}
	return c
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

// shortLimit is limitText with fewer digits.
func shortLimit(l account.Limit) string {
	if l == account.Unlimited {
		return limitText(l)
	}
	return webui.Short(int64(l))
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

// scoreTone returns the colour of an allowance, by how much of it is used in percent. At 100 the account's keys are deactivated.
func scoreTone(score int) string {
	switch {
	case score >= 90:
		return "bad"
	case score >= nearEnd:
		return "warn"
	}
	return ""
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
		return "At the rate of the last 24 hours, it lasts for the rest of the month."
	case soonest.Score >= 100:
		return "The allowance for " + soonest.Tier.String() + " models is used up."
	}
	return "At the rate of the last 24 hours, the allowance for " + soonest.Tier.String() + " models is used up on " + webui.Date(soonest.Reaches) + "."
}

// allowances returns the tiers whose allowance matters: those of the plan, and those that were used.
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
