package dashboard

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/ledger/activity"
	"sluice/internal/ledger/misses"
	"sluice/internal/ledger/usage"
	"sluice/internal/web/webui"
)

// listed is the number of requests in one part of the list.
const listed = 25

// shownRows is the number of rows of the tables by model and by key.
const shownRows = 10

// activityView is the data of the activity page.
type activityView struct {
	choice
	*activity.Report
	Names activity.Names
	Chart *webui.Chart
	List  listView
	// Models and Keys are what can be filtered by.
	ModelChoices []string
	KeyChoices   []keyChoice
}

// choice is what the visitor chose to see. It is in the address of the page, so that a reload, Back and a link to a
// colleague show the same.
type choice struct {
	Range   activity.Range
	Show    string // what the chart shows
	Group   activity.By
	Model   string
	Key     string
	Outcome activity.Outcome
}

// keyChoice is an entry of the filter by key.
type keyChoice struct{ ID, Name string }

// listView is one part of the list of requests.
type listView struct {
	activity.Page
	choice
	Names activity.Names
	// Begun says that this is not the first part.
	Begun bool
}

// shows are the charts there are, and showNames their names.
var (
	shows     = []string{"requests", "tokens", "cost", "latency"}
	showNames = map[string]string{"requests": "Requests", "tokens": "Tokens", "cost": "List price", "latency": "Latency"}
)

// maxFilter is the length of a filter at most, in bytes. Names of models may be about as long.
const maxFilter = 300

// choiceOf reads what the visitor chose. What makes no sense counts as not chosen: an old link still works.
func choiceOf(r *http.Request) choice {
	c := choice{Show: r.FormValue("show"), Group: activity.By(r.FormValue("by")), Model: r.FormValue("model"), Key: r.FormValue("key"), Outcome: activity.Outcome(r.FormValue("outcome"))}
	var ok bool
	if c.Range, ok = activity.RangeOf(r.FormValue("range")); !ok {
		c.Range, _ = activity.RangeOf("24h")
	}
	if !slices.Contains(shows, c.Show) {
		c.Show = shows[0]
	}
	switch c.Group {
	case activity.ByKey, activity.ByStatus, activity.ByEnd:
	default:
		c.Group = activity.ByModel
	}
	if !c.Outcome.Valid() {
		c.Outcome = activity.Any
	}
	if len(c.Model) > maxFilter {
		c.Model = ""
	}
	if len(c.Key) > maxFilter {
		c.Key = ""
	}
	return c
}

// at returns the address of a page with the choice in it. changes are pairs of a name and a value.
func (c choice) at(path string, changes ...string) string {
	q := url.Values{}
	// Defaults are left out, so that addresses are short and the plain page has only one.
	set := func(name, value, usual string) {
		if value != usual {
			q.Set(name, value)
		}
	}
	set("range", c.Range.Name, "24h")
	set("show", c.Show, shows[0])
	set("by", string(c.Group), string(activity.ByModel))
	set("model", c.Model, "")
	set("key", c.Key, "")
	set("outcome", string(c.Outcome), "")
	for i := 0; i+1 < len(changes); i += 2 {
		q.Del(changes[i])
		if changes[i+1] != "" {
			q.Set(changes[i], changes[i+1])
		}
	}
	if len(q) == 0 {
		return home + path
	}
	return home + path + "?" + q.Encode()
}

// query returns what the choice asks for.
func (d *Dashboard) query(v *visitor, c choice) activity.Query {
	return activity.Query{AccountID: v.ID, Now: time.Now(), Range: c.Range, Model: c.Model, KeyID: c.Key, Outcome: c.Outcome}
}

