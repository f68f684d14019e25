package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"sluice/internal/kit/excerpt"
	"sluice/internal/operate/alert"
	"sluice/internal/web/webui"
)

// deliveriesShown is how many deliveries a page has. The export has all of them.
const deliveriesShown = 25

// webhooksView is the data of the webhooks page.
type webhooksView struct {
	Hooks []alert.Endpoint
	// Mailed reports whether the account gets mail about finished videos.
	Mailed     bool
	Deliveries []alert.Delivery
	// Next is the id to continue the list after, or "" at its end. Later reports that this is not the first page.
	Next  string
	Later bool
	// New is the secret of a webhook that was just created, or nil.
	New *webui.Shown
	// Dialog names the dialog that is open: "new", "delete", or "" for none. Hook is the webhook to delete.
	Dialog string
	Hook   *alert.Endpoint
	// URL and Types are the form as it was filled in, if it is shown again.
	URL      string
	Types    []alert.Type
	Problems problems
	Now      time.Time
}

// webhooksPage shows the page, with the dialog that its address asks for.
func (d *Dashboard) webhooksPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	view := webhooksView{Types: alert.CustomerTypes(), New: d.ui.TakeShown(w, r, v.session.ID, webhooksPath)}
	for _, name := range []string{"new", "delete"} {
		if r.URL.Query().Has(name) {
			view.Dialog = name
			break
		}
	}
	return d.showWebhooks(w, r, v, http.StatusOK, view)
}

// webhooksPath is the path of the page.
const webhooksPath = home + "/webhooks"

// showWebhooks renders the page. A dialog about what is not there is not shown.
func (d *Dashboard) showWebhooks(w http.ResponseWriter, r *http.Request, v *visitor, status int, view webhooksView) error {
	var err error
	if view.Hooks, view.Mailed, err = d.Hooks.List(r.Context(), v.ID); err != nil {
		return err
	}
	if view.Dialog == "delete" {
		id := r.URL.Query().Get("delete")
		if i := slices.IndexFunc(view.Hooks, func(e alert.Endpoint) bool { return e.ID == id }); i >= 0 {
			view.Hook = &view.Hooks[i]
		} else {
			view.Dialog = ""
		}
	}
	if view.Dialog == "new" && len(view.Hooks) >= alert.MaxEndpoints && view.Problems == nil {
		view.Dialog = ""
	}
	page := alert.Page{Limit: deliveriesShown + 1}
	if r.Method != http.MethodPost { // a form has no place in the list
		page.Before = r.URL.Query().Get("before")
	}
	if view.Deliveries, err = d.Hooks.Deliveries(r.Context(), v.ID, "", page); err != nil {
		return err
	}
	view.Later, view.Now = page.Before != "", time.Now()
	if len(view.Deliveries) > deliveriesShown {
		view.Deliveries = view.Deliveries[:deliveriesShown]
		view.Next = view.Deliveries[deliveriesShown-1].ID
	}
	p := d.frame(w, r, v, "Webhooks")
	p.Styles = []string{accountStyle}
	return d.ui.Render(w, r, status, webhooksPage(p, view))
}

// createWebhook adds a webhook. The page that follows shows its secret.
func (d *Dashboard) createWebhook(w http.ResponseWriter, r *http.Request, v *visitor) error {
	view := webhooksView{Dialog: "new", URL: r.FormValue("url")} // reads the form
	for _, t := range r.Form["types"] {
		view.Types = append(view.Types, alert.Type(t))
	}
	if len(view.Types) == 0 {
		view.Problems = problems{"types": "Choose at least one event."}
		if _, err := url.Parse(view.URL); err != nil || view.URL == "" {
			view.Problems["url"] = "Enter the address of your server."
		}
		return d.showWebhooks(w, r, v, http.StatusBadRequest, view)
	}
	made, err := d.Hooks.Create(r.Context(), actor, v.ID, view.URL, view.Types)
	if err != nil {
		return again(err, &view.Problems, func(status int) error {
			return d.showWebhooks(w, r, v, status, view)
		}, "url", "types")
	}
	d.ui.Show(w, v.session.ID, webhooksPath, webui.Shown{Title: excerpt.Of(made.To, 200), Secret: made.Secret.Reveal()})
	return d.seeOther(w, r, webhooksPath, "")
}

