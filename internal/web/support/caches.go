package support

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"sluice/internal/ledger/usage"
	"sluice/internal/operate/admin"
	"sluice/internal/web/webui"
)

// cacheDays is how many days the page adds up by provider and model, today included, and cacheMonths how many months it has.
const cacheDays, cacheMonths = 30, 12

// cachesView is the data of the page.
type cachesView struct {
	Total                     webui.CacheRow // of the last days
	Marked                    bool           // customers saw other prices than the vendors'
	Chart                     *webui.Chart   // of the hit rate by day
	Providers, Models, Months webui.CacheTable
}

// cachesPage shows what prompt caches gave to all accounts, by provider, by model and by month.
func (c *Console) cachesPage(w http.ResponseWriter, r *http.Request, m *member) error {
	now := time.Now().UTC()
	rows, err := run(c, r, m, c.ops.UsageCaches, admin.Days{From: usage.MonthOf(now).AddDate(0, 1-cacheMonths, 0), To: now.AddDate(0, 0, 1)})
	if err != nil {
		return err
	}
	recent := slices.DeleteFunc(slices.Clone(rows), func(r usage.ServedRow) bool {
		return r.Start.Before(usage.DayOf(now).AddDate(0, 0, 1-cacheDays))
	})
	sums := func(r *usage.ServedRow) *usage.Sums { return &r.Sums }
	var total usage.Sums
	for i := range recent {
		total.Merge(recent[i].Sums)
	}
	whole := webui.CacheRowOf("", &total)
	marked := whole.Saved != whole.Own
	view := &cachesView{
		Total: whole, Marked: marked, Chart: hitChart(recent, usage.DayOf(now).AddDate(0, 0, 1-cacheDays), whole),
		Providers: webui.CacheTable{Title: "By provider", What: "Provider", Staff: marked, Rows: webui.Grouped(recent, func(r *usage.ServedRow) string { return r.Provider }, sums)},
		Models:    webui.CacheTable{Title: "By model", What: "Model", Staff: marked, Rows: webui.Grouped(recent, func(r *usage.ServedRow) string { return r.Model + " at " + r.Provider }, sums)},
		Months:    webui.CacheTable{Title: "By month", What: "Month", Staff: marked, Rows: webui.ByMonth(rows, func(r *usage.ServedRow) time.Time { return r.Start }, sums)},
	}
	p := c.frame(w, r, m, "Caches")
	p.Styles = append(p.Styles, "activity.css")
	return c.ui.Render(w, r, http.StatusOK, cachesPage(p, view))
}

// hitChart returns the chart of the hit rate by day. A day on which no model with a cache was called is a gap.
func hitChart(rows []usage.ServedRow, from time.Time, total webui.CacheRow) *webui.Chart {
	days := map[time.Time]*usage.Sums{}
	for i := range rows {
		day := usage.DayOf(rows[i].Start)
		if days[day] == nil {
			days[day] = &usage.Sums{}
		}
		days[day].Merge(rows[i].Sums)
	}
	inPercent := func(n int64) string { return strconv.FormatInt(n, 10) + "%" }
	c := &webui.Chart{Label: "Hit rate by day", Lines: true, Whole: true, Format: inPercent, Axis: inPercent}
	hits := webui.ChartSeries{Name: "Hit rate", Class: "c0", Total: webui.HitRate(total.Hits)}
	for i := range cacheDays {
		at := from.AddDate(0, 0, i)
		value := int64(webui.NoValue)
		if s := days[at]; s != nil {
			if rate, known := s.Hits().Rate(); known {
				value = int64(100*rate + 0.5)
			}
		}
		c.Steps, hits.Values = append(c.Steps, webui.ChartStep{At: at, Length: 24 * time.Hour}), append(hits.Values, value)
	}
	c.Series = []webui.ChartSeries{hits}
	return c
}