// activityPage shows what the account's calls did.
func (d *Dashboard) activityPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	view := activityView{choice: choiceOf(r)}
	q := d.query(v, view.choice)
	var err error
	if view.Names, err = d.Activity.Names(r.Context(), v.ID); err != nil {
		return err
	}
	if view.Report, err = d.Activity.Report(r.Context(), q, view.Group); err != nil {
		return err
	}
	if view.List, err = d.list(r, v, view.choice, view.Names); err != nil {
		return err
	}
	view.Chart = chartOf(&view)
	view.ModelChoices, view.KeyChoices = modelChoices(&view), keyChoices(&view, v)
	p := d.frame(w, r, v, "Activity")
	p.Styles, p.Scripts = []string{"activity.css"}, []string{"activity.js"}
	return d.ui.Render(w, r, http.StatusOK, activityPage(p, &view))
}

// requestList renders the next part of the list of requests, for htmx. Without a script it is the page itself that shows
// it.
func (d *Dashboard) requestList(w http.ResponseWriter, r *http.Request, v *visitor) error {
	c := choiceOf(r)
	if !webui.Swapping(r) {
		return d.seeOther(w, r, c.at("/activity", "cursor", r.FormValue("cursor")), "")
	}
	names, err := d.Activity.Names(r.Context(), v.ID)
	if err != nil {
		return err
	}
	part, err := d.list(r, v, c, names)
	if err != nil {
		return err
	}
	return d.ui.Render(w, r, http.StatusOK, requestRows(part))
}

// list reads one part of the list of requests.
func (d *Dashboard) list(r *http.Request, v *visitor, c choice, names activity.Names) (part listView, err error) {
	part = listView{choice: c, Names: names, Begun: r.FormValue("cursor") != ""}
	part.Page, err = d.Activity.Requests(r.Context(), d.query(v, c), r.FormValue("cursor"), listed)
	return part, err
}

// requestView is the data of one request.
type requestView struct {
	activity.Entry
	Names activity.Names
	// Kind and Text are its error, if it had one.
	Kind, Text string
	Curl       string
	// Why is what became of it at caches; nil: nothing.
	Why *misses.Why
	// Back is the address of the list.
	Back string
}

// requestPage shows one request: as a page of its own, or as the content of the drawer.
func (d *Dashboard) requestPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	e, err := d.Activity.Request(r.Context(), v.ID, r.PathValue("id"))
	if err != nil {
		return err
	}
	view := requestView{Entry: e, Back: choiceOf(r).at("/activity")}
	if view.Names, err = d.Activity.Names(r.Context(), v.ID); err != nil {
		return err
	}
	if e.Call != nil {
		if view.Why, err = d.Misses.Why(r.Context(), e.Call); err != nil {
			return err
		}
	}
	view.Kind, view.Text = e.Failure()
	view.Curl = curlFor(d.ui.Settings().Origin, &e)
	if webui.Swapping(r) {
		return d.ui.Render(w, r, http.StatusOK, requestDetails(&view))
	}
	p := d.frame(w, r, v, "Request")
	p.Styles, p.Scripts = []string{"activity.css"}, []string{"activity.js"}
	return d.ui.Render(w, r, http.StatusOK, requestPage(p, &view))
}

// curlFor returns the command that repeats a request, or "" if there is none. Prompts are not stored, so it has one of its own.
func curlFor(origin string, e *activity.Entry) string {
	var door, model, path string
	if e.Call != nil {
		door, model = e.Call.Entrance(), e.Call.ModelAsked
	} else {
		_, path, _ = strings.Cut(e.Refused.Path, " ")
		model = e.Refused.Model
	}
	for _, d := range doors {
		if d.door == door || d.path == path {
			return fmt.Sprintf("curl %s%s \\\n  -H \"Authorization: Bearer $SLUICE_KEY\" \\\n  -H \"Content-Type: application/json\" \\\n  -d '{\"model\": %q, %s}'",
				origin, d.path, strings.ReplaceAll(cmp.Or(model, "MODEL"), "'", ""), d.body)
		}
	}
	return ""
}

// mostChoices is how many models can be chosen from. An alias may stand for any number of names.
const mostChoices = 200

