package dashboard

import (
	"net/http"
	"net/url"
	"slices"
	"time"

	"sluice/internal/ledger/activity"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/web/webui"
)

// cachesPath is the page that says what prompt caches gave.
const cachesPath = costsPath + "/caches"

const (
	// cacheMonths is how many months the page has, this one included.
	cacheMonths = 12
	// cacheSessions is how many of the newest sessions the page has.
	cacheSessions = 10
)

// cachesView is the data of the page.
type cachesView struct {
	Total                          webui.CacheRow // of the window
	Chart                          *webui.Chart
	Models, Keys, Months, Sessions webui.CacheTable
	// Next is the key with most input that a cache could have given and did not; nil: caches give what they can.
	Next *webui.CacheRow
}

// cachesPage shows what caches gave: of the last 30 days by model and key, of the last months, and of the newest sessions.
func (d *Dashboard) cachesPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	now := time.Now()
	rows, err := d.Usage.UsageByDay(r.Context(), v.ID, usage.MonthOf(now).AddDate(0, 1-cacheMonths, 0))
	if err != nil {
		return err
	}
	names, err := d.Activity.Names(r.Context(), v.ID)
	if err != nil {
		return err
	}
	sessions, _, err := d.Sessions.List(r.Context(), v.Account, "", "", cacheSessions)
	if err != nil {
		return err
	}
	from := firstDay(now)
	recent := rows[slices.IndexFunc(append(slices.Clone(rows), usage.Row{Slot: usage.Slot{Start: now}}), func(r usage.Row) bool { return !r.Start.Before(from) }):]
	sums := func(r *usage.Row) *usage.Sums { return &r.Sums }
	view := &cachesView{
		Models: webui.CacheTable{Title: "By model", What: "Model", Rows: webui.Grouped(recent, func(r *usage.Row) string { return r.Model }, sums)},
		Keys:   webui.CacheTable{Title: "By key", What: "Key", Rows: webui.Grouped(recent, func(r *usage.Row) string { return names.Of(r.KeyID) }, sums)},
		Months: webui.CacheTable{Title: "By month", What: "Month", Rows: webui.ByMonth(rows, func(r *usage.Row) time.Time { return r.Start }, sums)},
	}
	var total usage.Sums
	days := map[time.Time]*usage.Sums{}
	for i := range recent {
		total.Merge(recent[i].Sums)
		if days[recent[i].Start] == nil {
			days[recent[i].Start] = &usage.Sums{}
		}
		days[recent[i].Start].Merge(recent[i].Sums)
	}
	view.Total, view.Chart = webui.CacheRowOf("", &total), cacheChart(days, from)
	view.Sessions = webui.CacheTable{Title: "Newest sessions", What: "Session"}
	for i := range sessions {
		s := &sessions[i]
		view.Sessions.Rows = append(view.Sessions.Rows, webui.CacheRow{
			Name: s.ID, Link: sessionAt(s.ID), Hits: s.Hits(), Written: s.Written, Saved: s.SavedCharge(), Own: s.Saved,
		})
	}
	view.Next = worstKey(webui.Grouped(recent, func(r *usage.Row) string { return r.KeyID }, sums), names)
	p := d.frame(w, r, v, "Caches")
	p.Styles = []string{"activity.css"}
	p.Path = home + "/activity"
	return d.ui.Render(w, r, http.StatusOK, cachesPage(p, view))
}

// worstKey returns the key with most input that a cache could have given and did not, with its name and the address of its requests; nil:
// no key reads less than half of its input from caches.
func worstKey(keys []webui.CacheRow, names activity.Names) (worst *webui.CacheRow) {
	missed := func(r *webui.CacheRow) int64 { return r.Cacheable - r.Read }
	for i := range keys {
		if k := &keys[i]; 2*k.Read < k.Cacheable && (worst == nil || missed(k) > missed(worst)) {
			worst = k
		}
	}
	if worst != nil {
		worst.Link = home + "/activity?" + url.Values{"range": {"30d"}, "key": {worst.Name}}.Encode()
		worst.Name = names.Of(worst.Name)
	}
	return worst
}

// cacheChart returns the chart of what was read from caches and what was not, by day.
func cacheChart(days map[time.Time]*usage.Sums, from time.Time) *webui.Chart {
	read, written, rest := webui.ChartSeries{Name: "Read from caches", Class: "c0"}, webui.ChartSeries{Name: "Written to caches", Class: "c3"}, webui.ChartSeries{Name: "Neither", Class: "rest"}
	c := &webui.Chart{Format: webui.Number, Axis: webui.Short, Whole: true, Label: "Input tokens of models with a cache, by day. The tables below have the sums."}
	for i := range window {
		at := from.AddDate(0, 0, i)
		s := days[at]
		if s == nil {
			s = &usage.Sums{}
		}
		c.Steps = append(c.Steps, webui.ChartStep{At: at, Length: 24 * time.Hour})
		read.Values, written.Values = append(read.Values, s.Cached), append(written.Values, s.Written)
		rest.Values = append(rest.Values, max(0, s.Cacheable-s.Cached-s.Written))
	}
	for _, series := range []*webui.ChartSeries{&read, &written, &rest} {
		sum := int64(0)
		for _, n := range series.Values {
			sum += n
		}
		series.Total = webui.Short(sum)
		c.Series = append(c.Series, *series)
	}
	return c
}

// savedText says what caches have saved, or lost.
func savedText(n price.Nano) string {
	if n < 0 {
		return "caches lost " + webui.Saved(-n)
	}
	return "caches saved " + webui.Saved(n)
}
