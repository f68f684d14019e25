package dashboard

import (
	"strconv"

	"github.com/a-h/templ"

	"sluice/internal/usage"
)

// tabIndex makes only the first of several tabs reachable with the Tab key. app.js moves
// between tabs with the arrow keys.
func tabIndex(i int) string {
	if i == 0 {
		return "0"
	}
	return "-1"
}

// figures returns a day's sums as data attributes. charts.js draws the chart from them.
func figures(r usage.Row) templ.Attributes {
	return templ.Attributes{
		"data-day":        strconv.FormatInt(r.Start.Unix(), 10),
		"data-requests":   strconv.FormatInt(r.Requests, 10),
		"data-failed":     strconv.FormatInt(r.Failed, 10),
		"data-prompt":     strconv.FormatInt(r.Prompt, 10),
		"data-completion": strconv.FormatInt(r.Completion, 10),
		"data-cost":       strconv.FormatFloat(float64(r.CostMicro)/1e6, 'f', 6, 64),
		"data-latency":    strconv.FormatInt(mean(r.LatencyMS, r.First), 10),
		"data-first":      strconv.FormatInt(mean(r.FirstMS, r.First), 10),
	}
}

// unpriced returns the note below a cost: whether it leaves out calls to models without a
// price.
func unpriced(n int64) string {
	if n == 0 {
		return "at the models' list prices"
	}
	return "excludes " + requests(n) + " to models without a price"
}
