package support

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/operate/admin"
	"sluice/internal/web/webui"
)

const (
	// days is how many days the charts of an account show.
	days = 30
	// logShown is how many entries of the audit log the page of an account shows; the rest is on pages of its own.
	logShown = 25
	// listShown limits the other lists on the page.
	listShown = 20
)

// accountView is the data of an account's page: its whole story.
type accountView struct {
	admin.Story
	Actions []action // those that are possible now
	Now     time.Time

	again // the form of an action
	// Seen is the number of the last entry of the log that the member had seen when the form was sent. It is 0 unless
	// somebody changed the account in between; then later entries are marked.
	Seen int64
}

// showAccount shows an account. The caller sets the form and Seen of the view.
func (c *Console) showAccount(w http.ResponseWriter, r *http.Request, m *member, status int, v accountView) error {
	var err error
	if v.Story, err = run(c, r, m, c.ops.AccountStory, admin.StoryQuery{Ref: r.PathValue("id"), Days: days, Log: logShown, List: listShown}); err != nil {
		return err
	}
	v.Now = time.Now()
	for _, a := range actions(c.ops) {
		if a.possible == nil || a.possible(&v) {
			v.Actions = append(v.Actions, a)
		}
	}
	return c.ui.Render(w, r, status, accountPage(c.frame(w, r, m, v.Account.Email), v))
}

// logPage shows older entries of the audit log of an account.
func (c *Console) logPage(w http.ResponseWriter, r *http.Request, m *member) error {
	a, err := run(c, r, m, c.ops.AccountShow, admin.Target{Ref: r.PathValue("id")})
	if err != nil {
		return err
	}
	in := admin.AccountPage{Ref: a.ID, Cursor: admin.Cursor{After: r.FormValue("after"), Limit: 4 * logShown}}
	log, err := run(c, r, m, c.ops.AccountHistory, in)
	if err != nil {
		return err
	}
	return c.ui.Render(w, r, http.StatusOK, logPage(c.frame(w, r, m, "Audit log of "+a.Email), a, log))
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
		return fault.New(fault.Invalid, "The form is not complete. Open the account again.")
	}
	f := form{id: r.PathValue("id"), reason: r.FormValue("reason"), version: version, value: r.FormValue}
	if err = actions(c.ops)[i].order(r.Context(), c.Admin, m.caller(), f); err == nil {
		return c.seeOther(w, r, accountPath(f.id), "account-done")
	}
	v := accountView{again: again{Form: name, Typed: r.PostForm}}
	var status int
	fields := append(actions(c.ops)[i].fieldNames(), "reason", "version")
	if v.Problems, status, err = webui.Refused(err, fields...); err != nil {
		return err
	}
	if v.Problems["version"] != "" {
		v.Problems = webui.Problems{"": "Nothing was done: the account was changed after you had opened it. What changed is marked in the audit log below. Look at it, then decide again."}
		v.Seen, _ = strconv.ParseInt(r.FormValue("seen"), 10, 64) // 0 if it is missing: nothing is marked
	}
	return c.showAccount(w, r, m, status, v)
}

// last returns the number of the newest entry of the log.
func (v *accountView) last() string {
	if len(v.Log) == 0 {
		return "0"
	}
	return strconv.FormatInt(v.Log[0].Seq, 10)
}

// isNew reports whether an entry of the log was made after the member had opened the page.
func (v *accountView) isNew(e account.Entry) bool { return v.Seen > 0 && e.Seq > v.Seen }

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
