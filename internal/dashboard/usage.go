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
	"sluice/internal/usage"
)

// pageKey is the key of calls that were made on these pages.
const pageKey = "dashboard"

// recentCalls is how many single calls are shown at once.
const recentCalls = 20

// usageView is what the page of usage shows.
type usageView struct {
	Total   usage.Sums
	Days    []usage.Row
	Models  []usage.Row // the most called first
	Keys    []usage.Row
	Names   map[string]string // of keys
	Recent  recentView
	Key     string // the filter
	Model   string
	AllKeys []keyChoice
	Choices []string // models
}

type keyChoice struct{ ID, Name string }

// recentView is a part of the list of calls.
type recentView struct {
	Calls []usage.Settlement
	Names map[string]string
	Next  string // where the next part is; empty: this is the last
}

func (d *Dashboard) usagePage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	from := firstDay(d.now())
	view := usageView{Key: r.FormValue("key"), Model: r.FormValue("model"), Names: keyNames(v)}
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
		slices.SortStableFunc(rows, func(a, b usage.Row) int { return int(b.Requests - a.Requests) })
	}
	view.AllKeys, view.Choices = keyChoices(v), modelChoices(view)
	var err error
	if view.Recent, err = d.recentCalls(r, v, usage.Point{At: d.now().Add(time.Minute)}); err != nil {
		return err
	}
	p := d.frame(w, r, v, "Usage")
	p.Styles, p.Scripts = []string{"uplot.css"}, []string{"uplot.js", "charts.js"}
	return d.ui.Render(w, r, http.StatusOK, usagePage(p, view))
}

// recent is the next part of the list of calls.
func (d *Dashboard) recent(w http.ResponseWriter, r *http.Request, v *visitor) error {
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

func (d *Dashboard) recentCalls(r *http.Request, v *visitor, before usage.Point) (recentView, error) {
	calls, err := d.Usage.RecentSettlements(r.Context(), v.ID, before, recentCalls)
	part := recentView{Calls: calls, Names: keyNames(v)}
	if len(calls) == recentCalls {
		last := calls[len(calls)-1]
		part.Next = fmt.Sprintf("%s/usage/recent?before=%d&id=%s", home, last.At.UnixMilli(), url.QueryEscape(last.ID))
	}
	return part, err
}

// exportUsage is the usage of the window as a table for other programs.
func (d *Dashboard) exportUsage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	rows, err := d.Usage.UsageByDay(r.Context(), v.ID, firstDay(d.now()))
	if err != nil {
		return err
	}
	names := keyNames(v)
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="usage.csv"`)
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

// inert keeps a spreadsheet from taking a text for a formula.
func inert(text string) string {
	if text != "" && (text[0] == '=' || text[0] == '+' || text[0] == '-' || text[0] == '@' || text[0] == '\t') {
		return "'" + text
	}
	return text
}

func mean(sum, n int64) int64 {
	if n == 0 {
		return 0
	}
	return sum / n
}

// keyNames are the names of an account's keys by their ids.
func keyNames(v *visitor) map[string]string {
	names := map[string]string{pageKey: "Dashboard"}
	for i := range v.Keys {
		names[v.Keys[i].ID] = nameOf(&v.Keys[i])
	}
	return names
}

func nameOf(k *account.Key) string {
	if k.Master {
		return "Master key"
	}
	return k.Name
}

// keyName is a key's name; one that is gone has none any more.
func keyName(names map[string]string, id string) string {
	if name := names[id]; name != "" {
		return name
	}
	return "deleted key"
}

func keyChoices(v *visitor) []keyChoice {
	list := make([]keyChoice, 0, len(v.Keys)+1)
	for i := range v.Keys {
		list = append(list, keyChoice{v.Keys[i].ID, nameOf(&v.Keys[i])})
	}
	return append(list, keyChoice{pageKey, "Dashboard"})
}

// modelChoices are the models that were called, and the one that is filtered by.
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

// ended says how a call ended.
func ended(s *usage.Settlement) (text, tone string) {
	switch s.End {
	case usage.EndComplete:
		return "complete", "good"
	case usage.EndHangUp:
		return "hung up", ""
	case usage.EndCut:
		return "cut short", "bad"
	}
	return "failed", "bad"
}
