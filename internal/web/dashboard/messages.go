package dashboard

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"sluice/internal/ledger/budget"
	"sluice/internal/operate/notice"
	"sluice/internal/operate/ticket"
	"sluice/internal/web/webui"
)

// messagesShown limits the notices and the conversations on the page. The export has all of them.
const messagesShown = 100

// messagesView is the data of the messages page.
type messagesView struct {
	Show   string // one of inboxViews
	Items  []inboxItem
	Unread map[string]int // by view
}

// inboxItem is a conversation or a notice.
type inboxItem struct {
	At     time.Time
	Ticket *ticket.Ticket
	Notice *notice.Notice
}

// inboxViews are the parts of the inbox, by the names that the address of the page has.
var inboxViews = []struct{ Name, Text string }{{"", "All"}, {"conversations", "Conversations"}, {"notices", "Notices"}}

// inboxPath returns the address of a part of the inbox.
func inboxPath(view string) string {
	if view == "" {
		return home + "/messages"
	}
	return home + "/messages?show=" + view
}

// messagesPage shows conversations and notices. Each is marked as read when it is opened, or all of them by a button.
func (d *Dashboard) messagesPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	ctx := r.Context()
	notices, err := d.Notices.List(ctx, v.ID, messagesShown)
	if err != nil {
		return err
	}
	// A new inquiry is a notice at first. It becomes a conversation when its owner comes to answer, or within
	// seconds.
	if slices.ContainsFunc(notices, func(n notice.Notice) bool { return n.Kind == notice.Inquiry && !n.Joined }) {
		if err := d.Tickets.Join(ctx, v.ID); err != nil {
			return err
		}
	}
	tickets, err := d.Tickets.Threads(ctx, v.ID, messagesShown)
	if err != nil {
		return err
	}
	view := inboxOf(r.FormValue("show"), tickets, notices)
	return d.ui.Render(w, r, http.StatusOK, messagesPage(d.messagesFrame(w, r, v, "Messages"), view, d.ui.Settings().Support))
}

// messagePage shows a conversation or a notice.
func (d *Dashboard) messagePage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	id := r.PathValue("id")
	if !strings.HasPrefix(id, noticePrefix) {
		return d.showTicket(w, r, v, http.StatusOK, ticketView{})
	}
	n, err := d.Notices.Notice(r.Context(), v.ID, id)
	if err != nil {
		return err
	}
	// A HEAD request shows nothing, so it marks nothing as read.
	if r.Method != http.MethodHead && n.ReadAt.IsZero() {
		if err := d.Notices.Read(r.Context(), v.ID, id); err != nil {
			return err
		}
	}
	return d.ui.Render(w, r, http.StatusOK, noticePage(d.messagesFrame(w, r, v, n.Title), n, v.about(n)))
}

// noticePrefix begins the ids of notices, which differ by it from those of conversations.
const noticePrefix = "note_"

// readMessages marks all conversations and notices as read.
func (d *Dashboard) readMessages(w http.ResponseWriter, r *http.Request, v *visitor) error {
	if err := d.Notices.Read(r.Context(), v.ID, ""); err != nil {
		return err
	}
	if err := d.Tickets.ReadAll(r.Context(), v.ID); err != nil {
		return err
	}
	return d.seeOther(w, r, home+"/messages", "messages-read")
}

// noticeSteps are what can be done about notices: a button and where it leads.
var noticeSteps = map[notice.Kind][2]string{
	notice.Warning:     {"Compare plans", PlanPath},
	notice.Payment:     {"Plan and billing", PlanPath},
	notice.Budget:      {"Budgets", budgetsPath},
	notice.Suspended:   {"Contact support", home + "/messages/new"},
	notice.Deactivated: {"Contact support", home + "/messages/new?kind=restore"},
}

// noticeAbout is what can be done about a notice: a button and where it leads, and the session that it is about, if any.
type noticeAbout struct{ Step, Path, Session string }

// about returns what can be done about a notice. That about the budget of a session leads to that budget, if it still exists.
func (v *visitor) about(n *notice.Notice) noticeAbout {
	step := noticeSteps[n.Kind]
	out := noticeAbout{Step: step[0], Path: step[1]}
	if n.Kind != notice.Budget {
		return out
	}
	session, name, ok := budget.SessionOf(n.Title)
	if !ok {
		return out
	}
	out.Session = session
	for i := range v.Budgets {
		if b := &v.Budgets[i]; b.Name == name && b.Scope.Session != "" {
			out.Step, out.Path = "Raise budget", raiseAt(budget.Due{Budget: b, Session: session})
			break
		}
	}
	return out
}

// messagesFrame returns the frame of a page about messages.
func (d *Dashboard) messagesFrame(w http.ResponseWriter, r *http.Request, v *visitor, title string) webui.Page {
	p := d.frame(w, r, v, title)
	p.Styles = []string{accountStyle}
	return p
}

// inboxOf returns a part of the inbox, newest first.
func inboxOf(show string, tickets []ticket.Ticket, notices []notice.Notice) messagesView {
	view := messagesView{Unread: map[string]int{}}
	for _, known := range inboxViews {
		if known.Name == show {
			view.Show = show
		}
	}
	add := func(part string, unread bool, item inboxItem) {
		if unread {
			view.Unread[""]++
			view.Unread[part]++
		}
		if view.Show == "" || view.Show == part {
			view.Items = append(view.Items, item)
		}
	}
	for i := range tickets {
		t := &tickets[i]
		add("conversations", t.Unread, inboxItem{At: t.ChangedAt, Ticket: t})
	}
	for i := range notices {
		if n := &notices[i]; n.Kind != notice.Inquiry { // which is a conversation
			add("notices", n.ReadAt.IsZero(), inboxItem{At: n.At, Notice: n})
		}
	}
	slices.SortStableFunc(view.Items, func(a, b inboxItem) int { return b.At.Compare(a.At) })
	return view
}

// emptyInbox says that a part of the inbox has nothing.
func emptyInbox(show string) string {
	switch show {
	case "conversations":
		return "No conversations yet. Contact support whenever you need help."
	case "notices":
		return "No notices. We write here when something about your account needs your attention."
	}
	return "No messages yet. Answers from support and notices about your account appear here."
}

// topicText says what a conversation is about, unless its topic says nothing.
func topicText(t *ticket.Ticket) string {
	if t.Kind == ticket.Other {
		return messagesText(t.Messages)
	}
	return t.Kind.Title() + " · " + messagesText(t.Messages)
}

// messagesText says how many messages a conversation has.
func messagesText(n int) string {
	if n == 1 {
		return "1 message"
	}
	return webui.Number(int64(n)) + " messages"
}

// noticeTones are the colours of the badges of notices. Those of any other kind warn.
var noticeTones = map[notice.Kind]string{notice.Suspended: "bad", notice.Deactivated: "bad", notice.Restored: "good", notice.Support: "accent"}
