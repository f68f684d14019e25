package webui

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/a-h/templ"
)

// Chart is a chart over time, rendered by the server as SVG: bars that stand on each other, or lines. The page has the
// figures as a table, too.
type Chart struct {
	// Label says what the chart shows, for people who cannot see it.
	Label  string
	Steps  []ChartStep
	Series []ChartSeries
	Lines  bool
	// Before are the values of the period before, one for each step, drawn as a line behind; nil: there is none. They are compared
	// with the first line, or with the sums of the bars.
	Before []int64
	// Format writes a value, and Axis one on the axis. Whole says that values between whole numbers make no sense.
	Format, Axis func(int64) string
	Whole        bool
	// Low is a chart beside others: it is not as high, and has fewer lines.
	Low bool
}

// ChartStep is one step of the chart: of time, or of something that has a name.
type ChartStep struct {
	At time.Time
	// Length is how long the step is. One of a day is a day of UTC.
	Length time.Duration
	// Name is what a step is called that is not one of time, Short its name on the axis if that differs, and Text what a
	// tooltip says in place of the values.
	Name, Short, Text string
}

// Days reports whether the step is a day of UTC, or several.
func (s ChartStep) Days() bool { return s.Length >= 24*time.Hour }

// ChartSeries is one colour of a chart.
type ChartSeries struct {
	Name string
	// Class is the colour, such as "c0"; see app.css.
	Class  string
	Values []int64 // one for each step; NoValue leaves a gap in a line
	Total  string  // shown beside the name; may be empty
}

// NoValue is a step at which a line has no value.
const NoValue = -1

// The drawing is stretched to the width of the page, so it has no text in it.
const chartWidth, chartHeight = 1000.0, 200.0

// names returns how many steps are named below the chart, at most.
func (c *Chart) names() int {
	if c.Low {
		return 3
	}
	return 7
}

// scale returns the value at the top of the chart, and into how many parts lines divide it: of those with round values at all
// lines, the one with the least room above the largest value.
func (c *Chart) scale() (top int64, parts int) {
	most := int64(1)
	for i := range c.Steps {
		sum := int64(0)
		for _, s := range c.Series {
			if c.Lines {
				sum = max(sum, s.Values[i])
			} else {
				sum += s.Values[i]
			}
		}
		most = max(most, sum)
	}
	for _, v := range c.Before {
		most = max(most, v)
	}
	divisions := []int{4, 5, 3}
	if c.Low {
		divisions = []int{2}
	}
	for _, n := range divisions {
		if t := c.roundStep(float64(most)/float64(n)) * int64(n); top == 0 || t < top {
			top, parts = t, n
		}
	}
	return top, parts
}

// roundStep returns the smallest round value that is not below step.
func (c *Chart) roundStep(step float64) int64 {
	step = max(1, step)
	power := math.Pow(10, math.Floor(math.Log10(step)))
	for _, n := range []float64{1, 2, 2.5, 5, 10} {
		if n*power >= step && (!c.Whole || n*power == math.Trunc(n*power)) {
			return int64(math.Round(n * power))
		}
	}
	return int64(math.Ceil(step))
}

// ticks returns the values at the lines, from the top down.
func (c *Chart) ticks() (out []string) {
	top, parts := c.scale()
	for i := parts; i >= 0; i-- {
		out = append(out, c.Axis(top*int64(i)/int64(parts)))
	}
	return out
}

// grid returns the lines across the chart as the path of an SVG.
func (c *Chart) grid() string {
	var b strings.Builder
	_, parts := c.scale()
	for i := range parts + 1 {
		fmt.Fprintf(&b, "M0 %gh%g", chartHeight*float64(i)/float64(parts), chartWidth)
	}
	return b.String()
}

// width returns that of a step.
func (c *Chart) width() float64 { return chartWidth / float64(max(1, len(c.Steps))) }

// path returns one series as the path of an SVG: a rectangle for each step, or a line with gaps.
func (c *Chart) path(which int) string {
	most, _ := c.scale()
	top, step := float64(most), c.width()
	var b strings.Builder
	drawn := false // whether the line has begun
	for i, v := range c.Series[which].Values {
		if c.Lines {
			if v == NoValue {
				drawn = false
				continue
			}
			x, y := (float64(i)+0.5)*step, chartHeight-chartHeight*float64(v)/top
			if drawn {
				fmt.Fprintf(&b, "L%.1f %.1f", x, y)
			} else {
				fmt.Fprintf(&b, "M%.1f %.1fh.1", x, y) // a point, if nothing follows
			}
			drawn = true
			continue
		}
		if v <= 0 {
			continue
		}
		below := int64(0)
		for _, s := range c.Series[:which] {
			below += s.Values[i]
		}
		height := max(1, chartHeight*float64(v)/top)
		y := max(0, chartHeight-chartHeight*float64(below)/top-height)
		fmt.Fprintf(&b, "M%.1f %.1fh%.1fv%.1fh-%.1fz", float64(i)*step+step*0.12, y, step*0.76, height, step*0.76)
	}
	return b.String()
}

