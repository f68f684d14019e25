package support

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/operate/admin"
	"sluice/internal/operate/incident"
	"sluice/internal/web/webui"
)

// incidentsPath is the path of the pages about incidents.
const incidentsPath = home + "/incidents"

// incidentsView is the data of the list of incidents, with the form for another one.
type incidentsView struct {
	List admin.List[incident.Incident]
	// Mail is how many addresses get mail about incidents.
	Mail int
	// Later says that the list does not begin with the newest.
	Later bool
	again
	New    string   // the kind of incident whose form is a dialog of the page; "": none
	Models []string // ids, to choose from
	Now    time.Time
}

// showIncidents renders the list. The caller sets the form that is shown again, if any.
func (c *Console) showIncidents(w http.ResponseWriter, r *http.Request, m *member, status int, v incidentsView) error {
	var subscribers admin.Subscribers
	err := together(r.Context(),
		read(c, m, c.ops.IncidentList, admin.Cursor{After: r.FormValue("after"), Limit: 50}, &v.List),
		read(c, m, c.ops.IncidentSubscribers, admin.Empty{}, &subscribers),
	)
	if err != nil {
		return err
	}
	if v.Models, err = c.modelIDs(r, m); err != nil {
		return err
	}
	v.Later = r.FormValue("after") != ""
	v.Mail, v.Now, v.New = subscribers.Mail, time.Now(), cmp.Or(v.Form, r.URL.Query().Get("new"))
	return c.ui.Render(w, r, status, incidentsPage(c.frame(w, r, m, "Incidents"), v))
}

// incidentPart is a part of the list: what is not over, or what is.
type incidentPart struct {
	id, title, none string
	starts, ends    string // headings of the times
	list            []*incident.Incident
}

// parts returns the list with what is going on or planned apart from the past. A later page has only the past, and whatever goes on
// for long.
func (v *incidentsView) parts() []incidentPart {
	now := incidentPart{id: "now-title", title: "Now and planned", none: "Nothing is going on, and nothing is planned.", starts: "Starts", ends: "Ends"}
	past := incidentPart{id: "past-title", title: "Past", none: "No incidents yet.", starts: "Started", ends: "Ended"}
	for i := range v.List.Data {
		if x := &v.List.Data[i]; x.Over(v.Now) {
			past.list = append(past.list, x)
		} else {
			now.list = append(now.list, x)
		}
	}
	if v.Later && len(now.list) == 0 {
		return []incidentPart{past}
	}
	return []incidentPart{now, past}
}

// modelIDs returns the ids of models to choose from.
func (c *Console) modelIDs(r *http.Request, m *member) (ids []string, err error) {
	models, err := run(c, r, m, c.ops.ModelsStanding, admin.Cursor{})
	for _, model := range models.Data {
		ids = append(ids, model.ID)
	}
	return ids, err
}

// incidentView is the data of the page of one incident.
type incidentView struct {
	*incident.Incident
	again
	Mail   int
	Models []string
	Now    time.Time
}

// showIncident renders the page of one incident.
func (c *Console) showIncident(w http.ResponseWriter, r *http.Request, m *member, status int, v incidentView) error {
	var found incident.Incident
	var subscribers admin.Subscribers
	err := together(r.Context(),
		read(c, m, c.ops.IncidentShow, admin.IncidentRef{ID: r.PathValue("id")}, &found),
		read(c, m, c.ops.IncidentSubscribers, admin.Empty{}, &subscribers),
	)
	if err != nil {
		return err
	}
	if v.Models, err = c.modelIDs(r, m); err != nil {
		return err
	}
	v.Incident, v.Mail, v.Now = &found, subscribers.Mail, time.Now()
	return c.ui.Render(w, r, status, incidentPage(c.frame(w, r, m, found.Title), v))
}

// span reads when something begins and ends.
func span(r *http.Request) (from, until time.Time, err error) {
	if from, err = whenOf(r, "from"); err == nil {
		until, err = whenOf(r, "until")
	}
	return from, until, err
}

// words splits a field at commas and spaces.
func words(text string) []string {
	return strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(", \n\r\t", c) })
}

// componentsOf returns the components that are ticked in a form.
func componentsOf(r *http.Request) []incident.Component {
	list := []incident.Component{}
	for _, c := range r.PostForm["components"] {
		list = append(list, incident.Component(c))
	}
	return list
}

// openIncident tells people of an incident, or of planned maintenance.
func (c *Console) openIncident(w http.ResponseWriter, r *http.Request, m *member) error {
	in := admin.NewIncident{
		Kind: incident.Kind(r.FormValue("kind")), Title: r.FormValue("title"), Text: r.FormValue("text"), Status: incident.Status(r.FormValue("status")),
		Components: componentsOf(r), Models: words(r.FormValue("models")), Quiet: r.FormValue("tell") == "",
	}
	if in.Kind != incident.Maintenance {
		in.Severity = incident.Severity(r.FormValue("severity"))
	}
	var made incident.Incident
	var err error
	if in.From, in.Until, err = span(r); err == nil {
		made, err = run(c, r, m, c.ops.IncidentOpen, in)
	}
	if err != nil {
		problems, status, rest := webui.Refused(err, "title", "text", "models", "from", "until")
		if rest != nil {
			return rest
		}
		return c.showIncidents(w, r, m, status, incidentsView{again: again{string(in.Kind), r.PostForm, problems}})
	}
	return c.seeOther(w, r, incidentsPath+"/"+made.ID, "incident-told")
}

