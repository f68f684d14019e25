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
	"sluice/internal/ledger/session"
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
	// Earlier is the report of the period before; nil: it is not compared with one.
	Earlier *activity.Report
	Names   activity.Names
	Chart   *webui.Chart
	List    listView
	// Models and Keys are what can be filtered by, and so are sessions and tags.
	ModelChoices               []string
	KeyChoices                 []keyChoice
	SessionChoices, TagChoices []string
	// AccountID tells the filters apart that several people have saved in one browser.
	AccountID string
	Now       time.Time
}

// choice is what the visitor chose to see. It is in the address of the page, so that a reload, Back and a link to a
// colleague show the same.
type choice struct {
	Range activity.Range
	// From and Until are the ends of a range that was chosen by its ends; zero: it ends now.
	From, Until time.Time
	Show        string // what the chart shows
	Group       activity.By
	Model       string
	Key         string
	Outcome     activity.Outcome
	Session     string
	Tag         string
	// Alone says that the period before is not shown.
	Alone bool
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
	// Plain hides the columns of sessions and tags, because the account has neither.
	Plain bool
	Now   time.Time
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
	c.Session, c.Tag, c.Alone = r.FormValue("session"), r.FormValue("tag"), r.FormValue("compare") == "no"
	if ok := c.between(r.FormValue("from"), r.FormValue("to")); !ok {
		if c.Range, ok = activity.RangeOf(r.FormValue("range")); !ok {
			c.Range, _ = activity.RangeOf("24h")
		}
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
	for _, filter := range []*string{&c.Model, &c.Key, &c.Session, &c.Tag} {
		if len(*filter) > maxFilter {
			*filter = ""
		}
	}
	return c
}

// between sets a range by its ends, if there is such a range. The end may be left out, and is now then.
func (c *choice) between(from, until string) (ok bool) {
	now := time.Now()
	if c.From, ok = momentOf(from); !ok {
		return false
	}
	if c.Until, ok = momentOf(until); !ok {
		c.Until = now.Truncate(time.Minute).Add(time.Minute) // with the calls of this minute
	}
	if c.Range, ok = activity.Between(c.From, c.Until, now); !ok {
		c.From, c.Until = time.Time{}, time.Time{}
	}
	return ok
}

// momentOf reads a moment as addresses have it, or as a browser's field for it does, in UTC.
func momentOf(text string) (time.Time, bool) {
	for _, form := range []string{time.RFC3339, expiresForm, expiresForm + ":05"} {
		if at, err := time.Parse(form, text); err == nil && at.Year() >= 2000 && at.Year() <= 9000 {
			return at.UTC(), true
		}
	}
	return time.Time{}, false
}

// chosen reports whether the range was chosen by its ends.
func (c *choice) chosen() bool { return !c.From.IsZero() }

// filtered reports whether anything but the time restricts what is shown.
func (c *choice) filtered() bool {
	return c.Model != "" || c.Key != "" || c.Outcome != activity.Any || c.Session != "" || c.Tag != ""
}

// all returns the address of the page without filters.
func (c *choice) all() string {
	return c.at("/activity", "model", "", "key", "", "outcome", "", "session", "", "tag", "")
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
	if c.chosen() {
		q.Set("from", c.From.Format(time.RFC3339))
		q.Set("to", c.Until.Format(time.RFC3339))
	} else {
		set("range", c.Range.Name, "24h")
	}
	set("show", c.Show, shows[0])
	set("by", string(c.Group), string(activity.ByModel))
	set("model", c.Model, "")
	set("key", c.Key, "")
	set("outcome", string(c.Outcome), "")
	set("session", c.Session, "")
	set("tag", c.Tag, "")
	if c.Alone {
		q.Set("compare", "no")
	}
	for i := 0; i+1 < len(changes); i += 2 {
		q.Del(changes[i])
		if changes[i] == "range" {
			q.Del("from")
			q.Del("to")
		}
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
	return activity.Query{AccountID: v.ID, Now: time.Now(), Range: c.Range, Model: c.Model, KeyID: c.Key, Outcome: c.Outcome, Session: c.Session, Tag: c.Tag}
}

// activityPage shows what the account's calls did. For htmx it is the same page, of which it takes a part.
func (d *Dashboard) activityPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	view := activityView{choice: choiceOf(r), AccountID: v.ID}
	q := d.query(v, view.choice)
	view.Now = q.Now
	var err error
	if view.Names, err = d.Activity.Names(r.Context(), v.ID); err != nil {
		return err
	}
	if view.Report, err = d.Activity.Report(r.Context(), q, view.Group); err != nil {
		return err
	}
	if !view.Alone {
		if view.Earlier, err = d.Activity.Earlier(r.Context(), q, view.Group); err != nil {
			return err
		}
	}
	if view.List, err = d.list(r, v, view.choice, view.Names); err != nil {
		return err
	}
	if err := d.labels(r, v, &view); err != nil {
		return err
	}
	view.Chart = chartOf(&view)
	view.ModelChoices, view.KeyChoices = modelChoices(&view), keyChoices(&view, v)
	if webui.Swapping(r) {
		w.Header().Set("HX-Push-Url", view.at("/activity", "cursor", r.FormValue("cursor"))) // without the fields of the form that are empty
	}
	p := d.frame(w, r, v, "Activity")
	p.Styles, p.Scripts = []string{"activity.css"}, []string{"activity.js"}
	return d.ui.Render(w, r, http.StatusOK, activityPage(p, &view))
}

// shownLabels is how many sessions can be chosen from, and how many tags.
const shownLabels = 50

// labels finds the sessions and the tags to filter by. Those of the filter are among them even if they have no calls.
func (d *Dashboard) labels(r *http.Request, v *visitor, view *activityView) error {
	sessions, _, err := d.Sessions.List(r.Context(), v.Account, "", "", shownLabels)
	if err != nil {
		return err
	}
	for i := range sessions {
		view.SessionChoices = append(view.SessionChoices, sessions[i].ID)
	}
	days, err := d.Sessions.Tags(r.Context(), v.ID, firstDay(view.Now))
	if err != nil {
		return err
	}
	for i := range days {
		if tag := days[i].Tag; tag != session.OtherTag && len(view.TagChoices) < shownLabels && !slices.Contains(view.TagChoices, tag) {
			view.TagChoices = append(view.TagChoices, tag)
		}
	}
	if view.Session != "" && !slices.Contains(view.SessionChoices, view.Session) {
		view.SessionChoices = append(view.SessionChoices, view.Session)
	}
	if view.Tag != "" && !slices.Contains(view.TagChoices, view.Tag) {
		view.TagChoices = append(view.TagChoices, view.Tag)
	}
	slices.Sort(view.TagChoices)
	view.List.Plain = len(view.SessionChoices)+len(view.TagChoices) == 0
	return nil
}

const (
	// tailed is how many requests come at once while a page follows them.
	tailed = 50
	// tailSlack is how long before it was asked last a request may have ended that comes now: other nodes store theirs a few seconds later.
	tailSlack = 15 * time.Second
)

// tail renders the requests that have ended since the page asked last. The page knows those it has by their ids.
func (d *Dashboard) tail(w http.ResponseWriter, r *http.Request, v *visitor) error {
	c := choiceOf(r)
	if !webui.Swapping(r) || c.chosen() {
		return d.seeOther(w, r, c.at("/activity"), "")
	}
	q := d.query(v, c)
	since := q.Now.Add(-time.Minute)
	if ms, err := strconv.ParseInt(r.FormValue("since"), 10, 64); err == nil {
		since = time.UnixMilli(ms)
	}
	names, err := d.Activity.Names(r.Context(), v.ID)
	if err != nil {
		return err
	}
	entries, _, err := d.Activity.Ended(r.Context(), q, since.Add(-tailSlack), tailed)
	if err != nil {
		return err
	}
	w.Header().Set("X-Since", strconv.FormatInt(q.Now.UnixMilli(), 10))
	return d.ui.Render(w, r, http.StatusOK, requestRows(listView{Page: activity.Page{Entries: entries}, choice: c, Names: names}))
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
	q := d.query(v, c)
	part = listView{choice: c, Names: names, Begun: r.FormValue("cursor") != "", Now: q.Now}
	part.Page, err = d.Activity.Requests(r.Context(), q, r.FormValue("cursor"), listed)
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
	// Timeline is where its time went; nil: it was refused.
	Timeline *timeline
	// Known says that the model that answered has a page.
	Known bool
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
		view.Timeline = timelineOf(e.Call)
		_, view.Known = d.Catalog().Lookup(e.Call.ModelUsed)
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

// refusedSeries is the series of all refused calls, for charts whose groups they have no part in.
func refusedSeries(view *activityView) webui.ChartSeries {
	out := webui.ChartSeries{Name: "Refused", Class: "r2", Total: webui.Count(view.Refused)}
	for i := range view.Steps {
		out.Values = append(out.Values, view.Steps[i].Refused)
	}
	return out
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
		c.Lines, c.Format, c.Axis, c.Before = true, webui.Millis, webui.Millis, earlierSteps(view, func(s *activity.Step) int64 {
			if !s.Times.Known {
				return webui.NoValue
			}
			return s.Times.P50
		})
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
		value, inLegend := func(t *usage.Tally) int64 { return t.Calls }, webui.Count
		switch view.Show {
		case "tokens":
			value, inLegend = func(t *usage.Tally) int64 { return t.Prompt + t.Completion }, webui.Short
		case "cost":
			value = func(t *usage.Tally) int64 { return int64(t.Charge()) }
			c.Format, c.Axis, c.Whole, inLegend = webui.Dollars[int64], webui.Dollars[int64], false, webui.Total[int64]
		}
		c.Before = earlierSteps(view, func(s *activity.Step) int64 { return value(&s.Tally) })
		for i := range view.Series {
			s := &view.Series[i]
			if s.Refused && view.Show != shows[0] {
				continue // they consumed nothing
			}
			out := webui.ChartSeries{Name: groupName(view, s), Class: seriesClass(view, s, i), Total: inLegend(value(&s.Total))}
			for k := range s.Steps {
				out.Values = append(out.Values, value(&s.Steps[k]))
			}
			c.Series = append(c.Series, out)
		}
		if view.Show == shows[0] && view.Refused > 0 && (view.Group == activity.ByModel || view.Group == activity.ByKey) {
			c.Series = append(c.Series, refusedSeries(view))
		}
	}
	c.Label = showNames[view.Show] + ", " + rangeText(&view.choice) + ". The table below has the figures."
	return c
}

// earlierSteps returns the values of the period before, for the line behind the chart; nil if it has other steps, or nothing.
func earlierSteps(view *activityView, value func(*activity.Step) int64) (list []int64) {
	e := view.Earlier
	if e == nil || e.Total.Calls == 0 || e.Step != view.Step || len(e.Steps) != len(view.Steps) {
		return nil
	}
	for i := range e.Steps {
		list = append(list, value(&e.Steps[i]))
	}
	return list
}

// rangeText returns the range within a sentence.
func rangeText(c *choice) string {
	if c.chosen() {
		return c.Range.Text
	}
	return strings.ToLower(c.Range.Text)
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

// percentile formats a time, or a dash if there is nothing to measure: an idle hour did not take 0 ms, nor did any call.
func percentile(ms int64, known bool) string {
	if !known {
		return "–"
	}
	if ms == 0 {
		return "< 1 ms"
	}
	return webui.Millis(ms)
}

// timeOf formats a time of one request as its timeline does, or a dash if it is not known.
func timeOf(d time.Duration, known bool) string {
	switch {
	case !known:
		return "–"
	case d <= 0:
		return "< 1 ms"
	}
	return webui.Duration(d)
}

// stretch is a part of a drawing.
type stretch struct{ x, width string }

// tokensPerSecond returns how fast a reply came after its first token, or "" if that cannot be told.
func tokensPerSecond(s *usage.Settlement) string {
	spent := s.Latency - s.FirstToken
	if n := s.Tokens.CompletionTotal(); s.End == usage.EndComplete && n > 1 && s.FirstToken > 0 && spent >= 10*time.Millisecond {
		return webui.Number(int64(float64(n)/spent.Seconds())) + " tokens per second"
	}
	return ""
}
