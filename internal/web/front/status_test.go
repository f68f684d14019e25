package front

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/operate/incident"
	"sluice/internal/operate/overview"
	"sluice/internal/operate/steering"
	"sluice/internal/upstream/catalog"
)

// written is a store that has incidents and takes none.
type written []incident.Incident

func (w written) ChangeIncident(context.Context, string, time.Time, func(*incident.Incident, int) (incident.Change, error)) error {
	return errors.ErrUnsupported
}
func (w written) IncidentsVersion(context.Context) (int64, error) { return 1, nil }

func (w written) Incidents(_ context.Context, q incident.Query) (list []incident.Incident, err error) {
	for _, i := range w {
		if (q.ID == "" || i.ID == q.ID) && !i.From.Before(q.From) && (q.Until.IsZero() || i.From.Before(q.Until)) && (i.Until.IsZero() || i.Until.After(q.EndedAfter)) {
			list = append(list, i)
		}
	}
	slices.SortFunc(list, func(a, b incident.Incident) int { return b.From.Compare(a.From) })
	return list[:min(len(list), q.Limit)], nil
}

// bulletin returns a bulletin of incidents.
func bulletin(t *testing.T, list ...incident.Incident) *incident.Bulletin {
	t.Helper()
	b := incident.New(written(list), nil)
	if err := b.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// about returns an incident with an update for each status, a minute apart.
func about(id, title string, from time.Time, statuses ...incident.Status) incident.Incident {
	i := incident.Incident{ID: id, Kind: incident.Outage, Title: title, Severity: incident.Major, Components: []incident.Component{}, Models: []string{}, From: from}
	for n, s := range statuses {
		i.Updates = append(i.Updates, incident.Update{ID: fmt.Sprint("upd_", id, n), At: from.Add(time.Duration(n) * time.Minute), Status: s, Text: "Text <" + fmt.Sprint(n) + "> & more.", Actor: "staff:secret"})
		i.Status = s
	}
	if i.Over(from) {
		i.Until = from.Add(time.Duration(len(statuses)) * time.Minute)
	}
	return i
}

// What measures and staff say together is what the page says.
func TestVerdict(t *testing.T) {
	t.Parallel()
	now := time.Now()
	outage := about("inc_1", "t", now.Add(-time.Hour), incident.Investigating)
	minor := outage
	minor.Severity = incident.Minor
	work := incident.Incident{Kind: incident.Maintenance, From: now.Add(-time.Hour), Until: now.Add(time.Hour)}
	models := func(states ...state) (list []part) {
		for _, s := range states {
			list = append(list, part{State: s})
		}
		return list
	}
	for _, tt := range []struct {
		v          statusView
		text, tone string
	}{
		{statusView{Models: models(operational)}, "All systems operational", "good"},
		{statusView{Models: models(operational), Open: []incident.Incident{outage}}, "We are working on an incident", "bad"},
		{statusView{Models: models(operational), Open: []incident.Incident{minor}}, "We are working on an incident", "warn"},
		{statusView{Models: models(operational, down), Open: []incident.Incident{minor}}, "One model cannot be called at the moment", "warn"},
		{statusView{Models: models(operational, down), Open: []incident.Incident{outage}}, "One model cannot be called at the moment", "bad"},
		{statusView{Models: models(operational), Open: []incident.Incident{work}}, "Maintenance is in progress", "info"},
		{statusView{Models: models(closed), Closed: []steering.Order{{Kind: steering.Maintenance}}}, "Maintenance is in progress", "info"},
		{statusView{Models: models(operational), Closed: []steering.Order{{Kind: steering.Maintenance, From: now.Add(time.Hour)}}}, "All systems operational", "good"},
		{statusView{Models: models(degraded), Open: []incident.Incident{work}}, "All models work. Some have fewer providers than usual", "warn"},
	} {
		tt.v.Now = now
		if text, tone := tt.v.verdict(); text != tt.text || tone != tt.tone {
			t.Errorf("verdict of %+v = %q, %s, want %q, %s", tt.v, text, tone, tt.text, tt.tone)
		}
	}
}

// A model that cannot be called is a fault of the API, and all of them are its outage.
func TestComponents(t *testing.T) {
	t.Parallel()
	v := statusView{Now: time.Now()}
	for _, tt := range []struct {
		healths []string
		want    state
	}{{[]string{"healthy", "degraded"}, operational}, {[]string{"healthy", "down"}, degraded}, {[]string{"down", "down"}, down}} {
		var models []Model
		for _, h := range tt.healths {
			models = append(models, Model{Model: &catalog.Model{ID: h}, Health: h})
		}
		if got := v.components(models)[0]; got.State != tt.want {
			t.Errorf("the state of the API with models that are %v = %v, want %v", tt.healths, got.State, tt.want)
		}
	}
}

// What staff announces and what closes models stands in one list, in the order of time, and says whether it has begun.
func TestMaintenanceInOrder(t *testing.T) {
	t.Parallel()
	now := time.Now()
	v := statusView{
		Planned: []incident.Incident{{Title: "second", From: now.Add(2 * time.Hour)}, {Title: "fourth", From: now.Add(4 * time.Hour)}},
		Closed:  []steering.Order{{Kind: steering.Maintenance, Models: []string{"third"}, From: now.Add(3 * time.Hour)}, {Kind: steering.Maintenance, Models: []string{"a", "b"}, From: now.Add(-time.Hour)}},
	}
	var got []string
	for _, m := range v.maintenance() {
		if m.Planned != nil {
			got = append(got, m.Planned.Title)
		} else {
			got = append(got, closedModels(*m.Closed, now))
		}
	}
	want := []string{"a, b are unavailable", "second", "third will be unavailable", "fourth"}
	if !slices.Equal(got, want) {
		t.Errorf("maintenance() = %q, want %q", got, want)
	}
}

// The status page, the history, the page of an incident, the feed and the JSON say the same, and none of them who has
// written it.
func TestIncidentPages(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC()
	open := about("inc_open", "Slow <b>replies</b>", now.Add(-time.Hour), incident.Investigating, incident.Identified)
	open.Models, open.Components = []string{"lab/fast"}, []incident.Component{incident.API}
	past := about("inc_past", "All over", now.Add(-72*time.Hour), incident.Investigating, incident.Resolved)
	past.Postmortem = "https://example.com/why"
	old := about("inc_old", "Long ago", now.AddDate(-1, 0, 0), incident.Resolved)
	plan := incident.Incident{ID: "inc_plan", Kind: incident.Maintenance, Title: "New servers", Status: incident.Scheduled, From: now.Add(time.Hour), Until: now.Add(2 * time.Hour), Updates: []incident.Update{{ID: "upd_p", At: now.Add(-time.Minute), Status: incident.Scheduled, Text: "Work."}}}
	h := newFrontWith(t, false, bulletin(t, open, past, old, plan))
	for path, want := range map[string][]string{
		"/status": {
			"We are working on an incident", "Slow &lt;b&gt;replies&lt;/b&gt;", "Text &lt;1&gt; &amp; more.", "New servers", "All over", `<span class="name">lab/fast</span> <span class="row nowrap"><span class="small muted">90%</span> <span class="badge warn">Degraded</span>`,
			"Uptime of lab/fast in the last 90 days: 90%, with problems on one day", `<title>` + now.Format("2 Jan 2006") + "\nUptime: 90%\nFailed calls: 1 of 10\nSlow",
		},
		"/status/incidents/inc_past":                                            {"All over", `href="https://example.com/why"`, "2 minutes", "Resolved"},
		"/status/incidents/inc_old":                                             {"Long ago"},
		"/status/history":                                                       {now.Format("January 2006"), "All over", "Slow &lt;b&gt;", "Older", "/status/history?month=" + old.From.Format("2006-01")},
		"/status/history?month=" + old.From.Format("2006-01"):                   {"Long ago", "Newer"},
		"/status/history?month=" + old.From.AddDate(-1, 0, 0).Format("2006-01"): {"No incidents."},
		"/status/subscribe":                                                     {"/status.atom", "incident.opened", `name="email"`},
	} {
		w := get(h, path)
		for _, text := range want {
			if !strings.Contains(w.Body.String(), text) {
				t.Errorf("GET %s does not show %q", path, text)
			}
		}
		if w.Code != 200 || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("GET %s = %d, want 200 without who has written it", path, w.Code)
		}
	}
	if body := get(h, "/status/history").Body.String(); strings.Contains(body, "Long ago") || strings.Contains(body, "New servers") {
		t.Error("the first page of the history shows what is older, or planned")
	}
	for path, want := range map[string]int{
		"/status/incidents/inc_none": 404, "/status/nothing": 404, "/status/history?month=13": 404, "/status/history?month=" + now.AddDate(0, 2, 0).Format("2006-01"): 404,
	} {
		if w := get(h, path); w.Code != want {
			t.Errorf("GET %s = %d, want %d", path, w.Code, want)
		}
	}

	var feed struct {
		XMLName xml.Name `xml:"http://www.w3.org/2005/Atom feed"`
		ID      string   `xml:"id"`
		Title   string   `xml:"title"`
		Updated string   `xml:"updated"`
		Author  string   `xml:"author>name"`
		Links   []struct {
			Rel  string `xml:"rel,attr"`
			Href string `xml:"href,attr"`
		} `xml:"link"`
		Entries []struct {
			ID      string `xml:"id"`
			Title   string `xml:"title"`
			Updated string `xml:"updated"`
			Content string `xml:"content"`
		} `xml:"entry"`
	}
	w := get(h, "/status.atom")
	if err := xml.Unmarshal(w.Body.Bytes(), &feed); err != nil || feed.ID != "https://x.example/status" || feed.Title == "" || feed.Author == "" || len(feed.Links) != 2 || feed.Links[0].Href != "https://x.example/status.atom" {
		t.Errorf("the feed = %+v, %v", feed, err)
	}
	seen := map[string]bool{}
	for n, e := range feed.Entries {
		at, err := time.Parse(time.RFC3339, e.Updated)
		if err != nil || seen[e.ID] || e.Title == "" || e.Content == "" || n == 0 && e.Updated != feed.Updated || n > 0 && at.Format(time.RFC3339) > feed.Entries[n-1].Updated {
			t.Errorf("entry %d of the feed = %+v, %v", n, e, err)
		}
		seen[e.ID] = true
	}
	if len(feed.Entries) != 5 || feed.Entries[1].Title != "Identified: Slow <b>replies</b>" || feed.Entries[1].ID != "https://x.example/status/incidents/inc_open#upd_inc_open1" || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("the entries = %+v", feed.Entries)
	}
	if w.Header().Get("Content-Type") != "application/atom+xml; charset=utf-8" || w.Header().Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("the headers of the feed = %v", w.Header())
	}

	var status publicStatus
	w = get(h, "/status.json")
	if err := json.Unmarshal(w.Body.Bytes(), &status); err != nil || status.Status != "down" || len(status.Components) != 3 || len(status.Incidents) != 3 || strings.Contains(w.Body.String(), "secret") {
		t.Fatalf("the status = %s, %v", w.Body, err)
	}
	if got := status.Models[0]; got.Name != "lab/fast" || got.Status != "degraded" || got.Uptime == nil || *got.Uptime != 0.9 || len(got.Providers) != 1 || got.Providers[0].Name != "lab" {
		t.Errorf("the model = %+v", got)
	}
	if i := status.Incidents[0]; i.ID != "inc_open" || i.Updates[0].Status != incident.Identified || i.Until != nil || i.URL != "https://x.example/status/incidents/inc_open" {
		t.Errorf("the incident = %+v", i)
	}
}

