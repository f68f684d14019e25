package dashboard

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"sluice/internal/ledger/activity"
	"sluice/internal/ledger/usage"
)

// mostListed is how many requests an export has at most. It is written as it is read.
const mostListed = 50_000

// recordOf returns a request as a line of CSV, in the order of requestColumns.
func recordOf(x *activity.Record) []string {
	n := func(v int) string { return strconv.Itoa(v) }
	ms := func(v *int64) string {
		if v == nil {
			return ""
		}
		return strconv.FormatInt(*v, 10)
	}
	price, kind, param := "", "", ""
	if x.ListPriceUSD != nil {
		price = strconv.FormatFloat(*x.ListPriceUSD, 'f', 6, 64)
	}
	if x.Error != nil {
		kind, param = x.Error.Type, x.Error.Param
	}
	return []string{
		x.ID, x.At, n(x.Status), x.Outcome, kind, param, inert(x.ModelAsked), inert(x.Model), x.KeyID, inert(x.KeyName), x.API,
		n(x.PromptTokens), n(x.CachedTokens), n(x.CompletionTokens), n(x.ReasoningTokens), strconv.FormatFloat(x.Units, 'f', -1, 64), price, ms(x.FirstTokenMS), ms(x.LatencyMS),
	}
}

// requestColumns are part of the format: programs read them.
var requestColumns = []string{
	"id", "at", "status", "outcome", "error_type", "error_param", "model_asked", "model", "key_id", "key_name", "api", "prompt_tokens", "cached_tokens", "completion_tokens",
	"reasoning_tokens", "units", "list_price_usd", "first_token_ms", "latency_ms",
}

// eachListed calls do with every request of the choice, newest first, up to mostListed. The first part is read before
// begin is called, so that a failure becomes an error page. A later one cuts the file off.
func (d *Dashboard) eachListed(r *http.Request, v *visitor, begin func(), do func(x activity.Record)) error {
	names, err := d.Activity.Names(r.Context(), v.ID)
	if err != nil {
		return err
	}
	q, next, n := d.query(v, choiceOf(r)), "", 0
	for first := true; ; first = false {
		page, err := d.Activity.Requests(r.Context(), q, next, activity.MaxEntries)
		if err != nil && first {
			return err
		}
		if err != nil {
			panic(http.ErrAbortHandler) // half a file must not look like a whole one
		}
		if first {
			begin()
		}
		for i := range page.Entries {
			do(page.Entries[i].Record(names))
			n++
		}
		if next = page.Next; next == "" || n >= mostListed || r.Context().Err() != nil {
			return nil
		}
	}
}

// exportCSV writes the requests as CSV.
func (d *Dashboard) exportCSV(w http.ResponseWriter, r *http.Request, v *visitor) error {
	// csv.Writer remembers its first error, which means that the browser left.
	out := csv.NewWriter(w)
	err := d.eachListed(r, v, func() {
		w.Header().Set("Content-Type", "text/csv; charset=utf-8")
		w.Header().Set("Content-Disposition", `attachment; filename="requests.csv"`)
		_ = out.Write(requestColumns)
	}, func(x activity.Record) { _ = out.Write(recordOf(&x)) })
	out.Flush()
	return err
}

// exportJSON writes the requests as a JSON array, one on each line.
func (d *Dashboard) exportJSON(w http.ResponseWriter, r *http.Request, v *visitor) error {
	before := "[\n"
	err := d.eachListed(r, v, func() {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Disposition", `attachment; filename="requests.json"`)
	}, func(x activity.Record) {
		line, _ := json.Marshal(x) // plain fields always encode
		_, _ = fmt.Fprintf(w, "%s%s", before, line)
		before = ",\n"
	})
	if err != nil {
		return err
	}
	if before == "[\n" {
		_, _ = w.Write([]byte("[")) // there were none
	}
	_, _ = w.Write([]byte("\n]\n"))
	return nil
}

// exportDays writes the totals of the last 30 days by day, model and key as CSV. Column names are part of the format:
// programs read them.
func (d *Dashboard) exportDays(w http.ResponseWriter, r *http.Request, v *visitor) error {
	rows, err := d.Usage.UsageByDay(r.Context(), v.ID, firstDay(time.Now()))
	if err != nil {
		return err
	}
	names, err := d.Activity.Names(r.Context(), v.ID)
	if err != nil {
		return err
	}
	c := choiceOf(r)
	narrow := usage.Narrow{KeyID: c.Key, Model: c.Model}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="usage.csv"`)
	// csv.Writer remembers its first error, so the results of Write can be ignored.
	out := csv.NewWriter(w)
	_ = out.Write([]string{
		"day", "model", "key_id", "key_name", "requests", "not_complete", "prompt_tokens", "cached_tokens", "completion_tokens",
		"reasoning_tokens", "cost_usd", "unpriced_requests", "mean_latency_ms", "mean_first_token_ms",
	})
	for i := range rows {
		row := &rows[i]
		if !narrow.Wants(&usage.Kind{KeyID: row.KeyID, Model: row.Model}) {
			continue
		}
		n := func(v int64) string { return strconv.FormatInt(v, 10) }
		_ = out.Write([]string{
			row.Start.Format(time.DateOnly), inert(row.Model), row.KeyID, inert(names.Of(row.KeyID)), n(row.Requests), n(row.Failed), n(row.Prompt), n(row.Cached),
			n(row.Completion), n(row.Reasoning), fmt.Sprintf("%.6f", float64(row.CostMicro)/1e6), n(row.Unpriced), n(mean(row.LatencyMS, row.First)), n(mean(row.FirstMS, row.First)),
		})
	}
	out.Flush() // an error means that the browser left
	return nil
}

// inert returns text so that a spreadsheet does not run it as a formula. Names of keys are
// free text, and a spreadsheet evaluates a cell that starts with one of these characters.
func inert(text string) string {
	if text != "" && (text[0] == '=' || text[0] == '+' || text[0] == '-' || text[0] == '@' || text[0] == '\t') {
		return "'" + text
	}
	return text
}

// mean returns the average, rounded down, or 0 if n is 0.
func mean(sum, n int64) int64 {
	if n == 0 {
		return 0
	}
	return sum / n
}
