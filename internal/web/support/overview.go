package support

import (
	"net/http"
	"strconv"
	"time"

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

// figureChart is a chart with the figure of now, and what that means.
type figureChart struct {
	webui.Chart
	Now, Note string
}

// steps returns the steps of a chart of which each has a length.
func steps[T any](list []T, length time.Duration, at func(*T) time.Time) []webui.ChartStep {
	out := make([]webui.ChartStep, len(list))
	for i := range list {
		out[i] = webui.ChartStep{At: at(&list[i]), Length: length}
	}
	return out
}

// column returns one value of each entry.
func column[T any](list []T, value func(*T) int64) []int64 {
	vals := make([]int64, len(list))
	for i := range list {
		vals[i] = value(&list[i])
	}
	return vals
}

// lastHour is how many minutes the charts show.
const lastHour = 60

// minuteCharts returns the charts of the last hour.
func minuteCharts(r *overview.Report) []figureChart {
	last, now := lastMinute(r), current(r)
	points := r.Points[max(0, len(r.Points)-1-lastHour) : len(r.Points)-1] // whole minutes
	minutes := steps(points, time.Minute, func(p *overview.Point) time.Time { return p.At })
	// known leaves a gap where no call ended.
	known := func(ms func(*overview.Point) int64) []int64 {
		return column(points, func(p *overview.Point) int64 {
			if p.Calls == 0 {
				return webui.NoValue
			}
			return ms(p)
		})
	}
	return []figureChart{
		{
			Now: webui.Number(last.Calls + last.Refused), Note: "in the last minute",
			Chart: webui.Chart{Label: "Requests per minute", Steps: minutes, Whole: true, Format: webui.Number, Axis: webui.Short, Series: []webui.ChartSeries{
				{Name: "Complete", Class: "c0", Values: column(points, func(p *overview.Point) int64 { return p.Calls - p.Failed })},
				{Name: "Failed", Class: "wrong", Values: column(points, func(p *overview.Point) int64 { return p.Failed })},
				{Name: "Over a limit", Class: "c3", Values: column(points, func(p *overview.Point) int64 { return p.Refused })},
			}},
		},
		{
			Now: webui.Short(last.Prompt + last.Answer), Note: "in the last minute",
			Chart: webui.Chart{Label: "Tokens per minute", Steps: minutes, Whole: true, Format: webui.Number, Axis: webui.Short, Series: []webui.ChartSeries{
				{Name: "Input", Class: "c1", Values: column(points, func(p *overview.Point) int64 { return p.Prompt })},
				{Name: "Output", Class: "c0", Values: column(points, func(p *overview.Point) int64 { return p.Answer })},
			}},
		},
		{
			Now: timeOf(last, last.Median), Note: medianNote(last, last.Slow),
			Chart: webui.Chart{Label: "Latency", Steps: minutes, Lines: true, Format: webui.Millis, Axis: webui.Millis, Series: []webui.ChartSeries{
				{Name: "Median", Class: "c0", Values: known(func(p *overview.Point) int64 { return p.Median })},
				{Name: "p95", Class: "c1", Values: known(func(p *overview.Point) int64 { return p.Slow })},
			}},
		},
		{
			Now: timeOf(last, last.First), Note: medianNote(last, last.SlowFirst),
			Chart: webui.Chart{Label: "Time to first token", Steps: minutes, Lines: true, Format: webui.Millis, Axis: webui.Millis, Series: []webui.ChartSeries{
				{Name: "Median", Class: "c0", Values: known(func(p *overview.Point) int64 { return p.First })},
				{Name: "p95", Class: "c1", Values: known(func(p *overview.Point) int64 { return p.SlowFirst })},
			}},
		},
		{
			Now: webui.Number(now.Streams), Note: "now, " + plural(int(now.Running), "call") + " in progress",
			Chart: webui.Chart{Label: "Open streams", Steps: minutes, Whole: true, Format: webui.Number, Axis: webui.Short, Series: []webui.ChartSeries{
				{Name: "Streams", Class: "c0", Values: column(points, func(p *overview.Point) int64 { return p.Streams })},
			}},
		},
		{
			Now: webui.Number(now.Journal), Note: "waiting for the database",
			Chart: webui.Chart{Label: "Settlements in the journal", Steps: minutes, Whole: true, Format: webui.Number, Axis: webui.Short, Series: []webui.ChartSeries{
				{Name: "Waiting", Class: "c3", Values: column(points, func(p *overview.Point) int64 { return p.Journal })},
			}},
		},
	}
}

// dayCharts returns the charts of the last 30 days.
func dayCharts(r *overview.Report) []figureChart {
	signUps, income := int64(0), int64(0)
	for _, d := range r.Days {
		signUps += int64(d.SignUps)
		income += d.Cents
	}
	byDay := steps(r.Days, 24*time.Hour, func(d *overview.Day) time.Time { return d.At })
	return []figureChart{
		{
			Now: webui.Number(signUps), Note: "in 30 days",
			Chart: webui.Chart{Label: "Sign-ups per day", Steps: byDay, Whole: true, Format: webui.Number, Axis: webui.Short, Series: []webui.ChartSeries{
				{Name: "Sign-ups", Class: "c0", Values: column(r.Days, func(d *overview.Day) int64 { return int64(d.SignUps) })},
			}},
		},
		{
			Now: webui.Cents(income), Note: "in 30 days, before refunds",
			Chart: webui.Chart{Label: "Revenue per day", Steps: byDay, Format: webui.Cents, Axis: webui.Cents, Series: []webui.ChartSeries{
				{Name: "Paid", Class: "c0", Values: column(r.Days, func(d *overview.Day) int64 { return d.Cents })},
			}},
		},
	}
}

// medianNote says what the figure beside it is, with the time that 95% of the calls of the last minute stayed within.
func medianNote(p overview.Point, slow int64) string {
	if p.Calls == 0 {
		return "no calls in the last minute"
	}
	return "median, p95 " + timeOf(p, slow)
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

// busiest returns the calls of the account that made most in the last hour.
func busiest(r *overview.Report) int64 {
	if len(r.BusyHour) == 0 {
		return 1
	}
	return max(1, r.BusyHour[0].Calls)
}

// lately returns how many calls an account made in the last five minutes.
func lately(r *overview.Report, account string) string {
	for _, b := range r.Busy {
		if b.AccountID == account {
			return webui.Number(b.Calls)
		}
	}
	return "0"
}