// alone returns the points of a line that have no neighbour, as the path of an SVG. In the width of a line they look like specks.
func (c *Chart) alone(which int) string {
	values := c.Series[which].Values
	most, _ := c.scale()
	missing := func(i int) bool { return i < 0 || i == len(values) || values[i] == NoValue }
	var b strings.Builder
	for i, v := range values {
		if c.Lines && !missing(i) && missing(i-1) && missing(i+1) {
			fmt.Fprintf(&b, "M%.1f %.1fh.1", (float64(i)+0.5)*c.width(), chartHeight-chartHeight*float64(v)/float64(most))
		}
	}
	return b.String()
}

// before returns the period before as the path of an SVG: a line, or steps over the bars.
func (c *Chart) before() string {
	most, _ := c.scale()
	top, step := float64(most), c.width()
	var b strings.Builder
	drawn := false
	for i, v := range c.Before {
		if v == NoValue {
			drawn = false
			continue
		}
		to := "L"
		if !drawn {
			to = "M"
		}
		drawn = true
		y := chartHeight - chartHeight*float64(v)/top
		if c.Lines {
			fmt.Fprintf(&b, "%s%.1f %.1fh.1", to, (float64(i)+0.5)*step, y)
		} else {
			fmt.Fprintf(&b, "%s%.1f %.1fh%.1f", to, float64(i)*step, y, step)
		}
	}
	return b.String()
}

// x returns where step i begins, and wide how wide steps are.
func (c *Chart) x(i int) string { return fmt.Sprintf("%.1f", float64(i)*c.width()) }
func (c *Chart) wide() string   { return fmt.Sprintf("%.1f", c.width()) }

// chartLabel is the name of a step below the chart.
type chartLabel struct {
	ChartStep
	x, class string // its middle, and how it stands to it
}

// labels returns the steps that are named below the chart, at equal distances.
func (c *Chart) labels() (out []chartLabel) {
	n := len(c.Steps)
	every := max(1, (n+c.names()-1)/c.names())
	from := 0
	if n > 1 && every > 1 && c.Steps[0].Name == "" && c.Steps[0].Length < time.Hour {
		from, every = c.roundTimes(every)
	}
	for i := from; i < n; i += every {
		class := ""
		switch {
		case i == 0 && every > 1:
			class = "first"
		case i == n-1 && every > 1:
			class = "last"
		}
		out = append(out, chartLabel{c.Steps[i], fmt.Sprintf("%.2f%%", 100*(float64(i)+0.5)/float64(n)), class})
	}
	return out
}

// roundTimes returns which step of less than an hour is named first, and that every so many are named from then on, which is at
// least as many as asked for: those at quarters of an hour and the like.
func (c *Chart) roundTimes(every int) (from, each int) {
	for _, round := range []time.Duration{5 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour} {
		length := c.Steps[0].Length
		if length <= 0 || round%length != 0 || int(round/length) < every {
			continue
		}
		if past := c.Steps[0].At.Sub(c.Steps[0].At.Truncate(round)); past > 0 {
			from = int((round - past + length - 1) / length)
		}
		if from < len(c.Steps) {
			return from, int(round / length)
		}
	}
	return 0, every
}

// tip says what is at step i, a line for each series that has something there.
func (c *Chart) tip(i int) string {
	if text := c.Steps[i].Text; text != "" {
		return text
	}
	var b strings.Builder
	sum := int64(0)
	for _, s := range c.Series {
		if v := s.Values[i]; v > 0 || c.Lines && v != NoValue {
			fmt.Fprintf(&b, "\n%s: %s", s.Name, c.Format(v))
			sum += v
		}
	}
	if i < len(c.Before) && c.Before[i] != NoValue {
		fmt.Fprintf(&b, "\nPrevious period: %s", c.Format(c.Before[i]))
	}
	if !c.Lines && len(c.Series) > 1 && sum > 0 {
		return "Total: " + c.Format(sum) + b.String()
	}
	if b.Len() == 0 {
		return "No requests"
	}
	return strings.TrimPrefix(b.String(), "\n")
}

// name returns the name of a step, in UTC.
func (s ChartStep) name() string {
	switch {
	case s.Name != "":
		return s.Name
	case s.Days():
		return s.At.UTC().Format("Mon ") + DayMonth(s.At)
	}
	return DayMonth(s.At) + s.At.UTC().Format(" 15:04 UTC")
}

// local is how app.js writes the name of a step on the axis in the reader's time zone; empty: it leaves it.
func (s ChartStep) local() string {
	switch {
	case s.Name != "" || s.Days():
		return ""
	case s.Length > time.Hour:
		return "weekday"
	}
	return "clock"
}

// short returns the name of a step on the axis, in UTC.
func (s ChartStep) short() string {
	switch s.local() {
	case "weekday":
		return s.At.UTC().Format("Mon 2")
	case "clock":
		return s.At.UTC().Format("15:04")
	}
	if s.Name != "" {
		return cmp.Or(s.Short, s.Name)
	}
	return DayMonth(s.At)
}

// timed returns the attribute with the time of a step that is shorter than a day, which app.js writes in the reader's
// time zone.
func (s ChartStep) timed() templ.Attributes {
	if s.local() == "" {
		return nil
	}
	return templ.Attributes{"data-at": s.At.UTC().Format(time.RFC3339)}
}
