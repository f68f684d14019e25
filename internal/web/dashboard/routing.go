package dashboard

import (
	"context"
	"net/http"
	"time"

	"sluice/internal/ledger/activity"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/catalog"
	"sluice/internal/web/webui"
)

// routingView is what the router did with an account's calls.
type routingView struct {
	Router string // its id
	Rows   []usage.Routed
	Total  usage.Routed
	// What the calls with a known cost would have cost at the best and at the cheapest model that the account may
	// call. Empty names: no model has a price.
	Best, Cheapest         string
	BestCost, CheapestCost price.Nano
	// Recent are the newest requests that the router chose a model for.
	Recent []*usage.Settlement
	Names  activity.Names
}

// routingPage shows what the router chose in the last 30 days, and what that saved.
func (d *Dashboard) routingPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	list := d.Catalog()
	view := routingView{}
	for _, m := range list.Models() {
		if m.Router {
			view.Router = m.ID
		}
	}
	var err error
	if view.Rows, err = d.Usage.RoutedCalls(r.Context(), v.ID, view.Router, firstDay(time.Now())); err != nil {
		return err
	}
	for _, row := range view.Rows {
		t := &view.Total
		t.Calls += row.Calls
		t.Unpriced += row.Unpriced
		t.Priced += row.Priced
		t.Prompt += row.Prompt
		t.Cached += row.Cached
		t.Completion += row.Completion
		t.Cost += row.Cost
	}
	view.compare(list, v)
	if view.Names, err = d.Activity.Names(r.Context(), v.ID); err != nil {
		return err
	}
	if view.Recent, err = d.routed(r.Context(), v, view.Router); err != nil {
		return err
	}
	p := d.frame(w, r, v, "Routing")
	p.Styles = []string{"activity.css"}
	return d.ui.Render(w, r, http.StatusOK, routingPage(p, view))
}

// routedShown is how many of the newest decisions the page shows.
const routedShown = 10

// routed returns the newest requests that the router chose a model for, of the last 30 days.
func (d *Dashboard) routed(ctx context.Context, v *visitor, router string) (list []*usage.Settlement, err error) {
	month, _ := activity.RangeOf("30d")
	page, err := d.Activity.Requests(ctx, activity.Query{AccountID: v.ID, Now: time.Now(), Range: month, Model: router}, "", routedShown)
	for i := range page.Entries {
		if call := page.Entries[i].Call; call != nil && call.ModelUsed != router {
			list = append(list, call)
		}
	}
	return list, err
}

// compare finds the best and the cheapest model with a price that the visitor may call, and what the calls would have
// cost there. Their replies would have been longer or shorter, so that is an estimate.
func (v *routingView) compare(list *catalog.Catalog, who *visitor) {
	// The price of a call may depend on the length of its prompt, so all of them are as long as the mean one.
	calls := max(1, v.Total.Priced)
	mean := price.CountsOf(chat.Usage{Prompt: int(v.Total.Prompt / calls), Cached: int(v.Total.Cached / calls), Completion: int(v.Total.Completion / calls)})
	rest := price.CountsOf(chat.Usage{Prompt: int(v.Total.Prompt % calls), Cached: int(v.Total.Cached % calls), Completion: int(v.Total.Completion % calls)})
	best, now := 0, time.Now()
	for _, m := range list.Models() {
		if m.Router || m.Embeds || m.Sandbox || m.Vanished || !who.includes(m) {
			continue
		}
		e, terms, markup := m.Priced(now), price.Terms{At: now.Unix()}, m.Markup.Of(who.Plan.String(), who.ID)
		_, cost, ok := e.Charge(&mean, terms, markup)
		if !ok {
			continue
		}
		_, left, _ := e.Charge(&rest, terms, markup)
		cost = cost*price.Nano(calls) + left
		quality := 0
		for t := range catalog.Tasks {
			quality += m.QualityAt(t)
		}
		if quality > best {
			best, v.Best, v.BestCost = quality, m.ID, cost
		}
		if v.Cheapest == "" || cost < v.CheapestCost {
			v.Cheapest, v.CheapestCost = m.ID, cost
		}
	}
}

// difference says what another choice would have cost more or less than the router's.
func difference(other, cost price.Nano) string {
	switch {
	case other > cost:
		return webui.Total(other-cost) + " more"
	case other < cost:
		return webui.Total(cost-other) + " less"
	}
	return "the same"
}

// share returns a part of a whole in percent.
func share(part, whole int64) int64 {
	if whole == 0 {
		return 0
	}
	return (100*part + whole/2) / whole
}
