package front

import (
	"encoding/json"
	"html"
	"net/http"
	"slices"
	"strings"
	"time"

	"sluice/internal/account/signin"
	"sluice/internal/kit/fault"
	"sluice/internal/operate/incident"
	"sluice/internal/operate/overview"
	"sluice/internal/web/webui"
)

const (
	// monthsShown is how many months a page of the history shows.
	monthsShown = 3
	// maxEntries is how many updates the feed has.
	maxEntries = 50
	// feedAge is how long programs may keep the feed and the status.
	feedAge = "public, max-age=30"
)

// month is a month of the history with its incidents, those that began last first.
type month struct {
	At        time.Time
	Incidents []incident.Incident
}

// historyView is the data of a page of the history.
type historyView struct {
	Months []month
	Now    time.Time
	// Newer and Older are the addresses of the pages beside it; "": there is none.
	Newer, Older string
}

// statusHistory serves GET /status/history. The parameter month is the last month of the page.
func (f *Front) statusHistory(w http.ResponseWriter, r *http.Request) error {
	p, o, err := f.statusFrame(w, r, "Past incidents")
	if err != nil {
		return err
	}
	v := historyView{Now: f.now()}
	this := monthOf(v.Now)
	last := this
	if text := r.FormValue("month"); text != "" {
		if last, err = time.Parse("2006-01", text); err != nil || last.After(this) {
			return fault.New(fault.NotFound, "There is no such month. Write it as 2026-11.")
		}
	}
	first := last.AddDate(0, 1-monthsShown, 0)
	list, err := f.Incidents.List(r.Context(), incident.Query{From: first, Until: last.AddDate(0, 1, 0), Limit: incident.MaxListed})
	if err != nil {
		return err
	}
	older, err := f.Incidents.List(r.Context(), incident.Query{Until: first, Limit: 1})
	if err != nil {
		return err
	}
	for n := range monthsShown {
		m := month{At: last.AddDate(0, -n, 0)}
		for _, i := range list {
			if monthOf(i.From).Equal(m.At) && !i.From.After(v.Now) {
				m.Incidents = append(m.Incidents, i)
			}
		}
		v.Months = append(v.Months, m)
	}
	if len(older) > 0 {
		v.Older = "/status/history?month=" + older[0].From.UTC().Format("2006-01")
	}
	if last.Before(this) {
		v.Newer = "/status/history?month=" + last.AddDate(0, monthsShown, 0).Format("2006-01")
		if !last.AddDate(0, monthsShown, 0).Before(this) {
			v.Newer = "/status/history"
		}
	}
	return f.ui.RenderPublic(w, r, http.StatusOK, historyPage(p, o, v))
}

