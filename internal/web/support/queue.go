package support

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/operate/admin"
	"sluice/internal/operate/matter"
	"sluice/internal/operate/signal"
	"sluice/internal/web/webui"
)

// mattersAtOnce is how many matters a page of the queue has.
const mattersAtOnce = 50

// queueView is the data of the queue.
type queueView struct {
	View, Kind, Assignee string
	Me                   string // the member, as matters name the assignee
	Counts               admin.MatterCounts
	List                 admin.List[admin.Matter]
	First                bool // it is the first page of the list
	Now                  time.Time
}

// queuePage shows what waits for support, or another list of matters.
func (c *Console) queuePage(w http.ResponseWriter, r *http.Request, m *member) error {
	view := queueView{
		View: cmp.Or(r.FormValue("view"), string(matter.Waiting)), Kind: r.FormValue("kind"), Assignee: r.FormValue("assignee"),
		Me: m.caller().Actor, First: r.FormValue("after") == "", Now: c.now(),
	}
	in := admin.MatterQuery{
		View: view.View, Kind: view.Kind, Assignee: view.Assignee, Cursor: admin.Cursor{After: r.FormValue("after"), Limit: mattersAtOnce},
	}
	var err error
	if view.List, err = run(c, r, m, c.ops.MatterList, in); err != nil { // gathers what is counted next
		return err
	}
	if view.Counts, err = run(c, r, m, c.ops.MatterCount, admin.Empty{}); err != nil {
		return err
	}
	return c.ui.Render(w, r, http.StatusOK, queuePage(c.frame(w, r, m, "Queue"), view))
}

// path returns the address of the queue with a cursor and the filters of this page.
func (v *queueView) path(view, after string) string {
	q := url.Values{"view": {view}}
	for name, value := range map[string]string{"kind": v.Kind, "assignee": v.Assignee, "after": after} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return home + "/queue?" + q.Encode()
}

// count returns how many matters a view has, as text; closed ones are not counted.
func (v *queueView) count(view matter.View) string {
	switch view {
	case matter.Waiting:
		return webui.Number(int64(v.Counts.Waiting))
	case matter.Answered:
		return webui.Number(int64(v.Counts.Answered))
	case matter.Sleeping:
		return webui.Number(int64(v.Counts.Snoozed))
	}
	return ""
}

// viewName returns the name of a view for the tabs.
func viewName(v matter.View) string {
	switch v {
	case matter.Waiting:
		return "Waiting"
	case matter.Answered:
		return "Answered"
	case matter.Sleeping:
		return "Snoozed"
	}
	return "Closed"
}

// allKinds are the kinds of matters in the order of the filter.
var allKinds = []matter.Kind{
	matter.Deactivated, matter.PastNinety, matter.Climb, matter.Payment, matter.Restore, matter.Downgrade, matter.Billing, matter.Inquiry, matter.Other,
}

// kindTone returns the colour of a kind: the service itself raises the first ones.
func kindTone(kind string) string {
	switch matter.Kind(kind) {
	case matter.Deactivated:
		return "bad"
	case matter.PastNinety, matter.Climb, matter.Payment:
		return "warn"
	}
	return "accent"
}

// kindName returns the name of a kind.
func kindName(kind string) string { return cmp.Or(matter.Kind(kind).Title(), kind) }

// staffName returns a member as people call them.
func staffName(actor string) string { return strings.TrimPrefix(actor, "staff:") }

// matterPath returns the path of a matter's page.
func matterPath(id string) string { return home + "/queue/" + url.PathEscape(id) }

// matterView is the data of a matter's page.
type matterView struct {
	Matter   admin.MatterThread
	Account  admin.Account
	Abuse    admin.Abuse
	Evidence admin.Evidence
	Signals  signal.Report
	Others   []admin.Matter
	Me       string
	Now      time.Time
	again
}

// matterPage shows a matter: the thread, what is known of the account, and what can be done.
func (c *Console) matterPage(w http.ResponseWriter, r *http.Request, m *member) error {
	return c.showMatter(w, r, m, http.StatusOK, matterView{})
}

