package support

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/operate/admin"
	"sluice/internal/web/webui"
)

const (
	// days is how many days the charts of an account show.
	days = 30
	// logShown is how many entries a page of the audit log has.
	logShown = 100
	// listShown limits the lists on the page.
	listShown = 20
)

// accountView is the data of an account's page: its whole story.
type accountView struct {
	admin.Story
	Actions []action // those that are possible now
	Now     time.Time
	// Timeline is a page of what happened, Kind which part of it, and After where it begins.
	Timeline admin.List[admin.Happening]
	Kind     admin.TimelineKind
	After    string
	Back     string // where the form of an action leads; empty: to the account

	again // the form of an action
	// Seen is the number of the last entry of the log that the member had seen when the form was sent. It is 0 unless
	// somebody changed the account in between; then later entries are marked.
	Seen int64
}

// showAccount shows an account. The caller sets the form and Seen of the view.
func (c *Console) showAccount(w http.ResponseWriter, r *http.Request, m *member, status int, v accountView) error {
	q, ref := r.URL.Query(), r.PathValue("id")
	v.Kind, v.After = admin.TimelineKind(q.Get("kind")), q.Get("after")
	err := together(r.Context(),
		read(c, m, c.ops.AccountStory, admin.StoryQuery{Ref: ref, Days: days, List: listShown}, &v.Story),
		read(c, m, c.ops.AccountTimeline, admin.TimelineQuery{Ref: ref, Kind: v.Kind, Cursor: admin.Cursor{After: v.After, Limit: timelineAtOnce}}, &v.Timeline),
	)
	if err != nil {
		return err
	}
	v.Now = time.Now()
	v.offer(c.ops)
	return c.ui.Render(w, r, status, accountPage(c.frame(w, r, m, v.Account.Email), v))
}

// offer lists what can be done about the account as it is.
func (v *accountView) offer(ops *admin.Operations) {
	for _, a := range actions(ops) {
		if a.possible == nil || a.possible(v) {
			v.Actions = append(v.Actions, a)
		}
	}
}

// logPage shows a page of the audit log of an account.
func (c *Console) logPage(w http.ResponseWriter, r *http.Request, m *member) error {
	a, err := run(c, r, m, c.ops.AccountShow, admin.Target{Ref: r.PathValue("id")})
	if err != nil {
		return err
	}
	in := admin.TimelineQuery{Ref: a.ID, Kind: admin.TimelineKind(r.FormValue("kind")), Cursor: admin.Cursor{After: r.FormValue("after"), Limit: logShown}}
	log, err := run(c, r, m, c.ops.AccountLog, in)
	if err != nil {
		return err
	}
	return c.ui.Render(w, r, http.StatusOK, logPage(c.frame(w, r, m, "Audit log of "+a.Email), a, in, log))
}

// logPath returns the address of a part of the audit log of an account.
func logPath(id string, kind admin.TimelineKind, after string) string {
	q := url.Values{}
	if kind != "" {
		q.Set("kind", string(kind))
	}
	if after != "" {
		q.Set("after", after)
	}
	if len(q) == 0 {
		return accountPath(id) + "/log"
	}
	return accountPath(id) + "/log?" + q.Encode()
}

// act runs an action of the form. If somebody changed the account after the member had opened its page, nothing is done,
// and the page shows what changed.
func (c *Console) act(w http.ResponseWriter, r *http.Request, m *member) error {
	name := r.PathValue("action")
	i := slices.IndexFunc(actions(c.ops), func(a action) bool { return a.name == name })
	if i < 0 {
		return nothingHere()
	}
	version, err := strconv.ParseInt(r.FormValue("version"), 10, 64)
	if err != nil || version < 1 {
		return fault.New(fault.Invalid, "The form is incomplete. Open the account again.")
	}
	f := form{id: r.PathValue("id"), reason: r.FormValue("reason"), version: version, value: r.FormValue}
	if err = actions(c.ops)[i].order(r.Context(), c.Admin, m.caller(), f); err == nil {
		if back := r.FormValue("back"); strings.HasPrefix(back, home+"/queue/") {
			return c.seeOther(w, r, webui.SafePath(back, home+"/queue"), "matter-done")
		}
		return c.seeOther(w, r, accountPath(f.id), "account-done")
	}
	v := accountView{again: again{Form: name, Typed: r.PostForm}}
	var status int
	fields := append(actions(c.ops)[i].fieldNames(), "reason", "version")
	if v.Problems, status, err = webui.Refused(err, fields...); err != nil {
		return err
	}
	if v.Problems["version"] != "" {
		v.Problems = webui.Problems{"": "Nothing was done: the account was changed after you had opened it. What changed is marked in the timeline below. Look at it, then decide again."}
		v.Seen, _ = strconv.ParseInt(r.FormValue("seen"), 10, 64) // 0 if it is missing: nothing is marked
	}
	return c.showAccount(w, r, m, status, v)
}

// bars returns the chart of requests by day. Days without requests are in it.
func (v *accountView) bars() []webui.Bar {
	byDay := map[string]int64{}
	for _, row := range v.Usage.Rows {
		byDay[row.Day] = row.Requests
	}
	out := make([]webui.Bar, days)
	for i := range out {
		day := v.Now.UTC().AddDate(0, 0, i+1-days)
		n := byDay[day.Format(time.DateOnly)]
		out[i] = webui.Bar{Value: n, Name: webui.DayMonth(day), Text: webui.Number(n) + " requests"}
	}
	return out
}