// hookForm returns a form of one button, which does something with the webhook or the delivery that its address names.
func (d *Dashboard) hookForm(flash string, do func(ctx context.Context, accountID, id string) error) page {
	return func(w http.ResponseWriter, r *http.Request, v *visitor) error {
		return d.webhookDone(w, r, v, flash, do(r.Context(), v.ID, r.PathValue("id")))
	}
}

// setVideoMail turns mail about videos on or off.
func (d *Dashboard) setVideoMail(w http.ResponseWriter, r *http.Request, v *visitor) error {
	on := r.FormValue("on") == "yes"
	flash := "video-mail-off"
	if on {
		flash = "video-mail-on"
	}
	return d.webhookDone(w, r, v, flash, d.Hooks.SetMail(r.Context(), v.ID, on))
}

// webhookDone shows the page after a form that has one button only: with the flash, or with what was wrong.
func (d *Dashboard) webhookDone(w http.ResponseWriter, r *http.Request, v *visitor, flash string, err error) error {
	if err == nil {
		return d.seeOther(w, r, home+"/webhooks", flash)
	}
	view := webhooksView{Types: alert.CustomerTypes()}
	return again(err, &view.Problems, func(status int) error {
		return d.showWebhooks(w, r, v, status, view)
	})
}

// eventTexts describe the types of events to customers.
var eventTexts = map[alert.Type]string{
	alert.ScoreReached:   "50, 75, 90 or 100% of your allowance is used",
	alert.VideoSucceeded: "A video is done",
	alert.VideoFailed:    "A video could not be created",
	alert.BudgetMark:     "A part of a budget is spent, such as 50%, 80% or 100%",
	alert.BudgetRunaway:  "A program seems to run away: a loop, or unusual spending",

	alert.IncidentOpened:   "An incident was opened, or maintenance is planned",
	alert.IncidentUpdated:  "There is news about an incident",
	alert.IncidentResolved: "An incident is resolved, or maintenance is completed",
}

// wanted returns what a webhook gets, in a few words.
func wanted(e *alert.Endpoint) string {
	if len(e.Types) == 0 || len(e.Types) == len(alert.CustomerTypes()) {
		return "all events"
	}
	text := ""
	for i, t := range e.Types {
		if i > 0 {
			text += ", "
		}
		text += string(t)
	}
	return text
}

// hostOf returns the host that a delivery went to.
func hostOf(v *webhooksView, d *alert.Delivery) string {
	i := slices.IndexFunc(v.Hooks, func(e alert.Endpoint) bool { return e.ID == d.EndpointID })
	if i < 0 {
		return "E-mail"
	}
	u, err := url.Parse(v.Hooks[i].To)
	if err != nil { // it was checked when it was stored
		return v.Hooks[i].To
	}
	return u.Host
}

// stateTexts are the states of deliveries, in the words of the page.
var stateTexts = map[alert.State]string{alert.Waiting: "waiting", alert.Delivered: "delivered", alert.Dead: "failed"}

// deliveryTones are the colours of the badges of deliveries.
var deliveryTones = map[alert.State]string{alert.Waiting: "warn", alert.Delivered: "good", alert.Dead: "bad"}

// attempts says how often a delivery was tried, and when it is tried again.
func attempts(d *alert.Delivery, now time.Time) string {
	tries := strconv.Itoa(d.Attempts)
	switch {
	case d.State == alert.Waiting && d.Attempts == 0:
		return "being sent"
	case d.State == alert.Waiting && d.DueAt.After(now):
		return tries + ", next " + ahead(d.DueAt.Sub(now))
	}
	return tries
}

// ahead says roughly how far away a time is.
func ahead(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "in < 1 min"
	case d < time.Hour:
		return fmt.Sprintf("in %d min", int(d.Minutes()))
	}
	return fmt.Sprintf("in %d h", int(d.Hours()))
}
