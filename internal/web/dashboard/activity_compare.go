package dashboard

import (
	"math"
	"strconv"
	"time"

	"sluice/internal/ledger/activity"
	"sluice/internal/ledger/usage"
	"sluice/internal/web/webui"
)

// figure is one figure of a page, with what it is compared with.
type figure struct {
	Label, Value, Note string
	// Link is where the figure leads, and Title says to what; empty: nowhere. Without a link, Title is the exact figure.
	Link, Title string
	Change      change
}

// change is how a figure differs from that of the period before. Without a text there is nothing to compare it with.
type change struct {
	Text, Title string
	Tone        string // "good" or "bad"; empty: neither
}

// figures returns the figures of the activity page.
func (v *activityView) figures() []figure {
	cost := figure{Label: "List price", Value: webui.Total(v.Total.Charge()), Note: covered(v.Total.Unpriced), Change: v.sum(func(t *usage.Tally) int64 { return int64(t.Charge()) }, webui.Total[int64])}
	if v.spent() {
		cost.Link, cost.Title = v.costsAt(), "What it consists of"
	}
	return []figure{
		{Label: "Requests", Value: webui.Number(v.Total.Calls), Note: refusedNote(v.Report), Change: v.sum(func(t *usage.Tally) int64 { return t.Calls }, webui.Number)},
		{Label: "Tokens", Value: webui.Short(v.Total.Prompt + v.Total.Completion), Note: webui.Short(v.Total.Prompt) + " in, " + webui.Short(v.Total.Completion) + " out", Change: v.sum(func(t *usage.Tally) int64 { return t.Prompt + t.Completion }, webui.Short)},
		{Label: "Latency p50", Value: percentile(v.Times.P50, v.Times.Known), Note: "p95 " + percentile(v.Times.P95, v.Times.Known), Change: v.time(func(t *activity.Times) (int64, bool) { return t.P50, t.Known })},
		{Label: "First token p50", Value: percentile(v.Times.FirstP50, v.Times.FirstKnown), Note: "p95 " + percentile(v.Times.FirstP95, v.Times.FirstKnown), Change: v.time(func(t *activity.Times) (int64, bool) { return t.FirstP50, t.FirstKnown })},
		cost,
		{Label: "Cache hits", Value: webui.HitRate(v.Total.Hits()), Note: savedText(v.Total.SavedCharge()), Link: cachesPath, Title: "What caches gave", Change: v.hits()},
	}
}

// sum compares a sum with that of the period before. The last step of this period may have just begun, so of the last step before
// only the same part counts.
func (v *activityView) sum(value func(*usage.Tally) int64, format func(int64) string) change {
	e := v.Earlier
	if e == nil || len(e.Steps) == 0 {
		return change{}
	}
	whole, last := float64(value(&e.Total)), &e.Steps[len(e.Steps)-1].Tally
	before := whole - (1-v.elapsed())*float64(value(last))
	return changeOf(float64(value(&v.Total)), before, format(int64(math.Round(before))))
}

// elapsed returns which part of the last step is over.
func (v *activityView) elapsed() float64 {
	step := v.Report.Range.Step
	last := v.Report.Steps[len(v.Report.Steps)-1].Start
	if v.chosen() {
		last = v.Report.Range.Until.Add(-step)
	}
	return min(1, max(0, float64(v.Now.Sub(last))/float64(step)))
}

// time compares a duration with that of the period before.
func (v *activityView) time(value func(*activity.Times) (int64, bool)) change {
	if v.Earlier == nil {
		return change{}
	}
	now, known := value(&v.Times)
	before, had := value(&v.Earlier.Times)
	if !known || !had {
		return change{}
	}
	c := changeOf(float64(now), float64(before), webui.Millis(before))
	switch {
	case now > before && float64(now) >= 1.1*float64(before):
		c.Tone = "bad"
	case now < before && float64(now) <= 0.9*float64(before):
		c.Tone = "good"
	}
	return c
}

// hits compares the hit rate of caches with that of the period before, in percentage points.
func (v *activityView) hits() change {
	if v.Earlier == nil {
		return change{}
	}
	now, known := v.Total.Hits().Rate()
	before, had := v.Earlier.Total.Hits().Rate()
	if !known || !had {
		return change{}
	}
	points := int(math.Round(100 * (now - before)))
	unit := " points"
	if points == 1 || points == -1 {
		unit = " point"
	}
	return change{Text: delta(points) + unit, Title: webui.HitRate(v.Earlier.Total.Hits()) + " in the period before"}
}

// changeOf says how a value differs from that before, in percent. From nothing there is no percentage.
func changeOf(now, before float64, text string) change {
	if before <= 0 {
		return change{}
	}
	percent := 100 * (now - before) / before
	c := change{Text: delta(int(math.Round(percent))) + "%", Title: text + " in the period before"}
	if percent >= 1000 {
		c.Text = "× " + strconv.FormatFloat(now/before, 'f', 0, 64)
	}
	return c
}

// delta formats a number with its sign.
func delta(n int) string {
	switch {
	case n > 0:
		return "+" + strconv.Itoa(n)
	case n < 0:
		return "−" + strconv.Itoa(-n)
	}
	return "±0"
}

// stepSeconds returns the length of a step for the script that selects a part of the chart.
func (v *activityView) stepSeconds() string { return strconv.Itoa(int(v.Step / time.Second)) }
