package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"sluice/internal/ledger/activity"
	"sluice/internal/ledger/costs"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/web/webui"
)

// costsPath is the page that takes costs apart. Every cost on the other pages leads to it.
const costsPath = home + "/costs"

// costsPage shows what a cost consists of.
func (d *Dashboard) costsPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	query := r.URL.Query()
	sel, err := costs.Select(v.ID, query, time.Now())
	if err != nil {
		return err
	}
	e, err := d.Costs.Explain(r.Context(), sel, query.Get("cursor"), webui.CostPage, false)
	if err != nil {
		return err
	}
	names, err := d.Activity.Names(r.Context(), v.ID)
	if err != nil {
		return err
	}
	view := &webui.Costs{
		Reply: e.Reply(false), From: sel.From, To: sel.To, Path: costsPath, Query: query, Request: home + "/activity/requests/", File: costsPath + ".csv", KeyName: names.Of,
	}
	view.Chart = costChart(view)
	tags, err := d.tags(r.Context(), r, v)
	if err != nil {
		return err
	}
	p := d.frame(w, r, v, "Costs")
	p.Styles = []string{"activity.css"}
	p.Path = home + "/activity"
	return d.ui.Render(w, r, http.StatusOK, costsPage(p, view, tags))
}

// costPeriod is a time that the page offers.
type costPeriod struct {
	Text, Path string
	Chosen     bool
}

// costPeriods returns the times that the page offers: the last 30 days, this month and the one before. What the page is narrowed to
// stays.
func costPeriods(c *webui.Costs, now time.Time) []costPeriod {
	month := usage.MonthOf(now)
	list := []costPeriod{{Text: "Last 30 days"}, {Text: "This month"}, {Text: "Last month"}}
	for i, value := range []string{"", month.Format("2006-01"), month.AddDate(0, -1, 0).Format("2006-01")} {
		p := &list[i]
		p.Path = c.At("from", "", "to", "", "day", "", "month", value)
		p.Chosen = c.Query.Get("month") == value && c.Query.Get("from")+c.Query.Get("to")+c.Query.Get("day") == ""
	}
	return list
}

// costChart returns the chart of the costs of a page by day; nil: it has only one. Days without requests have no row, and are part of
// the chart.
func costChart(c *webui.Costs) *webui.Chart {
	if len(c.Days) < 2 {
		return nil
	}
	sums := map[string]int64{}
	for i := range c.Days {
		n, err := price.Parse(c.Days[i].Cost.String())
		if err != nil {
			return nil // negative, after a correction: the table has it
		}
		sums[c.Days[i].Day] = int64(n)
	}
	chart := &webui.Chart{Format: webui.Total[int64], Axis: webui.Total[int64], Label: "List price by day. The table below has the figures."}
	series := webui.ChartSeries{Name: "List price", Class: "c0", Total: webui.Total(sumOf(sums))}
	for at := usage.DayOf(c.From); at.Before(c.To) && !at.After(time.Now()); at = at.AddDate(0, 0, 1) {
		chart.Steps = append(chart.Steps, webui.ChartStep{At: at, Length: 24 * time.Hour})
		series.Values = append(series.Values, sums[at.Format(time.DateOnly)])
	}
	chart.Series = []webui.ChartSeries{series}
	return chart
}

// sumOf adds up the costs of days.
func sumOf(days map[string]int64) (sum int64) {
	for _, n := range days {
		sum += n
	}
	return sum
}

// costColumns are part of the format: programs read them, so new ones come last. Tags have spaces between them.
var costColumns = []string{
	"id", "at", "model_asked", "model", "provider", "key_id", "outcome", "cost_usd", "unpriced", "price_version", "corrections", "corrected_by_usd", "session", "tags", "cache_saved_usd",
}