// modelChoices returns the models to filter by: those that answered, those that were asked for in the list, and the
// current filter even if it has no calls.
func modelChoices(view *activityView) (list []string) {
	add := func(name string) {
		if name != "" && len(list) < mostChoices && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	add(view.Model)
	for i := range view.Asked {
		add(view.Asked[i])
	}
	for i := range view.Report.Models {
		add(view.Report.Models[i].Name)
	}
	slices.Sort(list)
	return list
}

// keyChoices returns the keys to filter by: those of the account, and those that have calls.
func keyChoices(view *activityView, v *visitor) (list []keyChoice) {
	add := func(id string) {
		if id != "" && !slices.ContainsFunc(list, func(k keyChoice) bool { return k.ID == id }) {
			list = append(list, keyChoice{id, view.Names.Of(id)})
		}
	}
	for i := range v.Keys {
		add(v.Keys[i].ID)
	}
	for i := range view.Report.Keys {
		add(view.Report.Keys[i].Name)
	}
	add(view.Key)
	slices.SortStableFunc(list, func(a, b keyChoice) int { return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)) })
	return list
}

// oldUsage redirects from the addresses that this page had before.
func (d *Dashboard) oldUsage(w http.ResponseWriter, r *http.Request, _ *visitor) error {
	c := choiceOf(r)
	c.Range, _ = activity.RangeOf("30d")
	path := "/activity"
	if strings.HasSuffix(r.URL.Path, ".csv") {
		path = "/activity/days.csv"
	}
	http.Redirect(w, r, c.at(path), http.StatusMovedPermanently)
	return nil
}

// groupName returns the name of a series as the page shows it.
func groupName(view *activityView, s *activity.Series) string {
	switch {
	case s.Group == activity.Others:
		return "Other"
	case s.Refused && view.Group == activity.ByStatus:
		return s.Group + " refused"
	case view.Group == activity.ByKey:
		return view.Names.Of(s.Group)
	case view.Group == activity.ByStatus && s.Group == activity.NoStatus:
		return "No reply"
	case view.Group == activity.ByEnd:
		return cmp.Or(ends[usage.End(s.Group)].name, "Refused")
	}
	return s.Group
}

// ends are the ways in which a call ends: as the page names them, their colour in charts, and that of their badge. A client
// that disconnects is not a failure of ours.
var ends = map[usage.End]struct{ name, class, tone string }{
	usage.EndComplete: {"Completed", "c0", "good"},
	usage.EndHangUp:   {"Disconnected", "rest", ""},
	usage.EndCut:      {"Cut off", "c3", "bad"},
	usage.EndFailed:   {"Failed", "wrong", "bad"},
}

// seriesClass returns the colour of series i. What went wrong has colours of its own.
func seriesClass(view *activityView, s *activity.Series, i int) string {
	switch {
	case s.Refused && view.Group == activity.ByStatus:
		return cmp.Or(map[string]string{"400": "r0", "402": "r1", "403": "r2"}[s.Group], "r3")
	case s.Refused:
		return "r2"
	case s.Group == activity.Others:
		return "rest"
	case view.Group == activity.ByEnd:
		return cmp.Or(ends[usage.End(s.Group)].class, "wrong")
	case view.Group == activity.ByStatus && (s.Group[0] == '5' || s.Group[0] == '4'):
		return [...]string{"c3", "wrong"}[s.Group[0]-'4']
	}
	return "c" + strconv.Itoa(i%8)
}

