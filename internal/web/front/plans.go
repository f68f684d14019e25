package front

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/price"
	"sluice/internal/web/webui"
)

// pricingView is the data of the page of prices.
type pricingView struct {
	Plans  account.Plans
	Models []Model
	Rows   []planRow
	Need   need
	// Small says of the plans that are too small for the need why they are.
	Small []fit
	// Best is the cheapest plan that is enough; None if none is, or if nobody has asked.
	Best      account.Plan
	Questions [][2]string
	// Month is what the tokens of the need cost at the list prices of its model.
	Month Estimate
}

// planRow is a line of the table of plans, with a value for each plan that is sold. A row without values is a heading.
type planRow struct {
	Title  string
	Values []string
}

// need is what somebody needs of a plan.
type need struct {
	Model *Model
	Load  Workload
	Peak  int64 // calls in the busiest minute
	Tools bool
	Asked bool
}

// fit is a plan, and why it is too small.
type fit struct {
	Plan account.Plan
	Lack string
}

// planRows returns the table of the plans.
func planRows(all account.Plans, models []Model) (rows []planRow) {
	row := func(title string, value func(account.Terms, account.Plan) string) {
		r := planRow{Title: title}
		for _, p := range Sold() {
			r.Values = append(r.Values, value(all[p], p))
		}
		rows = append(rows, r)
	}
	heading := func(title string) { rows = append(rows, planRow{Title: title}) }
	limit := func(title string, of func(account.Terms) account.Limit) {
		row(title, func(t account.Terms, _ account.Plan) string { return LimitText(of(t)) })
	}
	row("Price per month", func(t account.Terms, _ account.Plan) string { return Monthly(t.PriceCents) })
	heading("Limits")
	limit("Requests per minute", func(t account.Terms) account.Limit { return t.RequestsPerMinute })
	limit("Tokens per minute", func(t account.Terms) account.Limit { return t.TokensPerMinute })
	limit("Concurrent requests", func(t account.Terms) account.Limit { return t.Concurrent })
	limit("Videos in progress", func(t account.Terms) account.Limit { return t.UnfinishedVideos })
	limit("Monthly units, for each tier", func(t account.Terms) account.Limit { return t.MonthlyUnits })
	heading("Models and features")
	row("Models", func(_ account.Terms, p account.Plan) string { return webui.Number(int64(included(p, models))) })
	row("Tool calling", func(_ account.Terms, p account.Plan) string { return yesNo(p.IncludesTools()) })
	row("MCP servers", func(_ account.Terms, p account.Plan) string { return yesNo(p.IncludesTools()) })
	for _, title := range []string{"Streams, JSON mode, embeddings", "Limits per key, budgets, webhooks"} {
		row(title, func(account.Terms, account.Plan) string { return yesNo(true) })
	}
	return rows
}

// needOf returns what a form says that somebody needs.
func needOf(r *http.Request, models []Model) need {
	n := need{Model: find(models, r.FormValue("model")), Tools: r.FormValue("tools") != ""}
	n.Load, n.Asked = workloadOf(r.Form)
	peak, _ := workloadOf(map[string][]string{"calls": {r.FormValue("peak")}})
	n.Peak = max(1, peak.Calls)
	n.Asked = n.Asked && n.Model != nil
	return n
}

// fits says why plans are too small, and returns the cheapest that is enough.
func (n *need) fits(all account.Plans) (list []fit, best account.Plan) {
	for _, p := range Sold() {
		lack := n.lack(p, all[p])
		if lack == "" && (best == account.None || all[p].PriceCents < all[best].PriceCents) {
			best = p
		}
		if lack != "" {
			list = append(list, fit{p, lack})
		}
	}
	return list, best
}

// lack says why a plan is too small, or returns "".
func (n *need) lack(p account.Plan, t account.Terms) string {
	times := int64(1)
	if n.Load.Input > longPrompt {
		times = 2
	}
	over := func(l account.Limit, milli int64) bool { return l != account.Unlimited && milli > int64(l)*1000 }
	requests := n.Peak * n.Model.RequestMilli * times
	tokens := n.Peak * (n.Load.Input + n.Load.Output)
	units := n.Load.Calls * n.Model.UnitMilli * times
	switch {
	case !p.Includes(n.Model.Plan):
		return "does not include " + n.Model.ID
	case n.Tools && !p.IncludesTools():
		return "has no tool calling"
	case over(t.RequestsPerMinute, requests):
		return "has " + LimitText(t.RequestsPerMinute) + " requests per minute, you need " + webui.Number((requests+999)/1000)
	case t.TokensPerMinute != account.Unlimited && tokens > int64(t.TokensPerMinute):
		return "has " + LimitText(t.TokensPerMinute) + " tokens per minute, you need " + webui.Short(tokens)
	case over(t.MonthlyUnits, units):
		return "has " + LimitText(t.MonthlyUnits) + " units a month, you need " + webui.Short((units+999)/1000)
	}
	return ""
}

// pricing serves GET /pricing.
func (f *Front) pricing(w http.ResponseWriter, r *http.Request) error {
	p, o, err := f.Frame(w, r, "Pricing")
	if err != nil {
		return err
	}
	v := pricingView{Plans: f.Plans(), Models: f.Models.All(r.Context(), nil)}
	v.Rows, v.Need = planRows(v.Plans, v.Models), needOf(r, v.Models)
	if v.Questions = planQuestions; o.Joinable && v.Plans[account.Free].PriceCents == 0 {
		v.Questions = append(slices.Clip(v.Questions), [2]string{"Can I try it without a card?", "Yes. The Free plan needs an e-mail address and nothing else."})
	}
	if !v.Need.Asked {
		v.Need.Peak = 0
	} else {
		v.Small, v.Best = v.Need.fits(v.Plans)
		v.Month = v.Need.Model.Estimate(v.Need.Load, time.Now())
	}
	p.Share = f.share("Plans with a flat price per month: limits, models and tools of each, and which of them a workload needs.", "/pricing")
	return f.ui.RenderPublic(w, r, http.StatusOK, pricingPage(p, o, v))
}

// priced returns the models that have a price, for the table of prices.
func priced(all []Model) (list []Model) {
	for i := range all {
		if m := &all[i]; m.told != nil && m.told.Rates[price.Input] != price.Unknown {
			list = append(list, *m)
		}
	}
	return list
}

// Monthly formats the price of a plan: whole dollars have no cents.
func Monthly(cents int64) string { return strings.TrimSuffix(webui.Cents(cents), ".00") }

// exampleOf returns the address of the page with an example filled in, for the first model that it may be asked of.
func exampleOf(models []Model, w Workload) string {
	q := url.Values{}
	w.Cached = 0
	w.set(q)
	for _, m := range priced(models) {
		if m.Kind == Chat {
			q.Set("model", m.ID)
			break
		}
	}
	return withQuery("/pricing", q) + "#fitting"
}

// highlighted returns the plan that stands out beside the others.
func highlighted(best account.Plan) account.Plan {
	if best == account.None {
		return account.Premium
	}
	return best
}
