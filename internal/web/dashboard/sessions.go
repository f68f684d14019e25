package dashboard

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"sluice/internal/ledger/activity"
	"sluice/internal/ledger/session"
	"sluice/internal/ledger/usage"
	"sluice/internal/web/webui"
)

// sessionsPath is the path of the page.
const sessionsPath = home + "/sessions"

// sessionsShown is how many sessions a page has.
const sessionsShown = 25

// sessionsView is the data of the sessions page.
type sessionsView struct {
	Sessions []session.Session
	// Next is the address of the sessions that follow, or "" at the end. Later reports that this is not the first page.
	Next  string
	Later bool
	// Budgeted reports whether there is a budget of each session.
	Budgeted bool
	Now      time.Time
	// Key is the sub-key whose sessions alone are shown, or ""; Keys are those that can be chosen.
	Key  string
	Keys []keyChoice
}

// at returns the address of the sessions after one, or of the newest.
func (v *sessionsView) at(after string) string {
	q := url.Values{}
	if v.Key != "" {
		q.Set("key", v.Key)
	}
	if after != "" {
		q.Set("after", after)
	}
	if len(q) == 0 {
		return sessionsPath
	}
	return sessionsPath + "?" + q.Encode()
}

// live is the address from which the list is loaded again every few seconds; empty for an older part, in which little happens.
func (v *sessionsView) live() string {
	if v.Later {
		return ""
	}
	return v.at("")
}

// sessionsPage shows the newest sessions, or only the list of them for htmx.
func (d *Dashboard) sessionsPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	after := r.FormValue("after")
	view := sessionsView{Later: after != "", Now: time.Now()}
	for i := range v.Keys {
		if k := &v.Keys[i]; !k.Master {
			view.Keys = append(view.Keys, keyChoice{k.ID, k.Name})
			if k.ID == r.FormValue("key") {
				view.Key = k.ID
			}
		}
	}
	list, more, err := d.Sessions.List(r.Context(), v.Account, view.Key, after, sessionsShown)
	if err != nil {
		return err
	}
	view.Sessions = list
	if more {
		view.Next = view.at(list[len(list)-1].ID)
	}
	for i := range v.Budgets {
		view.Budgeted = view.Budgeted || v.Budgets[i].Scope.Session != ""
	}
	if webui.Swapping(r) {
		return d.ui.Render(w, r, http.StatusOK, sessionList(&view))
	}
	return d.ui.Render(w, r, http.StatusOK, sessionsPage(d.frame(w, r, v, "Sessions"), &view))
}

// sessionView is the data of the page of a session.
type sessionView struct {
	*session.Session
	Names activity.Names
	Now   time.Time
	// Recent are its newest calls; More reports that there may be earlier ones.
	Recent []usage.Settlement
	More   bool
}

// recentCalls is how many calls the page of a session has.
const recentCalls = 25

// sessionPage shows a session, or only what changes of it for htmx.
func (d *Dashboard) sessionPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	s, err := d.Sessions.One(r.Context(), v.Account, "", r.PathValue("id"))
	if err != nil {
		return err
	}
	names, err := d.Activity.Names(r.Context(), v.ID)
	if err != nil {
		return err
	}
	view := &sessionView{Session: s, Names: names, Now: time.Now()}
	if view.Recent, view.More, err = d.Activity.InSession(r.Context(), v.ID, s.ID, s.First, s.Last, recentCalls); err != nil {
		return err
	}
	if webui.Swapping(r) {
		return d.ui.Render(w, r, http.StatusOK, sessionPart(view))
	}
	p := d.frame(w, r, v, "Session")
	p.Styles = []string{"activity.css"}
	return d.ui.Render(w, r, http.StatusOK, sessionPage(p, view))
}

// sessionAt returns the address of the page of a session.
func sessionAt(id string) string { return sessionsPath + "/" + url.PathEscape(id) }

// sessionActivity returns the address of the activity page with the calls of a session, from its first to its last.
func sessionActivity(s *session.Session) string {
	return home + "/activity?" + url.Values{"session": {s.ID}, "from": {s.First.UTC().Format(time.RFC3339)}, "to": {s.Last.UTC().Add(time.Minute).Format(time.RFC3339)}}.Encode()
}

// sessionCost returns what a session has cost.
func sessionCost(s *session.Session) string {
	charge := s.Charge()
	if charge == nil {
		return "–"
	}
	return webui.Total(*charge)
}

// sessionExact is what sessionCost has rounded.
func sessionExact(s *session.Session) string {
	charge := s.Charge()
	if charge == nil {
		return ""
	}
	return webui.Dollars(*charge)
}

// cacheRate returns how much of the prompts that a cache could have held came from one.
func cacheRate(s *session.Session) string {
	return webui.HitRate(s.Hits())
}

// lasted returns how long a session has taken so far.
func lasted(s *session.Session) string {
	took := s.Last.Sub(s.First)
	if took < time.Hour {
		return webui.Millis(took.Milliseconds())
	}
	took = took.Round(time.Minute)
	return fmt.Sprintf("%d h %d min", took/time.Hour, took%time.Hour/time.Minute)
}

// sessionBudget returns how the budget of a session stands, for the templates of budgets.
func sessionBudget(v *sessionView) *shownBudget {
	return &shownBudget{Status: *v.Budget, Calls: "This session"}
}

// failedText says how many of a session's calls were not completed.
func failedText(n int64) string {
	if n == 0 {
		return "all completed"
	}
	return webui.Number(n) + " not completed"
}
