package dashboard

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"sluice/internal/account"
	"sluice/internal/fault"
	"sluice/internal/order"
	"sluice/internal/usage"
)

// pageKey is the key id recorded for calls made from these pages, which have no key.
const pageKey = "dashboard"

// recentCalls is the number of calls in one part of the list.
const recentCalls = 20

// usageView is the data of the usage page.
type usageView struct {
	Total usage.Sums
	Days  []usage.Row
	// Models and Keys are sorted by requests, the most used first.
	Models []usage.Row
	Keys   []usage.Row
	// Names holds the names of keys by id.
	Names  map[string]string
	Recent recentView
	// Refused is not filtered: refused calls have no usage.
	Refused refusedView
	// Key and Model are the current filters. Empty means all.
	Key     string
	Model   string
	AllKeys []keyChoice
	// Choices holds the models to filter by.
	Choices []string
}

// keyChoice is an entry of the filter by key.
type keyChoice struct{ ID, Name string }

// recentView is one part of the list of calls.
type recentView struct {
	Calls []usage.Settlement
	Names map[string]string
	// Next is the address of the next part, or "" if this is the last.
	Next string
}

// usagePage shows the last 30 days, filtered by key and model if the query names them.
func (d *Dashboard) usagePage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	from := firstDay(d.now())
	view := usageView{Key: r.FormValue("key"), Model: r.FormValue("model"), Names: keyNames(v)}
	// The same query runs three times, grouped differently.
	ask := usage.Query{AccountID: v.ID, From: from, KeyID: view.Key, Model: view.Model}
	for by, to := range map[usage.By]*[]usage.Row{usage.ByDay: &view.Days, usage.ByModel: &view.Models, usage.ByKey: &view.Keys} {
		ask.By = by
		rows, err := d.Usage.UsageBy(r.Context(), ask)
		if err != nil {
			return err
		}
		*to = rows
	}
	for i := range view.Days {
		view.Total.Merge(view.Days[i].Sums)
	}
	view.Days = everyDay(view.Days, from)
	for _, rows := range [][]usage.Row{view.Models, view.Keys} {
		order.StablyBy(rows, func(a, b usage.Row) int { return int(b.Requests - a.Requests) })
	}
	// The filters offer all keys, but only models that have usage: the catalog may have
	// hundreds.
	view.AllKeys, view.Choices = keyChoices(v), modelChoices(view)
	var err error
	// The list starts a minute in the future, so that a call recorded by a server whose clock
	// is ahead is not left out.
	if view.Recent, err = d.recentCalls(r, v, usage.Point{At: d.now().Add(time.Minute)}); err != nil {
		return err
	}
	if view.Refused, err = d.refused(r, v); err != nil {
		return err
	}
	p := d.frame(w, r, v, "Usage")
	// Only this page has a chart.
	p.Styles, p.Scripts = []string{"uplot.css"}, []string{"uplot.js", "charts.js"}
	return d.ui.Render(w, r, http.StatusOK, usagePage(p, view))
}

// recent renders the next part of the list of calls, for htmx.
func (d *Dashboard) recent(w http.ResponseWriter, r *http.Request, v *visitor) error {
	// The cursor is the time in milliseconds and the id of the last call shown. The id breaks
	// ties.
	before, err := strconv.ParseInt(r.FormValue("before"), 10, 64)
	if err != nil {
		return fault.New(fault.Invalid, "There is no such part of the list.")
	}
	part, err := d.recentCalls(r, v, usage.Point{At: time.UnixMilli(before), ID: r.FormValue("id")})
	if err != nil {
		return err
	}
	return d.ui.Render(w, r, http.StatusOK, recentRows(part))
}

// recentCalls reads one part of the list. A full part may be the last one; the next is then
// empty.
func (d *Dashboard) recentCalls(r *http.Request, v *visitor, before usage.Point) (recentView, error) {
	calls, err := d.Usage.RecentSettlements(r.Context(), v.ID, before, recentCalls)
	part := recentView{Calls: calls, Names: keyNames(v)}
	if len(calls) == recentCalls {
		last := calls[len(calls)-1]
		part.Next = fmt.Sprintf("%s/usage/recent?before=%d&id=%s", home, last.At.UnixMilli(), url.QueryEscape(last.ID))
	}
	return part, err
}

// exportUsage writes the usage of the window as CSV. Column names are part of the format:
// programs read them.
func (d *Dashboard) exportUsage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	rows, err := d.Usage.UsageByDay(r.Context(), v.ID, firstDay(d.now()))
	if err != nil {
		return err
	}
	names := keyNames(v)
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
		n := func(v int64) string { return strconv.FormatInt(v, 10) }
		_ = out.Write([]string{
			row.Start.Format(time.DateOnly), inert(row.Model), row.KeyID, inert(keyName(names, row.KeyID)), n(row.Requests), n(row.Failed), n(row.Prompt), n(row.Cached),
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

// keyNames returns the names of an account's keys by id.
func keyNames(v *visitor) map[string]string {
	names := map[string]string{pageKey: "Dashboard"}
	for i := range v.Keys {
		names[v.Keys[i].ID] = nameOf(&v.Keys[i])
	}
	return names
}

// nameOf returns a key's display name. The master key has none of its own.
func nameOf(k *account.Key) string {
	if k.Master {
		return "Master key"
	}
	return k.Name
}

// keyName returns a key's name. Usage outlives its key, so the key may be gone.
func keyName(names map[string]string, id string) string {
	if name := names[id]; name != "" {
		return name
	}
	return "deleted key"
}

// keyChoices returns the keys to filter by, with the pages' own as the last one.
func keyChoices(v *visitor) []keyChoice {
	list := make([]keyChoice, 0, len(v.Keys)+1)
	for i := range v.Keys {
		list = append(list, keyChoice{v.Keys[i].ID, nameOf(&v.Keys[i])})
	}
	return append(list, keyChoice{pageKey, "Dashboard"})
}

// modelChoices returns the models to filter by: those with usage, and the current filter even
// if it has none.
func modelChoices(view usageView) []string {
	var list []string
	for i := range view.Models {
		list = append(list, view.Models[i].Model)
	}
	if view.Model != "" && !slices.Contains(list, view.Model) {
		list = append(list, view.Model)
	}
	slices.Sort(list)
	return list
}

// ended returns how a call ended and the colour of its badge. A client that disconnects is not
// a failure of ours.
func ended(s *usage.Settlement) (text, tone string) {
	switch s.End {
	case usage.EndComplete:
		return "completed", "good"
	case usage.EndHangUp:
		return "client disconnected", ""
	case usage.EndCut:
		return "cut off", "bad"
	}
	return "failed", "bad"
}
