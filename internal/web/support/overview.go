package support

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"sluice/internal/operate/admin"
	"sluice/internal/operate/incident"
	"sluice/internal/operate/overview"
	"sluice/internal/operate/steering"
	"sluice/internal/operate/ticket"
	"sluice/internal/web/webui"
)

// overviewView is the data of the overview: what the service does, and what waits for a person.
type overviewView struct {
	overview.Report
	Tickets   admin.TicketCounts
	Longest   *ticket.Ticket // the one that waits longest; nil: none waits
	Incidents int            // that are not over, planned ones left out
	Drains    int
}

// overviewNow returns what the overview shows.
func (c *Console) overviewNow(r *http.Request, m *member) (*overviewView, error) {
	v := &overviewView{}
	var waiting admin.List[ticket.Ticket]
	var incidents admin.List[incident.Incident]
	var drains admin.List[steering.Order]
	err := together(r.Context(),
		read(c, m, c.ops.OverviewShow, admin.Empty{}, &v.Report),
		func(ctx context.Context) error {
			if err := read(c, m, c.ops.TicketList, admin.TicketQuery{Cursor: admin.Cursor{Limit: 1}}, &waiting)(ctx); err != nil { // gathers what is counted next
				return err
			}
			return read(c, m, c.ops.TicketCount, admin.Empty{}, &v.Tickets)(ctx)
		},
		read(c, m, c.ops.IncidentList, admin.Cursor{Limit: 50}, &incidents),
		read(c, m, c.ops.UpstreamDrains, admin.Cursor{}, &drains),
	)
	if err != nil {
		return nil, err
	}
	if len(waiting.Data) > 0 {
		v.Longest = &waiting.Data[0]
	}
	for i := range incidents.Data {
		if incidents.Data[i].Running(v.At) {
			v.Incidents++
		}
	}
	v.Drains = len(drains.Data)
	return v, nil
}

// overviewPage shows what the service does now.
func (c *Console) overviewPage(w http.ResponseWriter, r *http.Request, m *member) error {
	v, err := c.overviewNow(r, m)
	if err != nil {
		return err
	}
	return c.ui.Render(w, r, http.StatusOK, overviewPage(c.frame(w, r, m, "Overview"), v))
}

// overviewLive renders the part of the overview that refreshes itself.
func (c *Console) overviewLive(w http.ResponseWriter, r *http.Request, m *member) error {
	v, err := c.overviewNow(r, m)
	if err != nil {
		return err
	}
	return c.ui.Render(w, r, http.StatusOK, overviewPart(v))
}

// lastMinute returns the last minute that is over.
func lastMinute(r *overview.Report) overview.Point { return r.Points[len(r.Points)-2] }

// current returns the minute that is not over yet.
func current(r *overview.Report) overview.Point { return r.Points[len(r.Points)-1] }

// figureChart is a chart with the figure of now, and what that means.
type figureChart struct {
	webui.Chart
	Now, Note string
	None      string // said in place of a chart with nothing in it; empty: the chart is drawn
}