// exportCosts writes the requests of a selection as CSV, with what they cost: their sum is the cost that the page shows.
func (d *Dashboard) exportCosts(w http.ResponseWriter, r *http.Request, v *visitor) error {
	sel, err := costs.Select(v.ID, r.URL.Query(), time.Now())
	if err != nil {
		return err
	}
	return saveCSV(w, "costs.csv", costColumns, func(line func([]string)) error {
		for n, next := 0, ""; n < mostListed; n += costs.MaxCalls {
			e, err := d.Costs.Explain(r.Context(), sel, next, costs.MaxCalls, false)
			if err != nil {
				return err
			}
			for i := range e.Calls {
				line(costLine(&e.Calls[i]))
			}
			if next = e.Next; next == "" || r.Context().Err() != nil {
				break
			}
		}
		return nil
	})
}

// costLine returns a request as a line of CSV, in the order of costColumns.
func costLine(c *costs.Call) []string {
	cost, unpriced, corrections, by, saved := "", "", "", "", ""
	if charge := c.Charge(); charge != nil {
		cost, saved = charge.String(), c.SavedCharge().String()
	} else if c.Unpriced() {
		unpriced = "1"
	}
	if c.Corrected != nil {
		corrections, by = webui.Number(int64(c.Corrected.Times)), (c.Corrected.Cost + c.Corrected.Margin).String()
	}
	return []string{
		c.ID, c.At.UTC().Format("2006-01-02T15:04:05.000Z"), inert(c.ModelAsked), inert(c.ModelUsed), inert(c.Provider), c.KeyID, string(c.End), cost, unpriced, c.Terms.Version, corrections, by,
		inert(c.Session()), inert(strings.Join(c.Terms.Tags, " ")), saved,
	}
}

// costsAt returns the address of the page that takes the costs of an activity page apart, narrowed by changes.
func (v *activityView) costsAt(changes ...string) string {
	from := v.Report.From
	if v.Since.After(from) {
		from = v.Since
	}
	q := url.Values{"from": {from.UTC().Format(time.RFC3339Nano)}}
	if v.chosen() {
		q.Set("to", v.Report.Range.Until.Format(time.RFC3339))
	}
	for name, value := range map[string]string{"model": v.Model, "key": v.Key, "outcome": string(v.Outcome)} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for i := 0; i+1 < len(changes); i += 2 {
		if changes[i+1] != "" {
			q.Set(changes[i], changes[i+1])
		}
	}
	return costsPath + "?" + q.Encode()
}

// stepCosts returns the address of the page that takes the costs of a step of time apart.
func (v *activityView) stepCosts(s *activity.Step) string {
	return v.costsAt("from", s.Start.UTC().Format(time.RFC3339), "to", s.Start.Add(v.Step).UTC().Format(time.RFC3339))
}

// rowCosts returns the address of the page that takes the costs of a model or a key apart.
func (v *activityView) rowCosts(filter, name string) string {
	if filter == string(activity.ByModel) {
		return v.costsAt("served", name)
	}
	return v.costsAt(filter, name)
}

// callCosts returns the address of the page that takes the cost of one call apart.
func callCosts(s *usage.Settlement) string {
	at := s.At.UTC().Truncate(time.Millisecond)
	return costsPath + "?" + url.Values{"from": {at.Format(time.RFC3339Nano)}, "to": {at.Add(time.Millisecond).Format(time.RFC3339Nano)}, "key": {s.KeyID}, "served": {s.ModelUsed}}.Encode()
}

// spent says whether the page has costs to take apart. Refused requests have none, and costs are not kept by session or tag.
func (v *activityView) spent() bool {
	return v.Outcome != activity.Refused && v.Total.Calls > 0 && v.Session == "" && v.Tag == ""
}

// periodCosts returns the address of the page with the costs of the days of an invoice.
func periodCosts(from, to time.Time) string {
	if to.Sub(from) < 24*time.Hour {
		to = from.AddDate(0, 0, 1)
	}
	return costsPath + "?" + url.Values{"from": {from.UTC().Format(time.DateOnly)}, "to": {to.UTC().Format(time.DateOnly)}}.Encode()
}
