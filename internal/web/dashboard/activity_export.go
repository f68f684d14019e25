package dashboard

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
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
	return d.eachEntry(r, d.query(v, choiceOf(r)), func(e *activity.Entry) {
		x := e.Record(names)
		do(&x)
	})
}

// eachEntry calls do with every request that a query asks for, newest first, up to mostListed.
func (d *Dashboard) eachEntry(r *http.Request, q activity.Query, do func(e *activity.Entry)) error {
	for n, next := 0, ""; ; {
		page, err := d.Activity.Requests(r.Context(), q, next, activity.MaxEntries)
		if err != nil {
			return err
		}
		for i := range page.Entries {
			do(&page.Entries[i])
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

// daysAt returns the address of the totals by day of the choice. It always says of which time.
func (c *choice) daysAt() string {
	if c.chosen() {
		return c.at("/activity/days.csv")
	}
	return c.at("/activity/days.csv", "range", c.Range.Name)
}

// exportDays writes totals by day, model and key as CSV, of the days that the range of the choice is in. Column names are part of
// the format: programs read them.
func (d *Dashboard) exportDays(w http.ResponseWriter, r *http.Request, v *visitor) error {
	names, err := d.Activity.Names(r.Context(), v.ID)
	if err != nil {
		return err
	}
	c := choiceOf(r)
	if !c.chosen() && r.FormValue("range") == "" {
		c.Range, _ = activity.RangeOf("30d") // of the address alone
	}
	rows, err := d.dayRows(r, v, c)
	if err != nil {
		return err
	}
	columns := []string{
		"day", "model", "key_id", "key_name", "requests", "not_complete", "prompt_tokens", "cached_tokens", "completion_tokens",
		"reasoning_tokens", "cost_usd", "unpriced_requests", "mean_latency_ms", "mean_first_token_ms", "cache_write_tokens", "cacheable_tokens", "cache_saved_usd",
	}
	return saveCSV(w, "usage.csv", columns, func(line func([]string)) error {
		for i := range rows {
			row := &rows[i]
			n := func(v int64) string { return strconv.FormatInt(v, 10) }
			line([]string{
				row.Start.Format(time.DateOnly), inert(row.Model), row.KeyID, inert(names.Of(row.KeyID)), n(row.Requests), n(row.Failed), n(row.Prompt), n(row.Cached),
				n(row.Completion), n(row.Reasoning), row.Charge().String(), n(row.Unpriced), n(mean(row.LatencyMS, row.First)), n(mean(row.FirstMS, row.First)), n(row.Written), n(row.Cacheable), row.SavedCharge().String(),
			})
		}
		return nil
	})
}

// dayRows returns the sums of each day, model and key of the choice. Days are kept as sums by key and by the model that answered; what
// is narrowed further is added up from the calls, of which an export reads a bounded number.
func (d *Dashboard) dayRows(r *http.Request, v *visitor, c choice) ([]usage.Row, error) {
	q := d.query(v, c)
	from := usage.DayOf(q.Range.From(q.Now))
	if c.Outcome == activity.Any && c.Model == "" && c.Session == "" && c.Tag == "" {
		rows, err := d.Usage.UsageByDay(r.Context(), v.ID, from)
		return slices.DeleteFunc(rows, func(row usage.Row) bool {
			return c.Key != "" && row.KeyID != c.Key || c.chosen() && !row.Start.Before(q.Range.Until)
		}), err
	}
	days := map[usage.Slot]*usage.Sums{}
	if c.Outcome != activity.Refused {
		// Whole days, as above.
		until := usage.DayOf(q.Now).Add(24 * time.Hour)
		if c.chosen() {
			until = usage.DayOf(q.Range.Until.Add(-1)).Add(24 * time.Hour)
		}
		q.Range = activity.Range{Step: 24 * time.Hour, N: int(until.Sub(from) / (24 * time.Hour)), Until: until}
		err := d.eachEntry(r, q, func(e *activity.Entry) {
			if e.Call == nil {
				return
			}
			at := usage.Slot{Start: usage.DayOf(e.Call.At), KeyID: e.Call.KeyID, Model: e.Call.ModelUsed}
			if days[at] == nil {
				days[at] = &usage.Sums{}
			}
			days[at].Add(e.Call)
		})
		if err != nil {
			return nil, err
		}
	}
	rows := make([]usage.Row, 0, len(days))
	for at, sums := range days {
		rows = append(rows, usage.Row{Slot: at, Sums: *sums})
	}
	slices.SortFunc(rows, func(a, b usage.Row) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.KeyID, b.KeyID), cmp.Compare(a.Model, b.Model))
	})
	return rows, nil
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