func (c *Console) showMatter(w http.ResponseWriter, r *http.Request, m *member, status int, view matterView) error {
	var err error
	if view.Matter, err = run(c, r, m, c.ops.MatterShow, admin.MatterRef{ID: r.PathValue("id")}); err != nil {
		return err
	}
	var others admin.List[admin.Matter]
	of := admin.Target{Ref: view.Matter.Account}
	err = together(r.Context(),
		read(c, m, c.ops.AccountShow, of, &view.Account),
		read(c, m, c.ops.AccountAbuse, of, &view.Abuse),
		read(c, m, c.ops.AccountEvidence, of, &view.Evidence),
		read(c, m, c.ops.AccountSignals, of, &view.Signals),
		read(c, m, c.ops.MatterList, admin.MatterQuery{Account: view.Matter.Account, Cursor: admin.Cursor{Limit: 20}}, &others),
	)
	if err != nil {
		return err
	}
	for _, x := range others.Data {
		if x.ID != view.Matter.ID {
			view.Others = append(view.Others, x)
		}
	}
	view.Me, view.Now = m.caller().Actor, c.now()
	return c.ui.Render(w, r, status, matterPage(c.frame(w, r, m, view.Matter.Subject), view))
}

// matterSteps returns the forms of a matter's page, by the last part of their path.
func matterSteps(ops *admin.Operations) map[string]admin.Op[admin.MatterStep, admin.MatterThread] {
	return map[string]admin.Op[admin.MatterStep, admin.MatterThread]{
		"answer": ops.MatterAnswer, "assign": ops.MatterAssign, "snooze": ops.MatterSnooze, "close": ops.MatterClose, "reopen": ops.MatterReopen, "decide": ops.MatterDecide,
	}
}

// stepMatter does what one of the forms of a matter's page says. Each carries the version that the page showed, so that
// nobody acts on what somebody else has changed.
func (c *Console) stepMatter(w http.ResponseWriter, r *http.Request, m *member) error {
	step, ok := matterSteps(c.ops)[r.PathValue("step")]
	if !ok {
		return nothingHere()
	}
	version, err := strconv.ParseInt(r.FormValue("version"), 10, 64)
	if err != nil {
		return fault.New(fault.Invalid, "This form is incomplete. Go back and try again.")
	}
	in := admin.MatterStep{
		ID: r.PathValue("id"), Version: version, Text: r.FormValue("text"), Reason: r.FormValue("reason"), Decision: r.FormValue("decision"), To: r.FormValue("to"),
	}
	if days, err := strconv.Atoi(r.FormValue("days")); err == nil && r.PathValue("step") == "snooze" {
		in.Until = c.now().AddDate(0, 0, days)
	}
	if _, err := run(c, r, m, step, in); err != nil {
		view := matterView{again: again{Form: cmp.Or(in.Decision, r.PathValue("step")), Typed: r.PostForm}}
		var status int
		if view.Problems, status, err = webui.Refused(err, "text", "reason"); err != nil {
			return err
		}
		return c.showMatter(w, r, m, status, view)
	}
	return c.seeOther(w, r, matterPath(in.ID), "matter-done")
}

// decision is one of the forms at the end of a matter's page.
type decision struct {
	Name, Title, Does string
	Text              string // ready to be sent
	Danger            bool
}

// decisionsOn returns what can be decided about an account, with ready texts.
func decisionsOn(a *admin.Account) (list []decision) {
	list = append(list, decision{
		Name: "clear", Title: "Clear", Does: "Nothing is wrong. The matter is closed, and the customer is told only what you write.",
	}, decision{
		Name: "warn", Title: "Warn", Does: "The customer is told, and the matter is closed. Nothing changes for the account.",
		Text: "Hello,\n\nyour use of the service looks like reselling, proxying for third parties or continuous use at the maximum rate. Our terms do not allow that. Please change it, or answer here and tell us what you use the service for. " +
			"If it continues, we have to suspend your account.\n\nSupport",
	})
	if a.Status == "deactivated" || a.Status == "suspended" {
		list = append(list, decision{
			Name: "restore", Title: "Restore", Does: "Keys and account work again, and the count of the month starts from zero.",
			Text: "Hello,\n\nwe have looked at your account and restored it. Your keys work again, and the count of this month starts from zero. Please keep an eye on your abuse score on the Overview page; a higher plan has a larger budget.\n\nSupport",
		})
	}
	if a.Status == "active" || a.Status == "deactivated" {
		list = append(list, decision{
			Name: "suspend", Title: "Suspend", Does: "Every request is refused with 423 until the account is restored. The customer is told your reason.", Danger: true,
			Text: "Hello,\n\nwe have suspended your account because its use breaks our terms. Requests are refused from now on; your keys and your history are kept. If you think that this is a mistake, answer here.\n\nSupport",
		})
	}
	return list
}
