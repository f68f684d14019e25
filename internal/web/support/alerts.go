package support

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"sluice/internal/operate/admin"
	"sluice/internal/operate/alert"
	"sluice/internal/web/webui"
)

// alertsShown is how many entries a list of the alerts page has.
const alertsShown = 30

// alertsView is the data of the alerts page.
type alertsView struct {
	Endpoints  []alert.Endpoint
	Events     admin.List[alert.Event]
	Deliveries admin.List[alert.Delivery]
	// Ref and State choose the deliveries that are shown: those of an account, or of the operator if it is empty.
	Ref   string
	State alert.State
	// Later reports that one of the lists does not begin with its newest entry.
	Later    bool
	Problems webui.Problems
	Now      time.Time
	// Sent are the newest deliveries to the operator, by their event.
	Sent map[string][]alert.Delivery
	// Address returns the mail address of an account, or "" if it is not known.
	Address func(id string) string
}

// showAlerts shows what the operator was told, and what became of it. A filter that is not valid shows the page with what is wrong and without deliveries.
func (c *Console) showAlerts(w http.ResponseWriter, r *http.Request, m *member, status int, view alertsView) error {
	events, sent := admin.Cursor{Limit: alertsShown}, admin.Cursor{Limit: alertsShown}
	if r.Method != http.MethodPost { // a form has no place in the lists
		q := r.URL.Query()
		events.After, sent.After, view.Ref, view.State = q.Get("events"), q.Get("sent"), q.Get("account"), alert.State(q.Get("state"))
	}
	endpoints, err := run(c, r, m, c.ops.AlertEndpoints, admin.Cursor{})
	if err != nil {
		return err
	}
	if view.Events, err = run(c, r, m, c.ops.AlertList, events); err != nil {
		return err
	}
	view.Deliveries, err = run(c, r, m, c.ops.AlertDeliveries, admin.AlertQuery{Ref: view.Ref, State: view.State, Cursor: sent})
	if err != nil {
		if view.Problems, status, err = webui.Refused(err); err != nil {
			return err
		}
	}
	newest, err := run(c, r, m, c.ops.AlertDeliveries, admin.AlertQuery{Cursor: admin.Cursor{Limit: alertsShown * max(1, len(endpoints.Data))}})
	if err != nil {
		return err
	}
	view.Sent = map[string][]alert.Delivery{}
	for _, d := range newest.Data {
		view.Sent[d.EventID] = append(view.Sent[d.EventID], d)
	}
	view.Endpoints, view.Later, view.Now = endpoints.Data, events.After != "" || sent.After != "", time.Now()
	view.Address = func(id string) string {
		if a := c.Account(id); a != nil {
			return a.Email
		}
		return ""
	}
	return c.ui.Render(w, r, status, alertsPage(c.frame(w, r, m, "Alerts"), view))
}

// testAlerts sends a test to all endpoints of the operator.
func (c *Console) testAlerts(w http.ResponseWriter, r *http.Request, m *member) error {
	_, err := run(c, r, m, c.ops.AlertTest, admin.Empty{})
	return c.alertDone(w, r, m, "alerts-tested", err)
}

// replayAlert sends a delivery again.
func (c *Console) replayAlert(w http.ResponseWriter, r *http.Request, m *member) error {
	_, err := run(c, r, m, c.ops.AlertReplay, admin.Target{Ref: r.PathValue("id")})
	return c.alertDone(w, r, m, "webhook-replayed", err)
}

// alertDone shows the page after a form: with the flash, or with what was wrong.
func (c *Console) alertDone(w http.ResponseWriter, r *http.Request, m *member, flash string, err error) error {
	if err == nil {
		return c.seeOther(w, r, home+"/alerts", flash)
	}
	var view alertsView
	var status int
	if view.Problems, status, err = webui.Refused(err); err != nil {
		return err
	}
	return c.showAlerts(w, r, m, status, view)
}

// alertTone returns the colour of an event's badge.
func alertTone(t alert.Type) string {
	switch t {
	case alert.UpstreamUp, alert.JournalRecovered, alert.DiskRecovered:
		return "good"
	case alert.UpstreamDown, alert.JournalGrowing, alert.DiskFilling:
		return "bad"
	}
	return "warn"
}

// accountID is the id of an account in a text.
var accountID = regexp.MustCompile(`\bacct_\w+`)

// accountIn divides a text at the account that it names. Without one, all of it is before.
func accountIn(text string) (before, id, after string) {
	at := accountID.FindStringIndex(text)
	if at == nil {
		return text, "", ""
	}
	return text[:at[0]], text[at[0]:at[1]], text[at[1]:]
}

// quiet reports whether nothing about the deliveries needs to be seen: all have arrived, and nobody asks for others.
func (v *alertsView) quiet() bool {
	return v.Ref == "" && v.State == "" && !v.Later && !slices.ContainsFunc(v.Deliveries.Data, func(d alert.Delivery) bool { return d.State != alert.Delivered })
}

// endpointOf returns how a delivery reaches its endpoint, and where: those of the operator have both in their id.
func endpointOf(d *alert.Delivery) (kind, to string) {
	if kind, to, ok := strings.Cut(d.EndpointID, ":"); ok {
		return kind, to
	}
	return "", d.EndpointID
}

// stateName returns what the state of a delivery is called: one that is not tried any more has failed.
func stateName(s alert.State) string {
	if s == alert.Dead {
		return "failed"
	}
	return string(s)
}

// deliveryTone returns the colour of a delivery's badge.
func deliveryTone(s alert.State) string {
	switch s {
	case alert.Delivered:
		return "good"
	case alert.Dead:
		return "bad"
	}
	return "warn"
}

// attempts says how often a delivery was tried.
func attempts(d *alert.Delivery) string {
	switch d.Attempts {
	case 0:
		return "being sent"
	case 1:
		return "1 attempt"
	}
	return fmt.Sprintf("%d attempts", d.Attempts)
}