// updateIncident adds an update.
func (c *Console) updateIncident(w http.ResponseWriter, r *http.Request, m *member) error {
	_, err := run(c, r, m, c.ops.IncidentUpdate, admin.IncidentUpdate{
		ID: r.PathValue("id"), Status: incident.Status(r.FormValue("status")), Text: r.FormValue("text"), Quiet: r.FormValue("tell") == "",
	})
	return c.incidentDone(w, r, m, "update", err, "text")
}

// editIncident corrects an incident, or the text of one of its updates if the form names one.
func (c *Console) editIncident(w http.ResponseWriter, r *http.Request, m *member) error {
	in := admin.IncidentEdit{ID: r.PathValue("id")}
	if in.Update = r.FormValue("update"); in.Update != "" {
		in.Text = r.FormValue("text")
		_, err := run(c, r, m, c.ops.IncidentEdit, in)
		return c.incidentDone(w, r, m, in.Update, err, "text")
	}
	title, postmortem, models, components := r.FormValue("title"), r.FormValue("postmortem"), words(r.FormValue("models")), componentsOf(r)
	in.Title, in.Postmortem, in.Models, in.Components = &title, &postmortem, &models, &components
	if severity := incident.Severity(r.FormValue("severity")); severity != "" {
		in.Severity = &severity
	}
	from, until, err := span(r)
	if err == nil {
		// What the form rounds to minutes stays as it is, unless somebody has changed it.
		was, _ := run(c, r, m, c.ops.IncidentShow, admin.IncidentRef{ID: in.ID}) // an incident that is gone is refused below
		if !from.Equal(was.From.Truncate(time.Minute)) && !from.IsZero() {
			in.From = &from
		}
		if r.PostForm.Has("until") && !until.Equal(was.Until.Truncate(time.Minute)) {
			in.Until = &until
		}
		_, err = run(c, r, m, c.ops.IncidentEdit, in)
	}
	return c.incidentDone(w, r, m, "edit", err, "title", "postmortem", "models", "from", "until")
}

// incidentDone leads back to the page of an incident, or shows a form again with what is wrong in it.
func (c *Console) incidentDone(w http.ResponseWriter, r *http.Request, m *member, form string, err error, fields ...string) error {
	if err == nil {
		return c.seeOther(w, r, incidentsPath+"/"+r.PathValue("id"), "incident-told")
	}
	if fault.Is(err, fault.NotFound) && fault.From(err).Param == "" {
		return err
	}
	problems, status, rest := webui.Refused(err, fields...)
	if rest != nil {
		return rest
	}
	return c.showIncident(w, r, m, status, incidentView{again: again{form, r.PostForm, problems}})
}

// deleteIncident removes an incident that was opened by mistake.
func (c *Console) deleteIncident(w http.ResponseWriter, r *http.Request, m *member) error {
	if _, err := run(c, r, m, c.ops.IncidentDelete, admin.EndedOrder{ID: r.PathValue("id"), Reason: r.FormValue("reason")}); err != nil {
		return err
	}
	return c.seeOther(w, r, incidentsPath, "ordered")
}

// toldWhom says who gets mail and webhooks about incidents.
func toldWhom(mail int) string {
	switch mail {
	case 0:
		return "Send it to webhooks. Nobody has subscribed by e-mail yet."
	case 1:
		return "Send it by e-mail to the one address that has subscribed, and to webhooks"
	}
	return "Send it by e-mail to the " + webui.Number(int64(mail)) + " addresses that have subscribed, and to webhooks"
}

// ticked reports whether a component is chosen in a form that is shown again, or else in a list.
func (a *again) ticked(form string, c incident.Component, otherwise []incident.Component) bool {
	if a.Form == form {
		return slices.Contains(a.Typed["components"], string(c))
	}
	return slices.Contains(otherwise, c)
}

// nextStatus returns the status that the form for an update proposes.
func nextStatus(i *incident.Incident, now time.Time) incident.Status {
	all := incident.Statuses(i.Kind)
	return all[min(slices.Index(all, i.At(now))+1, len(all)-1)]
}

// severityText says what a severity means.
func severityText(s incident.Severity) string {
	switch s {
	case incident.Minor:
		return "Minor: slow, or a few calls fail"
	case incident.Major:
		return "Major: many calls fail"
	}
	return "Critical: most calls fail"
}

// severityOf returns the severity of an incident for a table.
func severityOf(i *incident.Incident) string {
	if i.Kind == incident.Maintenance {
		return "Planned"
	}
	return strings.ToUpper(string(i.Severity[:1])) + string(i.Severity[1:])
}

// endsWith says which status ends an incident.
func endsWith(k incident.Kind) string {
	if k == incident.Maintenance {
		return "Maintenance starts and ends at its times automatically. Completed ends it now."
	}
	return "Resolved ends it, and takes the banner off the pages."
}

// orDash returns a text, or a dash for none.
func orDash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}
