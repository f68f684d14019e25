package support

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/operate/admin"
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
	First                bool                // it is the first page of the list
	Done                 *admin.TicketThread // what the member has just closed or snoozed here; nil: nothing
	Problem              string              // why that was not done
	Now                  time.Time
}

// queuePage shows what waits for support, or another list of tickets.
func (c *Console) queuePage(w http.ResponseWriter, r *http.Request, m *member) error {
	return c.showQueue(w, r, m, http.StatusOK, r.URL.Query(), "")
}

// showQueue shows the list that q asks for. problem is what was wrong with a step that was taken there; empty: nothing.
func (c *Console) showQueue(w http.ResponseWriter, r *http.Request, m *member, status int, q url.Values, problem string) error {
	view := queueView{
		View: cmp.Or(q.Get("view"), string(ticket.Waiting)), Kind: q.Get("kind"), Assignee: q.Get("assignee"), Problem: problem,
		Me: m.caller().Actor, First: q.Get("after") == "", Now: time.Now(),
	}
	in := admin.TicketQuery{
		View: view.View, Kind: view.Kind, Assignee: view.Assignee, Cursor: admin.Cursor{After: q.Get("after"), Limit: ticketsAtOnce},
	}
	var err error
	if view.List, err = run(c, r, m, c.ops.TicketList, in); err != nil { // gathers what is counted next
		return err
	}
	if view.Counts, err = run(c, r, m, c.ops.TicketCount, admin.Empty{}); err != nil {
		return err
	}
	if id := q.Get("done"); id != "" && problem == "" {
		done, err := run(c, r, m, c.ops.TicketShow, admin.TicketRef{ID: id})
		if err != nil {
			return err
		}
		view.Done = &done
	}
	return c.ui.Render(w, r, status, queuePage(c.frame(w, r, m, "Queue"), view))
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

// count returns how many tickets a view has, as text: "" for none, and for closed ones, which are not counted.
func (v *queueView) count(view ticket.View) string {
	counts := map[ticket.View]int{ticket.Waiting: v.Counts.Waiting, ticket.Answered: v.Counts.Answered, ticket.Sleeping: v.Counts.Snoozed}
	if n := counts[view]; n > 0 {
		return webui.Number(int64(n))
	}
	return ""
}

// viewName returns the name of a view for the tabs.
func viewName(v ticket.View) string {
	return map[ticket.View]string{ticket.Waiting: "Waiting", ticket.Answered: "Answered", ticket.Sleeping: "Snoozed", ticket.Done: "Closed"}[v]
}

// orderText says in which order a view lists its tickets.
func (v *queueView) orderText() string {
	switch v.View {
	case string(ticket.Done):
		return "The last one closed comes first."
	case string(ticket.Sleeping):
		return "Snoozed tickets come back by themselves."
	}
	return "The longest wait comes first."
}

// noneText says that a view other than the waiting tickets is empty.
func (v *queueView) noneText() string {
	switch v.View {
	case string(ticket.Done):
		return "No closed tickets."
	case string(ticket.Sleeping):
		return "No snoozed tickets. They come back here when their time is up or the customer writes."
	}
	return "No tickets wait for a customer."
}

// reopenName is the button that makes a closed or snoozed ticket wait again.
func reopenName(s ticket.State) string {
	if s == ticket.Snoozed {
		return "Wake"
	}
	return "Reopen"
}

// sinceName is the heading of the moments of a view: how long a ticket has waited, or when it was closed.
func (v *queueView) sinceName() string {
	if v.View == string(ticket.Done) {
		return "Closed"
	}
	return "Waiting for"
}

// since says how long a ticket has waited, or when it was closed.
func (v *queueView) since(t *ticket.Ticket) string {
	if v.View == string(ticket.Done) {
		return webui.Ago(t.Since, v.Now)
	}
	waited := max(v.Now.Sub(t.Since), time.Minute)
	if days := int(waited / (24 * time.Hour)); days > 0 {
		return webui.Plural(days, "day")
	}
	return strings.TrimSuffix(webui.Ago(v.Now.Add(-waited), v.Now), " ago")
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

// staffTitle returns what a ticket is called here. The subject of one that the service has opened is written to the customer.
func staffTitle(t *ticket.Ticket) string {
	title := map[ticket.Kind]string{
		ticket.Deactivated: "Keys switched off", ticket.PastNinety: "More than 90% of the allowance used", ticket.Climb: "Usage grows fast", ticket.Payment: "Payment failed",
	}[t.Kind]
	if t.Cause == "" {
		return t.Subject
	}
	return cmp.Or(title, t.Subject)
}

// staffName returns a member as people call them.
func staffName(actor string) string { return strings.TrimPrefix(actor, "staff:") }

// ticketPath returns the path of a ticket's page.
func ticketPath(id string) string { return home + "/queue/" + url.PathEscape(id) }

// ticketView is the data of a ticket's page: what was asked, what is known of the account, and what can be done about it.
type ticketView struct {
	accountView
	Ticket   admin.TicketThread
	Evidence admin.Evidence
	// Waiting is the first page of what waits for support, where the member came from and goes on.
	Waiting []ticket.Ticket
	Me      string
}

// decisionsShown is how many earlier decisions, and other tickets, a ticket's page shows.
const decisionsShown = 8

// showTicket shows a ticket: the thread, what is known of the account, and what can be done. Its version is that of the ticket as it is shown, so that a form acts on what the member saw.
func (c *Console) showTicket(w http.ResponseWriter, r *http.Request, m *member, status int, view ticketView) error {
	var err error
	if view.Ticket, err = run(c, r, m, c.ops.TicketShow, admin.TicketRef{ID: r.PathValue("id")}); err != nil {
		return err
	}
	var waiting admin.List[ticket.Ticket]
	id := view.Ticket.AccountID
	err = together(r.Context(),
		read(c, m, c.ops.AccountStory, admin.StoryQuery{Ref: id, Days: days, List: decisionsShown}, &view.Story),
		read(c, m, c.ops.AccountEvidence, admin.Target{Ref: id}, &view.Evidence),
		read(c, m, c.ops.TicketList, admin.TicketQuery{Cursor: admin.Cursor{Limit: ticketsAtOnce}}, &waiting),
	)
	if err != nil {
		return err
	}
	view.Waiting, view.Me, view.Now, view.Back = waiting.Data, m.caller().Actor, time.Now(), ticketPath(view.Ticket.ID)
	view.offer(c.ops)
	view.offerAsked()
	return c.ui.Render(w, r, status, ticketPage(c.frame(w, r, m, staffTitle(&view.Ticket.Ticket)), view))
}

// place returns the place of the ticket among those that wait, from 0; -1: it does not wait, or not on the first page.
func (v *ticketView) place() int {
	return slices.IndexFunc(v.Waiting, func(t ticket.Ticket) bool { return t.ID == v.Ticket.ID })
}

// beside returns the path of the waiting ticket before or after this one; empty: there is none. After a ticket that does not
// wait comes the first one that does.
func (v *ticketView) beside(by int) string {
	i := v.place()
	if i < 0 && by < 0 {
		return ""
	}
	if i += by; i < 0 || i >= len(v.Waiting) {
		return ""
	}
	return ticketPath(v.Waiting[i].ID)
}

// settled says why nobody waits for an answer to the ticket; empty: the customer does.
func (v *ticketView) settled() string {
	switch {
	case v.Ticket.State == ticket.Closed:
		return "This ticket is closed."
	case v.Ticket.State == ticket.Snoozed:
		return "This ticket is snoozed."
	case v.Ticket.Waits == ticket.Customer:
		return "This ticket waits for the customer."
	}
	return ""
}

// others returns the other tickets of the account.
func (v *ticketView) others() []ticket.Ticket {
	return slices.DeleteFunc(slices.Clone(v.Tickets), func(t ticket.Ticket) bool { return t.ID == v.Ticket.ID })
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
	// A ticket is snoozed for some days, or until a moment.
	days, err := numberOf(r, "days", 366)
	if err == nil {
		in.Until, err = whenOf(r, "until")
	}
	if err == nil {
		if days > 0 {
			in.Until = time.Now().AddDate(0, 0, days)
		}
		_, err = run(c, r, m, step, in)
	}
	if back := r.FormValue("back"); back != "" {
		return c.stepped(w, r, m, back, err)
	}
	if err != nil {
		view := ticketView{accountView: accountView{again: again{Form: cmp.Or(in.Decision, r.PathValue("step")), Typed: r.PostForm}}}
		var status int
		if view.Problems, status, err = webui.Refused(err, "text", "reason", "until"); err != nil {
			return err
		}
		return c.showTicket(w, r, m, status, view)
	}
	return c.seeOther(w, r, ticketPath(in.ID), "matter-done")
}

// stepped returns to the list of the queue in which a step was taken. What was closed or snoozed can be put back there.
func (c *Console) stepped(w http.ResponseWriter, r *http.Request, m *member, back string, err error) error {
	_, text, _ := strings.Cut(webui.SafePath(back, home+"/queue"), "?")
	q, _ := url.ParseQuery(text) // what cannot be read asks for nothing
	if err != nil {
		problems, status, rest := webui.Refused(err)
		if rest != nil {
			return rest
		}
		return c.showQueue(w, r, m, status, q, problems[""])
	}
	q.Del("done")
	if step := r.PathValue("step"); step == "close" || step == "snooze" {
		q.Set("done", r.PathValue("id"))
	}
	return c.seeOther(w, r, home+"/queue?"+q.Encode(), "")
}

// decision is one of the forms beside a ticket.
type decision struct {
	Name, Title string
	Says        string // exactly what happens
	Button      string
	Text        string // ready to be sent
	Danger      bool
}

// aboutMoney reports whether a ticket of an account that works as usual is about its plan, an invoice or a payment: then
// nothing is decided about how the account is used.
func (v *ticketView) aboutMoney() bool {
	return v.Account.Status == "active" && slices.Contains([]ticket.Kind{ticket.Downgrade, ticket.Billing, ticket.Payment}, v.Ticket.Kind)
}

// asked returns the names of the actions that a kind of ticket usually asks for.
func asked(kind ticket.Kind) []string {
	switch kind {
	case ticket.Downgrade:
		return []string{"downgrade"}
	case ticket.Billing, ticket.Payment:
		return []string{"refund", "credit"}
	}
	return nil
}

// offerAsked puts the actions that the ticket asks for before the others, with a heading of their own.
func (v *ticketView) offerAsked() {
	names := asked(v.Ticket.Kind)
	for i := range v.Actions {
		if slices.Contains(names, v.Actions[i].name) {
			v.Actions[i].group = "For this ticket"
		}
	}
	slices.SortStableFunc(v.Actions, func(a, b action) int {
		return cmp.Compare(place(names, a.name), place(names, b.name))
	})
}

// place is where a name stands in a list; one that is not in it comes last.
func place(names []string, name string) int {
	if i := slices.Index(names, name); i >= 0 {
		return i
	}
	return len(names)
}

// decisions returns what can be decided about the account, with ready texts.
func (v *ticketView) decisions() (list []decision) {
	if v.aboutMoney() {
		return nil
	}
	who := v.Account.Email
	list = append(list, decision{
		Name: "clear", Title: "Clear", Says: "Close the ticket: nothing is wrong with " + who + ", who is told only what you write.", Button: "Clear",
	}, decision{
		Name: "warn", Title: "Warn", Says: "Warn " + who + " and close the ticket. Nothing changes for the account.", Button: "Warn",
		Text: "Hello,\n\nYour use of the service looks like reselling, proxying for third parties or continuous use at the maximum rate. Our terms do not allow that. Please change it, or reply here and tell us what you use the service for. " +
			"If it continues, we will have to suspend your account.\n\nSupport",
	})
	if v.Account.Status == "deactivated" || v.Account.Status == "suspended" {
		says := "Restore " + keysOf(&v.accountView) + " of " + who + ". This month's count starts from zero."
		if v.Account.Status == "suspended" {
			says = "Lift the suspension of " + who + " and restore " + keysOf(&v.accountView) + ". This month's count starts from zero."
		}
		list = append(list, decision{
			Name: "restore", Title: "Restore", Says: says, Button: "Restore " + keysOf(&v.accountView),
			Text: "Hello,\n\nWe have looked at your account and restored it. Your keys work again, and this month's count starts from zero. Please keep an eye on how much of your allowance is used; the Overview page shows it. A higher plan includes more.\n\nSupport",
		})
	}
	if v.Account.Status == "active" || v.Account.Status == "deactivated" {
		list = append(list, decision{
			Name: "suspend", Title: "Suspend", Says: "Suspend " + who + ": every request with its " + keysOf(&v.accountView) + " is refused with 423 until the account is restored. The customer is told your reason.", Button: "Suspend " + who, Danger: true,
			Text: "Hello,\n\nWe have suspended your account because its use breaks our terms. Requests are refused from now on; your keys and your history are kept. If you think this is a mistake, reply here.\n\nSupport",
		})
	}
	return list
}