// chartOf returns the chart that the visitor chose.
func chartOf(view *activityView) *webui.Chart {
	c := &webui.Chart{Format: webui.Number, Axis: webui.Short, Whole: true}
	for i := range view.Steps {
		c.Steps = append(c.Steps, webui.ChartStep{At: view.Steps[i].Start, Length: view.Step})
	}
	if view.Show == "latency" {
		c.Lines, c.Format, c.Axis = true, webui.Millis, webui.Millis
		line := func(name, class string, value func(*activity.Times) (int64, bool)) {
			s := webui.ChartSeries{Name: name, Class: class}
			for i := range view.Steps {
				v, ok := value(&view.Steps[i].Times)
				if !ok {
					v = webui.NoValue
				}
				s.Values = append(s.Values, v)
			}
			if v, ok := value(&view.Times); ok {
				s.Total = webui.Millis(v)
			}
			c.Series = append(c.Series, s)
		}
		line("p95", "c3", func(t *activity.Times) (int64, bool) { return t.P95, t.Known })
		line("p50", "c0", func(t *activity.Times) (int64, bool) { return t.P50, t.Known })
		line("First token p95", "c4", func(t *activity.Times) (int64, bool) { return t.FirstP95, t.FirstKnown })
		line("First token p50", "c1", func(t *activity.Times) (int64, bool) { return t.FirstP50, t.FirstKnown })
	} else {
		value := func(t *usage.Tally) int64 { return t.Calls }
		switch view.Show {
		case "tokens":
			value = func(t *usage.Tally) int64 { return t.Prompt + t.Completion }
		case "cost":
			value = func(t *usage.Tally) int64 { return int64(t.Charge()) }
			c.Format, c.Axis, c.Whole = webui.Dollars[int64], webui.Dollars[int64], false
		}
		for i := range view.Series {
			s := &view.Series[i]
			if s.Refused && view.Show != shows[0] {
				continue // they consumed nothing
			}
			out := webui.ChartSeries{Name: groupName(view, s), Class: seriesClass(view, s, i), Total: c.Axis(value(&s.Total))}
			for k := range s.Steps {
				out.Values = append(out.Values, value(&s.Steps[k]))
			}
			c.Series = append(c.Series, out)
		}
	}
	c.Label = showNames[view.Show] + ", " + strings.ToLower(view.Report.Range.Text) + ". The table below has the figures."
	return c
}

// byNames say what calls are grouped by.
var byNames = map[activity.By]string{activity.ByModel: "Model", activity.ByKey: "Key", activity.ByStatus: "Status", activity.ByEnd: "Outcome"}

// outcomes are the choices of the filter by outcome.
var outcomes = []struct {
	Value activity.Outcome
	Text  string
}{
	{activity.Any, "All outcomes"},
	{activity.Completed, "Completed"},
	{activity.Errors, "Errors"},
	{activity.Disconnected, "Disconnected"},
	{activity.Refused, "Refused"},
}

// stepName names a step in the table of the chart.
func stepName(at time.Time, step time.Duration) string {
	if step >= 24*time.Hour {
		return webui.DayMonth(at)
	}
	return webui.DayMonth(at) + at.UTC().Format(" 15:04 UTC")
}

// percentile formats a percentile, or a dash if there is nothing to measure: an idle hour did not take 0 ms.
func percentile(ms int64, known bool) string {
	if !known {
		return "–"
	}
	return webui.Millis(ms)
}

// stretch is a part of the time of a request, in units of a drawing that is 200 wide.
type stretch struct{ x, width string }

// stretchOf returns where an attempt is in the time of its request.
func stretchOf(s *usage.Settlement, a *usage.Attempt) stretch {
	whole := max(1, float64(max(s.Latency, a.End).Microseconds()))
	from, to := 200*float64(a.Start.Microseconds())/whole, 200*float64(a.End.Microseconds())/whole
	text := func(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }
	return stretch{text(min(from, 198)), text(max(to-from, 2))}
}

// tokensPerSecond returns how fast a reply came after its first token, or "" if that cannot be told.
func tokensPerSecond(s *usage.Settlement) string {
	spent := s.Latency - s.FirstToken
	if n := s.Tokens.CompletionTotal(); s.End == usage.EndComplete && n > 1 && s.FirstToken > 0 && spent >= 10*time.Millisecond {
		return webui.Number(int64(float64(n)/spent.Seconds())) + " tokens per second"
	}
	return ""
}
