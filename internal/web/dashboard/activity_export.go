package dashboard

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
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
	price, saved, kind, param := "", "", "", ""
	if x.ListPriceUSD != nil {
		price, saved = x.ListPriceUSD.String(), x.CacheSavedUSD.String()
	}
	if x.Error != nil {
		kind, param = x.Error.Type, x.Error.Param
	}
	return []string{
		x.ID, x.At, n(x.Status), x.Outcome, kind, param, inert(x.ModelAsked), inert(x.Model), x.KeyID, inert(x.KeyName), x.API,
		n(x.PromptTokens), n(x.CachedTokens), n(x.CompletionTokens), n(x.ReasoningTokens), strconv.FormatFloat(x.Units, 'f', -1, 64), price, ms(x.FirstTokenMS), ms(x.LatencyMS),
		inert(x.Session), inert(strings.Join(x.Tags, " ")), n(x.CacheWriteTokens), saved,
	}
}

// requestColumns are part of the format: programs read them, so new ones come last. Tags have spaces between them.
var requestColumns = []string{
	"id", "at", "status", "outcome", "error_type", "error_param", "model_asked", "model", "key_id", "key_name", "api", "prompt_tokens", "cached_tokens", "completion_tokens",
	"reasoning_tokens", "units", "list_price_usd", "first_token_ms", "latency_ms", "session", "tags", "cache_write_tokens", "cache_saved_usd",
}

// eachListed calls do with every request of the choice, newest first, up to mostListed.
func (d *Dashboard) eachListed(r *http.Request, v *visitor, do func(x *activity.Record)) error {
	names, err := d.Activity.Names(r.Context(), v.ID)
	if err != nil {
		return err
	}
	q, next, n := d.query(v, choiceOf(r)), "", 0
	for {
		page, err := d.Activity.Requests(r.Context(), q, next, activity.MaxEntries)
		if err != nil {
			return err
		}
		for i := range page.Entries {
			x := page.Entries[i].Record(names)
			do(&x)
			n++
		}
		if next = page.Next; next == "" || n >= mostListed || r.Context().Err() != nil {
			return nil
		}
	}
}

// saveCSV serves a file of CSV. rows calls its argument with every line below the names of the columns.
func saveCSV(w http.ResponseWriter, name string, columns []string, rows func(line func([]string)) error) error {
	file := &download{ResponseWriter: w, kind: "text/csv; charset=utf-8", name: name}
	// csv.Writer remembers its first error, so the results of Write can be ignored.
	out := csv.NewWriter(file)
	_ = out.Write(columns)
	err := rows(func(line []string) { _ = out.Write(line) })
	if err == nil {
		out.Flush() // and else the reply may still become an error page
	}
	return file.end(err)
}

// exportCSV writes the requests as CSV.
func (d *Dashboard) exportCSV(w http.ResponseWriter, r *http.Request, v *visitor) error {
	return saveCSV(w, "requests.csv", requestColumns, func(line func([]string)) error {
		return d.eachListed(r, v, func(x *activity.Record) { line(recordOf(x)) })
	})
}

// exportJSON writes the requests as a JSON array, one on each line.
func (d *Dashboard) exportJSON(w http.ResponseWriter, r *http.Request, v *visitor) error {
	file := &download{ResponseWriter: w, kind: "application/json", name: "requests.json"}
	out := bufio.NewWriter(file)
	before := "["
	err := d.eachListed(r, v, func(x *activity.Record) {
		line, _ := json.Marshal(x) // plain fields always encode
		_, _ = fmt.Fprintf(out, "%s\n%s", before, line)
		before = ","
	})
	if err != nil {
		return file.end(err)
	}
	_, _ = fmt.Fprintf(out, "%s\n]\n", strings.TrimSuffix(before, ","))
	return file.end(out.Flush())
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
	columns := []string{
		"day", "model", "key_id", "key_name", "requests", "not_complete", "prompt_tokens", "cached_tokens", "completion_tokens",
		"reasoning_tokens", "cost_usd", "unpriced_requests", "mean_latency_ms", "mean_first_token_ms", "cache_write_tokens", "cacheable_tokens", "cache_saved_usd",
	}
	return saveCSV(w, "usage.csv", columns, func(line func([]string)) error {
		for i := range rows {
			row := &rows[i]
			if !narrow.Wants(&usage.Kind{KeyID: row.KeyID, Model: row.Model}) {
				continue
			}
			n := func(v int64) string { return strconv.FormatInt(v, 10) }
			line([]string{
				row.Start.Format(time.DateOnly), inert(row.Model), row.KeyID, inert(names.Of(row.KeyID)), n(row.Requests), n(row.Failed), n(row.Prompt), n(row.Cached),
				n(row.Completion), n(row.Reasoning), row.Charge().String(), n(row.Unpriced), n(mean(row.LatencyMS, row.First)), n(mean(row.FirstMS, row.First)), n(row.Written), n(row.Cacheable), row.SavedCharge().String(),
			})
		}
		return nil
	})
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
