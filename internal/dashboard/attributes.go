package dashboard

import (
	"strconv"

	"github.com/a-h/templ"

	"sluice/internal/usage"
)

// tabIndex lets the first of several tabs be reached with the tab key, and the others with arrows.
func tabIndex(i int) string {
	if i == 0 {
		return "0"
	}
	return "-1"
}

// figures are a day's sums for the chart, which reads them from its table.
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

// unpriced says what a cost leaves out.
func unpriced(n int64) string {
	if n == 0 {
		return "at the models' prices"
	}
	return "without " + requests(n) + " of models that have no price"
}