// drawn reports whether something is in the chart, or its axes alone must do.
func (c *figureChart) drawn() bool {
	return c.None == "" || slices.ContainsFunc(c.Series, func(s webui.ChartSeries) bool {
		return slices.ContainsFunc(s.Values, func(v int64) bool { return v != 0 && v != webui.NoValue })
	})
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
			Now: webui.Number(last.Calls + last.Refused), Note: "in the last minute", None: "No requests in the last hour.",
			Chart: webui.Chart{Label: "Requests per minute", Steps: minutes, Whole: true, Format: webui.Number, Axis: webui.Short, Series: []webui.ChartSeries{
				{Name: "Complete", Class: "c0", Values: column(points, func(p *overview.Point) int64 { return p.Calls - p.Failed })},
				{Name: "Failed", Class: "wrong", Values: column(points, func(p *overview.Point) int64 { return p.Failed })},
				{Name: "Over a limit", Class: "c3", Values: column(points, func(p *overview.Point) int64 { return p.Refused })},
			}},
		},
		{
			Now: webui.Short(last.Prompt + last.Answer), Note: "in the last minute", None: "No tokens in the last hour.",
			Chart: webui.Chart{Label: "Tokens per minute", Steps: minutes, Whole: true, Format: webui.Number, Axis: webui.Short, Series: []webui.ChartSeries{
				{Name: "Input", Class: "c1", Values: column(points, func(p *overview.Point) int64 { return p.Prompt })},
				{Name: "Output", Class: "c0", Values: column(points, func(p *overview.Point) int64 { return p.Answer })},
			}},
		},
		{
			Now: timeOf(last, last.Median), Note: medianNote(last, last.Slow), None: "No calls in the last hour.",
			Chart: webui.Chart{Label: "Latency", Steps: minutes, Lines: true, Format: webui.Millis, Axis: webui.Millis, Series: []webui.ChartSeries{
				{Name: "Median", Class: "c0", Values: known(func(p *overview.Point) int64 { return p.Median })},
				{Name: "p95", Class: "c1", Values: known(func(p *overview.Point) int64 { return p.Slow })},
			}},
		},
		{
			Now: timeOf(last, last.First), Note: medianNote(last, last.SlowFirst), None: "No tokens in the last hour.",
			Chart: webui.Chart{Label: "Time to first token", Steps: minutes, Lines: true, Format: webui.Millis, Axis: webui.Millis, Series: []webui.ChartSeries{
				{Name: "Median", Class: "c0", Values: known(func(p *overview.Point) int64 { return p.First })},
				{Name: "p95", Class: "c1", Values: known(func(p *overview.Point) int64 { return p.SlowFirst })},
			}},
		},
		{
			Now: webui.Number(now.Streams), Note: "now, " + webui.Plural(int(now.Running), "call") + " in progress" + videosText(r.Videos), None: noneBefore(now.Streams, "No open streams in the last hour."),
			Chart: webui.Chart{Label: "Open streams", Steps: minutes, Whole: true, Format: webui.Number, Axis: webui.Short, Series: []webui.ChartSeries{
				{Name: "Streams", Class: "c0", Values: column(points, func(p *overview.Point) int64 { return p.Streams })},
			}},
		},
		{
			Now: webui.Number(now.Journal), Note: "waiting for the database", None: noneBefore(now.Journal, "No settlement has waited in the last hour."),
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
			Now: webui.Number(signUps), Note: "in 30 days", None: "Nobody has signed up in 30 days.",
			Chart: webui.Chart{Label: "Sign-ups per day", Steps: byDay, Whole: true, Format: webui.Number, Axis: webui.Short, Series: []webui.ChartSeries{
				{Name: "Sign-ups", Class: "c0", Values: column(r.Days, func(d *overview.Day) int64 { return int64(d.SignUps) })},
			}},
		},
		{
			Now: webui.Cents(income), Note: "in 30 days, before refunds", None: "No payments in 30 days.",
			Chart: webui.Chart{Label: "Revenue per day", Steps: byDay, Format: webui.Cents, Axis: webui.Cents, Series: []webui.ChartSeries{
				{Name: "Paid", Class: "c0", Values: column(r.Days, func(d *overview.Day) int64 { return d.Cents })},
			}},
		},
	}
}

// noneBefore says that the minutes of a chart have nothing, of which the current one is not a part.
func noneBefore(now int64, text string) string {
	if now > 0 {
		return "Only in the current minute."
	}
	return text
}

// videosText says how many videos wait, if any do.
func videosText(v overview.Videos) string {
	if v.Waiting == 0 {
		return ""
	}
	return ", " + webui.Plural(v.Waiting, "video") + " waiting for up to " + webui.Duration(time.Duration(v.OldestSeconds)*time.Second)
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
