package support

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/operate/admin"
	"sluice/internal/operate/signal"
	"sluice/internal/web/webui"
)

const (
	// days is how many days the charts of an account show.
	days = 30
	// logShown is how many entries of the audit log the page of an account shows; the rest is on pages of its own.
	logShown = 25
	// logRead is how many are read, to find the changes of the plan among them.
	logRead = 1000
	// listShown limits the other lists on the page.
	listShown = 20
)

// accountView is the data of an account's page: its whole story.
type accountView struct {
	Account  admin.Account
	Billing  admin.Billing
	Abuse    admin.Abuse
	Usage    admin.Usage // by day
	Models   []admin.UsageRow
	ByKey    map[string]int64 // requests by the id of the key
	Signals  signal.Report
	Sessions []admin.Session
	Matters  []admin.Matter
	Messages []admin.Message
	Log      []admin.Entry
	More     string        // the cursor of older entries of the log; empty: there are none
	Plans    []admin.Entry // the changes of the plan
	Actions  []action      // those that are possible now
	Now      time.Time

	// Form names the action whose form was refused, Typed is what it had, and Problems says why.
	Form     string
	Typed    url.Values
	Problems webui.Problems
	// Seen is the number of the last entry of the log that the member had seen when the form was sent. It is 0 unless
	// somebody changed the account in between; then later entries are marked.
	Seen int64
}

// accountPage shows an account.
func (c *Console) accountPage(w http.ResponseWriter, r *http.Request, m *member) error {
	return c.showAccount(w, r, m, http.StatusOK, accountView{})
}

// showAccount renders the page. The caller sets Form, Typed, Problems and Seen of the view.
func (c *Console) showAccount(w http.ResponseWriter, r *http.Request, m *member, status int, v accountView) error {
	if err := c.readAccount(r.Context(), m, r.PathValue("id"), &v); err != nil {
		return err
	}
	v.Now = c.now()
	for _, a := range actions() {
		if a.possible == nil || a.possible(&v) {
			v.Actions = append(v.Actions, a)
		}
	}
	return c.ui.Render(w, r, status, accountPage(c.frame(w, r, m, v.Account.Email), v))
}

// readAccount reads everything that the page shows.
func (c *Console) readAccount(ctx context.Context, m *member, ref string, v *accountView) error {
	call := func(name string, in, out any) error { return c.Admin.Call(ctx, m.caller(), name, in, out) }
	if err := call("account.show", admin.Target{Ref: ref}, &v.Account); err != nil {
		return err
	}
	id := v.Account.ID
	var models, byKey admin.Usage
	var sessions admin.List[admin.Session]
	var messages admin.List[admin.Message]
	var matters admin.List[admin.Matter]
	var log admin.List[admin.Entry]
	page := admin.AccountPage{Ref: id, Cursor: admin.Cursor{Limit: listShown}}
	for _, q := range []struct {
		name    string
		in, out any
	}{
		{"billing.show", admin.Target{Ref: id}, &v.Billing},
		{"account.abuse", admin.Target{Ref: id}, &v.Abuse},
		{"account.signals", admin.Target{Ref: id}, &v.Signals},
		{"matter.list", admin.MatterQuery{Account: id, Cursor: admin.Cursor{Limit: listShown}}, &matters},
		{"usage", admin.UsageQuery{Ref: id, Days: days, By: "day"}, &v.Usage},
		{"usage", admin.UsageQuery{Ref: id, Days: days, By: "model"}, &models},
		{"usage", admin.UsageQuery{Ref: id, Days: days, By: "key"}, &byKey},
		{"account.sessions", page, &sessions},
		{"account.messages", page, &messages},
		{"account.history", admin.AccountPage{Ref: id, Cursor: admin.Cursor{Limit: logRead}}, &log},
	} {
		if err := call(q.name, q.in, q.out); err != nil {
			return err
		}
	}
	slices.SortFunc(models.Rows, func(a, b admin.UsageRow) int { return int(b.Requests - a.Requests) })
	v.Models = models.Rows[:min(len(models.Rows), listShown)]
	v.ByKey = map[string]int64{}
	for _, row := range byKey.Rows {
		v.ByKey[row.Key] = row.Requests
	}
	v.Sessions, v.Messages, v.Matters = sessions.Data, messages.Data, matters.Data
	for _, e := range log.Data {
		if (e.Action == "account.set_plan" || strings.HasPrefix(e.Action, "billing.") && strings.Contains(e.Detail, " to ")) && len(v.Plans) < listShown {
			v.Plans = append(v.Plans, e)
		}
	}
	v.Log = log.Data[:min(len(log.Data), logShown)]
	if len(v.Log) < len(log.Data) {
		v.More = strconv.FormatInt(v.Log[len(v.Log)-1].Seq, 10)
	}
	return nil
}

// logPage shows older entries of the audit log of an account.
func (c *Console) logPage(w http.ResponseWriter, r *http.Request, m *member) error {
	var a admin.Account
	if err := c.Admin.Call(r.Context(), m.caller(), "account.show", admin.Target{Ref: r.PathValue("id")}, &a); err != nil {
		return err
	}
	var log admin.List[admin.Entry]
	in := admin.AccountPage{Ref: a.ID, Cursor: admin.Cursor{After: r.FormValue("after"), Limit: 4 * logShown}}
	if err := c.Admin.Call(r.Context(), m.caller(), "account.history", in, &log); err != nil {
		return err
	}
	return c.ui.Render(w, r, http.StatusOK, logPage(c.frame(w, r, m, "Audit log of "+a.Email), a, log))
}

// act runs an action of the form. If somebody changed the account after the member had opened its page, nothing is done,
// and the page shows what changed.
func (c *Console) act(w http.ResponseWriter, r *http.Request, m *member) error {
	name := r.PathValue("action")
	i := slices.IndexFunc(actions(), func(a action) bool { return a.name == name })
	if i < 0 {
		return nothingHere()
	}
	version, err := strconv.ParseInt(r.FormValue("version"), 10, 64)
	if err != nil || version < 1 {
		return fault.New(fault.Invalid, "The form is not complete. Open the account again.")
	}
	f := form{id: r.PathValue("id"), reason: r.FormValue("reason"), version: version, value: r.FormValue}
	operation, in, err := actions()[i].order(f)
	if err == nil {
		var out any
		err = c.Admin.Call(r.Context(), m.caller(), operation, in, &out)
	}
	if err == nil {
		return c.seeOther(w, r, accountPath(f.id), "account-done")
	}
	v := accountView{Form: name, Typed: r.Form}
	var status int
	fields := append(actions()[i].fieldNames(), "reason", "version")
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

// typed returns what was typed into a field of a form that was refused, or the given text.
func (v *accountView) typed(a action, field, otherwise string) string {
	if v.Form == a.name && v.Typed.Has(field) {
		return v.Typed.Get(field)
	}
	return otherwise
}

// problem returns what is wrong with a field of a form, or "".
func (v *accountView) problem(a action, field string) string {
	if v.Form != a.name {
		return ""
	}
	return v.Problems[field]
}

// isNew reports whether an entry of the log was made after the member had opened the page.
func (v *accountView) isNew(e admin.Entry) bool { return v.Seen > 0 && e.Seq > v.Seen }

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
		out[i] = webui.Bar{Value: n, Title: fmt.Sprintf("%s: %s requests", day.Format("2 Jan"), webui.Number(n))}
	}
	return out
}