// monthOf returns the beginning of a month.
func monthOf(at time.Time) time.Time {
	at = at.UTC()
	return time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// incident serves GET /status/incidents/{id}.
func (f *Front) incident(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	current := f.Incidents.Current()
	var found *incident.Incident
	var err error
	if i := slices.IndexFunc(current, func(i incident.Incident) bool { return i.ID == id }); i >= 0 {
		found = &current[i]
	} else if found, err = f.Incidents.Find(r.Context(), id); err != nil {
		if fault.Is(err, fault.NotFound) {
			return fault.New(fault.NotFound, "There is no such incident. It may have been removed.")
		}
		return err
	}
	p, o, err := f.statusFrame(w, r, found.Title)
	if err != nil {
		return err
	}
	p.Announcements = slices.DeleteFunc(slices.Clone(p.Announcements), func(b webui.Banner) bool { return b.Path == found.Path() })
	return f.ui.RenderPublic(w, r, http.StatusOK, incidentPage(p, o, found, f.now()))
}

// paragraphs splits a text at its empty lines.
func paragraphs(text string) (list []string) {
	for p := range strings.SplitSeq(text, "\n\n") {
		if p = strings.TrimSpace(p); p != "" {
			list = append(list, p)
		}
	}
	return list
}

// isLink reports whether a text is a link and nothing else.
func isLink(text string) bool {
	return (strings.HasPrefix(text, "https://") || strings.HasPrefix(text, "http://")) && !strings.ContainsAny(text, " \n")
}

// newest returns the updates of an incident, the latest first, at most so many.
func newest(i *incident.Incident, most int) []incident.Update {
	list := slices.Clone(i.Updates)
	slices.Reverse(list)
	return list[:min(len(list), most)]
}

// lasted says how long an incident took, or "" if it has not ended.
func lasted(i *incident.Incident, now time.Time) string {
	if !i.Over(now) || i.Until.IsZero() {
		return ""
	}
	return duration(i.Until.Sub(i.From))
}

// duration says how long something took, in its two largest units.
func duration(d time.Duration) string {
	d = max(d.Round(time.Minute), time.Minute)
	days, hours, minutes := int(d/(24*time.Hour)), int(d/time.Hour)%24, int(d/time.Minute)%60
	var parts []string
	for _, u := range []struct {
		n    int
		noun string
	}{{days, "day"}, {hours, "hour"}, {minutes, "minute"}} {
		if u.n > 0 && len(parts) < 2 {
			parts = append(parts, webui.Plural(u.n, u.noun))
		}
	}
	return strings.Join(parts, " ")
}

// subscribeView is the data of the page to subscribe, which the answers to its forms show, too.
type subscribeView struct {
	Address string
	Problem string
	// Asked says that a mail may be on its way.
	Asked bool
}

// subscribe serves GET and POST /status/subscribe. The answer does not depend on who has subscribed.
func (f *Front) subscribe(w http.ResponseWriter, r *http.Request) error {
	p, o, err := f.statusFrame(w, r, "Get updates")
	if err != nil {
		return err
	}
	var v subscribeView
	status := http.StatusOK
	if r.Method == http.MethodPost {
		v.Address = r.PostFormValue("email")
		err := f.Subscribers.Ask(r.Context(), signin.Visit{Remote: r.RemoteAddr, Agent: r.UserAgent()}, v.Address)
		problems, refused, rest := webui.Refused(err, "email")
		if rest != nil {
			return rest
		}
		if v.Asked = err == nil; !v.Asked {
			v.Problem, status = problems["email"]+problems[""], refused
		}
	}
	return f.ui.RenderPublic(w, r, status, subscribePage(p, o, v))
}

// answer is a page with one thing to say, and one button at most.
type answer struct {
	Title, Text string
	// Action and Button are the form; "": there is none. Token goes with it.
	Action, Button, Token string
}

// confirm serves GET and POST /status/confirm, the link of the first mail. A GET changes nothing: mail servers open links, too.
func (f *Front) confirm(w http.ResponseWriter, r *http.Request) error {
	token := r.FormValue("token")
	address, err := f.Subscribers.Address(token)
	if err != nil {
		return err
	}
	a := answer{Title: "Confirm your address", Text: "Mail about incidents and maintenance will be sent to " + address + ".", Action: "/status/confirm", Button: "Confirm", Token: token}
	if r.Method == http.MethodPost {
		if err := f.Subscribers.Confirm(r.Context(), token); err != nil {
			return err
		}
		a = answer{Title: "You are subscribed", Text: "Mail about incidents and maintenance is sent to " + address + ". Every mail has a link to unsubscribe."}
	}
	return f.answer(w, r, a)
}

// unsubscribe serves GET and POST /status/unsubscribe, the link of every mail. Mail programs post to it themselves (RFC 8058),
// with a body that says nothing, so the token is in the query of both.
func (f *Front) unsubscribe(w http.ResponseWriter, r *http.Request) error {
	token := r.URL.Query().Get("token")
	if err := f.Subscribers.Proves(token); err != nil {
		return err
	}
	a := answer{Title: "Unsubscribe", Text: "You will get no more mail about incidents and maintenance.", Action: "/status/unsubscribe?token=" + token, Button: "Unsubscribe"}
	if r.Method == http.MethodPost {
		if err := f.Subscribers.Leave(r.Context(), token); err != nil {
			return err
		}
		a = answer{Title: "You are unsubscribed", Text: "You get no more mail about incidents and maintenance."}
	}
	return f.answer(w, r, a)
}

// answer renders an answer.
func (f *Front) answer(w http.ResponseWriter, r *http.Request, a answer) error {
	p, o, err := f.statusFrame(w, r, a.Title)
	if err != nil {
		return err
	}
	return f.ui.RenderPublic(w, r, http.StatusOK, answerPage(p, o, a))
}

// send writes a reply for programs of anybody, also on pages of other sites.
func send(w http.ResponseWriter, kind, body string) error {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", feedAge)
	h.Set("Access-Control-Allow-Origin", "*")
	_, _ = w.Write([]byte(body)) // an error means that the reader has left
	return nil
}

// statusFeed serves GET /status.atom: the updates of incidents, the latest first.
func (f *Front) statusFeed(w http.ResponseWriter, _ *http.Request) error {
	type entry struct {
		*incident.Update
		of *incident.Incident
	}
	var entries []entry
	current := f.Incidents.Current()
	for n := range current {
		for k := range current[n].Updates {
			entries = append(entries, entry{&current[n].Updates[k], &current[n]})
		}
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return b.At.Compare(a.At) })
	entries = entries[:min(len(entries), maxEntries)]
	s := f.ui.Settings()
	updated := f.now().UTC().Truncate(24 * time.Hour) // a feed needs a time, also without an entry
	if len(entries) > 0 {
		updated = latest(entries[0].At, entries[0].EditedAt)
	}
	var b strings.Builder
	tag := func(name, text string) { b.WriteString("<" + name + ">" + xmlText(text) + "</" + name + ">\n") }
	b.WriteString("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<feed xmlns=\"http://www.w3.org/2005/Atom\">\n")
	tag("title", s.Site.Name+" status")
	tag("id", s.Origin+"/status")
	b.WriteString(`<link rel="self" type="application/atom+xml" href="` + xmlText(s.Origin) + "/status.atom\"/>\n" + `<link rel="alternate" type="text/html" href="` + xmlText(s.Origin) + "/status\"/>\n")
	tag("updated", updated.Format(time.RFC3339))
	b.WriteString("<author><name>" + xmlText(s.Site.Name) + "</name></author>\n")
	for _, e := range entries {
		b.WriteString("<entry>\n")
		tag("title", e.Status.Words()+": "+e.of.Title)
		tag("id", s.Origin+e.of.Path()+"#"+e.ID)
		b.WriteString(`<link rel="alternate" type="text/html" href="` + xmlText(s.Origin+e.of.Path()+"#"+e.ID) + "\"/>\n")
		tag("published", e.At.UTC().Format(time.RFC3339))
		tag("updated", latest(e.At, e.EditedAt).Format(time.RFC3339))
		text := e.Text
		if affected := e.of.Affected(); affected != "" {
			text += "\n\nAffected: " + affected
		}
		b.WriteString(`<content type="text">` + xmlText(text) + "</content>\n</entry>\n")
	}
	b.WriteString("</feed>\n")
	return send(w, "application/atom+xml; charset=utf-8", b.String())
}

