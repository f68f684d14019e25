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
	"sluice/internal/operate/signal"
	"sluice/internal/operate/ticket"
	"sluice/internal/web/webui"
)

// ticketsAtOnce is how many tickets a page of the queue has.
const ticketsAtOnce = 50

// eventsShown is how many events of abuse control are beside the picture of the score.
const eventsShown = 6

// queueView is the data of the queue.
type queueView struct {
	View, Kind, Assignee string
	Me                   string // the member, as tickets name the assignee
	Counts               admin.TicketCounts
	List                 admin.List[ticket.Ticket]
	First                bool // it is the first page of the list
	Now                  time.Time
}

// queuePage shows what waits for support, or another list of tickets.
func (c *Console) queuePage(w http.ResponseWriter, r *http.Request, m *member) error {
	view := queueView{
		View: cmp.Or(r.FormValue("view"), string(ticket.Waiting)), Kind: r.FormValue("kind"), Assignee: r.FormValue("assignee"),
		Me: m.caller().Actor, First: r.FormValue("after") == "", Now: time.Now(),
	}
	in := admin.TicketQuery{
		View: view.View, Kind: view.Kind, Assignee: view.Assignee, Cursor: admin.Cursor{After: r.FormValue("after"), Limit: ticketsAtOnce},
	}
	var err error
	if view.List, err = run(c, r, m, c.ops.TicketList, in); err != nil { // gathers what is counted next
		return err
	}
	if view.Counts, err = run(c, r, m, c.ops.TicketCount, admin.Empty{}); err != nil {
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

// count returns how many tickets a view has, as text; closed ones are not counted.
func (v *queueView) count(view ticket.View) string {
	counts := map[ticket.View]int{ticket.Waiting: v.Counts.Waiting, ticket.Answered: v.Counts.Answered, ticket.Sleeping: v.Counts.Snoozed}
	if n, counted := counts[view]; counted {
		return webui.Number(int64(n))
	}
	return ""
}

// viewName returns the name of a view for the tabs.
func viewName(v ticket.View) string {
	return map[ticket.View]string{ticket.Waiting: "Waiting", ticket.Answered: "Answered", ticket.Sleeping: "Snoozed", ticket.Done: "Closed"}[v]
}

// allKinds are the kinds of tickets in the order of the filter.
var allKinds = []ticket.Kind{
	ticket.Deactivated, ticket.PastNinety, ticket.Climb, ticket.Payment, ticket.Restore, ticket.Downgrade, ticket.Billing, ticket.Inquiry, ticket.Other,
}

// kindTone returns the colour of a kind: the service itself raises the first ones.
func kindTone(kind ticket.Kind) string {
	switch kind {
	case ticket.Deactivated:
		return "bad"
	case ticket.PastNinety, ticket.Climb, ticket.Payment:
		return "warn"
	}
	return "accent"
}

// kindName returns the name of a kind.
func kindName(kind ticket.Kind) string { return cmp.Or(kind.Title(), string(kind)) }

// staffName returns a member as people call them.
func staffName(actor string) string { return strings.TrimPrefix(actor, "staff:") }

// ticketPath returns the path of a ticket's page.
func ticketPath(id string) string { return home + "/queue/" + url.PathEscape(id) }

// ticketView is the data of a ticket's page.
type ticketView struct {
	Ticket   admin.TicketThread
	Account  admin.Account
	Abuse    admin.Abuse
	Evidence admin.Evidence
	Signals  signal.Report
	Others   []ticket.Ticket
	Me       string
	Now      time.Time
	again
}

// showTicket shows a ticket: the thread, what is known of the account, and what can be done. Its version is that of the ticket as it is shown, so that a form acts on what the member saw.
func (c *Console) showTicket(w http.ResponseWriter, r *http.Request, m *member, status int, view ticketView) error {
	var err error
	if view.Ticket, err = run(c, r, m, c.ops.TicketShow, admin.TicketRef{ID: r.PathValue("id")}); err != nil {
		return err
	}
	var others admin.List[ticket.Ticket]
	of := admin.Target{Ref: view.Ticket.AccountID}
	err = together(r.Context(),
		read(c, m, c.ops.AccountShow, of, &view.Account),
		read(c, m, c.ops.AccountAbuse, of, &view.Abuse),
		read(c, m, c.ops.AccountEvidence, of, &view.Evidence),
		read(c, m, c.ops.AccountSignals, of, &view.Signals),
		read(c, m, c.ops.TicketList, admin.TicketQuery{Account: view.Ticket.AccountID, Cursor: admin.Cursor{Limit: 20}}, &others),
	)
	if err != nil {
		return err
	}
	// The list of the account has the ticket of this page, too.
	for _, x := range others.Data {
		if x.ID != view.Ticket.ID {
			view.Others = append(view.Others, x)
		}
	}
	view.Me, view.Now = m.caller().Actor, time.Now()
	return c.ui.Render(w, r, status, ticketPage(c.frame(w, r, m, view.Ticket.Subject), view))
}

// ticketSteps returns the forms of a ticket's page, by the last part of their path.
func ticketSteps(ops *admin.Operations) map[string]admin.Op[admin.TicketStep, admin.TicketThread] {
	return map[string]admin.Op[admin.TicketStep, admin.TicketThread]{
		"answer": ops.TicketAnswer, "assign": ops.TicketAssign, "snooze": ops.TicketSnooze, "close": ops.TicketClose, "reopen": ops.TicketReopen, "decide": ops.TicketDecide,
	}
}

// stepTicket does what one of the forms of a ticket's page says. Each carries the version that the page showed, so that
// nobody acts on what somebody else has changed.
func (c *Console) stepTicket(w http.ResponseWriter, r *http.Request, m *member) error {
	step, ok := ticketSteps(c.ops)[r.PathValue("step")]
	if !ok {
		return nothingHere()
	}
	version, err := strconv.ParseInt(r.FormValue("version"), 10, 64)
	if err != nil {
		return fault.New(fault.Invalid, "This form is incomplete. Go back and try again.")
	}
	in := admin.TicketStep{
		ID: r.PathValue("id"), Version: version, Text: r.FormValue("text"), Reason: r.FormValue("reason"), Decision: r.FormValue("decision"), To: r.FormValue("to"),
	}
	if days, err := strconv.Atoi(r.FormValue("days")); err == nil && r.PathValue("step") == "snooze" {
		in.Until = time.Now().AddDate(0, 0, days)
	}
	if _, err := run(c, r, m, step, in); err != nil {
		view := ticketView{again: again{Form: cmp.Or(in.Decision, r.PathValue("step")), Typed: r.PostForm}}
		var status int
		if view.Problems, status, err = webui.Refused(err, "text", "reason"); err != nil {
			return err
		}
		return c.showTicket(w, r, m, status, view)
	}
	return c.seeOther(w, r, ticketPath(in.ID), "matter-done")
}

// decision is one of the forms at the end of a ticket's page.
type decision struct {
	Name, Title, Does string
	Text              string // ready to be sent
	Danger            bool
}

// decisionsOn returns what can be decided about an account, with ready texts.
func decisionsOn(a *admin.Account) (list []decision) {
	list = append(list, decision{
		Name: "clear", Title: "Clear", Does: "Nothing is wrong. The ticket is closed, and the customer is told only what you write.",
	}, decision{
		Name: "warn", Title: "Warn", Does: "The customer is told, and the ticket is closed. Nothing changes for the account.",
		Text: "Hello,\n\nyour use of the service looks like reselling, proxying for third parties or continuous use at the maximum rate. Our terms do not allow that. Please change it, or answer here and tell us what you use the service for. " +
			"If it continues, we have to suspend your account.\n\nSupport",
	})
	if a.Status == "deactivated" || a.Status == "suspended" {
		list = append(list, decision{
			Name: "restore", Title: "Restore", Does: "Keys and account work again, and this month's count starts from zero.",
			Text: "Hello,\n\nwe have looked at your account and restored it. Your keys work again, and this month's count starts from zero. Please keep an eye on how much of your allowance is used; the Overview page shows it. A higher plan includes more.\n\nSupport",
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
