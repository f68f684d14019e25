package support

import (
	"cmp"
	"net/http"
	"time"

	"sluice/internal/operate/admin"
	"sluice/internal/operate/steering"
	"sluice/internal/web/webui"
)

// announcementsPath is the path of the page with announcements and maintenance.
const announcementsPath = home + "/announcements"

// announcementsView is the data of the page with announcements and maintenance.
type announcementsView struct {
	Maintenance, Announcements []steering.Order
	again
	New    string   // whose form is a dialog of the page: "announcement", "maintenance" or ""
	Models []string // ids, to choose from
	Now    time.Time
}

// showAnnouncements renders the page. The caller sets the form that is shown again, if any.
func (c *Console) showAnnouncements(w http.ResponseWriter, r *http.Request, m *member, status int, view announcementsView) error {
	var maintenance, announcements admin.List[steering.Order]
	var models admin.List[admin.ModelState]
	err := together(r.Context(),
		read(c, m, c.ops.MaintenanceList, admin.Cursor{}, &maintenance),
		read(c, m, c.ops.AnnouncementList, admin.Cursor{}, &announcements),
		read(c, m, c.ops.ModelsStanding, admin.Cursor{}, &models),
	)
	if err != nil {
		return err
	}
	view.New = cmp.Or(view.Form, r.URL.Query().Get("new"))
	view.Maintenance, view.Announcements, view.Now = maintenance.Data, announcements.Data, time.Now()
	for _, model := range models.Data {
		view.Models = append(view.Models, model.ID)
	}
	return c.ui.Render(w, r, status, announcementsPage(c.frame(w, r, m, "Announcements"), view))
}

// announceAgain shows a form again with what is wrong in it.
func (c *Console) announceAgain(w http.ResponseWriter, r *http.Request, m *member, which string, err error) error {
	problems, status, rest := webui.Refused(err, "text", "reason", "models", "from", "until", "tone")
	if rest != nil {
		return rest
	}
	view := announcementsView{again: again{which, r.PostForm, problems}}
	return c.showAnnouncements(w, r, m, status, view)
}

// startMaintenance closes models.
func (c *Console) startMaintenance(w http.ResponseWriter, r *http.Request, m *member) error {
	in := admin.NewMaintenance{Text: r.FormValue("text"), Reason: r.FormValue("reason"), Models: words(r.FormValue("models"))}
	var err error
	if in.From, in.Until, err = span(r); err == nil {
		_, err = run(c, r, m, c.ops.MaintenanceStart, in)
	}
	if err != nil {
		return c.announceAgain(w, r, m, "maintenance", err)
	}
	return c.seeOther(w, r, announcementsPath, "ordered")
}

// postAnnouncement shows a banner on every page.
func (c *Console) postAnnouncement(w http.ResponseWriter, r *http.Request, m *member) error {
	in := admin.NewAnnouncement{Text: r.FormValue("text"), Tone: r.FormValue("tone")}
	var err error
	if in.From, in.Until, err = span(r); err == nil {
		_, err = run(c, r, m, c.ops.AnnouncementPost, in)
	}
	if err != nil {
		return c.announceAgain(w, r, m, "announcement", err)
	}
	return c.seeOther(w, r, announcementsPath, "ordered")
}

// endOrder returns the form that ends an order before its time.
func (c *Console) endOrder(end admin.Op[admin.EndedOrder, steering.Order]) page {
	return func(w http.ResponseWriter, r *http.Request, m *member) error {
		if _, err := run(c, r, m, end, admin.EndedOrder{ID: r.PathValue("id")}); err != nil {
			return err
		}
		return c.seeOther(w, r, announcementsPath, "ordered")
	}
}

// toneName returns the tone of an announcement as its form names it.
func toneName(tone string) string {
	switch tone {
	case "warn":
		return "Warning"
	case "bad":
		return "Problem"
	}
	return "Information"
}