// latest returns the latest of some times, in UTC.
func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare).UTC() }

// xmlText escapes a text for XML. Characters that XML does not have were refused when it was written.
func xmlText(text string) string { return html.EscapeString(text) }

// The status for programs. Fields are only added.
type (
	publicStatus struct {
		Status      string           `json:"status"` // operational, maintenance, degraded or down
		Description string           `json:"description"`
		At          time.Time        `json:"at"`
		URL         string           `json:"url"`
		Components  []publicPart     `json:"components"`
		Models      []publicPart     `json:"models"`
		Incidents   []publicIncident `json:"incidents"` // that last or are planned, and those of the last two weeks
	}
	publicPart struct {
		Name   string   `json:"name"`
		Status string   `json:"status"`
		Uptime *float64 `json:"uptime_90_days"` // from 0 to 1; null: not known
		// Providers are those of a model, in their order.
		Providers []publicPart `json:"providers,omitempty"`
	}
	publicIncident struct {
		ID         string               `json:"id"`
		Kind       incident.Kind        `json:"kind"`
		Title      string               `json:"title"`
		Severity   incident.Severity    `json:"severity,omitempty"`
		Status     incident.Status      `json:"status"`
		Components []incident.Component `json:"components"`
		Models     []string             `json:"models"`
		From       time.Time            `json:"from"`
		Until      *time.Time           `json:"until"`
		URL        string               `json:"url"`
		Postmortem string               `json:"postmortem,omitempty"`
		Updates    []publicUpdate       `json:"updates"` // the latest first
	}
	publicUpdate struct {
		ID     string          `json:"id"`
		At     time.Time       `json:"at"`
		Status incident.Status `json:"status"`
		Text   string          `json:"text"`
	}
)

// statusJSON serves GET /status.json.
func (f *Front) statusJSON(w http.ResponseWriter, r *http.Request) error {
	v, origin := f.statusNow(r), f.ui.Settings().Origin
	out := publicStatus{Description: v.Verdict, At: v.Now.UTC().Truncate(time.Second), URL: origin + "/status", Incidents: []publicIncident{}}
	out.Status = map[string]string{"good": "operational", "info": "maintenance", "warn": "degraded", "bad": "down"}[v.Tone]
	out.Components, out.Models = publicParts(v.Components), publicParts(v.Models)
	for _, list := range [][]incident.Incident{v.Open, v.Planned, v.Past} {
		for n := range list {
			out.Incidents = append(out.Incidents, publicOf(&list[n], v.Now, origin))
		}
	}
	body, err := json.Marshal(out)
	if err != nil {
		return err
	}
	return send(w, "application/json", string(body)+"\n")
}

// publicParts returns parts as programs see them.
func publicParts(list []part) []publicPart {
	out := []publicPart{}
	for i := range list {
		p := publicPart{Name: list[i].Name, Status: strings.ToLower(list[i].State.Word)}
		if share, known := overview.Uptime(list[i].Days); known {
			p.Uptime = &share
		}
		for _, place := range list[i].Places {
			p.Providers = append(p.Providers, publicPart{Name: place.Provider, Status: strings.ToLower(stateOf(place.Health).Word)})
		}
		out = append(out, p)
	}
	return out
}

// publicOf returns an incident as programs see it: without who has written what.
func publicOf(i *incident.Incident, now time.Time, origin string) publicIncident {
	p := publicIncident{
		ID: i.ID, Kind: i.Kind, Title: i.Title, Severity: i.Severity, Status: i.At(now), Components: i.Components, Models: i.Models,
		From: i.From, URL: origin + i.Path(), Postmortem: i.Postmortem,
	}
	if !i.Until.IsZero() {
		p.Until = &i.Until
	}
	for _, u := range newest(i, incident.MaxUpdates) {
		p.Updates = append(p.Updates, publicUpdate{u.ID, u.At, u.Status, u.Text})
	}
	return p
}
