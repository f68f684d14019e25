package webui_test

import (
	"strings"
	"testing"
	"time"

	"sluice/internal/web/webui"
)

// drawn returns a chart as HTML.
func drawn(t *testing.T, c *webui.Chart) string {
	t.Helper()
	var b strings.Builder
	if err := webui.ChartOf(c).Render(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The axes of a chart have round values and some of the steps, and each step says what is there.
func TestChart(t *testing.T) {
	t.Parallel()
	day := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	days := &webui.Chart{Label: "Requests", Format: webui.Number, Axis: webui.Short, Whole: true, Series: []webui.ChartSeries{
		{Name: "a <b>", Class: "c0", Total: "61"}, {Name: "other", Class: "c1"},
	}}
	for i := range 31 {
		days.Steps = append(days.Steps, webui.ChartStep{At: day.AddDate(0, 0, i), Length: 24 * time.Hour})
		days.Series[0].Values, days.Series[1].Values = append(days.Series[0].Values, int64(i)), append(days.Series[1].Values, 2)
	}
	hours := &webui.Chart{
		Label: "Latency", Format: webui.Millis, Axis: webui.Millis, Lines: true,
		Steps:  []webui.ChartStep{{At: day, Length: time.Hour}, {At: day.Add(time.Hour), Length: time.Hour}},
		Series: []webui.ChartSeries{{Name: "p50", Class: "c0", Values: []int64{1500, webui.NoValue}}},
	}
	for _, tt := range []struct {
		name  string
		chart *webui.Chart
		has   []string
		not   []string
	}{
		{
			"days", days,
			[]string{
				"<span>40</span><span>30</span><span>20</span><span>10</span><span>0</span>", `x="1.61%" y="12" class="first">1 May</text>`, ">6 May</text>", `class="last">31 May</text>`,
				"<title>Sun 31 May\nTotal: 32\na &lt;b&gt;: 30\nother: 2</title>", `<span class="sum">61</span>`,
			},
			[]string{"data-local", "data-at", ">2 May</text>"},
		},
		{
			"hours", hours,
			[]string{
				"<span>1.5 s</span>", "<span>1 s</span>", "<span>500 ms</span>", "<title>1 May 00:00 UTC\np50: 1.5 s</title>", "<title>1 May 01:00 UTC\nNo requests</title>",
				`data-local="clock" data-at="2026-05-01T01:00:00Z">01:00</text>`,
			},
			[]string{"Total"},
		},
	} {
		got := drawn(t, tt.chart)
		for _, want := range tt.has {
			if !strings.Contains(got, want) {
				t.Errorf("the chart of %s lacks %s:\n%s", tt.name, want, got)
			}
		}
		for _, not := range tt.not {
			if strings.Contains(got, not) {
				t.Errorf("the chart of %s has %s", tt.name, not)
			}
		}
	}
}

func TestBars(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	bars := []webui.Bar{{Value: 3, Name: "Mon 1 May 00:00 UTC", Short: "Mon 1", Text: "3 requests"}, {Name: "Mon 1 May 01:00 UTC", Text: "no requests"}}
	if err := webui.Bars("Requests", bars, webui.Short).Render(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`class="graph low"`, "<span>4</span><span>2</span><span>0</span>", ">Mon 1</text>", ">Mon 1 May 01:00 UTC</text>", "<title>Mon 1 May 00:00 UTC\n3 requests</title>"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the bars lack %s:\n%s", want, &b)
		}
	}
	if strings.Contains(b.String(), "legend") {
		t.Error("bars of one kind have a legend")
	}
}

// The minutes of an hour are named at its quarters, whenever it begins.
func TestChartOfMinutes(t *testing.T) {
	t.Parallel()
	for begin, want := range map[string][]string{
		"18:57": {">19:00<", ">19:15<", ">19:30<", ">19:45<"}, "19:00": {">19:00<", ">19:15<", ">19:30<", ">19:45<"}, "18:46": {">19:00<", ">19:15<", ">19:30<", ">19:45<"},
	} {
		at, err := time.Parse("15:04", begin)
		if err != nil {
			t.Fatal(err)
		}
		c := &webui.Chart{Label: "Requests", Format: webui.Number, Axis: webui.Short, Series: []webui.ChartSeries{{Name: "a", Class: "c0", Values: make([]int64, 60)}}}
		for i := range 60 {
			c.Steps = append(c.Steps, webui.ChartStep{At: at.Add(time.Duration(i) * time.Minute), Length: time.Minute})
		}
		got := drawn(t, c)
		for _, name := range want {
			if !strings.Contains(got, name) {
				t.Errorf("the chart from %s has no %q", begin, name)
			}
		}
		if n := strings.Count(got, `data-local="clock"`); n != len(want) {
			t.Errorf("the chart from %s has %d names, want %d", begin, n, len(want))
		}
	}
}
