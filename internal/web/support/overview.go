package support

import (
	"net/http"
	"strconv"

	"sluice/internal/operate/admin"
	"sluice/internal/operate/overview"
	"sluice/internal/web/webui"
)

// overviewPage shows what the service does now.
func (c *Console) overviewPage(w http.ResponseWriter, r *http.Request, m *member) error {
	report, err := run(c, r, m, c.ops.OverviewShow, admin.Empty{})
	if err != nil {
		return err
	}
	return c.ui.Render(w, r, http.StatusOK, overviewPage(c.frame(w, r, m, "Overview"), &report))
}

// overviewLive renders the part of the overview that refreshes itself.
func (c *Console) overviewLive(w http.ResponseWriter, r *http.Request, m *member) error {
	report, err := run(c, r, m, c.ops.OverviewShow, admin.Empty{})
	if err != nil {
		return err
	}
	return c.ui.Render(w, r, http.StatusOK, overviewPart(&report))
}

// lastMinute returns the last minute that is over.
func lastMinute(r *overview.Report) overview.Point { return r.Points[len(r.Points)-2] }

// current returns the minute that is not over yet.
func current(r *overview.Report) overview.Point { return r.Points[len(r.Points)-1] }

// minuteCharts returns the charts of the last three hours.
func minuteCharts(r *overview.Report) []chart {
	last, now := lastMinute(r), current(r)
	const first = "3 hours ago"
	return []chart{
		{
			Title: "Requests per minute", Now: webui.Number(last.Calls + last.Refused), Note: "in the last minute", First: first, Format: webui.Short,
			Series: []series{
				{"complete", "main", column(r.Points, func(p *overview.Point) int64 { return p.Calls - p.Failed })},
				{"failed", "bad", column(r.Points, func(p *overview.Point) int64 { return p.Failed })},
				{"over limit", "warn", column(r.Points, func(p *overview.Point) int64 { return p.Refused })},
			},
		},
		{
			Title: "Tokens per minute", Now: webui.Short(last.Prompt + last.Answer), Note: "in the last minute", First: first, Format: webui.Short,
			Series: []series{
				{"input", "soft", column(r.Points, func(p *overview.Point) int64 { return p.Prompt })},
				{"output", "main", column(r.Points, func(p *overview.Point) int64 { return p.Answer })},
			},
		},
		{
			Title: "Latency", Now: timeOf(last, last.Median), Note: "median; 95% within " + timeOf(last, last.Slow), First: first, Format: webui.Millis,
			Series: []series{
				{"median", "main", column(r.Points, func(p *overview.Point) int64 { return p.Median })},
				{"95%", "soft", column(r.Points, func(p *overview.Point) int64 { return p.Slow - p.Median })},
			},
		},
		{
			Title: "Time to first token", Now: timeOf(last, last.First), Note: "median; 95% within " + timeOf(last, last.SlowFirst), First: first, Format: webui.Millis,
			Series: []series{
				{"median", "main", column(r.Points, func(p *overview.Point) int64 { return p.First })},
				{"95%", "soft", column(r.Points, func(p *overview.Point) int64 { return p.SlowFirst - p.First })},
			},
		},
		{
			Title: "Open streams", Now: webui.Number(now.Streams), Note: webui.Number(now.Running) + " calls under way", First: first, Format: webui.Number,
			Series: []series{{"streams", "main", column(r.Points, func(p *overview.Point) int64 { return p.Streams })}},
		},
		{
			Title: "Journal", Now: webui.Number(now.Journal), Note: "settlements wait for the database", First: first, Format: webui.Number,
			Series: []series{{"waiting", "warn", column(r.Points, func(p *overview.Point) int64 { return p.Journal })}},
		},
	}
}

// dayCharts returns the charts of the last 30 days.
func dayCharts(r *overview.Report) []chart {
	signUps, income := int64(0), int64(0)
	for _, d := range r.Days {
		signUps += int64(d.SignUps)
		income += d.Cents
	}
	const first = "30 days ago"
	return []chart{
		{
			Title: "Sign-ups per day", Now: webui.Number(signUps), Note: "in 30 days", First: first, Format: webui.Number,
			Series: []series{{"sign-ups", "main", column(r.Days, func(d *overview.Day) int64 { return int64(d.SignUps) })}},
		},
		{
			Title: "Revenue per day", Now: webui.Cents(income), Note: "in 30 days, without refunds", First: first, Format: webui.Cents,
			Series: []series{{"paid", "main", column(r.Days, func(d *overview.Day) int64 { return d.Cents })}},
		},
	}
}

// timeOf formats a time of the last minute, in which there may have been no call.
func timeOf(p overview.Point, ms int64) string {
	switch {
	case p.Calls == 0:
		return "–"
	case ms == 0:
		return "<1 ms"
	}
	return webui.Millis(ms)
}

// failedShare formats the share of calls that failed.
func failedShare(failed, all int64) string {
	if all == 0 {
		return "–"
	}
	return strconv.FormatFloat(100*float64(failed)/float64(all), 'f', 1, 64) + "%"
}

// busiest returns the calls of the account that makes most.
func busiest(r *overview.Report) int64 {
	if len(r.Busy) == 0 {
		return 1
	}
	return max(1, r.Busy[0].Calls)
}

// planLabel returns the name of a plan.
func planLabel(plan string) string {
	if plan == "none" {
		return "no plan"
	}
	return plan
}
