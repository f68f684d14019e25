package dashboard

import (
	"net/http"
	"slices"

	"sluice/internal/operate/notice"
	"sluice/internal/operate/ticket"
)

// messagesShown limits the notices and the conversations on the page. The export has all of them.
const messagesShown = 100

// messagesView is the data of the messages page.
type messagesView struct {
	Notices []notice.Notice
	Tickets []ticket.Ticket
}

// messagesPage shows conversations and notices, and marks the notices as read. They are listed first, so that
// new ones still carry their badge this time.
func (d *Dashboard) messagesPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	ctx := r.Context()
	var view messagesView
	var err error
	if view.Notices, err = d.Notices.List(ctx, v.ID, messagesShown); err != nil {
		return err
	}
	// A new inquiry is a notice at first. It becomes a conversation when its owner comes to answer, or within
	// seconds.
	if slices.ContainsFunc(view.Notices, func(n notice.Notice) bool { return n.Kind == notice.Inquiry && !n.Joined }) {
		if err := d.Tickets.Join(ctx, v.ID); err != nil {
			return err
		}
	}
	view.Notices = slices.DeleteFunc(view.Notices, func(n notice.Notice) bool { return n.Kind == notice.Inquiry })
	if view.Tickets, err = d.Tickets.Threads(ctx, v.ID, messagesShown); err != nil {
		return err
	}
	// A HEAD request shows nothing, so it must not mark anything as read.
	if r.Method != http.MethodHead {
		if err := d.Notices.Read(ctx, v.ID); err != nil {
			return err
		}
	}
	return d.ui.Render(w, r, http.StatusOK, messagesPage(d.frame(w, r, v, "Messages"), view, d.ui.Settings().Support))
}

// noticeTones are the colours of the badges of notices. Those of any other kind warn.
var noticeTones = map[notice.Kind]string{notice.Suspended: "bad", notice.Deactivated: "bad", notice.Restored: "good", notice.Support: "accent"}