// The feed has the latest updates only.
func TestFeedIsBounded(t *testing.T) {
	t.Parallel()
	var list []incident.Incident
	for n := range 30 {
		list = append(list, about(fmt.Sprint("inc_", n), "t", time.Now().Add(-time.Duration(n)*time.Hour), incident.Investigating, incident.Monitoring, incident.Resolved))
	}
	body := get(newFrontWith(t, false, bulletin(t, list...)), "/status.atom").Body.String()
	if n := strings.Count(body, "<entry>"); n != maxEntries || !strings.Contains(body, "inc_0#") || strings.Contains(body, "inc_29#") {
		t.Errorf("the feed has %d entries, want the latest %d", n, maxEntries)
	}
}

func TestDuration(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "1 minute", 90 * time.Minute: "1 hour 30 minutes", 48 * time.Hour: "2 days", 25*time.Hour + 5*time.Minute: "1 day 1 hour",
	} {
		if got := duration(d); got != want {
			t.Errorf("duration(%s) = %q, want %q", d, got, want)
		}
	}
}

// The chart of response times has gaps where nobody called, and there is none if nobody did at all.
func TestResponseTimes(t *testing.T) {
	t.Parallel()
	spans := make([]overview.Span, parts)
	if c := responseTimes(spans, time.Now()); c != nil {
		t.Errorf("responseTimes of nothing = %+v", c)
	}
	spans[parts-1].First = overview.Times{0, 0, 0, 0, 10}
	c := responseTimes(spans, time.Now())
	if c == nil || len(c.Steps) != parts || c.Series[0].Values[0] >= 0 || c.Series[0].Values[parts-1] <= 0 || c.Series[1].Values[parts-1] < c.Series[0].Values[parts-1] {
		t.Errorf("responseTimes = %+v", c)
	}
}
